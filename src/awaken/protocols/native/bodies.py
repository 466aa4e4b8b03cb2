"""Requests of the native API. Fields may also be spelled in camelCase."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from awaken.contracts.messages.content import Text
from awaken.contracts.messages.message import Message, Role
from awaken.contracts.record import StrictRecord
from awaken.contracts.runs.records import OnBusy
from awaken.contracts.storage.dispatch import InputMode
from awaken.contracts.suspension.permissions import PermissionScope, Remember
from awaken.contracts.suspension.tickets import DecisionAction, ToolCallResume
from awaken.transport.problems import HttpError

from .parts import Part, build_blocks

Id = Annotated[str, Meta(max_length=256, pattern=r"^[^\x00-\x1f\x7f]*$")]
Mode = Literal[
    "queue",
    "live_then_queue",
    "steer",
    "interrupt_then_queue",
    "interrupt",
    "resume_open_run",
    "resume",
]
MODES: Mapping[Mode, InputMode] = {
    "queue": InputMode.QUEUE,
    "live_then_queue": InputMode.STEER,
    "steer": InputMode.STEER,
    "interrupt_then_queue": InputMode.INTERRUPT,
    "interrupt": InputMode.INTERRUPT,
    "resume_open_run": InputMode.RESUME,
    "resume": InputMode.RESUME,
}


class NewMessage(StrictRecord, frozen=True, kw_only=True):
    """A message of a user or of the system; its content is text or blocks."""

    role: str = "user"
    content: str | tuple[Part, ...] = ""
    id: Id | None = None


class RunBudget(StrictRecord, frozen=True, kw_only=True):
    """The most that a run may use."""

    tokens: Annotated[int, Meta(ge=1, le=10**12)] | None = None
    cost_usd: Annotated[float, Meta(gt=0, le=10**6)] | None = None


class StartRun(StrictRecord, frozen=True, kw_only=True):
    """Run an agent on a thread, or on a new one."""

    agent_id: Id
    thread_id: Id | None = None
    messages: tuple[NewMessage, ...] = ()
    on_busy: OnBusy = OnBusy.QUEUE
    """What happens while another run of the thread executes."""
    publication: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    """The publication of the configuration to run on; needs the scope `config` as well."""
    model: Id | None = None
    """The model that answers in place of the agent's, of the same provider; needs `config` too."""
    budget: RunBudget | None = None
    """A limit of the run besides those of its agent; absent: a preview has a small one."""
    context: dict[str, Any] | None = None
    """The context of a new run, in the form of the agent's context type."""


class NewInput(StrictRecord, frozen=True, kw_only=True):
    """Messages for a thread, and the mode of their delivery."""

    messages: tuple[NewMessage, ...] = ()
    mode: Mode = "queue"
    agent_id: Id | None = None
    context: dict[str, Any] | None = None
    """The context of the run that the messages start; one that continues keeps its own."""


class RunInputs(StrictRecord, frozen=True, kw_only=True):
    """Messages for a run, and the mode of their delivery."""

    messages: tuple[NewMessage, ...] = ()
    mode: Mode = "queue"


class MailboxItem(StrictRecord, frozen=True, kw_only=True):
    """Any JSON; its `text`, or else all of it as JSON, becomes one message."""

    payload: Any


class RememberFor(StrictRecord, frozen=True, kw_only=True):
    """Makes a decision hold for later calls: its scope, and the calls."""

    scope: PermissionScope
    pattern: str | None = None
    """The calls, as a tool pattern; absent: those that the same rule asks about."""


class TicketDecision(StrictRecord, frozen=True, kw_only=True):
    """A decision on a suspended call, named by its ticket, or by its call if one ticket is open."""

    action: Annotated[str, Meta(extra_json_schema={"enum": ["resume", "cancel"]})]
    tool_call_id: Id | None = None
    ticket_id: Id | None = None
    payload: Any = None
    """A yes or no if the ticket asks permission, else the tool's result or the answer to it."""
    reason: str | None = None
    arguments: Any = None
    """Edited arguments of the call."""
    arguments_hash: Id | None = None
    """The hash of the arguments that the decider saw; refused if the ticket has other ones."""
    remember: RememberFor | None = None
    """Whether the decision holds for later calls as well."""
    decision_id: Id | None = None
    """Absent: derived from the decision, so that the same one again counts once."""

    def resume(self) -> ToolCallResume:
        """Build the decision.

        Raises:
            HttpError: The action is unknown.
        """
        if self.action not in tuple(DecisionAction):
            message = f"invalid action: {self.action}, expected 'resume' or 'cancel'"
            raise HttpError(400, "invalid_action", message)
        kept, remember = self.remember, None
        if kept is not None:
            remember = Remember(scope=kept.scope, pattern=kept.pattern)
        return ToolCallResume(
            decision_id=self.decision_id or "",
            action=DecisionAction(self.action),
            result=self.payload,
            reason=self.reason,
            arguments=self.arguments,
            arguments_hash=self.arguments_hash,
            remember=remember,
        )


_ROLES = {"user": Role.USER, "system": Role.SYSTEM}
"""The roles that clients may send."""


def messages_of(given: Sequence[NewMessage]) -> tuple[Message, ...]:
    """Convert the messages for a run.

    Raises:
        HttpError: There are none, or one has a role that cannot send input.
    """
    if not given:
        raise HttpError(400, "invalid_input", "at least one message is required")
    messages = []
    for it in given:
        content = it.content
        blocks = (Text(text=content),) if isinstance(content, str) else build_blocks(content)
        role = _ROLES.get(it.role)
        if role is None:
            message = (
                f"messages of role '{it.role}' are not accepted as input: send those of 'user' or "
                "'system'; the runtime itself keeps what assistants and tools said"
            )
            raise HttpError(400, "invalid_role", message)
        messages.append(Message(role=role, content=blocks, id=it.id))
    return tuple(messages)
