"""Tickets of calls that wait for a delegate: its questions, and the order that cancels it."""

from collections.abc import Mapping

from awaken.contracts.identity import RunIdentity, derive_id
from awaken.contracts.storage.outbox import StopChildren
from awaken.contracts.storage.store import OutboxEntry
from awaken.contracts.suspension.tickets import Ticket
from awaken.runtime.outbox import entry_of


def questions_of_delegate(ticket: Ticket | None) -> frozenset[str]:
    """The ids of the delegate's tickets that the caller's ticket shows to the decider."""
    shown = None if ticket is None else ticket.suspension.parameters
    asked = shown.get("ticket_ids") if isinstance(shown, Mapping) else None
    return frozenset(asked or ())


def stop_child(identity: RunIdentity, child_run_id: str) -> OutboxEntry:
    """The order to cancel one child of a run; it has no effect on a child that has ended."""
    order = StopChildren(
        thread_id=identity.thread_id, run_id=identity.run_id, child_run_id=child_run_id
    )
    return entry_of(order, derive_id(child_run_id, "stop"))
