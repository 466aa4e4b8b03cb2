"""Cancellation of a run wherever it is: queued, executing in some process, or waiting."""

from collections.abc import Awaitable, Callable
from enum import Enum, auto
from functools import partial

import msgspec

from awaken.contracts.errors import LeaseLost, ThreadClaimed, VersionConflict
from awaken.contracts.lifecycle import Cancelled
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.bus import SignalKind
from awaken.contracts.storage.dispatch import DispatchStatus, RunDispatch
from awaken.contracts.storage.queries import LIMIT_MAX, DispatchQuery, at_cursor
from awaken.contracts.storage.store import Store
from awaken.runtime.suspension.forced_end import Ending, build_forced_end

from .services import MailboxServices

_NO_LIMIT = 2**31 - 1
"""A workflow is cancelled, however much input waits."""
TRIES_MAX = 20
"""How often to look for a run that moves meanwhile; each move is progress of another process."""


class CancelTarget(Enum):
    """The kind of thing to cancel that an id names."""

    DISPATCH = auto()
    RUN = auto()
    THREAD = auto()


async def find_cancel_target(store: Store, id_: str) -> CancelTarget | None:
    """Return what an id names; None if it is unknown or could mean two different runs."""
    if await store.find_dispatch(id_) is not None:
        return CancelTarget.DISPATCH
    thread = await store.load_thread(id_)
    if not _is_live(await store.load_run(id_), await store.find_dispatch_of_run(id_)):
        return None if thread is None else CancelTarget.THREAD
    opened = None if thread is None else thread.open_run_id
    return CancelTarget.RUN if opened in (None, id_) else None


async def cancel(services: MailboxServices, id_: str, cause: str) -> bool:
    """Cancel by dispatch, run or thread id; returns False if there is nothing to cancel."""
    match await find_cancel_target(services.store, id_):
        case CancelTarget.DISPATCH:
            return await _cancel_dispatch(services, id_, cause)
        case CancelTarget.RUN:
            return await cancel_run(services, id_, cause)
        case CancelTarget.THREAD:
            return await cancel_thread(services, id_, cause)
        case None:
            return False


async def end_waiting(services: MailboxServices, thread_id: str, run_id: str, cause: str) -> bool:
    """End a waiting, unclaimed run; returns False if it is claimed or does not wait."""
    for _ in range(TRIES_MAX):
        run = await services.store.load_run(run_id)
        if run is None or not run.is_resumable_waiting:
            return False
        try:
            await _end_by_force(services, run, cause)
        except VersionConflict:
            continue
        except (LeaseLost, ThreadClaimed):
            return False
        services.send_signal(SignalKind.RUN_CHANGED, thread_id, run_id)
        return True
    return False


async def cancel_thread(services: MailboxServices, thread_id: str, cause: str) -> bool:
    """Cancel the open run of a thread, or its queued dispatches if it has none."""
    store = services.store
    thread = await store.load_thread(thread_id)
    if thread is None:
        return False
    if thread.open_run_id is not None:
        return await cancel_run(services, thread.open_run_id, cause)
    if await _ask_holder(services, thread_id, cause):
        return True
    cancelled = 0
    for dispatch in await _list_queued(store, thread_id):
        # The delivery of messages from tasks and other agents is guaranteed.
        cancelled += not dispatch.is_notification and await _withdraw(services, dispatch)
    return bool(cancelled)


async def _list_queued(store: Store, thread_id: str) -> list[RunDispatch]:
    found: list[RunDispatch] = []
    query: DispatchQuery | None = DispatchQuery(
        thread_id=thread_id, status=DispatchStatus.QUEUED, limit=LIMIT_MAX
    )
    while query is not None:
        page = await store.list_dispatches(query)
        found += page.items
        query = at_cursor(query, page.next_cursor) if page.next_cursor else None
    return found


async def cancel_run(services: MailboxServices, run_id: str, cause: str) -> bool:
    """Cancel a run wherever it is; returns False if it has ended or does not exist."""
    return await _cancel_delivered(
        services, run_id, partial(services.store.find_dispatch_of_run, run_id), cause
    )


