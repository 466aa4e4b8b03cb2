"""Who is next if tenants have limits: a pure rule over the heads that wait.

Postgres has the same rule as a statement, `stores/postgres/claim_shares.py`.
"""

from collections.abc import Iterable, Mapping, Sequence

from awaken.contracts.record import Record
from awaken.contracts.storage.mailbox import TenantLimits, find_limits

HEADS_MAX = 1000
"""How many heads of tenants with a free place are looked at for one claim."""
_WEIGHT = 100


class WaitingHead(Record, frozen=True, kw_only=True):
    """A thread that could be claimed."""

    thread_id: str
    tenant_id: str | None
    priority: int


def list_full(busy: Mapping[str, int], tenants: Mapping[str, TenantLimits]) -> list[str]:
    """List the tenants that have as many claimed threads as they may."""
    full = []
    for tenant_id, claims in busy.items():
        limits = find_limits(tenants, tenant_id)
        if limits is not None and limits.max_busy is not None and claims >= limits.max_busy:
            full.append(tenant_id)
    return full


def share_slots(
    heads: Iterable[WaitingHead],
    busy: Mapping[str, int],
    tenants: Mapping[str, TenantLimits],
    limit: int,
) -> Sequence[WaitingHead]:
    """Choose which heads are claimed; they come, and are returned, in the order of their turns.

    A better priority goes first; of equal ones, that of the tenant which then has the fewest
    claimed threads for its weight. No tenant gets more than its `max_busy`.
    """
    taken: dict[str, int] = dict(busy)
    ranked: list[tuple[int, float, int, WaitingHead]] = []
    for place, head in enumerate(heads):
        tenant_id = head.tenant_id or ""
        limits = find_limits(tenants, tenant_id)
        claims = taken.get(tenant_id, 0) + 1
        if limits is not None and limits.max_busy is not None and claims > limits.max_busy:
            continue
        taken[tenant_id] = claims
        weight = _WEIGHT if limits is None else limits.weight
        ranked.append((head.priority, claims / weight, place, head))
    ranked.sort(key=lambda it: it[:3])
    return [it[3] for it in ranked[:limit]]
