"""One call of a model: choose it, reserve budget, make the call, account for any outcome."""

from collections.abc import Awaitable
from contextlib import AbstractContextManager
from functools import partial

import msgspec

from awaken.contracts.models.budgets import BudgetExceeded
from awaken.contracts.models.errors import ModelError
from awaken.contracts.models.inference import InferenceRequest, StreamResult, TokenUsage
from awaken.contracts.models.model_specs import ModelSpec
from awaken.contracts.plugins.instruments import Instrument, ModelCall, ModelWatch
from awaken.runtime.phases.instruments import Watches
from awaken.runtime.resolution.models import ModelRoute
from awaken.runtime.run import Run
from awaken.runtime.spending.calls import (
    Reservation,
    in_time,
    most_nanos,
    release,
    reserve,
    settle,
)
from awaken.runtime.switches import NO_SWITCHES

from .answer import Answer
from .routing import candidates, enabled_routes, order_routes, within


def routes_for(run: Run, request: InferenceRequest) -> tuple[ModelRoute, ...]:
    """Return the models that may answer a request, in the order in which they are tried."""
    agent = run.agent
    if request.upstream_model != agent.upstream_model:
        return (_find_named_route(run, request.upstream_model),)
    turn = run.services.health.next_turn() if agent.pool is not None else 0
    return order_routes(agent.models, agent.pool, run.identity.thread_id, turn)


def _find_named_route(run: Run, name: str) -> ModelRoute:
    """Return the model that was named for the run, which must be of the first model's provider.

    One that is registered keeps its prices, its limits and its health.
    """
    first = run.agent.models[0]
    provider_id = first.spec.provider_id
    for known in run.pinned.registries.models.values():
        if not isinstance(known, ModelSpec):
            continue
        if (known.provider_id, known.upstream_model) == (provider_id, name):
            return ModelRoute(spec=known, client=first.client)
    spec = ModelSpec(id=f"{provider_id}:{name}", provider_id=provider_id, upstream_model=name)
    return ModelRoute(spec=spec, client=first.client)


async def make_call(
    run: Run, answer: Answer, request: InferenceRequest, routes: tuple[ModelRoute, ...]
) -> None:
    """Call the first of these models that is available, and add its output to the answer.

    Raises:
        ModelError: The call failed; the output so far is kept.
        AllModelsUnavailable: No model is available; says when the first one will be.
        ModelDisabled: An operator has disabled all of them.
        BudgetExceeded: The budget allows none of them.
    """
    if (switched := run.services.switches.current) is not NO_SWITCHES:
        routes = enabled_routes(routes, switched, run.pinned.registries.models)
    health, route, held = run.services.health, routes[0], None
    is_plain = run.agent.pool is None and not (run.has_budgets or health.breakers)
    if health.is_shared and is_plain:
        is_plain = run.services.clock.monotonic_ms() < health.next_look_ms
    if not is_plain:
        route, held = await _begin_call(run, answer, request, routes)
    answer.asked = route
    wanted = request
    if held is not None:
        wanted = held.request
    elif route.has_defaults or route.spec.upstream_model != request.upstream_model:
        wanted = _for_route(request, route)
    is_refused = False
    try:
        call = answer.stream(route.client, wanted, _idle_ms(run, route, wanted))
        timed = call if held is None else in_time(held, call)
        await (_watch(run, answer, timed, wanted) if run.instruments else timed)
    except ModelError as error:
        health.record_failure(route.id, error)
        is_refused = not answer.has_begun
        raise
    except BaseException:
        health.record_abandon(route.id)
        raise
    else:
        if health.breakers:
            health.record_success(route.id)
    finally:
        if answer.usage is not None:
            _count_usage(run, answer, route)
        if run.has_budgets or held is not None:
            await _settle(run, answer, held, is_refused=is_refused)


async def _begin_call(
    run: Run, answer: Answer, request: InferenceRequest, routes: tuple[ModelRoute, ...]
) -> tuple[ModelRoute, Reservation | None]:
    """Choose the model, and reserve its circuit breaker and the budget of the call."""
    is_first = answer.asked is None
    route, held = await _book_call(run, request, routes, is_first=is_first)
    while not run.services.health.try_begin(route.id):
        # Another run opened the breaker or took its probe while the budget was checked.
        await release(run, held)
        route, held = await _book_call(run, request, routes, is_first=is_first)
    return route, held


