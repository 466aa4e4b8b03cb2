"""Suspended tool calls: tickets that wait for a decision from outside."""

import hashlib
from enum import StrEnum
from typing import Any

import msgspec

from awaken.contracts.lifecycle import TicketStatus, ToolCallStatus
from awaken.contracts.record import Record, always

from .permissions import Remember

SUPERSEDED = "superseded"
"""Why a ticket is closed instead of which a message came."""

Question = tuple[str, str, str]
"""Who asks, what for, and under which id of their own."""


DEADLINE = "deadline"
"""Who has decided when nobody did before the deadline."""


class ResumeMode(StrEnum):
    """What a decision means for the suspended call."""

    REPLAY_TOOL_CALL = "replay_tool_call"
    """Run the original call again."""
    USE_DECISION_AS_TOOL_RESULT = "use_decision_as_tool_result"
    """The decision's payload is the tool's result; the tool is not run."""
    PASS_DECISION_TO_TOOL = "pass_decision_to_tool"
    """Run the tool with the decision in its context."""


class Asks(StrEnum):
    """What a ticket wants to hear, which says how a decision's payload is read."""

    PERMISSION = "permission"
    """Whether the call may go on: a clear yes or no, and nothing else."""
    ANSWER = "answer"
    """Data, whatever it is: only the action `cancel` declines."""
    EITHER = "either"
    """A clear yes or no counts as one; everything else is data for the tool."""


class DecisionAction(StrEnum):
    """Go on with the call, or give it up."""

    RESUME = "resume"
    CANCEL = "cancel"


class Suspension(Record, frozen=True, kw_only=True):
    """Why a call waits and what it asks for."""

    id: str = always("")
    """On a ticket that ticket's id; before, what tells two questions of one asker apart."""
    action: str = always("")
    message: str = ""
    parameters: Any = None
    response_schema: dict[str, Any] | None = None
    choices: dict[str, bool] | None = None
    """The names of the ways to decide, and whether each of them lets the call go on."""


class PendingToolCall(Record, frozen=True, kw_only=True):
    """The call as a client should show it."""

    id: str = always("")
    name: str = always("")
    arguments: Any = always(None)


class SuspendTicket(Record, frozen=True, kw_only=True):
    """What a tool or a gate hands out to suspend a call."""

    suspension: Suspension = always(Suspension())
    pending: PendingToolCall = always(PendingToolCall())
    resume_mode: ResumeMode = always(ResumeMode.REPLAY_TOOL_CALL)
    expires_at: int | None = None
    """Deadline in milliseconds since the epoch; a decision after it is refused."""
    on_expiry: DecisionAction = DecisionAction.CANCEL
    """What is decided when nobody has decided before the deadline."""
    deciders: tuple[str, ...] | None = None
    """Who may decide; absent means anybody who may decide at all."""
    asked_by: str = ""
    """The plugin whose gate asks, filled in by the runtime; blank when the tool itself asks."""
    asks: Asks | None = None
    """What it wants to hear; absent, its mode and its schema say so."""
    hears_refusal: bool = False
    """Whether the tool is run to hear that it was declined; else it is not run then."""

    @property
    def asked(self) -> Asks:
        """What it wants to hear."""
        return self.asks or _asked(self)

    @property
    def is_question(self) -> bool:
        """Whether the answer is the call's result; otherwise it is a permission."""
        is_result = self.resume_mode is ResumeMode.USE_DECISION_AS_TOOL_RESULT
        return is_result and not self.asked_by

    @property
    def question(self) -> Question:
        """What tells two suspensions of one call apart."""
        return (self.asked_by, self.suspension.action, self.suspension.id)


class ToolCallResume(Record, frozen=True, kw_only=True):
    """A decision on one suspended call."""

    decision_id: str
    action: DecisionAction = always(DecisionAction.RESUME)
    result: Any = always(None)
    reason: str | None = None
    arguments: Any = None
    """Edited arguments; absent keeps the original ones. They are validated and gated again."""
    decided_by: str | None = None
    remember: Remember | None = None
    """Whether it answers later calls as well; heeded by whoever asked."""
    arguments_hash: str | None = None
    """What the decider has seen; refused when the ticket holds other arguments."""
    resume_mode: ResumeMode | None = None
    """How the call goes on, in place of what its ticket says; clients cannot choose it."""
    is_text: bool = False
    """Whether a string as result is text for the model, as what a function returns, not JSON."""
    updated_at: int = always(0)

    def is_same(self, other: "ToolCallResume | None") -> bool:
        """Whether another one decides the same under the same id, whenever it was taken."""
        if other is None or self.decision_id != other.decision_id:
            return False
        again = msgspec.structs.replace(other, updated_at=self.updated_at)
        # What was read from a store has its JSON form: a tuple has become a list.
        return self == again or _json_of(self) == _json_of(again)


def _json_of(decision: ToolCallResume) -> bytes:
    return msgspec.json.encode(decision, order="sorted")


