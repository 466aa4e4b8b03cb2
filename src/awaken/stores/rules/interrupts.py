"""What an interrupt does to a thread's dispatches. It drops input, never an open run."""

import msgspec

from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.storage.dispatch import DispatchStatus, Release, RunDispatch

from .dispatches import mark_cancel_requested, mark_ended
from .head import ThreadHead

RUNNING = RunStatus.RUNNING


def is_stale(head: ThreadHead, dispatch: RunDispatch) -> bool:
    """Whether an interrupt dropped a queued dispatch while that dispatch was claimed.

    A dispatch of the open run is never stale: the worker that claims it next ends that run, as
    the interrupt asked. A message from a task or another agent is never stale either: its
    delivery is guaranteed.
    """
    if dispatch.is_notification:
        return False
    is_of_open_run = head.open_run is not None and head.open_run.run_id == dispatch.run_id
    return dispatch.dispatch_epoch < head.epoch and not is_of_open_run


def apply_interrupt(head: ThreadHead, dispatch: RunDispatch, cause: str, now: int) -> RunDispatch:
    """Return a queued dispatch as it is after an interrupt: dropped.

    A dispatch that continues a run between two attempts becomes due at once instead, and the
    worker that claims it ends that run. If it were dropped, the run would stay open for ever.
    Messages from tasks and other agents stay queued.
    """
    run = None if head.claim is not None else head.open_run
    is_of_run = run is not None and run.run_id == dispatch.run_id
    if run is not None and is_of_run and (run.status is RUNNING or head.cancel_cause is not None):
        return msgspec.structs.replace(mark_cancel_requested(dispatch, cause), available_at=now)
    if dispatch.is_notification:
        return dispatch
    return mark_ended(dispatch, Release(status=DispatchStatus.SUPERSEDED), now)
