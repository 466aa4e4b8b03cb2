"""How one commit is applied: all checks come first, so that no later step can fail."""

from collections.abc import Mapping

from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.record import EMPTY
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.storage.store import Commit, CommitReceipt
from awaken.contracts.suspension.tickets import Ticket
from awaken.stores.rules.commits import DONE, Change, advance, check_commit, run_of
from awaken.stores.rules.head import blank_thread, tenant_of
from awaken.stores.rules.transcript import foreign_ids

from .claims import Claims
from .queues import Queues
from .retention import forget_ended_runs
from .tables import AppliedCommit, StoredThread, Tables


def apply_commit(tables: Tables, queues: Queues, claims: Claims, commit: Commit) -> CommitReceipt:
    """Apply a commit whole, or raise and change nothing; see `CommitStore.commit`."""
    thread_id, run, messages = commit.thread_id, commit.run, commit.messages
    if thread_id in tables.threads:
        thread = tables.threads[thread_id]
        if commit.commit_id in thread.applied:
            return thread.repeat_receipt(commit)
    else:
        thread = StoredThread(blank_thread(thread_id, tenant_of(commit)))
    foreign = foreign_ids(messages) if messages else ()
    change = check_commit(thread, tables, commit, foreign)
    if run is not None and change.known_run is None and run.run_id in tables.run_dispatches:
        tables.check_sent_here(run)
    if commit.enqueued:
        queues.check_all(commit.enqueued, thread.shown)
    held, before = thread.claim, thread.open_run
    receipt = advance(thread, commit, change)
    if receipt.version == 1:
        tables.threads[thread_id] = thread
    if messages:
        thread.messages += messages
        if foreign:
            thread.message_ids = thread.message_ids or set()
            thread.message_ids.update(foreign)
    if commit.events:
        thread.events += commit.events
    run_id = run.run_id if run is not None else run_of(thread, commit)
    if commit.state or commit.run_state:
        values = (
            _apply_state(thread.state, commit.state),
            _apply_state(thread.run_state, commit.run_state),
        )
        thread.note_state(commit, run_id, values, is_kept=tables.keeps_state)
    _apply_parts(tables, thread, commit, change)
    if run_id is not None and tables.checkpoints:
        tables.checkpoints.pop(run_id, None)
    if held is not None or commit.claim is not None or thread.queue:
        claims.settle(thread, held, before, commit)
    for dispatch_id in commit.absorbed:
        queues.absorb(dispatch_id, run_id)
    for dispatch in commit.enqueued:
        queues.add(dispatch)
    thread.applied[commit.commit_id] = AppliedCommit(
        version=receipt.version,
        message_count=receipt.message_count,
        event_seq=receipt.event_seq,
        committed_at=commit.committed_at,
        run_id=run_id,
    )
    thread.last_commit = commit
    if run is not None and tables.ended.since >= tables.ended.batch:
        forget_ended_runs(tables, run)
    return receipt


def _apply_parts(tables: Tables, thread: StoredThread, commit: Commit, change: Change) -> None:
    run = commit.run
    if run is not None:
        if change.known_run is None:
            thread.run_ids += (run.run_id,)
        tables.runs[run.run_id] = run
        if thread.open_run is None:
            thread.run_state = EMPTY
        if run.status is DONE:
            tables.ended.order[run.run_id] = None
            tables.ended.since += 1
    if commit.state:
        thread.state = _apply_state(thread.state, commit.state)
    if commit.run_state and thread.open_run is run:
        thread.run_state = _apply_state(thread.run_state, commit.run_state)
    for record in commit.tool_records:
        records = tables.tool_records.setdefault(record.run_id, {})
        records[record.step, record.call_id] = record
    for ticket in change.tickets:
        apply_ticket(tables, thread, ticket)
    for entry in commit.outbox:
        tables.outbox.setdefault(entry.entry_id, (commit.thread_id, entry))


def apply_ticket(tables: Tables, thread: StoredThread, ticket: Ticket) -> None:
    """Write a checked ticket."""
    ticket_id = ticket.ticket_id
    if ticket_id not in tables.tickets:
        thread.ticket_ids += (ticket_id,)
    tables.tickets[ticket_id] = ticket
    if ticket.status is TicketStatus.OPEN:
        tables.open_tickets[ticket_id] = ticket
    else:
        tables.open_tickets.pop(ticket_id, None)


def _apply_state(
    state: Mapping[str, StoredValue], changes: Mapping[str, StoredValue | None]
) -> Mapping[str, StoredValue]:
    after = {**state, **changes}
    return {key: value for key, value in after.items() if value is not None}