class Ticket(Record, frozen=True, kw_only=True):
    """The durable record of one suspended call, found by its id from any process."""

    ticket_id: str
    thread_id: str
    run_id: str
    call_id: str
    tool_name: str
    arguments: Any = None
    resume_mode: ResumeMode = ResumeMode.REPLAY_TOOL_CALL
    suspension: Suspension = Suspension()
    status: TicketStatus = TicketStatus.OPEN
    decision: ToolCallResume | None = None
    closed_because: str | None = None
    expires_at: int | None = None
    on_expiry: DecisionAction = DecisionAction.CANCEL
    deciders: tuple[str, ...] | None = None
    asked_by: str = ""
    """The plugin whose gate asks; blank when the tool itself asks."""
    answered: tuple[Question, ...] = ()
    """Questions on the same call that were decided before this one."""
    held: ToolCallResume | None = None
    """An earlier decision that the tool has not heard yet, because a gate asks in between."""
    asks: Asks | None = None
    """What it wants to hear; absent on tickets that were opened before they said so."""
    topic: str | None = None
    """What the asker calls its question; absent on tickets whose suspension has it as its id."""
    arguments_hash: str = ""
    """Stands for the tool and the arguments that are decided on."""
    hears_refusal: bool = False
    """Whether the tool is run to hear that it was declined; else it is not run then."""
    created_at: int = 0
    updated_at: int = 0

    @property
    def asked(self) -> Asks:
        """What it wants to hear."""
        if self.asks is not None:
            return self.asks
        return Asks.PERMISSION if self.held else _asked(self)

    @property
    def is_question(self) -> bool:
        """Whether the answer is the call's result; otherwise it is a permission."""
        is_result = self.resume_mode is ResumeMode.USE_DECISION_AS_TOOL_RESULT
        return is_result and not self.asked_by

    @property
    def question(self) -> Question:
        """What is asked; two tickets of one call with the same question ask the same."""
        topic = self.topic
        if topic is None:
            # Gates used to make the id from the call's, which is the same for all their questions.
            is_derived = self.suspension.id in (f"perm_{self.call_id}", f"guard_{self.call_id}")
            topic = "" if self.asked_by and is_derived else self.suspension.id
        return (self.asked_by, self.suspension.action, topic)

    def asked_of(self, decision: ToolCallResume) -> Asks:
        """What a decision has to say, in the mode that it chooses itself or in the ticket's."""
        if decision.resume_mode is None or decision.resume_mode not in tuple(ResumeMode):
            # An unknown mode is left to whoever checks the decision.
            return self.asked
        mode = ResumeMode(decision.resume_mode)
        if mode is self.resume_mode:
            return self.asked
        is_run = mode is not ResumeMode.USE_DECISION_AS_TOOL_RESULT
        if is_run and self.asked_by and self.asked is Asks.PERMISSION:
            # A gate lets no call pass that was not clearly permitted.
            return Asks.PERMISSION
        return _asked(msgspec.structs.replace(self, resume_mode=mode))

    @property
    def decided_mode(self) -> ResumeMode:
        """How the call goes on, or would: the decision may choose another mode."""
        chosen = self.decision.resume_mode if self.decision is not None else None
        return chosen or self.resume_mode

    @property
    def tells_refusal(self) -> bool:
        """Whether the tool is run with a refusal: it has asked, and not somebody in between."""
        return self.hears_refusal and not self.asked_by

    @property
    def decided_hash(self) -> str:
        """What stands for the tool and the arguments that are decided on."""
        return self.arguments_hash or hash_call(self.tool_name, self.arguments)


class ToolCallState(Record, frozen=True, kw_only=True):
    """Where one tool call of the current step stands; suspended ones survive the run's sleep."""

    call_id: str
    tool_name: str
    arguments: Any = None
    status: ToolCallStatus = ToolCallStatus.NEW
    updated_at: int = 0
    resume_mode: ResumeMode = ResumeMode.REPLAY_TOOL_CALL
    ticket_id: str | None = None
    suspension_id: str | None = None
    suspension_reason: str | None = None
    resume_input: ToolCallResume | None = None

    @classmethod
    def of(cls, ticket: Ticket) -> "ToolCallState":
        """Where a call with this ticket stands."""
        return cls(
            call_id=ticket.call_id,
            tool_name=ticket.tool_name,
            arguments=ticket.arguments,
            status=_status_of(ticket),
            updated_at=ticket.updated_at,
            resume_mode=ticket.decided_mode,
            ticket_id=ticket.ticket_id,
            suspension_id=ticket.suspension.id or None,
            suspension_reason=ticket.suspension.action or None,
            resume_input=ticket.decision,
        )


def hash_call(tool_name: str, arguments: Any) -> str:
    """What stands for a tool and its arguments; equal ones have equal hashes."""
    data = msgspec.json.encode([tool_name, arguments], order="sorted")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _asked(ticket: SuspendTicket | Ticket) -> Asks:
    """What a ticket wants to hear that does not say so itself."""
    if ticket.resume_mode is ResumeMode.USE_DECISION_AS_TOOL_RESULT:
        return Asks.ANSWER
    schema = ticket.suspension.response_schema
    # One without a type fits everything: it only describes what else may be said.
    if schema is not None and "type" in schema:
        return Asks.EITHER if ticket.asked_by else Asks.ANSWER
    is_replayed = ticket.resume_mode is ResumeMode.REPLAY_TOOL_CALL
    return Asks.PERMISSION if is_replayed else Asks.EITHER


def _status_of(ticket: Ticket) -> ToolCallStatus:
    if ticket.decision is None:
        return ToolCallStatus.SUSPENDED
    is_resumed = ticket.decision.action is DecisionAction.RESUME or ticket.tells_refusal
    return ToolCallStatus.RESUMING if is_resumed else ToolCallStatus.CANCELLED


class ToolCallOutcome(StrEnum):
    """How one attempt at a call ended."""

    SUSPENDED = "suspended"
    FAILED = "failed"
    SUCCEEDED = "succeeded"
