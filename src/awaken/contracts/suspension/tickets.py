"""Suspended tool calls: tickets that wait for a decision from outside."""

from enum import StrEnum
from typing import Any

import msgspec

from awaken.contracts.lifecycle import TicketStatus, ToolCallStatus
from awaken.contracts.record import Record, always

from .permissions import Remember

SUPERSEDED = "superseded"
"""Why a ticket is closed if a message arrives instead of a decision."""

Question = tuple[str, str, str]
"""The asker, the action, and the asker's own id of the question."""


DEADLINE = "deadline"
"""The decider of a ticket that expired without a decision."""


class ResumeMode(StrEnum):
    """How a decision continues the suspended call."""

    REPLAY_TOOL_CALL = "replay_tool_call"
    """Run the original call again."""
    USE_DECISION_AS_TOOL_RESULT = "use_decision_as_tool_result"
    """The decision's payload is the tool's result; the tool is not run."""
    PASS_DECISION_TO_TOOL = "pass_decision_to_tool"
    """Run the tool with the decision in its context."""


class Asks(StrEnum):
    """The kind of a ticket's question, which determines how a decision's payload is read."""

    PERMISSION = "permission"
    """A permission for the call: the payload must be a clear yes or no."""
    ANSWER = "answer"
    """Any data is an answer: only the action `cancel` declines."""
    EITHER = "either"
    """A clear yes or no is a permission; everything else is data for the tool."""
    EVENT = "event"
    """No question to a person: an event from outside or the deadline continues the call."""


class DecisionAction(StrEnum):
    """Continue the call, or give it up."""

    RESUME = "resume"
    CANCEL = "cancel"


class Suspension(Record, frozen=True, kw_only=True):
    """Why a call waits, and its question."""

    id: str = always("")
    """On a ticket the ticket's id; before that, the asker's own id of the question."""
    action: str = always("")
    message: str = ""
    parameters: Any = None
    response_schema: dict[str, Any] | None = None
    choices: dict[str, bool] | None = None
    """The named options of a decision, and whether each of them permits the call."""


class PendingToolCall(Record, frozen=True, kw_only=True):
    """The call in the form that a client displays."""

    id: str = always("")
    name: str = always("")
    arguments: Any = always(None)


class SuspendTicket(Record, frozen=True, kw_only=True):
    """What a tool or a gate returns to suspend a call."""

    suspension: Suspension = always(Suspension())
    pending: PendingToolCall = always(PendingToolCall())
    resume_mode: ResumeMode = always(ResumeMode.REPLAY_TOOL_CALL)
    expires_at: int | None = None
    """Deadline in milliseconds since the epoch; a decision after it is refused."""
    on_expiry: DecisionAction = DecisionAction.CANCEL
    """The decision that is taken if there is none before the deadline."""
    deciders: tuple[str, ...] | None = None
    """The users who may decide; absent: every user with the right to decide."""
    asked_by: str = ""
    """The plugin whose gate asks, set by the runtime; blank if the tool itself asks."""
    asks: Asks | None = None
    """The kind of the question; absent: derived from the mode and the schema."""
    hears_refusal: bool = False
    """Whether the tool is run to receive a refusal; otherwise a refused call is not run."""

    @property
    def question_kind(self) -> Asks:
        """The kind of the question, given or derived."""
        return self.asks or _infer_question_kind(self)

    @property
    def is_question(self) -> bool:
        """Whether the answer is the call's result; otherwise it is a permission."""
        is_result = self.resume_mode is ResumeMode.USE_DECISION_AS_TOOL_RESULT
        return is_result and not self.asked_by

    @property
    def question(self) -> Question:
        """Identifies the question among the suspensions of one call."""
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
    """Whether it also applies to later calls; the asking plugin evaluates it."""
    arguments_hash: str | None = None
    """The hash of the arguments the decider saw; refused if the ticket has other arguments."""
    resume_mode: ResumeMode | None = None
    """How the call continues, instead of the ticket's mode; clients cannot choose it."""
    is_text: bool = False
    """Whether a string result is plain text for the model, like a function's return value."""
    deleted_child: Any = None
    """The last record of a delegate that was deleted, as JSON; only a report of its end has it."""
    updated_at: int = always(0)

    def is_same(self, other: "ToolCallResume | None") -> bool:
        """Whether another decision has the same id and content, at whatever time."""
        if other is None or self.decision_id != other.decision_id:
            return False
        again = msgspec.structs.replace(other, updated_at=self.updated_at)
        # A stored decision has its JSON form: a tuple has become a list.
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
    """The plugin whose gate asks; blank if the tool itself asks."""
    answered: tuple[Question, ...] = ()
    """Questions on the same call that were decided before this one."""
    held: ToolCallResume | None = None
    """An earlier decision that has not reached the tool, because a gate asks in between."""
    asks: Asks | None = None
    """The kind of the question; absent on tickets that were stored without it."""
    topic: str | None = None
    """The asker's own id of the question; absent: it is the id of the suspension."""
    arguments_hash: str = ""
    """The hash of the tool and the arguments that are decided on."""
    hears_refusal: bool = False
    """Whether the tool is run to receive a refusal; otherwise a refused call is not run."""
    user_id: str | None = None
    """The user that the run acted for; its tool acts for that user, also if the run changes hands
    before the call resumes."""
    created_at: int = 0
    updated_at: int = 0

    @property
    def question_kind(self) -> Asks:
        """The kind of the question, given or derived."""
        if self.asks is not None:
            return self.asks
        return Asks.PERMISSION if self.held else _infer_question_kind(self)

    @property
    def is_question(self) -> bool:
        """Whether the answer is the call's result; otherwise it is a permission."""
        is_result = self.resume_mode is ResumeMode.USE_DECISION_AS_TOOL_RESULT
        return is_result and not self.asked_by

    @property
    def question(self) -> Question:
        """Identifies the question; two tickets of one call with equal values ask the same."""
        topic = self.topic
        if topic is None:
            # Gates of earlier versions derived the id from the call: equal for all questions.
            is_derived = self.suspension.id in (f"perm_{self.call_id}", f"guard_{self.call_id}")
            topic = "" if self.asked_by and is_derived else self.suspension.id
        return (self.asked_by, self.suspension.action, topic)

    def question_kind_for(self, decision: ToolCallResume) -> Asks:
        """The kind of the question in the mode of the decision, or else in the ticket's mode."""
        if decision.resume_mode is None or decision.resume_mode not in tuple(ResumeMode):
            # An unknown mode is refused later, when the decision is checked.
            return self.question_kind
        mode = ResumeMode(decision.resume_mode)
        if mode is self.resume_mode:
            return self.question_kind
        is_run = mode is not ResumeMode.USE_DECISION_AS_TOOL_RESULT
        if is_run and self.asked_by and self.question_kind is Asks.PERMISSION:
            # A gate passes no call without a clear permission.
            return Asks.PERMISSION
        return _infer_question_kind(msgspec.structs.replace(self, resume_mode=mode))

    @property
    def effective_mode(self) -> ResumeMode:
        """How the call continues: in the decision's mode, else in the ticket's."""
        chosen = self.decision.resume_mode if self.decision is not None else None
        return chosen or self.resume_mode

    @property
    def runs_on_refusal(self) -> bool:
        """Whether the tool is run to receive a refusal: the tool itself asked, not a gate."""
        return self.hears_refusal and not self.asked_by

    @property
    def call_hash(self) -> str:
        """The hash of the tool and the arguments that are decided on."""
        return self.arguments_hash or hash_call(self.tool_name, self.arguments)


