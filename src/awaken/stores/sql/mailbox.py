"""How clients and other processes change a thread's queue."""

from awaken.contracts.errors import AlreadyExists, InvalidRecord, RecordNotFound
from awaken.contracts.storage.dispatch import DispatchStatus, Interruption, Release, RunDispatch
from awaken.stores.rules import dispatches as rules
from awaken.stores.rules.interrupts import apply_interrupt

from .claims import want_cancel
from .heads import ensure_head, lock_head
from .queues import (
    add,
    check_run_id,
    enqueue,
    find,
    find_same,
    list_queued,
    lock_dispatch,
    refresh,
    save,
)
from .session import SqlSession

CANCELLED = Release(status=DispatchStatus.CANCELLED)


async def submit(session: SqlSession, dispatch: RunDispatch, backlog_max: int) -> RunDispatch:
    """Queue a dispatch; see `MailboxStore.enqueue`."""
    rules.check_new(dispatch)
    head = await ensure_head(session, dispatch.thread_id, dispatch.request.tenant_id)
    return await enqueue(session, head, dispatch, backlog_max)


async def cancel_dispatch(session: SqlSession, dispatch_id: str) -> RunDispatch | None:
    """Cancel a queued dispatch; see `MailboxStore.cancel_dispatch`."""
    found = await lock_dispatch(session, dispatch_id)
    if found is None or found[1].status is not DispatchStatus.QUEUED:
        return None
    head, dispatch = found
    over = await save(session, rules.mark_ended(dispatch, CANCELLED, (await session.now()).wall_ms))
    await refresh(session, head)
    return over


async def request_cancel(
    session: SqlSession, thread_id: str, cause: str, run_id: str | None
) -> str | None:
    """Ask the executing worker to cancel a run; see `MailboxStore.request_cancel`."""
    head = await lock_head(session, thread_id)
    is_asked = await want_cancel(session, head, cause, run_id)
    return head.claim.worker_id if is_asked and head is not None and head.claim else None


async def interrupt(
    session: SqlSession, thread_id: str, cause: str, then: RunDispatch | None
) -> Interruption:
    """Drop queued dispatches and request a cancel; see `MailboxStore.interrupt`."""
    if then is not None and then.thread_id != thread_id:
        problem = f"it does not belong to thread '{thread_id}'"
        raise InvalidRecord(what=f"Dispatch '{then.dispatch_id}'", problem=problem)
    tenant_id = None if then is None else then.request.tenant_id
    head = await ensure_head(session, thread_id, tenant_id)
    if then is not None and await find_same(session, head, then) is not None:
        # A repeated interrupt has had its effect: it would drop what it queued the first time.
        holder = None if head.claim is None else head.claim.worker_id
        return Interruption(epoch=head.epoch, holder=holder)
    if then is not None:
        await check_run_id(session, then)
    head.epoch += 1
    await want_cancel(session, head, cause)
    now, dropped = (await session.now()).wall_ms, []
    for dispatch in await list_queued(session, head):
        after = await save(session, apply_interrupt(head, dispatch, cause, now))
        if after.status is not DispatchStatus.QUEUED:
            dropped.append(after)
    if then is not None:
        await add(session, head, then)
    else:
        await refresh(session, head)
    return Interruption(
        epoch=head.epoch,
        superseded=tuple(dropped),
        holder=None if head.claim is None else head.claim.worker_id,
    )


async def revive(session: SqlSession, dispatch_id: str, new_id: str) -> RunDispatch:
    """Queue a dead letter again; see `MailboxStore.revive`."""
    found = await lock_dispatch(session, dispatch_id)
    if found is None:
        raise RecordNotFound(kind="Dispatch", record_id=dispatch_id)
    head, dispatch = found
    marked, fresh = rules.revive_dead_letter(dispatch, new_id, (await session.now()).wall_ms)
    rules.check_new(fresh)
    if await find(session, new_id) is not None:
        raise AlreadyExists(kind="Dispatch", record_id=new_id)
    await save(session, marked)
    return await add(session, head, fresh)
