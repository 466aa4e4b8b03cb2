"""The budgets of a runtime and of its agents, and what a tenant has used of them."""

from awaken.contracts.clock import Clock
from awaken.contracts.models.budgets import (
    SHARED_LEDGER,
    Allowance,
    Amount,
    Budget,
    BudgetScope,
    Ledger,
    decode_ledger,
    tenant_scope,
)
from awaken.contracts.record import Record
from awaken.contracts.state.profile import ProfileStore
from awaken.runtime.engine import RunEngine


class BudgetStatus(Record, frozen=True, kw_only=True):
    """A budget: whose it is and, if a tenant is asked for, what that tenant has used of it."""

    budget: Budget
    agent_id: str | None = None
    """The agent that has it; absent: every run of the runtime."""
    tenant_id: str | None = None
    used: Amount | None = None
    """What was spent, and what calls in flight have reserved."""
    held: Amount | None = None
    """What calls in flight have reserved."""
    limit_reached: str | None = None


async def list_budgets(
    engine: RunEngine, profile: ProfileStore, clock: Clock, tenant_id: str | None
) -> tuple[BudgetStatus, ...]:
    """List the budgets; with a tenant, with what it has used of its own."""
    ledger: Ledger | None = None
    if tenant_id is not None:
        entry = await profile.find_entry(tenant_scope(tenant_id), SHARED_LEDGER)
        ledger = decode_ledger(None if entry is None else entry.value)
    given: list[tuple[str | None, Budget]] = [(None, it) for it in engine.services.budgets]
    given += [(None, it) for it in engine.registry.snapshot().registries.budgets]
    agents = engine.registry.snapshot().registries.agents
    given += [(name, it) for name in sorted(agents) for it in agents[name].spec.budgets]
    now = clock.now_ms()
    return tuple(_status(name, it, ledger, tenant_id, now) for name, it in given)


def _status(
    agent_id: str | None, budget: Budget, ledger: Ledger | None, tenant_id: str | None, now: int
) -> BudgetStatus:
    if ledger is None or budget.scope is not BudgetScope.TENANT:
        return BudgetStatus(budget=budget, agent_id=agent_id)
    allowance = Allowance.of(budget, ledger, now)
    held = Amount()
    for hold in ledger.open_holds(now).values():
        held = held.plus(hold.amount)
    return BudgetStatus(
        budget=budget,
        agent_id=agent_id,
        tenant_id=tenant_id,
        used=allowance.used,
        held=held,
        limit_reached=allowance.limit_reached,
    )
