"""How one commit is checked and applied.

First everything is checked, then everything is applied; nothing in the second half can fail.
The cost is that of the change: parts that a commit does not have are not looked at, and no
part looks at the thread's history.
"""

from awaken.contracts.errors import InvalidRecord, LeaseLost, VersionConflict
from awaken.contracts.record import Record
from awaken.contracts.runs import RunRecord
from awaken.contracts.state import StoredValue
from awaken.contracts.storage import Commit, CommitReceipt
from awaken.contracts.threads import Thread

from .lineage import blank_thread, edited
from .runs import RUNNING, checked_open_run, projected
from .tables import AppliedCommit, OpenCalls, StoredThread, Tables
from .tickets import apply_tickets, check_no_open_ticket, check_tickets
from .transcript import NO_CHANGE, CallChange, check_open_calls, checked_calls, open_after


def apply_commit(tables: Tables, commit: Commit) -> CommitReceipt:
    """Apply a commit whole, or raise and change nothing; see `CommitStore.commit`."""
    thread = tables.threads.get(commit.thread_id)
    if thread is None:
        thread = StoredThread(blank_thread(commit.thread_id))
    elif commit.commit_id in thread.applied:
        return thread.receipt_again(commit)
    if commit.fencing_token is not None:
        _check_token(tables, commit)
    if commit.expected_version != thread.version:
        raise VersionConflict(
            thread_id=commit.thread_id, expected=commit.expected_version, actual=thread.version
        )
    change = _checked(tables, thread, commit)
    _apply_thread(tables, thread, commit, change)
    _apply_parts(tables, thread, commit, change)
    return _apply_history(thread, commit, change.open_run)


class _Change(Record, frozen=True, kw_only=True):
    """What the checks found out, so that nothing is worked out twice."""

    shown: Thread
    open_run: RunRecord | None
    message_ids: dict[str | None, None] | None
    calls: CallChange
    open_calls: OpenCalls | None
    """All open calls after the commit where they had to be worked out; else apply `calls`."""


def _check_token(tables: Tables, commit: Commit) -> None:
    fence = tables.fences.get(commit.thread_id)
    if fence is not None and fence != commit.fencing_token:
        raise LeaseLost(thread_id=commit.thread_id)


def _checked(tables: Tables, thread: StoredThread, commit: Commit) -> _Change:
    run, open_run, shown = commit.run, thread.open_run, thread.shown
    message_ids, calls, open_calls = None, NO_CHANGE, None
    if commit.messages:
        message_ids = _checked_message_ids(thread, commit)
        calls = checked_calls(commit.thread_id, thread.open_calls, commit.messages)
    if commit.thread is not None:
        shown = edited(tables, shown, commit.thread)
    if run is not None:
        known = tables.runs.get(run.run_id)
        open_run = checked_open_run(thread, run, known)
        shown = projected(tables, thread, shown, run, known)
    if commit.tickets or commit.tool_records or commit.run_state:
        _check_parts_of_runs(tables, commit, open_run)
    if thread.live_tickets and open_run is None:
        check_no_open_ticket(thread, commit.tickets)
    has_open_calls = thread.open_calls or calls.opened
    if commit.tickets or (has_open_calls and (open_run is None or open_run.status is not RUNNING)):
        open_calls = open_after(thread.open_calls, calls, commit.tickets, open_run)
        check_open_calls(commit.thread_id, open_calls, open_run)
    return _Change(
        shown=shown, open_run=open_run, message_ids=message_ids, calls=calls, open_calls=open_calls
    )


def _checked_message_ids(thread: StoredThread, commit: Commit) -> dict[str | None, None]:
    ids = dict.fromkeys([message.id for message in commit.messages])
    if None in ids or "" in ids:
        raise InvalidRecord(what=f"Thread '{commit.thread_id}'", problem="a message has no id")
    if len(ids) < len(commit.messages) or not thread.message_ids.keys().isdisjoint(ids):
        problem = f"a message id is used twice: {[message.id for message in commit.messages]}"
        raise InvalidRecord(what=f"Thread '{commit.thread_id}'", problem=problem)
    return ids


def _check_parts_of_runs(tables: Tables, commit: Commit, open_run: RunRecord | None) -> None:
    """Refuse what does not belong to a run of this thread."""
    if commit.run_state and commit.run is None:
        problem = "run state without a run record"
        raise InvalidRecord(what=f"Commit '{commit.commit_id}'", problem=problem)
    for record in commit.tool_records:
        _check_owner(tables, commit, record.run_id)
    for ticket in commit.tickets:
        _check_owner(tables, commit, ticket.run_id)
    if commit.tickets:
        check_tickets(tables, commit, open_run)


def _check_owner(tables: Tables, commit: Commit, run_id: str) -> None:
    if commit.run is not None and commit.run.run_id == run_id:
        return
    run = tables.runs.get(run_id)
    if run is None or run.thread_id != commit.thread_id:
        problem = f"run '{run_id}' is not a run of this thread"
        raise InvalidRecord(what=f"Thread '{commit.thread_id}'", problem=problem)


def _apply_thread(tables: Tables, thread: StoredThread, commit: Commit, change: _Change) -> None:
    thread.version += 1
    thread.updated_at = commit.committed_at
    thread.shown = change.shown
    if thread.version == 1:
        tables.threads[commit.thread_id] = thread
        if change.shown.metadata.created_at is None:
            thread.shown = change.shown.touched(commit.committed_at)
    if change.message_ids is not None:
        thread.messages.extend(commit.messages)
        thread.message_ids.update(change.message_ids)
    if change.open_calls is not None:
        thread.open_calls = change.open_calls
    elif change.calls is not NO_CHANGE:
        for call_id in change.calls.answered:
            del thread.open_calls[call_id]
        thread.open_calls.update(change.calls.opened)


def _apply_parts(tables: Tables, thread: StoredThread, commit: Commit, change: _Change) -> None:
    if commit.run is not None:
        _apply_run(tables, thread, commit.run, change)
    if commit.state:
        _apply_state(thread.state, commit.state)
    if commit.run_state and change.open_run is commit.run:
        _apply_state(thread.run_state, commit.run_state)
    for record in commit.tool_records:
        records = tables.tool_records.setdefault(record.run_id, {})
        records[record.step, record.call_id] = record
    if commit.tickets:
        apply_tickets(tables, thread, commit.tickets, change.open_run)
    if commit.events:
        thread.events.extend(commit.events)
    if commit.outbox:
        thread.outbox += commit.outbox


def _apply_run(tables: Tables, thread: StoredThread, run: RunRecord, change: _Change) -> None:
    if run.run_id not in tables.runs:
        thread.run_ids += (run.run_id,)
    tables.runs[run.run_id] = run
    thread.open_run = change.open_run
    if change.open_run is None:
        thread.run_state.clear()
        thread.live_tickets.clear()
    if change.shown.latest_run_id == run.run_id:
        thread.latest_run = run


def _apply_state(state: dict[str, StoredValue], changes: dict[str, StoredValue | None]) -> None:
    for key, value in changes.items():
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value


def _apply_history(
    thread: StoredThread, commit: Commit, open_run: RunRecord | None
) -> CommitReceipt:
    receipt = CommitReceipt(
        commit_id=commit.commit_id,
        version=thread.version,
        message_count=len(thread.messages),
        event_seq=len(thread.events),
    )
    run = commit.run or open_run
    run_id = None if run is None else run.run_id
    thread.applied[commit.commit_id] = AppliedCommit(
        receipt=receipt, committed_at=commit.committed_at, run_id=run_id
    )
    thread.last_commit = commit
    return receipt
