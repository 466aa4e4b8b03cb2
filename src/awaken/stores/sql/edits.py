"""Threads as people edit them."""

from awaken.contracts.runs.threads import Thread
from awaken.stores.rules.lineage import edited

from .commits import parents_of
from .heads import made_head
from .session import SqlSession


async def save_thread(session: SqlSession, thread: Thread) -> Thread:
    """Create a thread, or edit one; see `ThreadStore.save_thread`."""
    head = await made_head(session, thread.id, thread.tenant_id)
    wanted = thread.normalized().parent_thread_id
    parents = {} if wanted is None else await parents_of(session, wanted)
    head.shown = edited(parents, head.shown, thread)
    if head.shown.metadata.updated_at is not None:
        head.updated_at = head.shown.metadata.updated_at
    shown = head.shown
    await session.run(
        "save_edit",
        head.no,
        head.updated_at,
        head.sort_at,
        shown.resource_id,
        shown.parent_thread_id,
        head.packed(),
    )
    return head.view()
