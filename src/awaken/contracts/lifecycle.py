"""Life cycles as tables: every legal transition of a run, a tool call or a ticket is listed here.

The loop checks a transition with `check_transition` before it makes it; stores check again.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

import msgspec

from .errors import IllegalTransition
from .record import Record

Status = TypeVar("Status", bound=StrEnum)


class RunStatus(StrEnum):
    """The state of a run. `RUN_TRANSITIONS` lists every legal transition."""

    CREATED = "created"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"

    @property
    def is_terminal(self) -> bool:
        """Whether the run has ended for good."""
        return self is RunStatus.DONE


RUN_TRANSITIONS: Mapping[RunStatus, frozenset[RunStatus]] = {
    RunStatus.CREATED: frozenset({RunStatus.CREATED, RunStatus.RUNNING, RunStatus.DONE}),
    RunStatus.RUNNING: frozenset({RunStatus.RUNNING, RunStatus.WAITING, RunStatus.DONE}),
    RunStatus.WAITING: frozenset({RunStatus.WAITING, RunStatus.RUNNING, RunStatus.DONE}),
    RunStatus.DONE: frozenset({RunStatus.DONE}),
}


class ToolCallStatus(StrEnum):
    """The state of a tool call. `TOOL_CALL_TRANSITIONS` lists every legal transition."""

    NEW = "new"
    RUNNING = "running"
    SUSPENDED = "suspended"
    RESUMING = "resuming"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether the call has its final result."""
        return len(TOOL_CALL_TRANSITIONS[self]) == 1


_ANY = frozenset(ToolCallStatus)
_ENDS = frozenset({ToolCallStatus.SUCCEEDED, ToolCallStatus.FAILED, ToolCallStatus.CANCELLED})

TOOL_CALL_TRANSITIONS: Mapping[ToolCallStatus, frozenset[ToolCallStatus]] = {
    ToolCallStatus.NEW: _ANY,
    ToolCallStatus.RUNNING: _ENDS | {ToolCallStatus.RUNNING, ToolCallStatus.SUSPENDED},
    ToolCallStatus.SUSPENDED: frozenset(
        {ToolCallStatus.SUSPENDED, ToolCallStatus.RESUMING, ToolCallStatus.CANCELLED}
    ),
    ToolCallStatus.RESUMING: _ENDS
    | {ToolCallStatus.RESUMING, ToolCallStatus.RUNNING, ToolCallStatus.SUSPENDED},
    ToolCallStatus.SUCCEEDED: frozenset({ToolCallStatus.SUCCEEDED}),
    ToolCallStatus.FAILED: frozenset({ToolCallStatus.FAILED}),
    ToolCallStatus.CANCELLED: frozenset({ToolCallStatus.CANCELLED}),
}


class TicketStatus(StrEnum):
    """The state of a ticket. `TICKET_TRANSITIONS` lists every legal transition."""

    OPEN = "open"
    DECIDED = "decided"
    CLOSED = "closed"


TICKET_TRANSITIONS: Mapping[TicketStatus, frozenset[TicketStatus]] = {
    TicketStatus.OPEN: frozenset(TicketStatus),
    TicketStatus.DECIDED: frozenset({TicketStatus.DECIDED}),
    TicketStatus.CLOSED: frozenset({TicketStatus.CLOSED}),
}


def check_transition(
    table: Mapping[Status, frozenset[Status]], thing: str, old: Status, new: Status
) -> None:
    """Refuse a transition that the table does not list.

    Raises:
        IllegalTransition: The transition is not in the table.
    """
    if new not in table[old]:
        raise IllegalTransition(thing=thing, old=str(old), new=str(new))


class NaturalEnd(Record, frozen=True, kw_only=True, tag_field="type", tag="natural_end"):
    """The model answered and requested no further tool call."""


class BehaviorRequested(
    Record, frozen=True, kw_only=True, tag_field="type", tag="behavior_requested"
):
    """A plugin ended the run on purpose."""


class StoppedReason(Record, frozen=True, kw_only=True):
    """Which stop condition applied, and the value it found."""

    code: str
    detail: str | None = None


class Stopped(Record, frozen=True, kw_only=True, tag_field="type", tag="stopped"):
    """A stop condition applied."""

    reason: StoppedReason = msgspec.field(name="value")


class Cancelled(Record, frozen=True, kw_only=True, tag_field="type", tag="cancelled"):
    """The run was cancelled; `cause` says by whom: user, caller or shutdown."""

    cause: str = "user"


class Blocked(Record, frozen=True, kw_only=True, tag_field="type", tag="blocked"):
    """A gate refused a tool call in a way that ends the run."""

    reason: str = msgspec.field(name="value")


class Suspended(Record, frozen=True, kw_only=True, tag_field="type", tag="suspended"):
    """The run waits for decisions and holds nothing in memory."""


class Failed(Record, frozen=True, kw_only=True, tag_field="type", tag="error"):
    """The run ended with an error; `code` is stable, `message` is for people."""

    message: str = msgspec.field(name="value")
    code: str = "error"


NATURAL_END = "natural_end"
Termination = NaturalEnd | BehaviorRequested | Stopped | Cancelled | Blocked | Suspended | Failed


def tag_of(termination: Termination) -> str:
    """The type of a termination, as its JSON form names it."""
    return str(termination.__struct_config__.tag)


ENDS = tuple(
    str(it.__struct_config__.tag)
    for it in (NaturalEnd, BehaviorRequested, Stopped, Cancelled, Blocked, Failed)
)
"""The types of terminations with which a run ends."""


def status_after(termination: Termination) -> RunStatus:
    """The status of a run after a termination."""
    return RunStatus.WAITING if type(termination) is Suspended else RunStatus.DONE


def reason_text(termination: Termination) -> str:
    """A short text for people and logs; nothing is ever parsed back from it."""
    match termination:
        case Stopped(reason=reason):
            return f"stopped:{reason.code}"
        case Blocked(reason=text):
            return f"blocked:{text}"
        case _:
            return _PLAIN_REASONS[type(termination)]


_PLAIN_REASONS: Mapping[type, str] = {
    NaturalEnd: "natural",
    BehaviorRequested: "behavior_requested",
    Cancelled: "cancelled",
    Failed: "error",
    Suspended: "suspended",
}
