"""What a run spent reaches its tenant's ledger, whoever cancels and whatever fails."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from awaken.contracts.models.budgets import RUN_LEDGER, THREAD_LEDGER, Amount, Budget, BudgetScope
from awaken.runtime.run import Run
from awaken.runtime.spending import ledgers
from awaken.runtime.spending.calls import release, reserve, settle
from awaken.runtime.spending.ledgers import allowances, applicable, close_accounts, note_spent

from .test_spending import ASK, FREE, PROMPT, begun, on_run, tenant_ledger, used
from .worlds import runtime_of

BUDGETS = (
    Budget(scope=BudgetScope.TENANT, tokens=5_000),
    Budget(scope=BudgetScope.THREAD, tokens=5_000),
)


def unsettled(run: Run) -> Amount:
    return run.unsettled.get(BudgetScope.TENANT, Amount())


class Line:
    """The way to a run's tenant ledger, on which every change can be held up or broken."""

    def __init__(self, run: Run) -> None:
        profile: Any = run.services.profile
        self._change = profile.change_entry
        self.count = 0
        self.before: Callable[[int], Awaitable[None]] = _at_once
        self.after: Callable[[int], Awaitable[None]] = _at_once
        profile.change_entry = self._changed

    async def _changed(self, *args: Any, **options: Any) -> Any:
        self.count += 1
        number = self.count
        await self.before(number)
        value = await self._change(*args, **options)
        await self.after(number)
        return value


async def _at_once(_: int) -> None:
    return None


class Stuck:
    """Holds up one change until it is let go."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, number: int) -> None:
        if number == self._number:
            self.reached.set()
            await self.go.wait()


def fails_at(*numbers: int) -> Callable[[int], Awaitable[None]]:
    async def check(number: int) -> None:
        if number in numbers:
            raise OSError("disk")

    return check


async def cancelled_twice(task: asyncio.Task[Any], stuck: Stuck) -> None:
    """Cancel a task while it is stuck, again before it could do anything, and let it go."""
    await stuck.reached.wait()
    for _ in range(2):
        task.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
    assert not task.done()
    stuck.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("verb", ["settle", "release"])
def test_a_call_is_settled_though_the_run_is_cancelled_meanwhile(verb: str) -> None:
    async def use(run: Run) -> None:
        line, stuck = Line(run), Stuck(2)
        line.before = stuck
        held = await reserve(run, ASK, FREE)
        work = settle(run, held, used(20, 10)) if verb == "settle" else release(run, held)
        await cancelled_twice(asyncio.create_task(work), stuck)
        ledger = await tenant_ledger(run)
        assert (ledger.spent.tokens, ledger.holds) == (30 if verb == "settle" else 0, {})
        assert unsettled(run) == Amount()

    on_run(use, *BUDGETS, tenant="acme")


def test_a_reservation_is_given_back_though_the_run_is_cancelled_twice() -> None:
    async def use(run: Run) -> None:
        line, written, back = Line(run), Stuck(1), Stuck(2)
        line.after, line.before = written, back
        task = asyncio.create_task(reserve(run, ASK, FREE))
        await written.reached.wait()
        assert (await tenant_ledger(run)).holds != {}
        task.cancel()
        await cancelled_twice(task, back)
        assert (await tenant_ledger(run)).holds == {}

    on_run(use, *BUDGETS, tenant="acme")


def test_a_reservation_whose_reply_is_lost_is_given_back() -> None:
    async def use(run: Run) -> None:
        Line(run).after = fails_at(1)
        with pytest.raises(OSError, match="disk"):
            await reserve(run, ASK, FREE)
        assert (await tenant_ledger(run)).holds == {}

    on_run(use, *BUDGETS, tenant="acme")


def test_what_the_store_does_not_take_is_owed_until_it_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def use(run: Run) -> None:
        Line(run).before = fails_at(2)
        await settle(run, await reserve(run, ASK, FREE), used(20, 10))
        assert (unsettled(run).tokens, (await tenant_ledger(run)).spent.tokens) == (30, 0)
        assert [it.used.tokens for it in await allowances(run, applicable(run))][1] == 30
        held = await reserve(run, ASK, FREE)
        await settle(run, held, used(5, 5))
        ledger = await tenant_ledger(run)
        assert (ledger.spent.tokens, ledger.holds) == (40, {})
        assert run.state.get(THREAD_LEDGER).spent.tokens == 40
        assert unsettled(run) == Amount()

    with caplog.at_level(logging.WARNING):
        on_run(use, *BUDGETS, tenant="acme")
    assert "could not be charged" in caplog.text


def test_what_is_owed_counts_against_the_tenant() -> None:
    async def use(run: Run) -> None:
        Line(run).before = fails_at(2)
        await settle(run, await reserve(run, ASK, FREE), used(20, 4_280))
        held = await reserve(run, ASK, FREE)
        assert held is not None
        assert held.most.tokens == 700

    on_run(use, *BUDGETS, tenant="acme")


def test_a_store_that_hangs_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledgers, "PAYMENT_S", 0.02)

    async def use(run: Run) -> None:
        Line(run).before = Stuck(2)
        held = await reserve(run, ASK, FREE)
        async with asyncio.timeout(5):
            await settle(run, held, used(20, 10))
        assert unsettled(run).tokens == 30

    on_run(use, *BUDGETS, tenant="acme")


def test_the_last_payment_ends_the_hold_that_an_earlier_one_left() -> None:
    async def use(run: Run) -> None:
        Line(run).before = fails_at(2)
        await settle(run, await reserve(run, ASK, FREE), None)
        assert (await tenant_ledger(run)).holds != {}
        await close_accounts(run)
        ledger = await tenant_ledger(run)
        assert (ledger.spent.tokens, ledger.holds) == (PROMPT, {})
        assert run.state.get(THREAD_LEDGER).spent.tokens == PROMPT

    on_run(use, *BUDGETS, tenant="acme")


def test_what_was_not_charged_is_charged_once_when_the_accounts_are_closed() -> None:
    async def use(run: Run) -> None:
        clock: Any = run.services.clock
        await settle(run, await reserve(run, ASK, FREE), used(5, 5))
        clock.advance(700)
        run.usage = run.usage.plus(used(15, 5))
        note_spent(run, used(15, 5))
        for _ in range(2):
            await close_accounts(run)
            assert run.state.get(THREAD_LEDGER).spent == Amount(tokens=30, ms=700)
            assert (await tenant_ledger(run)).spent == Amount(tokens=30, ms=700)
            assert run.state.get(RUN_LEDGER).spent == Amount(ms=700)

    on_run(use, *BUDGETS, tenant="acme")


def test_accounts_that_nobody_keeps_are_not_closed() -> None:
    async def use(run: Run) -> None:
        revision = run.state.revision
        note_spent(run, used(5, 5))
        await close_accounts(run)
        assert run.state.revision == revision

    on_run(use)


def test_a_run_without_budgets_is_charged_to_a_thread_that_counts() -> None:
    async def main() -> None:
        run = await begun(runtime_of())
        counting = await begun(runtime_of(budgets=BUDGETS[1:]), "other")
        await settle(counting, await reserve(counting, ASK, FREE), used(5, 5))
        run.state.update(THREAD_LEDGER, counting.state.get(THREAD_LEDGER))
        held = await reserve(run, ASK, FREE)
        assert held is None
        await settle(run, held, used(50, 40))
        assert run.state.get(THREAD_LEDGER).spent.tokens == 100

    asyncio.run(main())
