"""Who is claimed next if tenants have limits, where the claimer is the only writer: on SQLite."""

from collections.abc import Collection, Mapping, Sequence

from awaken.contracts.storage.mailbox import TenantLimits
from awaken.stores.rules.shares import HEADS_MAX, WaitingHead, list_full, share_slots

from .claims import join_names
from .session import Row, SqlSession


async def list_shared_due(
    session: SqlSession,
    now_ms: int,
    limit: int,
    agents: Collection[str] | None,
    tenants: Mapping[str, TenantLimits],
) -> Sequence[Row]:
    """List what is due in the shares and within the limits of tenants."""
    busy = {row[0]: row[1] for row in await session.all("count_busy")}
    full = join_names(list_full(busy, tenants))
    rows = await session.all("list_open_due", now_ms, HEADS_MAX, join_names(agents), full)
    heads = (WaitingHead(thread_id=it[0], tenant_id=it[2], priority=it[3]) for it in rows)
    return [(it.thread_id,) for it in share_slots(heads, busy, tenants, limit)]
