"""What a tool call can start: delegates that it waits for, tasks, messages to other agents.

Everything here is durable when it returns. A repeated request with the same idempotency key finds
the first one and does nothing twice.
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
"""Called with the live events of a run."""

TaskFunction = Callable[[TaskContext], Awaitable[Any]]


class Delegation(Record, frozen=True, kw_only=True):
    """A request of one agent to another, which waits for the answer."""

    agent_id: str
    prompt: str
    answer: ToolCallResume | None = None
    """The decision on the ticket of the waiting delegate, which is passed on to it."""
    grant: ToolGrant | None = None
    """Calls of the delegate that are allowed in its run only."""
    wanted_tools: tuple[str, ...] = ()
    """Tools, as ids or globs, whose full descriptions the delegate needs."""
    output_schema: dict[str, Any] | None = None
    """The JSON Schema that the answer must fit, instead of the delegate's output type."""
    may_wait: bool = True
    """Whether the delegate may wait for a person; if not, one that waits is cancelled."""

    def __post_init__(self) -> None:
        """Refuse a delegation that no agent could execute.

        Raises:
            InvalidInput: The agent or the prompt is not a text.
        """
        for name in ("agent_id", "prompt"):
            if not isinstance(getattr(self, name), str):
                raise InvalidInput(what=f"Delegation: {name}", problem="it is not a text")


class DurableMessageRequest(Record, frozen=True, kw_only=True):
    """A message to the agent of another thread.

    The sender sets the first four fields; the runtime sets the others and overwrites their values.
    """

    recipient_thread_id: str
    """A sink receives the stored id, with the tenant's prefix if the sender has a tenant."""
    sender_agent_id: str
    message: str
    recipient_agent_id: str | None = None
    """The only agent that may read it; absent: the thread's agent."""
    idempotency_key: str = ""
    """Unique to this message, and the same if it is sent again after a crash."""
    sender_thread_id: str = ""
    sender_run_id: str = ""
    tenant_id: str | None = None
    user_id: str | None = None
    hops: int = 0
    """How many agent messages in a row caused this one, since a person's last message."""


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
    """Accepts messages to other threads; the host decides how they are delivered.

    With the runtime's own sink, a message is part of the commit of the sender's step and arrives
    exactly once. `AgentRuntime(message_sink=...)` replaces it.
    """

    async def send_agent_message(self, request: DurableMessageRequest) -> str:
        """Accept a message and return its id.

        After a crash a sink may be called again for the same message: then the idempotency key is
        the same, and the message must not be delivered twice. An exception is reported to the
        sender as `transport_failed`, without secrets.
        """
        ...


class SubRuns(DurableMessageSink, Protocol):
    """Starts and controls the child runs of one tool call."""

    @property
    def has_own_transport(self) -> bool:
        """Whether messages to other threads are sent through a sink of the host."""
        ...

    async def delegate(
        self, delegation: Delegation, listen: Listener | None = None
    ) -> BackendRunResult:
        """Run another agent and wait until its run ended or waits.

        `listen` is called with the live events while the run executes in this process, and must not
        raise.

        Raises:
            ExecutionBackendError: The agent cannot be run.
        """
        ...

    async def ask_model(
        self,
        messages: Sequence[Message],
        *,
        system: tuple[str, ...] = (),
        overrides: InferenceOverride | None = None,
    ) -> StreamResult:
        """Call the agent's model on behalf of the tool call; the run is charged for it.

        Nothing of it enters the transcript or the event stream. It has no tools.

        Raises:
            ModelError: The model could not answer.
            BudgetExceeded: A budget does not allow the call.
        """
        ...

    async def spawn(
        self, work: TaskFunction, task: TaskInfo, *, timeout_ms: int | None = None
    ) -> TaskRecord:
        """Start a function of this process as a task.

        Raises:
            TaskError: It cannot be started; nothing was started.
        """
        ...

    async def spawn_agent(self, agent_id: str, prompt: str, task: TaskInfo) -> TaskRecord:
        """Start an agent as a task; it outlives this process.

        Raises:
            TaskError: It cannot be started; nothing was started.
            ExecutionBackendError: The agent cannot be run.
        """
        ...

    async def list_tasks(self) -> tuple[TaskRecord, ...]:
        """The tasks of this thread, newest first, including those that have ended."""
        ...

    async def find_task(self, name_or_id: str) -> TaskRecord | None:
        """A task of this thread by its id, else the running one of that name."""
        ...

    async def cancel_task(self, task_id: str) -> int:
        """Cancel a task and its child tasks; returns how many cancellations were requested.

        Raises:
            TaskNotFound, TaskNotOwned: There is no such task of this thread.
        """
        ...

    async def cancel_self(self) -> int:
        """Cancel the run of this call and its child runs; returns how many."""
        ...

    async def tell_task(self, task_id: str, text: str) -> str:
        """Send a message to a task of this thread that runs an agent; returns the message's id.

        Raises:
            TaskError: It does not exist here, has ended, or takes no messages.
        """
        ...

    async def list_failed_messages(self) -> tuple[FailedMessage, ...]:
        """List the messages of this thread that could not be delivered."""
        ...

    async def resend(self, message_id: str) -> bool:
        """Retry a message that was given up; False if there is none with that id."""
        ...
