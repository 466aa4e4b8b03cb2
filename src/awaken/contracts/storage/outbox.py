"""What a commit asks for outside of its thread: sent because the commit succeeded, and once.

Each order is an outbox entry of the commit; whoever relays it does so at least once, and every
order is such that doing it twice changes nothing.
"""

from typing import Any

import msgspec

from awaken.contracts.errors import CorruptRecord
from awaken.contracts.record import Record


class ThreadMessage(Record, frozen=True, kw_only=True, tag_field="order", tag="letter"):
    """Put a payload of `contracts.inbox` into a thread: into its run, or as a run of its own."""

    thread_id: str
    payload: Any
    agent_id: str | None = None
    """Who should read it; absent: the agent that the thread has."""
    tenant_id: str | None = None
    user_id: str | None = None
    """Whose run has sent it; the run that it starts is theirs as well."""
    sender_thread_id: str | None = None
    run_id: str | None = None
    """Only into this run; once it has ended, the letter is dropped."""


class ReportToParent(Record, frozen=True, kw_only=True, tag_field="order", tag="report"):
    """Let a parent that waits for a child go on, if the child has ended."""

    parent_thread_id: str
    parent_run_id: str
    child_run_id: str


class StopChildren(Record, frozen=True, kw_only=True, tag_field="order", tag="stop_children"):
    """Cancel what a run that has ended left behind: its delegates, and tasks bound to it."""

    thread_id: str
    run_id: str
    child_run_id: str | None = None
    """Only this one; absent: all of them."""


class AbortRemote(Record, frozen=True, kw_only=True, tag_field="order", tag="abort_remote"):
    """Cancel at a remote backend what a run that has ended had started there."""

    thread_id: str
    run_id: str
    agent_id: str


Order = ThreadMessage | ReportToParent | StopChildren | AbortRemote


def order_of(payload: Any) -> Order:
    """The order of an outbox entry.

    Raises:
        CorruptRecord: The entry is of no known form.
    """
    try:
        order: Order = msgspec.convert(payload, Order)
    except msgspec.ValidationError as error:
        raise CorruptRecord(what="An outbox entry", problem=str(error)) from error
    return order
