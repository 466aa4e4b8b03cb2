"""Which run records a commit may write, and how a run appears in its thread."""

import msgspec

from awaken.contracts.errors import InvalidRecord, ThreadBusy
from awaken.contracts.lifecycle import RUN_TRANSITIONS, RunStatus, check_transition
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import Thread

from .claims import check_cancelled
from .head import Found, ThreadHead
from .lineage import check_parent, check_same_tenant

RUNNING, WAITING, DONE = RunStatus.RUNNING, RunStatus.WAITING, RunStatus.DONE


def checked_open_run(
    thread: ThreadHead, run: RunRecord, known: RunRecord | None
) -> RunRecord | None:
    """Check a run record and return the thread's open run after it.

    Raises:
        InvalidRecord: It belongs to another thread, or its waiting state contradicts its status.
        IllegalTransition: The run cannot change its status like this.
        ThreadBusy: Another run of the thread has not ended.
        CancelWanted: It ends in another way, although its cancel was acknowledged.
        UnknownThread: The run is new, and its tenant does not own the thread.
    """
    if known is None:
        thread.shown.check_tenant(run.tenant_id)
        if not run.run_id.strip():
            raise InvalidRecord(what="Run", problem="its id is blank")
        check_same_tenant(thread.shown.id, run.run_id)
    elif known.status is not run.status:
        check_transition(RUN_TRANSITIONS, f"Run '{run.run_id}'", known.status, run.status)
    if (run.waiting is None) is (run.status is WAITING):
        problem = f"its status is '{run.status}' and its waiting state does not match"
        raise InvalidRecord(what=f"Run '{run.run_id}'", problem=problem)
    thread_id, open_run = thread.shown.id, thread.open_run
    if run.thread_id != thread_id or (known is not None and known.thread_id != thread_id):
        problem = f"it does not belong to thread '{thread_id}'"
        raise InvalidRecord(what=f"Run '{run.run_id}'", problem=problem)
    is_other_open = open_run is not None and open_run.run_id != run.run_id
    if run.status is DONE:
        if thread.cancel_cause is not None:
            check_cancelled(thread, run)
        return open_run if is_other_open else None
    if open_run is not None and is_other_open:
        raise ThreadBusy(thread_id=thread_id, run_id=open_run.run_id)
    return run


def projected(
    found: Found,
    thread: ThreadHead,
    shown: Thread,
    run: RunRecord,
    known: RunRecord | None,
) -> Thread:
    """Return the thread with its pointers updated for the run.

    Only a run's first record can set the thread's parent: if the parent is deleted later, the
    run continues without one.

    Raises:
        InvalidRecord: The run's first record names an invalid parent.
    """
    latest = thread.latest_run
    if known is not None and known is latest and known.status is run.status:
        return shown
    if latest is not None:
        shown = msgspec.structs.replace(shown, latest_run_updated_at=latest.updated_at)
    after = shown.projecting(run)
    if after.parent_thread_id == shown.parent_thread_id:
        return after
    if known is not None:
        return msgspec.structs.replace(after, parent_thread_id=shown.parent_thread_id)
    check_parent(found.parents(), shown.id, after.parent_thread_id)
    return after
