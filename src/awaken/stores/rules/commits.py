"""How a commit is checked, and how it changes its thread.

The cost is proportional to the change: a part that the commit does not have costs nothing, and
no part reads the thread's history.
"""

from collections.abc import Sequence

import msgspec

from awaken.contracts.errors import (
    InvalidRecord,
    LeaseLost,
    ThreadBusy,
    ThreadClaimed,
    VersionConflict,
)
from awaken.contracts.lifecycle import RUN_TRANSITIONS, RunStatus, check_transition
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.dispatch import DispatchStatus
from awaken.contracts.storage.store import Commit, CommitReceipt, ToolRecord
from awaken.contracts.suspension.tickets import Ticket
from awaken.contracts.tenancy import TENANT_MARK

from .claims import cause_after, check_cancelled, check_release
from .head import Found, HeldClaim, OpenCalls, ThreadHead
from .lineage import apply_edit, check_parent, check_same_tenant
from .tickets import check_no_open_ticket, check_tickets, update_live_tickets
from .transcript import (
    NO_CHANGE,
    CallChange,
    check_calls,
    check_open_calls,
    find_open_calls,
)

RUNNING, WAITING, DONE = RunStatus.RUNNING, RunStatus.WAITING, RunStatus.DONE


class Change(Record, frozen=True, kw_only=True):
    """The results of the checks, so that nothing is computed twice."""

    shown: Thread
    known_run: RunRecord | None
    """The stored record of the commit's run; None if the run is new."""
    open_run: RunRecord | None
    calls: CallChange
    tickets: tuple[Ticket, ...]
    """The tickets to write."""
    open_calls: OpenCalls | None
    """All open calls after the commit, if they were computed; otherwise apply `calls`."""


def check_commit(head: ThreadHead, found: Found, commit: Commit, foreign: Sequence[str]) -> Change:
    """Check a commit that was not applied before; nothing is changed.

    `foreign` are the ids of its messages that may have been used before; see `foreign_ids`.

    Raises:
        StorageError: As `CommitStore.commit` lists them.
    """
    if not commit.commit_id:
        raise InvalidRecord(what="Commit", problem="its id is blank")
    if head.claim is not None or commit.fencing_token is not None or commit.claim is not None:
        _check_claim(head, commit)
    if commit.expected_version != head.version:
        raise VersionConflict(
            thread_id=commit.thread_id, expected=commit.expected_version, actual=head.version
        )
    run, known, open_run, shown = commit.run, None, head.open_run, head.shown
    calls, open_calls, tickets = NO_CHANGE, None, commit.tickets
    if commit.messages:
        if foreign or len(commit.messages) > 1:
            _check_message_ids(head, found, commit, foreign)
        calls = check_calls(commit.thread_id, head.open_calls, commit.messages)
    if commit.thread is not None:
        shown = apply_edit(found.parents(), shown, commit.thread)
    if run is not None:
        known = open_run
        if known is None or known.run_id != run.run_id:
            known = found.find_run(run.run_id)
        open_run = _check_run(head, run, known)
        shown = _project_run(found, head, shown, run, known)
    if commit.tickets or commit.tool_records or commit.run_state:
        tickets = _check_run_parts(found, commit, open_run)
    if commit.absorbed:
        _check_absorbed(found, commit)
    if commit.enqueued:
        _check_enqueued(commit)
    if head.live_tickets and open_run is None:
        check_no_open_ticket(head, tickets)
    has_open_calls = head.open_calls or calls.opened
    if commit.tickets or (has_open_calls and (open_run is None or open_run.status is not RUNNING)):
        open_calls = find_open_calls(head.open_calls, calls, tickets, open_run)
        check_open_calls(commit.thread_id, open_calls, open_run)
    return Change(
        shown=shown,
        known_run=known,
        open_run=open_run,
        calls=calls,
        tickets=tickets,
        open_calls=open_calls,
    )


def advance(head: ThreadHead, commit: Commit, change: Change) -> CommitReceipt:
    """Change the head as a checked commit says."""
    head.version += 1
    head.updated_at = commit.committed_at
    head.shown = change.shown
    if change.shown.metadata.created_at is None:
        head.shown = change.shown.touch(commit.committed_at)
    if commit.messages:
        head.message_count += len(commit.messages)
    if commit.events:
        head.event_seq += len(commit.events)
    if change.open_calls is not None:
        head.open_calls = change.open_calls
    elif change.calls is not NO_CHANGE:
        for call_id in change.calls.answered:
            del head.open_calls[call_id]
        head.open_calls.update(change.calls.opened)
    if change.tickets:
        update_live_tickets(head, change.tickets, change.open_run)
    if head.cancel_cause is not None:
        head.cancel_cause = cause_after(head, commit)
    if commit.run is not None:
        head.open_run = change.open_run
        if change.open_run is None and head.live_tickets:
            head.live_tickets.clear()
        if change.shown.latest_run_id == commit.run.run_id:
            head.latest_run = commit.run
    if commit.claim is not None:
        assert commit.fencing_token is not None
        head.claim = HeldClaim(token=commit.fencing_token, worker_id=commit.claim.worker_id)
    if commit.release is not None:
        head.claim = None
    return CommitReceipt(
        commit_id=commit.commit_id,
        version=head.version,
        message_count=head.message_count,
        event_seq=head.event_seq,
    )


