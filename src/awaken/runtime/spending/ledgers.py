"""Which budgets apply to a run, and the ledgers against which they are checked.

A run's ledger is its own usage and time. A thread's ledger is state of the thread, written with
the commits of its runs. The ledgers of a tenant and of a group are shared: entries that all
processes change atomically.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial

import msgspec

from awaken.contracts.models.budgets import (
    RUN_LEDGER,
    SHARED_LEDGER,
    SHARED_SCOPES,
    THREAD_LEDGER,
    Allowance,
    Amount,
    Budget,
    BudgetScope,
    Ledger,
    TenantBudget,
    decode_ledger,
    group_scope,
    tenant_scope,
)
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.runs.records import RunKind
from awaken.runtime.run import Run

logger = logging.getLogger(__name__)

PAYMENT_S = 10.0
"""The time limit for charging a shared ledger."""
_NONE: tuple[Budget, ...] = ()
_NOTHING = Amount()


def applicable(run: Run) -> tuple[Budget, ...]:
    """The budgets of the agent, of earlier agents, the request, the runtime and its configuration.

    Budgets of a tenant or a group are included only if the run belongs to one.
    """
    spec, asked, general = run.agent.spec, run.request.budgets, run.services.budgets
    managed = run.pinned.registries.budgets
    if not (spec.budgets or asked or general or managed or run.state.has(RUN_LEDGER)):
        return _NONE
    given = (*spec.budgets, *asked, *general, *managed)
    for agent_id, budgets in run.state.get(RUN_LEDGER).budgets.items():
        given += budgets if agent_id != spec.id else ()
    return tuple(dict.fromkeys(it for it in given if _holds_for(it, run)))


def _holds_for(budget: Budget, run: Run) -> bool:
    match budget.scope:
        case BudgetScope.GROUP:
            return run.request.budget_group is not None
        case BudgetScope.TENANT:
            tenant_id = run.identity.tenant_id
            own = budget.tenant_id if isinstance(budget, TenantBudget) else tenant_id
            return tenant_id is not None and own == tenant_id
        case BudgetScope.THREAD:
            # A follow-up run brings the rest of its parent's; its own thread is no conversation.
            return run.record.purpose is not RunKind.FOLLOW_UP
        case _:
            return True


def shared_scopes(run: Run) -> tuple[BudgetScope, ...]:
    """The shared scopes that limit the run, in the order in which their ledgers are changed."""
    scopes = {it.scope for it in applicable(run)}
    return tuple(it for it in SHARED_SCOPES if it in scopes)


def keep_budgets(run: Run) -> None:
    """Keep the budgets of the run's agent in force after a handoff to another agent."""
    spec, ledger = run.agent.spec, run.state.get(RUN_LEDGER)
    if ledger.budgets.get(spec.id, _NONE) != spec.budgets:
        budgets = {**ledger.budgets, spec.id: spec.budgets}
        run.state.update(RUN_LEDGER, msgspec.structs.replace(ledger, budgets=budgets))


def is_charged(run: Run) -> bool:
    """Whether the run's spending has to be recorded."""
    return run.state.has(THREAD_LEDGER) or bool(applicable(run))


def counts_time(run: Run) -> bool:
    """Whether the run's execution time has to be durable."""
    # Time that was charged to other ledgers must stay part of the run's time.
    return run.state.has(RUN_LEDGER) or any(it.time_ms is not None for it in applicable(run))


def time_left_ms(run: Run) -> int | None:
    """The time left in the hard budgets of the run and of its thread; None without a limit.

    What shared ledgers have left is only in the store, which is asked before every call.
    """
    now = run.services.clock.now_ms()
    limits = [it for it in applicable(run) if not (it.soft or it.scope.is_shared)]
    left = (Allowance.of(budget, ledger_of(run, budget), now).remainder("ms") for budget in limits)
    return min((ms for ms in left if ms is not None), default=None)


async def allowances(run: Run, budgets: Sequence[Budget]) -> tuple[Allowance, ...]:
    """Check budgets against their ledgers."""
    now = run.services.clock.now_ms()
    ledgers = {
        scope: (await _load_shared(run, scope)).charge(amount_unreported(run, scope))
        for scope in SHARED_SCOPES
        if any(budget.scope is scope for budget in budgets)
    }
    return tuple(
        Allowance.of(it, ledgers.get(it.scope) or ledger_of(run, it), now) for it in budgets
    )


def ledger_of(run: Run, budget: Budget) -> Ledger:
    """The current ledger of the run or of its thread, including what is not yet charged."""
    if budget.scope is BudgetScope.THREAD:
        return run.state.get(THREAD_LEDGER).charge(_new_time(run))
    kept = run.state.get(RUN_LEDGER)
    spent = kept.spent.plus(Amount.of(run.usage))
    return msgspec.structs.replace(kept, spent=msgspec.structs.replace(spent, ms=run.active_ms))


def amount_unreported(run: Run, scope: BudgetScope) -> Amount:
    """The amount that is not yet in the ledger of a shared scope."""
    return run.unsettled.get(scope, _NOTHING).plus(_new_time(run))


def note_spent(run: Run, usage: TokenUsage) -> None:
    """Charge usage that was not reserved, as of a summary; shared ledgers at their next pay."""
    if is_charged(run):
        spend(run, Amount.of(usage))