class ToolCallState(Record, frozen=True, kw_only=True):
    """The state of one tool call of the current step; suspended calls survive the wait."""

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
        """The state of a call that has this ticket."""
        return cls(
            call_id=ticket.call_id,
            tool_name=ticket.tool_name,
            arguments=ticket.arguments,
            status=_status_of(ticket),
            updated_at=ticket.updated_at,
            resume_mode=ticket.effective_mode,
            ticket_id=ticket.ticket_id,
            suspension_id=ticket.suspension.id or None,
            suspension_reason=ticket.suspension.action or None,
            resume_input=ticket.decision,
        )


def hash_call(tool_name: str, arguments: Any) -> str:
    """Hash a tool name and its arguments; equal calls have equal hashes."""
    # Not by a process that only declares agents: it loads OpenSSL.
    import hashlib  # noqa: PLC0415

    data = msgspec.json.encode([tool_name, arguments], order="sorted")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _infer_question_kind(ticket: SuspendTicket | Ticket) -> Asks:
    """Derive the kind of the question of a ticket that does not name it."""
    if ticket.resume_mode is ResumeMode.USE_DECISION_AS_TOOL_RESULT:
        return Asks.ANSWER
    schema = ticket.suspension.response_schema
    # A schema without a type accepts everything: it only describes optional fields.
    if schema is not None and "type" in schema:
        return Asks.EITHER if ticket.asked_by else Asks.ANSWER
    is_replayed = ticket.resume_mode is ResumeMode.REPLAY_TOOL_CALL
    return Asks.PERMISSION if is_replayed else Asks.EITHER


def _status_of(ticket: Ticket) -> ToolCallStatus:
    if ticket.decision is None:
        return ToolCallStatus.SUSPENDED
    is_resumed = ticket.decision.action is DecisionAction.RESUME or ticket.runs_on_refusal
    return ToolCallStatus.RESUMING if is_resumed else ToolCallStatus.CANCELLED


class ToolCallOutcome(StrEnum):
    """How one attempt at a call ended."""

    SUSPENDED = "suspended"
    FAILED = "failed"
    SUCCEEDED = "succeeded"


class DecisionReceipt(Record, frozen=True, kw_only=True):
    """The receipt of a decision; repeating the decision gives the same receipt."""

    ticket_id: str
    run_id: str
    thread_id: str
    decision_id: str