def run_of(head: ThreadHead, commit: Commit) -> str | None:
    """Return the run that the events of an applied commit belong to."""
    run = commit.run or head.open_run
    return None if run is None else run.run_id


def _check_claim(head: ThreadHead, commit: Commit) -> None:
    held, token = head.claim, commit.fencing_token
    if commit.claim is not None and token is None:
        problem = "it takes a claim without a token"
        raise InvalidRecord(what=f"Commit '{commit.commit_id}'", problem=problem)
    if commit.claim is not None and held is None:
        return
    if held is not None and (token is None or commit.claim is not None):
        raise ThreadClaimed(thread_id=commit.thread_id, worker_id=held.worker_id)
    if held is None or held.token != token:
        raise LeaseLost(thread_id=commit.thread_id)
    if commit.release is not None:
        check_release(held.dispatch_id, commit.release)


def _check_message_ids(
    head: ThreadHead, found: Found, commit: Commit, foreign: Sequence[str]
) -> None:
    # An id that is missing is foreign and blank.
    if "" in foreign:
        raise InvalidRecord(what=f"Thread '{commit.thread_id}'", problem="a message has no id")
    ids = [message.id for message in commit.messages]
    is_used = head.message_count > 0 and found.has_messages(commit.thread_id, foreign)
    if is_used or len(set(ids)) < len(ids):
        problem = f"a message id is used twice: {ids}"
        raise InvalidRecord(what=f"Thread '{commit.thread_id}'", problem=problem)


def _check_run_parts(
    found: Found, commit: Commit, open_run: RunRecord | None
) -> tuple[Ticket, ...]:
    """Check that all parts belong to runs of this thread; returns the tickets to write."""
    if commit.run_state and commit.run is None:
        problem = "run state without a run record"
        raise InvalidRecord(what=f"Commit '{commit.commit_id}'", problem=problem)
    owner = None if commit.run is None else commit.run.run_id
    parts: tuple[ToolRecord | Ticket, ...] = (*commit.tool_records, *commit.tickets)
    for part in parts:
        if part.run_id != owner:
            # Most parts belong to one run, which is checked once.
            _check_owner(found, commit, part.run_id)
            owner = part.run_id
    return check_tickets(found, commit, open_run) if commit.tickets else ()


def _check_owner(found: Found, commit: Commit, run_id: str) -> None:
    run = found.find_run(run_id)
    if run is None or run.thread_id != commit.thread_id:
        problem = f"run '{run_id}' is not a run of this thread"
        raise InvalidRecord(what=f"Thread '{commit.thread_id}'", problem=problem)


def _check_absorbed(found: Found, commit: Commit) -> None:
    if len(set(commit.absorbed)) < len(commit.absorbed):
        problem = f"it takes in a dispatch twice: {commit.absorbed}"
        raise InvalidRecord(what=f"Commit '{commit.commit_id}'", problem=problem)
    for dispatch_id in commit.absorbed:
        dispatch = found.find_dispatch(dispatch_id)
        is_here = dispatch is not None and dispatch.thread_id == commit.thread_id
        # The sender withdrew it meanwhile: too late, but no reason to stop the run.
        if dispatch is None or not is_here or dispatch.status not in _ABSORBABLE:
            problem = "it is not queued on this thread, so its input cannot be taken in"
            raise InvalidRecord(what=f"Dispatch '{dispatch_id}'", problem=problem)


def _check_enqueued(commit: Commit) -> None:
    for dispatch in commit.enqueued:
        if dispatch.thread_id != commit.thread_id:
            problem = (
                f"it is for thread '{dispatch.thread_id}', and a commit to '{commit.thread_id}' "
                "queues on its own thread only; order it in the outbox (`QueueRun`)"
            )
            raise InvalidRecord(what=f"Dispatch '{dispatch.dispatch_id}'", problem=problem)


_ABSORBABLE = (DispatchStatus.QUEUED, DispatchStatus.CANCELLED, DispatchStatus.SUPERSEDED)


def _check_run(thread: ThreadHead, run: RunRecord, known: RunRecord | None) -> RunRecord | None:
    """Check a run record and return the thread's open run after it.

    Raises:
        InvalidRecord: It belongs to another thread, or its waiting state contradicts its status.
        IllegalTransition: The run cannot change its status like this.
        ThreadBusy: Another run of the thread has not ended.
        CancelWanted: It ends in another way, although its cancel was acknowledged.
        UnknownThread: The run is new, and its tenant does not own the thread.
    """
    if known is None:
        if run.tenant_id is not None:
            thread.shown.check_tenant(run.tenant_id)
        if not run.run_id.strip():
            raise InvalidRecord(what="Run", problem="its id is blank")
        if TENANT_MARK in (run.run_id[0], thread.shown.id[0]):
            check_same_tenant(thread.shown.id, run.run_id)
    elif run.status not in RUN_TRANSITIONS[known.status]:
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


def _project_run(
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
    if latest is not None and latest is not known:
        # Whether the run is older than the latest one is decided by this time.
        shown = msgspec.structs.replace(shown, latest_run_updated_at=latest.updated_at)
    after = shown.project_run(run)
    if after.parent_thread_id == shown.parent_thread_id:
        return after
    if known is not None:
        return msgspec.structs.replace(after, parent_thread_id=shown.parent_thread_id)
    check_parent(found.parents(), shown.id, after.parent_thread_id)
    return after