def spend(run: Run, spent: Amount, *, is_reported: bool = True) -> None:
    """Charge the run and its thread; it stays unsettled until the shared ledgers are charged."""
    charge(run, spent, is_reported=is_reported)
    _add_unsettled(run, spent)


def charge(run: Run, spent: Amount, *, is_reported: bool = True) -> None:
    """Charge the run and its thread with an amount and with the time since the last charge.

    Usage that a call reported is already in the run's usage. The spending of a child is charged
    here too, but the child itself charges the shared ledgers.
    """
    time = _new_time(run)
    _add_unsettled(run, time)
    own = time if is_reported else spent.plus(time)
    run.state.update(RUN_LEDGER, run.state.get(RUN_LEDGER).charge(own))
    is_kept = run.state.has(THREAD_LEDGER)
    if is_kept or any(budget.scope is BudgetScope.THREAD for budget in applicable(run)):
        charged = run.state.get(THREAD_LEDGER).charge(spent.plus(time))
        run.state.update(THREAD_LEDGER, charged)


def lane_name(run: Run, lane: str = "") -> str:
    """The name of a hold in shared ledgers; blank when no shared budget applies."""
    is_shared = any(it.scope.is_shared for it in applicable(run))
    return f"{run.identity.run_id}:{lane}" if is_shared else ""


async def close_accounts(run: Run) -> None:
    """Charge everything that is not charged yet, because the run ends or waits."""
    if is_charged(run):
        charge(run, Amount())
        await pay(run, lane_name(run))


async def pay(run: Run, lane: str) -> None:
    """Charge the unsettled amounts to the shared ledgers, and end the holds of a lane.

    A blank lane has none.

    This completes even if the caller is cancelled meanwhile; the cancellation is raised afterwards.
    If the store fails, the amount stays unsettled, and the hold stays until the next payment or
    until it expires.
    """
    if lane:
        await _finish_despite_cancel(_pay_shared(run, lane))


async def _pay_shared(run: Run, lane: str) -> None:
    for scope in shared_scopes(run):
        amount = run.unsettled.get(scope, _NOTHING)
        run.unsettled = {**run.unsettled, scope: _NOTHING}
        settle = partial(_settle_ledger, lane=lane, amount=amount, now=run.services.clock.now_ms())
        try:
            async with asyncio.timeout(PAYMENT_S):
                await change_shared(run, scope, settle)
        except BaseException as error:
            unpaid = run.unsettled.get(scope, _NOTHING).plus(amount)
            run.unsettled = {**run.unsettled, scope: unpaid}
            if not isinstance(error, Exception):
                raise
            run_id = run.identity.run_id
            logger.warning(
                "The spending of run '%s' could not be charged to its %s.",
                run_id,
                scope,
                exc_info=error,
            )


def _settle_ledger(ledger: Ledger, *, lane: str, amount: Amount, now: int) -> Ledger:
    return ledger.settle(lane, amount, now)


def _add_unsettled(run: Run, amount: Amount) -> None:
    unsettled = run.unsettled
    run.unsettled = {it: unsettled.get(it, _NOTHING).plus(amount) for it in SHARED_SCOPES}


async def _finish_despite_cancel(work: Coroutine[None, None, None]) -> None:
    """Await work to its end, and raise a cancellation only then."""
    # In a separate task, because some callers cancel in every turn of the loop.
    task = asyncio.create_task(work)
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        raise asyncio.CancelledError
    task.result()


async def extend(run: Run, budgets: Sequence[Budget]) -> None:
    """Extend used-up budgets by their own size: once, even if this is called again."""
    for budget in budgets:
        if budget.scope.is_shared:
            more = amount_unreported(run, budget.scope)
            extend_ledger = partial(_extend_ledger, budget=budget, more=more)
            await change_shared(run, budget.scope, extend_ledger)
        else:
            key = THREAD_LEDGER if budget.scope is BudgetScope.THREAD else RUN_LEDGER
            used = ledger_of(run, budget).spent
            run.state.update(key, run.state.get(key).extend_budget(budget, used))


def _extend_ledger(ledger: Ledger, *, budget: Budget, more: Amount) -> Ledger:
    return ledger.extend_budget(budget, ledger.spent.plus(more))


async def change_shared(run: Run, scope: BudgetScope, change: Callable[[Ledger], Ledger]) -> Ledger:
    """Change a shared ledger atomically; if `change` raises, the ledger is unchanged."""
    value = await run.services.profile.change_entry(
        _owner_of(run, scope),
        SHARED_LEDGER,
        lambda stored: msgspec.to_builtins(change(decode_ledger(stored))),
        now=run.services.clock.now_ms(),
    )
    return decode_ledger(value)


async def _load_shared(run: Run, scope: BudgetScope) -> Ledger:
    entry = await run.services.profile.find_entry(_owner_of(run, scope), SHARED_LEDGER)
    return decode_ledger(None if entry is None else entry.value)


def _owner_of(run: Run, scope: BudgetScope) -> str:
    if scope is BudgetScope.GROUP:
        return group_scope(run.request.budget_group or "")
    return tenant_scope(run.identity.tenant_id or "")


def _new_time(run: Run) -> Amount:
    """The execution time that is not yet charged to other ledgers."""
    return Amount(ms=max(0, run.active_ms - run.state.get(RUN_LEDGER).spent.ms))
