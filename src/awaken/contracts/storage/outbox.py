"""Outbox commands: what a commit requests outside of its thread, sent once it succeeded.

Each command is an outbox entry of the commit. The relay executes it at least once, and every
command is idempotent.
"""

from typing import Any

import msgspec

from awaken.contracts.errors import CorruptRecord
from awaken.contracts.record import Record


class ThreadMessage(Record, frozen=True, kw_only=True, tag_field="order", tag="letter"):
    """Deliver an inbox payload to a thread: into its run, or as a new run."""

    thread_id: str
    payload: Any
    agent_id: str | None = None
    """The agent that should read it; absent: the thread's agent."""
    tenant_id: str | None = None
    user_id: str | None = None
    """The user of the sending run; a run that the message starts belongs to the same user."""
    sender_thread_id: str | None = None
    run_id: str | None = None
    """Deliver only into this run; once it has ended, the message is dropped."""


class ReportToParent(Record, frozen=True, kw_only=True, tag_field="order", tag="report"):
    """Continue a parent that waits for a child, if the child has ended."""

    parent_thread_id: str
    parent_run_id: str
    child_run_id: str


class StopChildren(Record, frozen=True, kw_only=True, tag_field="order", tag="stop_children"):
    """Cancel the children of an ended run: its delegates, and the tasks bound to it."""

    thread_id: str
    run_id: str
    child_run_id: str | None = None
    """Only this child; absent: all children."""


class AbortRemote(Record, frozen=True, kw_only=True, tag_field="order", tag="abort_remote"):
    """Cancel the work that an ended run had started at a remote backend."""

    thread_id: str
    run_id: str
    agent_id: str


OutboxCommand = ThreadMessage | ReportToParent | StopChildren | AbortRemote


def decode_command(payload: Any) -> OutboxCommand:
    """Decode the command of an outbox entry.

    Raises:
        CorruptRecord: The entry has no known form.
    """
    try:
        order: OutboxCommand = msgspec.convert(payload, OutboxCommand)
    except msgspec.ValidationError as error:
        raise CorruptRecord(what="An outbox entry", problem=str(error)) from error
    return order