async def _cancel_dispatch(services: MailboxServices, dispatch_id: str, cause: str) -> bool:
    find = partial(services.store.find_dispatch, dispatch_id)
    dispatch = await find()
    return dispatch is not None and await _cancel_delivered(services, dispatch.run_id, find, cause)


async def _cancel_delivered(
    services: MailboxServices,
    run_id: str,
    find: Callable[[], Awaitable[RunDispatch | None]],
    cause: str,
) -> bool:
    """Cancel a run and its delivery; tries again if another process moves it meanwhile."""
    for _ in range(TRIES_MAX):
        run = await services.store.load_run(run_id)
        dispatch = await find()
        if not _is_live(run, dispatch):
            return False
        if await _try_to_cancel(services, run, dispatch, cause):
            return True
    return False


def _is_live(run: RunRecord | None, dispatch: RunDispatch | None) -> bool:
    """Whether a run has not ended, or its dispatch has not begun it yet."""
    if run is not None:
        return not run.status.is_terminal
    return dispatch is not None and not dispatch.status.is_terminal


async def _try_to_cancel(
    services: MailboxServices, run: RunRecord | None, dispatch: RunDispatch | None, cause: str
) -> bool:
    """Cancel a run as it was read; returns False if it has moved meanwhile."""
    if run is None:
        assert dispatch is not None
        if dispatch.status is DispatchStatus.QUEUED:
            return await _withdraw(services, dispatch)
        return await _ask_holder(services, dispatch.thread_id, cause, dispatch.run_id)
    if await _ask_holder(services, run.thread_id, cause, run.run_id):
        return True
    if run.is_workflow and not run.is_held:
        await _queue_cancel(services, run, cause)
        return True
    try:
        await _end_by_force(services, run, cause)
    except (LeaseLost, ThreadClaimed, VersionConflict):
        return False
    is_here = dispatch is not None and dispatch.thread_id == run.thread_id
    for dispatch_id in {run.dispatch_id, dispatch.dispatch_id if dispatch and is_here else None}:
        if dispatch_id is not None:
            # The dispatch that would have continued the run has nothing left to do.
            await services.store.cancel_dispatch(dispatch_id)
    services.send_signal(SignalKind.RUN_CHANGED, run.thread_id, run.run_id)
    return True


async def _queue_cancel(services: MailboxServices, run: RunRecord, cause: str) -> None:
    """Let a worker enter a workflow again, which cleans up and ends as cancelled."""
    # Only a store with workflows needs their module.
    from .workflow_runs import make_continuation  # noqa: PLC0415

    dispatch = make_continuation(services, run)
    dispatch = msgspec.structs.replace(dispatch, cancel_cause=cause, priority=0)
    stored = await services.store.enqueue(dispatch, backlog_max=_NO_LIMIT)
    services.announce_queued(stored)


async def _withdraw(services: MailboxServices, dispatch: RunDispatch) -> bool:
    """Cancel a queued dispatch and announce it; returns False if it is no longer queued."""
    if await services.store.cancel_dispatch(dispatch.dispatch_id) is None:
        return False
    services.send_signal(SignalKind.RUN_CHANGED, dispatch.thread_id, dispatch.run_id)
    return True


async def _ask_holder(
    services: MailboxServices, thread_id: str, cause: str, run_id: str | None = None
) -> bool:
    """Ask the worker that executes a run of the thread to cancel it; False if there is none."""
    holder = await services.store.request_cancel(thread_id, cause, run_id)
    if holder is None:
        return False
    services.tell_holder(thread_id, holder)
    return True


async def _end_by_force(services: MailboxServices, run: RunRecord, cause: str) -> None:
    """End an unclaimed run, if it is still the thread's open run.

    Raises:
        VersionConflict: It is not the open run, or it changed meanwhile.
        ThreadClaimed: A worker executes it.
    """
    checkout = await services.store.checkout(run.thread_id)
    ending = Ending(
        termination=Cancelled(cause=cause), now_ms=services.clock.now_ms(), ids=services.ids
    )
    commit = None if checkout is None else build_forced_end(checkout, ending)
    if commit is None or commit.run is None or commit.run.run_id != run.run_id:
        version = -1 if checkout is None else checkout.thread.version
        raise VersionConflict(thread_id=run.thread_id, expected=version, actual=version)
    await services.store.commit(commit)
