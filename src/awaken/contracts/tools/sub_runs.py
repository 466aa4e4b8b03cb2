"""What a tool call can set going: delegates that it waits for, tasks, messages to other agents.

Everything here is durable when it returns, and asked for again with the same idempotency key it
is found, not done twice.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from awaken.contracts.backend_results import BackendRunResult
from awaken.contracts.errors import AwakenError, InvalidInput
from awaken.contracts.events import AgentEvent
from awaken.contracts.messages.message import Message
from awaken.contracts.models.inference import InferenceOverride, StreamResult
from awaken.contracts.record import Record
from awaken.contracts.suspension.permissions import ToolGrant
from awaken.contracts.suspension.tickets import ToolCallResume
from awaken.contracts.tasks import TaskContext, TaskInfo, TaskRecord

Listener = Callable[[AgentEvent], None]
"""Hears what a run shows while it executes."""

TaskFunction = Callable[[TaskContext], Awaitable[Any]]


class Delegation(Record, frozen=True, kw_only=True):
    """One agent asks another one, and waits for its answer."""

    agent_id: str
    prompt: str
    answer: ToolCallResume | None = None
    """What was decided on the ticket of the waiting delegate; it is passed on to it."""
    grant: ToolGrant | None = None
    """Calls of the delegate's that are allowed in its run, and in no other."""
    wanted_tools: tuple[str, ...] = ()
    """Tools, as ids or globs, that the delegate needs in full."""

    def __post_init__(self) -> None:
        """Refuse what no agent could be asked.

        Raises:
            InvalidInput: The agent or the prompt is no text.
        """
        for name in ("agent_id", "prompt"):
            if not isinstance(getattr(self, name), str):
                raise InvalidInput(what=f"Delegation: {name}", problem="it is no text")


class DurableMessageRequest(Record, frozen=True, kw_only=True):
    """A message to the agent of another thread.

    The sender fills in the first four fields; the runtime fills in the others, whatever they were.
    """

    recipient_thread_id: str
    """A sink gets it as stores have it: with its tenant's prefix, if the sender has a tenant."""
    sender_agent_id: str
    message: str
    recipient_agent_id: str | None = None
    """Who alone may read it; absent: the agent that the thread has."""
    idempotency_key: str = ""
    """The same whenever this message is sent again after a crash, and no other message's."""
    sender_thread_id: str = ""
    sender_run_id: str = ""
    tenant_id: str | None = None
    user_id: str | None = None
    hops: int = 0
    """How many agents have written because another one wrote, since a person did."""


class FailedMessage(Record, frozen=True, kw_only=True):
    """A message that could not be delivered and was given up."""

    message_id: str
    recipient_thread_id: str
    message: str
    error: str


class MessageNotSent(AwakenError):
    """The host's message sink did not take a message."""

    code = "message_not_sent"
    template = "{problem}"
    problem: str


class DurableMessageSink(Protocol):
    """Takes messages to other threads; how they become work there is the host's business.

    The runtime has one of its own: there a message is part of the commit of the sender's step, and
    arrives exactly once. `AgentRuntime(message_sink=...)` takes its place.
    """

    async def send_agent_message(self, request: DurableMessageRequest) -> str:
        """Take a message, and return its id.

        A sink may be asked again for the same message after a crash: then the idempotency key is
        the same, and the message must not be delivered twice. Whatever it raises is told to the
        sender as `transport_failed`, without secrets.
        """
        ...


class SubRuns(DurableMessageSink, Protocol):
    """The runs below one tool call."""

    @property
    def has_own_transport(self) -> bool:
        """Whether messages to other threads leave through a sink of the host's."""
        ...

    async def delegate(
        self, delegation: Delegation, listen: Listener | None = None
    ) -> BackendRunResult:
        """Have another agent answer, in a run of its own; returns when it ended or waits.

        `listen` hears the run's live events while it executes in this process, and must not raise.

        Raises:
            ExecutionBackendError: The agent cannot be asked.
        """
        ...

    async def ask_model(
        self,
        messages: Sequence[Message],
        *,
        system: tuple[str, ...] = (),
        overrides: InferenceOverride | None = None,
    ) -> StreamResult:
        """Ask the agent's model something on behalf of the call; the run pays for it.

        Nothing of it enters the transcript, and nobody sees it. It has no tools.

        Raises:
            ModelError: The model could not answer.
            BudgetExceeded: It may not be asked.
        """
        ...

    async def spawn(
        self, work: TaskFunction, task: TaskInfo, *, timeout_ms: int | None = None
    ) -> TaskRecord:
        """Start a function of this process as a task.

        Raises:
            TaskError: It may not be started; nothing was.
        """
        ...

    async def spawn_agent(self, agent_id: str, prompt: str, task: TaskInfo) -> TaskRecord:
        """Start an agent as a task; it outlives this process.

        Raises:
            TaskError: It may not be started; nothing was.
            ExecutionBackendError: The agent cannot be asked.
        """
        ...

    async def list_tasks(self) -> tuple[TaskRecord, ...]:
        """The tasks of this thread, newest first, also those that have ended."""
        ...

    async def find_task(self, name_or_id: str) -> TaskRecord | None:
        """A task of this thread by its id, else the running one of that name."""
        ...

    async def cancel_task(self, task_id: str) -> int:
        """Cancel a task and everything below it; returns how many were told to stop.

        Raises:
            TaskNotFound, TaskNotOwned: There is no such task of this thread.
        """
        ...

    async def cancel_self(self) -> int:
        """Cancel the run that the call belongs to, and everything below it; returns how many."""
        ...

    async def tell_task(self, task_id: str, text: str) -> str:
        """Write to a task of this thread that is an agent's run; returns the message's id.

        Raises:
            TaskError: It is not there, not this thread's, has ended, or takes no messages.
        """
        ...

    async def failed_messages(self) -> tuple[FailedMessage, ...]:
        """Messages of this thread that were given up."""
        ...

    async def resend(self, message_id: str) -> bool:
        """Try a message again that was given up; False when there is none of that id."""
        ...
