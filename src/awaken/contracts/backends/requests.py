"""The requests that the runtime sends to a backend."""

from collections.abc import Callable, Coroutine, Sequence
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from awaken.contracts.backend_results import BackendRunResult
from awaken.contracts.events import AgentEvent
from awaken.contracts.identity import RunIdentity
from awaken.contracts.messages.message import Message, ToolCall
from awaken.contracts.models.inference import InferenceOverride
from awaken.contracts.record import Record
from awaken.contracts.state.keys import StateKey, StateScope
from awaken.contracts.suspension.tickets import SuspendTicket, ToolCallResume
from awaken.contracts.tools.tool import ToolDescriptor


class EventSink(Protocol):
    """Passes the live events of a run to its subscribers."""

    def emit(self, event: AgentEvent) -> None:
        """Publish a live event."""
        ...


class ExecutionResolver(Protocol):
    """The registry version that the run is pinned to."""

    def resolve(self, agent_id: str) -> object:
        """The runnable agent.

        Raises:
            UnknownAgent: It is not registered.
        """
        ...


class CancelSignal(Protocol):
    """Whether the run was cancelled."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the run was cancelled."""
        ...

    async def wait(self) -> None:
        """Return as soon as the run is cancelled."""
        ...


class DecisionChannel(Protocol):
    """Asks for a decision and waits for it while the run executes."""

    async def ask(self, call: ToolCall, ticket: SuspendTicket) -> ToolCallResume:
        """Open a durable ticket and wait until any process decides it."""
        ...


class RemoteTarget(Record, frozen=True, kw_only=True):
    """The recorded state of the work at one remote target, stored with the thread."""

    version: int = 1
    run_id: str = ""
    """The local run that it belongs to."""
    message_id: str | None = None
    """The id of the last message that was sent."""
    task_id: str | None = None
    context_id: str | None = None
    last_state: str | None = None
    question_id: str | None = None
    """Identifies the question that the task waits with; None if the remote side names none."""
    updated_at_ms: int = 0


REMOTE_TARGETS: StateKey[dict[str, RemoteTarget], dict[str, RemoteTarget]] = StateKey(
    "__runtime_remote_backend",
    default={},
    type=dict[str, RemoteTarget],
    scope=StateScope.THREAD,
)
"""By target, such as `a2a:https://host/path`."""


class BackendCheckpoint(Protocol):
    """Durable storage for what a backend knows about its side of a thread."""

    def load(self, target: str) -> RemoteTarget | None:
        """The last saved state of a target, from this run or an earlier run of the thread."""
        ...

    async def save(self, target: str, state: RemoteTarget) -> None:
        """Store the state of a target; it is durable when this returns."""
        ...


class BackendControl(msgspec.Struct, frozen=True, kw_only=True):
    """The control channels of an executing run that its backend supports."""

    cancellation: CancelSignal | None = None
    """Present if the backend observes cancellation itself."""
    decisions: DecisionChannel | None = None
    """Present if the backend can wait for decisions."""


class BackendParentContext(Record, frozen=True, kw_only=True):
    """The run, the thread and the call that requested a delegated run."""

    parent_run_id: str | None = None
    parent_thread_id: str | None = None
    parent_tool_call_id: str | None = None


class BackendDelegatePersistence(StrEnum):
    """How long the remote side has to keep a delegated run."""

    EPHEMERAL = "ephemeral"


class BackendDelegateContinuation(StrEnum):
    """Whether a delegated run may continue an earlier one."""

    DISABLED = "disabled"


class BackendDelegatePolicy(Record, frozen=True, kw_only=True):
    """What a delegated run requires of its backend."""

    persistence: BackendDelegatePersistence = BackendDelegatePersistence.EPHEMERAL
    continuation: BackendDelegateContinuation = BackendDelegateContinuation.DISABLED


LocalDrive = Callable[[], Coroutine[Any, Any, BackendRunResult]]
"""Takes a prepared run of this process through the agent loop to its end or its suspension."""


class BackendRootRunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run to execute."""

    agent_id: str
    messages: Sequence[Message]
    """The whole transcript."""
    new_messages: Sequence[Message]
    """The messages that this turn adds to it."""
    sink: EventSink
    resolver: ExecutionResolver
    run_identity: RunIdentity
    checkpoint: BackendCheckpoint | None = None
    control: BackendControl = BackendControl()
    decisions: Sequence[tuple[str, ToolCallResume]] = ()
    overrides: InferenceOverride | None = None
    frontend_tools: Sequence[ToolDescriptor] = ()
    drive: LocalDrive | None = None
    """Executes the run in this process; only the local backend can use it."""
    is_continuation: bool = False
    """Whether the run waited before and now continues."""
    is_recovered: bool = False
    """Whether another process had started it, so that its messages may have arrived."""
    context: dict[str, Any] | None = None
    """The context of the run, as JSON."""


class BackendDelegateRunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run that another run requested."""

    agent_id: str
    messages: Sequence[Message]
    new_messages: Sequence[Message]
    sink: EventSink
    resolver: ExecutionResolver
    run_identity: RunIdentity
    parent: BackendParentContext
    checkpoint: BackendCheckpoint | None = None
    control: BackendControl = BackendControl()
    policy: BackendDelegatePolicy = BackendDelegatePolicy()
    drive: LocalDrive | None = None
    is_continuation: bool = False
    is_recovered: bool = False
    context: dict[str, Any] | None = None


class BackendAbortRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run whose work at the remote side is to be stopped."""

    agent_id: str
    run_identity: RunIdentity
    parent: BackendParentContext | None = None
    checkpoint: BackendCheckpoint | None = None
    is_continuation: bool = False
