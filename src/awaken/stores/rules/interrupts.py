"""What an interrupt makes of a thread's dispatches. It drops input, never a run that is open."""

import msgspec

from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.storage.dispatch import DispatchStatus, Release, RunDispatch

from .dispatches import cancel_wanted, ended
from .head import ThreadHead

RUNNING = RunStatus.RUNNING


def is_stale(head: ThreadHead, dispatch: RunDispatch) -> bool:
    """Whether a queued dispatch was dropped by an interrupt that came while it was claimed.

    One whose run is open is not: whoever claims it next ends that run, as the interrupt asked.
    News from tasks and other agents is not either: it was promised to be told.
    """
    if dispatch.is_news:
        return False
    is_of_open_run = head.open_run is not None and head.open_run.run_id == dispatch.run_id
    return dispatch.dispatch_epoch < head.epoch and not is_of_open_run


def interrupted(head: ThreadHead, dispatch: RunDispatch, cause: str, now: int) -> RunDispatch:
    """Return what an interrupt makes of a queued dispatch: it is dropped.

    One that is to go on with a run between two attempts is due at once instead, and whoever
    claims it ends that run: dropped, it would leave the run open for ever. News is left alone.
    """
    run = None if head.claim is not None else head.open_run
    is_of_run = run is not None and run.run_id == dispatch.run_id
    if run is not None and is_of_run and (run.status is RUNNING or head.cancel_cause is not None):
        return msgspec.structs.replace(cancel_wanted(dispatch, cause), available_at=now)
    if dispatch.is_news:
        return dispatch
    return ended(dispatch, Release(status=DispatchStatus.SUPERSEDED), now)
