"""One call of a model: choose it, reserve budget, make the call, account for any outcome."""

from collections.abc import Awaitable
from functools import lru_cache, partial

import msgspec

from awaken.contracts.models.budgets import BudgetExceeded
from awaken.contracts.models.errors import ModelError
from awaken.contracts.models.inference import InferenceRequest, TokenUsage
from awaken.contracts.models.model_specs import ModelSpec
from awaken.contracts.plugins.instruments import ModelCall
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

from .answer import Answer
from .routing import candidates, order_routes, within

_REASONERS = ("o1", "o3", "o4")


def routes_for(run: Run, request: InferenceRequest) -> tuple[ModelRoute, ...]:
    """Return the models that may answer a request, in the order in which they are tried."""
    agent = run.agent
    if request.upstream_model != agent.upstream_model:
        return (_find_named_route(agent.models[0], request.upstream_model),)
    turn = run.services.health.next_turn() if agent.pool is not None else 0
    return order_routes(agent.models, agent.pool, run.identity.thread_id, turn)


def _find_named_route(first: ModelRoute, name: str) -> ModelRoute:
    """Return the model that was named for the run, which must be of the first model's provider."""
    provider_id = first.spec.provider_id
    spec = ModelSpec(id=f"{provider_id}:{name}", provider_id=provider_id, upstream_model=name)
    return ModelRoute(spec=spec, client=first.client)


class ModelCalls:
    """The calls of one inference, one after another."""

    __slots__ = ("_answer", "_has_reserved", "_is_aside", "_run", "asked", "usage")

    def __init__(self, run: Run, answer: Answer, *, is_aside: bool = False) -> None:
        self._is_aside = is_aside
        """Whether the calls are side calls, which must not correct the run's token estimate."""
        self._run = run
        self._answer = answer
        self._has_reserved = False
        self.asked: ModelRoute | None = None
        """The model of the newest call."""
        self.usage: TokenUsage | None = None
        """The usage of all calls."""

    async def make(self, request: InferenceRequest, routes: tuple[ModelRoute, ...]) -> None:
        """Call the first of these models that is available, and stream its answer.

        Raises:
            ModelError: The call failed; the output so far is kept.
            AllModelsUnavailable: No model is available; says when the first one will be.
            BudgetExceeded: The budget allows none of them.
        """
        run, health, answer = self._run, self._run.services.health, self._answer
        route, held = routes[0], None
        is_plain = run.agent.pool is None and not (run.has_budgets or health.breakers)
        if not is_plain or run.services.clock.monotonic_ms() >= health.next_look_ms:
            route, held = await self._begin_call(request, routes)
        self.asked = route
        wanted = request
        if held is not None:
            wanted = held.request
        elif route.has_defaults or route.spec.upstream_model != request.upstream_model:
            wanted = _for_route(request, route)
        is_refused = False
        try:
            call = answer.stream(route.client, wanted, _idle_ms(run, wanted))
            timed = call if held is None else in_time(held, call)
            await (self._watch(timed, route, wanted) if run.instruments else timed)
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
            if answer.usage is not None or held is not None or run.has_budgets:
                await self._account(route, held, is_refused=is_refused)

    async def _begin_call(
        self, request: InferenceRequest, routes: tuple[ModelRoute, ...]
    ) -> tuple[ModelRoute, Reservation | None]:
        """Choose the model, and reserve its circuit breaker and the budget of the call."""
        route, held = await self._book_call(request, routes)
        while not self._run.services.health.try_begin(route.id):
            # Another run opened the breaker or took its probe while the budget was checked.
            await release(self._run, held)
            route, held = await self._book_call(request, routes)
        return route, held

    async def _watch(
        self, call: Awaitable[None], route: ModelRoute, request: InferenceRequest
    ) -> None:
        """Make the call, observed by the run's instruments."""
        run, answer = self._run, self._answer
        seen = ModelCall(
            request=request,
            model_id=route.id,
            provider=route.client.name,
            agent_id=run.agent.spec.id,
            step=run.step.number,
            server=getattr(route.client, "server", None),
        )
        with Watches(run, lambda it: it.watch_model_call(seen)) as watches:
            answer.on_begun = partial(watches.tell, lambda it: it.on_first_piece())
            try:
                await call
            finally:
                answer.on_begun = None
            result, usage = answer.peek_result(), answer.usage
            if run.agent.env.answer_screens:
                # The answer is not screened yet, and a screen may remove parts of it.
                result = msgspec.structs.replace(result, content=(), tool_calls=())
            watches.tell(lambda it: it.on_end(result, usage))

    async def _book_call(
        self, request: InferenceRequest, routes: tuple[ModelRoute, ...]
    ) -> tuple[ModelRoute, Reservation | None]:
        """Return the model to call now, with the budget reserved for the call."""
        run, health, pool = self._run, self._run.services.health, self._run.agent.pool
        await health.refresh()
        if pool is None and health.is_available(routes[0].id):
            return routes[0], await self._reserve_budget(request, routes[0])

        def most(route: ModelRoute) -> int | None:
            return most_nanos(run, _for_route(request, route), route.spec)

        *dearer, last = candidates(routes, health, within(pool, most))
        for route in dearer:
            try:
                return route, await self._reserve_budget(request, route)
            except BudgetExceeded:
                # Another model of the pool may be cheaper.
                continue
        return last, await self._reserve_budget(request, last)

    async def _reserve_budget(
        self, request: InferenceRequest, route: ModelRoute
    ) -> Reservation | None:
        wanted, is_first = _for_route(request, route), not self._has_reserved
        held = await reserve(self._run, wanted, route.spec, is_first=is_first)
        self._has_reserved = True
        return held

    async def _account(
        self, route: ModelRoute, held: Reservation | None, *, is_refused: bool
    ) -> None:
        run, usage = self._run, self._answer.usage
        if usage is not None:
            usage = run.services.price_usage(usage, route.spec)
            self.usage = usage if self.usage is None else usage.plus(self.usage)
            run.usage = run.usage.plus(usage)
            if run.window is not None and not self._is_aside:
                run.window.observe(usage.prompt_tokens)
        if is_refused and usage is None:
            await release(run, held)
        elif run.has_budgets:
            is_guessed = usage is None and held is not None
            unreported = self._answer.chars_unreported if is_guessed else 0
            await settle(run, held, usage, unreported)


def _for_route(request: InferenceRequest, route: ModelRoute) -> InferenceRequest:
    """Return the request with this model's name and limits."""
    model, overrides = route.spec.upstream_model, route.overrides(request.overrides)
    if model == request.upstream_model and overrides is request.overrides:
        return request
    return msgspec.structs.replace(request, upstream_model=model, overrides=overrides)


def _idle_ms(run: Run, request: InferenceRequest) -> int:
    effort = request.overrides.reasoning_effort if request.overrides is not None else None
    factor = 2 if effort is not None or _is_reasoner(request.upstream_model) else 1
    limit = run.services.limits.model_idle_ms
    return min(run.agent.retry.stream_idle_timeout_ms * factor, limit) or limit


@lru_cache(maxsize=256)
def _is_reasoner(model: str) -> bool:
    name = model.lower()
    return name.startswith(_REASONERS) or "thinking" in name or "reasoning" in name
