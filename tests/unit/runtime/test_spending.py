"""A call is reserved before it is made and settled after it, whatever becomes of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.messages.message import user
from awaken.contracts.models.budgets import (
    HOLD_MS,
    RUN_LEDGER,
    SHARED_LEDGER,
    THREAD_LEDGER,
    Amount,
    Budget,
    BudgetExceeded,
    BudgetScope,
    Ledger,
    decode_ledger,
    tenant_scope,
)
from awaken.contracts.models.inference import (
    InferenceOverride,
    InferenceRequest,
    ModelTool,
    TokenUsage,
)
from awaken.contracts.models.model_specs import ModelPrices, ModelSpec
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.tenancy import add_namespace, namespace_of
from awaken.runtime.loop.opening import open_run
from awaken.runtime.run import Run
from awaken.runtime.spending.calls import (
    Reservation,
    in_time,
    most_nanos,
    release,
    reserve,
    settle,
)
from awaken.runtime.spending.ledgers import allowances, applicable, charge, note_spent, time_left_ms
from awaken.runtime.spending.prompt_size import PromptMeter
from awaken.runtime.spending.quotes import LONGEST_ANSWER, USEFUL_TOKENS

from .worlds import runtime_of

TENANT = BudgetScope.TENANT
FREE = ModelSpec(id="m", provider_id="scripted", upstream_model="m", max_output_tokens=1000)
DEAR = msgspec.structs.replace(FREE, prices=ModelPrices(input=1000.0, output=2000.0))
"""A thousandth of a dollar for a token of the request, two for one of the answer."""
ASK = InferenceRequest(upstream_model="m", messages=[user("x" * 360)])
PROMPT = 94
"""What `ASK` is estimated at."""


def on_run(
    use: Callable[[Run], Awaitable[None]], *budgets: Budget, tenant: str | None = None
) -> None:
    async def main() -> None:
        await use(await begun(runtime_of(budgets=budgets), tenant=tenant))

    asyncio.run(main())


async def begun(runtime: Any, thread: str = "t", tenant: str | None = None) -> Run:
    request = RunRequest(agent_id="a", messages=(user("hi"),), tenant_id=tenant)
    thread = add_namespace(namespace_of(tenant), thread)
    run: Run = await runtime._engine._admission.prepare(request, thread)
    await open_run(run)
    return run


async def tenant_ledger(run: Run, tenant: str = "acme") -> Ledger:
    entry = await run.services.profile.find_entry(tenant_scope(tenant), SHARED_LEDGER)
    return decode_ledger(None if entry is None else entry.value)


def used(prompt: int, completion: int, nanos: int | None = None) -> TokenUsage:
    return TokenUsage(prompt_tokens=prompt, completion_tokens=completion, cost_nanos=nanos)


async def spend(run: Run, usage: TokenUsage, model: ModelSpec = FREE) -> Reservation:
    """Make a call that uses this much."""
    held = await reserve(run, ASK, model)
    assert held is not None
    usage = run.services.price_usage(usage, model)
    run.usage = run.usage.plus(usage)
    await settle(run, held, usage)
    return held


async def refused(run: Run, model: ModelSpec = FREE) -> str:
    with pytest.raises(BudgetExceeded) as error:
        await reserve(run, ASK, model)
    assert error.value.reason.code == "budget_exceeded"
    return error.value.detail


def limit_of(held: Reservation | None) -> int | None:
    assert held is not None
    return held.request.overrides.max_tokens if held.request.overrides is not None else None


def test_without_a_budget_nothing_is_reserved_measured_or_written() -> None:
    async def use(run: Run) -> None:
        revision = run.state.revision
        held = await reserve(run, ASK, DEAR)
        assert held is None
        await settle(run, held, used(5, 5))
        await release(run, held)
        assert (run.state.revision, run.meter) == (revision, None)

    on_run(use)
    on_run(use, Budget(scope=TENANT, tokens=1))


def test_a_call_may_answer_with_what_is_left_and_no_more() -> None:
    async def use(run: Run) -> None:
        assert limit_of(await spend(run, used(100, 700))) is None
        held = await reserve(run, ASK, FREE)
        assert limit_of(held) == 700 - PROMPT
        assert held is not None
        assert held.most == Amount(tokens=700)

    on_run(use, Budget(tokens=1500))


def test_the_limit_of_the_request_itself_stays_when_it_is_lower() -> None:
    async def use(run: Run) -> None:
        asked = msgspec.structs.replace(
            ASK, overrides=InferenceOverride(max_tokens=70, temperature=0.5)
        )
        held = await reserve(run, asked, FREE)
        assert held is not None
        assert held.request.overrides == InferenceOverride(max_tokens=70, temperature=0.5)

    on_run(use, Budget(tokens=200))


@pytest.mark.parametrize(
    ("left", "limit"),
    [
        (PROMPT + LONGEST_ANSWER, None),
        (PROMPT + LONGEST_ANSWER - 1, 16_384),
        (PROMPT + 300, 300),
    ],
)
def test_an_answer_of_unknown_length_is_limited_only_if_it_could_be_too_long(
    left: int, limit: int | None
) -> None:
    unknown = msgspec.structs.replace(FREE, max_output_tokens=None)

    async def use(run: Run) -> None:
        held = await reserve(run, ASK, unknown)
        assert limit_of(held) == limit
        assert held is not None
        assert held.most == Amount(tokens=PROMPT + min(16_384, left - PROMPT))

    on_run(use, Budget(tokens=left))


@pytest.mark.parametrize(
    ("left", "is_made"), [(PROMPT + USEFUL_TOKENS, True), (PROMPT + USEFUL_TOKENS - 1, False)]
)
def test_a_call_is_made_only_if_a_useful_answer_fits(left: int, is_made: bool) -> None:
    async def use(run: Run) -> None:
        if is_made:
            assert limit_of(await reserve(run, ASK, FREE)) == USEFUL_TOKENS
        else:
            assert await refused(run) == f"run: {left} tokens"

    on_run(use, Budget(tokens=left))


def test_money_limits_the_answer_by_its_price() -> None:
    async def use(run: Run) -> None:
        held = await reserve(run, ASK, DEAR)
        assert limit_of(held) == (500 - PROMPT) // 2
        assert held is not None
        assert held.most.nanos == PROMPT * 10**6 + (500 - PROMPT) // 2 * 2 * 10**6
        await spend(run, used(100, 100), DEAR)
        assert run.usage.cost_usd == pytest.approx(0.3)
        assert await refused(run, DEAR) == "run: $0.5"

    on_run(use, Budget(cost_usd=0.5))


@pytest.mark.parametrize("is_soft", [False, True])
def test_a_money_budget_refuses_a_model_without_a_price(is_soft: bool) -> None:
    async def use(run: Run) -> None:
        reason = await refused(run, FREE)
        assert reason.startswith("run: $9")
        assert "price of model 'm' is not known" in reason

    on_run(use, Budget(cost_usd=9, soft=is_soft))


def test_a_free_model_is_not_limited_by_money() -> None:
    free = msgspec.structs.replace(FREE, prices=ModelPrices(input=0, output=0))

    async def use(run: Run) -> None:
        assert limit_of(await reserve(run, ASK, free)) is None

    on_run(use, Budget(cost_usd=0.01))


def test_time_is_the_runs_own_and_limits_the_call() -> None:
    async def use(run: Run) -> None:
        clock: Any = run.services.clock
        clock.advance(300)
        held = await reserve(run, ASK, FREE)
        assert held is not None
        assert (held.timeout_ms, held.late, limit_of(held)) == (700, "run: 1,000 ms", None)
        clock.advance(700)
        assert await refused(run) == "run: 1,000 ms"

    on_run(use, Budget(time_ms=1000), Budget(time_ms=5000))


def test_a_call_that_takes_longer_than_its_time_is_ended_by_the_budget() -> None:
    async def use(run: Run) -> None:
        held = await reserve(run, ASK, FREE)
        with pytest.raises(BudgetExceeded, match="run: 20 ms"):
            await in_time(held, forever())

    async def forever() -> None:
        await asyncio.Event().wait()

    async def fails() -> None:
        raise TimeoutError("its own")

    async def own_error(run: Run) -> None:
        with pytest.raises(TimeoutError, match="its own"):
            await in_time(await reserve(run, ASK, FREE), fails())

    on_run(use, Budget(time_ms=20))
    on_run(own_error, Budget(time_ms=20))
    on_run(own_error)


def test_a_thread_adds_up_its_runs() -> None:
    async def main() -> None:
        runtime = runtime_of(budgets=[Budget(scope=BudgetScope.THREAD, tokens=1000)])
        first = await begun(runtime)
        await spend(first, used(200, 300))
        ledger = first.state.get(THREAD_LEDGER)
        assert ledger.spent.tokens == 500
        second = await begun(runtime, "other")
        assert limit_of(await reserve(second, ASK, FREE)) == 1000 - PROMPT
        second.state.update(THREAD_LEDGER, ledger)
        assert limit_of(await reserve(second, ASK, FREE)) == 500 - PROMPT

    asyncio.run(main())


def test_every_scope_is_asked_and_the_tightest_wins() -> None:
    budgets = (
        Budget(tokens=900),
        Budget(scope=BudgetScope.THREAD, tokens=800),
        Budget(scope=TENANT, tokens=700),
    )

    async def use(run: Run) -> None:
        assert limit_of(await reserve(run, ASK, FREE)) == 700 - PROMPT
        ledger = await tenant_ledger(run)
        (hold,) = ledger.holds.values()
        assert hold.amount == Amount(tokens=700)
        assert limit_of(await reserve(run, ASK, FREE)) == 700 - PROMPT

    on_run(use, *budgets, tenant="acme")


def test_tenants_are_apart_and_their_runs_are_not() -> None:
    async def main() -> None:
        runtime = runtime_of(budgets=[Budget(scope=TENANT, tokens=1000)])
        one, two = await begun(runtime, "1", "acme"), await begun(runtime, "2", "acme")
        other = await begun(runtime, "3", "rival")
        await spend(one, used(300, 100))
        assert limit_of(await reserve(two, ASK, FREE)) == 600 - PROMPT
        assert await refused(one) == "tenant: 1,000 tokens"
        assert limit_of(await reserve(other, ASK, FREE)) == 1000 - PROMPT

    asyncio.run(main())


def test_a_call_that_was_broken_off_is_charged_with_its_request() -> None:
    async def use(run: Run) -> None:
        await settle(run, await reserve(run, ASK, DEAR), None)
        ledger = await tenant_ledger(run)
        assert (ledger.spent.tokens, ledger.spent.nanos) == (PROMPT, PROMPT * 10**6)
        assert ledger.holds == {}
        assert run.state.get(RUN_LEDGER).spent.tokens == PROMPT
        assert {it.used.tokens for it in await allowances(run, applicable(run))} == {PROMPT}

    on_run(use, Budget(tokens=500), Budget(scope=TENANT, tokens=500), tenant="acme")


def test_a_call_that_was_refused_costs_nothing() -> None:
    async def use(run: Run) -> None:
        await release(run, await reserve(run, ASK, DEAR))
        ledger = await tenant_ledger(run)
        assert (ledger.spent, ledger.holds) == (Amount(), {})

    on_run(use, Budget(scope=TENANT, tokens=500), tenant="acme")


def test_time_is_charged_once_to_every_shared_ledger() -> None:
    budgets = (
        Budget(scope=BudgetScope.THREAD, time_ms=10_000),
        Budget(scope=TENANT, time_ms=9_000),
    )

    async def use(run: Run) -> None:
        clock: Any = run.services.clock
        for _ in range(2):
            clock.advance(1_000)
            held = await reserve(run, ASK, FREE)
            clock.advance(500)
            await settle(run, held, used(1, 1))
        assert run.state.get(THREAD_LEDGER).spent.ms == 3_000
        assert (await tenant_ledger(run)).spent.ms == 3_000
        held = await reserve(run, ASK, FREE)
        assert held is not None
        assert (held.timeout_ms, held.late) == (6_000, "tenant: 9,000 ms")

    on_run(use, *budgets, tenant="acme")


def test_a_soft_budget_limits_no_call_until_it_is_used_up() -> None:
    async def use(run: Run) -> None:
        held = await spend(run, used(90, 9))
        assert held.request is ASK
        assert (await spend(run, used(1, 0))).timeout_ms is None
        assert await refused(run) == "run: 100 tokens"

    on_run(use, Budget(tokens=100, time_ms=500, soft=True))


def test_an_answer_that_was_begun_is_completed_though_a_soft_budget_is_used_up() -> None:
    async def use(run: Run) -> None:
        await spend(run, used(90, 20))
        assert await refused(run) == "run: 100 tokens"
        assert await reserve(run, ASK, FREE, is_first=False) is not None
        await spend_more(run)
        with pytest.raises(BudgetExceeded, match="run: 900 tokens"):
            await reserve(run, ASK, FREE, is_first=False)

    async def spend_more(run: Run) -> None:
        run.usage = run.usage.plus(used(0, 700))

    on_run(use, Budget(tokens=100, soft=True), Budget(tokens=900))


def test_an_answer_is_not_completed_by_a_model_whose_price_is_not_known() -> None:
    async def use(run: Run) -> None:
        with pytest.raises(BudgetExceeded, match="is not known"):
            await reserve(run, ASK, FREE, is_first=False)

    on_run(use, Budget(cost_usd=9, soft=True))


def test_the_time_that_is_left_is_the_least_of_all_hard_budgets() -> None:
    async def use(run: Run) -> None:
        clock: Any = run.services.clock
        clock.advance(300)
        assert time_left_ms(run) == 600
        clock.advance(9_000)
        assert time_left_ms(run) == 0

    async def not_limited(run: Run) -> None:
        assert time_left_ms(run) is None

    thread = Budget(scope=BudgetScope.THREAD, time_ms=900)
    on_run(use, Budget(time_ms=1_000), thread, Budget(time_ms=400, soft=True), Budget(tokens=1))
    on_run(not_limited, Budget(time_ms=400, soft=True), Budget(tokens=1))
    on_run(not_limited)


@pytest.mark.parametrize(("chars", "tokens"), [(0, 0), (403, 100), (-5, 0)])
def test_a_call_that_was_broken_off_is_charged_with_what_was_heard(chars: int, tokens: int) -> None:
    async def use(run: Run) -> None:
        await settle(run, await reserve(run, ASK, DEAR), None, heard_chars=chars)
        spent = run.state.get(RUN_LEDGER).spent
        assert spent == Amount(tokens=PROMPT + tokens, nanos=(PROMPT + 2 * tokens) * 10**6)

    on_run(use, Budget(tokens=5_000))


@pytest.mark.parametrize(
    ("usage", "charged"),
    [
        (used(-100_000, 10), Amount(tokens=10, nanos=20 * 10**6)),
        (used(10, -100_000), Amount(tokens=10, nanos=10 * 10**6)),
        (used(10, 10, -5), Amount(tokens=20, nanos=30 * 10**6)),
        (used(-1, -1, -1), Amount()),
    ],
)
def test_negative_counts_give_nothing_back(usage: TokenUsage, charged: Amount) -> None:
    async def use(run: Run) -> None:
        await spend(run, usage, DEAR)
        assert run.state.get(THREAD_LEDGER).spent == charged

    async def unpriced(run: Run) -> None:
        await settle(run, await reserve(run, ASK, FREE), used(-7, -7, -7))
        assert run.state.get(THREAD_LEDGER).spent == Amount()

    on_run(use, Budget(scope=BudgetScope.THREAD, tokens=5_000))
    on_run(unpriced, Budget(scope=BudgetScope.THREAD, tokens=5_000))


def test_what_a_child_spent_is_charged_to_the_parents_thread() -> None:
    async def use(run: Run) -> None:
        charge(run, Amount(tokens=70))
        assert run.state.get(THREAD_LEDGER).spent.tokens == 70
        assert run.state.get(RUN_LEDGER).spent.tokens == 0

    on_run(use, Budget(scope=BudgetScope.THREAD, tokens=100))


def test_what_was_spent_outside_of_calls_is_charged_with_the_next_one() -> None:
    budgets = (Budget(scope=BudgetScope.THREAD, tokens=900), Budget(scope=TENANT, tokens=800))

    async def use(run: Run) -> None:
        run.usage = run.usage.plus(used(150, 50))
        note_spent(run, used(150, 50))
        assert [it.remainder("tokens") for it in await allowances(run, applicable(run))] == [
            700,
            600,
        ]
        assert limit_of(await spend(run, used(90, 10))) == 600 - PROMPT
        assert run.state.get(THREAD_LEDGER).spent.tokens == 300
        assert (await tenant_ledger(run)).spent.tokens == 300
        assert run.state.get(RUN_LEDGER).spent.tokens == 0
        assert [it.remainder("tokens") for it in await allowances(run, applicable(run))] == [
            600,
            500,
        ]

    on_run(use, *budgets, tenant="acme")


def test_a_cancelled_reservation_leaves_nothing_behind() -> None:
    async def use(run: Run) -> None:
        profile: Any = run.services.profile
        change, written = profile.change_entry, asyncio.Event()

        async def slow(*args: Any, **options: Any) -> Any:
            value = await change(*args, **options)
            if not written.is_set():
                written.set()
                await asyncio.Event().wait()
            return value

        profile.change_entry = slow
        task = asyncio.create_task(reserve(run, ASK, FREE))
        await written.wait()
        assert (await tenant_ledger(run)).holds != {}
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await tenant_ledger(run)).holds == {}

    on_run(use, Budget(scope=TENANT, tokens=500), tenant="acme")


def test_lanes_of_one_run_hold_side_by_side() -> None:
    async def use(run: Run) -> None:
        first = await reserve(run, ASK, FREE)
        small = msgspec.structs.replace(ASK, overrides=InferenceOverride(max_tokens=100))
        second = await reserve(run, small, FREE, lane="summary")
        assert len((await tenant_ledger(run)).holds) == 2
        await settle(run, second, used(9, 1))
        ledger = await tenant_ledger(run)
        assert (ledger.spent.tokens, len(ledger.holds)) == (10, 1)
        await settle(run, first, used(9, 1))
        assert (await tenant_ledger(run)).holds == {}

    on_run(use, Budget(scope=TENANT, tokens=5000), tenant="acme")


def test_usage_gets_its_price_once() -> None:
    async def use(run: Run) -> None:
        assert run.services.price_usage(used(1, 1), FREE).cost_nanos is None
        assert run.services.price_usage(used(1, 1), DEAR).cost_nanos == 3_000_000
        assert run.services.price_usage(used(1, 1, 7), DEAR).cost_nanos == 7
        assert most_nanos(run, ASK, FREE) is None
        assert most_nanos(run, ASK, DEAR) == (PROMPT + 2000) * 10**6

    on_run(use)


def test_a_growing_history_is_read_once() -> None:
    class Counted(list[Any]):
        read = 0

        def __getitem__(self, index: Any) -> Any:
            Counted.read += 1
            return super().__getitem__(index)

    messages = Counted([user("x" * 40) for _ in range(1000)])
    tools = (ModelTool(id="t", description="d", parameters={}),)
    meter = PromptMeter()
    ask = InferenceRequest(upstream_model="m", messages=messages, system=("s" * 40,), tools=tools)
    first = meter.tokens(ask)
    assert first == 1000 * 14 + 10 + meter.tokens(
        msgspec.structs.replace(ask, messages=[], system=())
    )
    assert meter.tokens(ask) == first
    Counted.read = 0
    messages.append(user("x" * 40))
    assert meter.tokens(ask) == first + 14
    assert Counted.read <= 3
    assert meter.tokens(msgspec.structs.replace(ask, messages=messages[500:])) == first - 499 * 14


LIMIT = 3_000
Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "settle", "break", "release", "crash", "wait"]),
        st.integers(0, 2),
        st.integers(0, 100),
    ),
    max_size=60,
)


@given(STEPS)
def test_no_order_of_calls_and_crashes_spends_more_than_the_limit(steps: list[Step]) -> None:
    asyncio.run(_played(steps))


async def _played(steps: list[Step]) -> None:
    runtime = runtime_of(budgets=[Budget(scope=TENANT, tokens=LIMIT)])
    runs = [await begun(runtime, f"t{n}", "acme") for n in range(3)]
    clock: Any = runs[0].services.clock
    calls: dict[int, Reservation] = {}
    spent = 0
    for verb, number, size in steps:
        run = runs[number]
        if verb == "wait":
            clock.advance(size * 1000)
        elif verb == "reserve" and number not in calls:
            try:
                held = await reserve(run, ASK, FREE)
            except BudgetExceeded:
                continue
            assert held is not None
            calls[number] = held
        elif verb != "reserve" and number in calls:
            spent += await _ended(verb, run, calls.pop(number), size)
        ledger = await tenant_ledger(runs[0])
        promised = sum(it.amount.tokens for it in ledger.open_holds(clock.now_ms()).values())
        assert ledger.spent.tokens == spent
        assert spent + promised <= LIMIT
    await _nothing_leaks(runs, clock, spent)


async def _ended(verb: str, run: Run, held: Reservation, percent: int) -> int:
    """End a call one way or another; returns what it is known to have used."""
    if verb == "crash":
        return 0
    if verb == "release":
        await release(run, held)
        return 0
    if verb == "break":
        await settle(run, held, None)
        return held.ask.prompt.tokens
    answer = (held.most.tokens - held.ask.prompt.tokens) * percent // 100
    await settle(run, held, used(held.ask.prompt.tokens, answer))
    return held.ask.prompt.tokens + answer


async def _nothing_leaks(runs: list[Run], clock: Any, spent: int) -> None:
    clock.advance(HOLD_MS)
    if LIMIT - spent >= PROMPT + USEFUL_TOKENS:
        held = await reserve(runs[0], ASK, FREE)
        assert held is not None
        assert held.most.tokens == min(LIMIT - spent, PROMPT + 1000)
    else:
        await refused(runs[0])
