"""Tickets of calls that wait for a delegate: its questions, its end, the order that cancels it."""

from collections.abc import Mapping

import msgspec

from awaken.contracts.identity import RunIdentity, derive_id
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.outbox import (
    ReportToParent,
    StopChildren,
    decode_command,
    deletion_report_id,
    entry_of,
)
from awaken.contracts.storage.store import EventStore, OutboxEntry
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume

DELEGATE = "delegate"
"""The decider of the ticket on which a run waits for its delegate."""


def questions_of_delegate(ticket: Ticket | None) -> frozenset[str]:
    """The ids of the delegate's tickets that the caller's ticket shows to the decider."""
    shown = None if ticket is None else ticket.suspension.parameters
    asked = shown.get("ticket_ids") if isinstance(shown, Mapping) else None
    return frozenset(asked or ())


def report_end(child_run_id: str, record: RunRecord | None) -> ToolCallResume:
    """Make the decision that continues a call whose delegate has ended.

    `record` is that of a delegate that the store no longer has.
    """
    return ToolCallResume(
        decision_id=f"report:{child_run_id}",
        decided_by=DELEGATE,
        deleted_child=None if record is None else msgspec.to_builtins(record),
    )


async def load_deleted_child(store: EventStore, child_run_id: str) -> RunRecord | None:
    """Return the last record of a delegate that was deleted, if its parent may still ask for it."""
    entry = await store.find_outbox(deletion_report_id(child_run_id))
    command = None if entry is None else decode_command(entry.payload)
    return command.child if isinstance(command, ReportToParent) else None


def find_deleted_child(answer: ToolCallResume | None, child_run_id: str) -> RunRecord | None:
    """Return the record of a delegate that was deleted, if a report carries it."""
    if answer is None or answer.decided_by != DELEGATE or answer.deleted_child is None:
        return None
    record = msgspec.convert(answer.deleted_child, RunRecord)
    return record if record.run_id == child_run_id else None


def stop_child(identity: RunIdentity, child_run_id: str) -> OutboxEntry:
    """The order to cancel one child of a run; it has no effect on a child that has ended."""
    order = StopChildren(
        thread_id=identity.thread_id, run_id=identity.run_id, child_run_id=child_run_id
    )
    return entry_of(order, derive_id(child_run_id, "stop"))