async def _watch(
    run: Run, answer: Answer, call: Awaitable[None], request: InferenceRequest
) -> None:
    """Make the call, observed by the run's instruments."""
    route = answer.asked
    assert route is not None
    seen = ModelCall(
        request=request,
        model_id=route.id,
        provider=route.client.name,
        agent_id=run.agent.spec.id,
        step=run.step.number,
        server=getattr(route.client, "server", None),
    )
    with Watches(run, partial(_watch_call, seen)) as watches:
        answer.on_begun = partial(watches.tell, _tell_first_piece)
        try:
            await call
        finally:
            answer.on_begun = None
        result, usage = answer.peek_result(), answer.usage
        if run.agent.env.answer_screens:
            # The answer is not screened yet, and a screen may remove parts of it.
            result = msgspec.structs.replace(result, content=(), tool_calls=())
        watches.tell(partial(_tell_end, result, usage))


# Not closures of `_watch`: its frame lives as long as the model streams.
def _watch_call(call: ModelCall, instrument: Instrument) -> AbstractContextManager[ModelWatch]:
    return instrument.watch_model_call(call)


def _tell_first_piece(watch: ModelWatch) -> None:
    watch.on_first_piece()


def _tell_end(answer: StreamResult, usage: TokenUsage | None, watch: ModelWatch) -> None:
    watch.on_end(answer, usage)


async def _book_call(
    run: Run, request: InferenceRequest, routes: tuple[ModelRoute, ...], *, is_first: bool
) -> tuple[ModelRoute, Reservation | None]:
    """Return the model to call now, with the budget reserved for the call."""
    health, pool = run.services.health, run.agent.pool
    await health.refresh()
    usable = routes
    if pool is not None or not health.is_available(routes[0].id):

        def most(route: ModelRoute) -> int | None:
            return most_nanos(run, _for_route(request, route), route.spec)

        usable = candidates(routes, health, within(pool, most))
    for route in usable[:-1]:
        try:
            wanted = _for_route(request, route)
            return route, await reserve(run, wanted, route.spec, is_first=is_first)
        except BudgetExceeded:
            # Another model of the pool may be cheaper.
            continue
    last = usable[-1]
    held = await reserve(run, _for_route(request, last), last.spec, is_first=is_first)
    return last, held


def _count_usage(run: Run, answer: Answer, route: ModelRoute) -> None:
    """Add what the newest stream has used to the usage of the answer and of the run."""
    assert answer.usage is not None
    usage = run.services.price_usage(answer.usage, route.spec)
    answer.usage = usage
    answer.spent = usage if answer.spent is None else usage.plus(answer.spent)
    run.usage = run.usage.plus(usage)
    if run.window is not None and not answer.is_aside:
        # Only the run's own requests may correct the estimate of its tokens.
        run.window.observe(usage.prompt_tokens)


async def _settle(run: Run, answer: Answer, held: Reservation | None, *, is_refused: bool) -> None:
    """Charge what the call has used to the budgets, or give its reservation back."""
    usage = answer.usage
    if is_refused and usage is None:
        await release(run, held)
    elif run.has_budgets:
        is_guessed = usage is None and held is not None
        await settle(run, held, usage, answer.chars_unreported if is_guessed else 0)


def _for_route(request: InferenceRequest, route: ModelRoute) -> InferenceRequest:
    """Return the request with this model's name and limits."""
    model, overrides = route.spec.upstream_model, route.overrides(request.overrides)
    if model == request.upstream_model and overrides is request.overrides:
        return request
    return msgspec.structs.replace(request, upstream_model=model, overrides=overrides)


def _idle_ms(run: Run, route: ModelRoute, request: InferenceRequest) -> int:
    """Return how long the model may send nothing; one that thinks first may take twice as long."""
    idle, limit = run.agent.retry.stream_idle_timeout_ms, run.services.limits.model_idle_ms
    given = request.overrides
    if route.is_reasoner or (given is not None and given.reasoning_effort is not None):
        idle *= 2
    return idle if 0 < idle < limit else limit
