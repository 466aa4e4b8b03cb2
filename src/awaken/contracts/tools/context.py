"""The context of a tool call: what a running tool can read and do.

A context belongs to one call. It records which state keys the call read and wrote, so that the
runtime can detect conflicts between calls that ran in parallel.
"""

import copy
from enum import StrEnum
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from awaken.contracts.errors import Misuse
from awaken.contracts.events import (
    ActivityDelta,
    ActivitySnapshot,
    AgentEvent,
    ToolCallStreamDelta,
)
from awaken.contracts.identity import RunIdentity
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.record import ContextT, DepsT, Record, always
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.state.keys import (
    EMPTY_COMMAND,
    Clear,
    EffectSpec,
    MutationBatch,
    ScheduledActionSpec,
    Snapshot,
    StateCommand,
    StateKey,
    StateOp,
    Update,
)
from awaken.contracts.state.profile import ProfileAccess
from awaken.contracts.suspension.tickets import (
    Asks,
    PendingToolCall,
    ResumeMode,
    SuspendTicket,
    Suspension,
    ToolCallResume,
)
from awaken.contracts.tasks import TaskFate, TaskInfo, TaskRecord

from .sub_runs import SubRuns, TaskFunction

V = TypeVar("V")
U = TypeVar("U")
P = TypeVar("P")

PROGRESS_ACTIVITY = "tool-call-progress"


class ProgressStatus(StrEnum):
    """The progress state of a call."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ToolCallProgress(Record, frozen=True, kw_only=True):
    """A progress report; clients build a tree from the node ids."""

    schema: str = always("tool-call-progress.v1")
    node_id: str
    call_id: str
    tool_name: str
    status: ProgressStatus
    progress: float | None = None
    loaded: int | None = None
    total: int | None = None
    message: str | None = None
    parent_node_id: str
    parent_call_id: str | None = None
    run_id: str
    parent_run_id: str | None = None
    thread_id: str


_NO_STATE = Snapshot(0, {})


class ToolState(msgspec.Struct, eq=False):
    """Typed state of one tool call: a frozen snapshot plus the call's own updates."""

    snapshot: Snapshot
    ops: list[StateOp] = []
    """The updates of the call, in order."""
    reads: set[str] = set()
    """The names of the keys that the call read."""

    def get(self, key: StateKey[V, Any]) -> V:
        """Return the key's value with this call's own updates applied.

        Mutable values are copied, so that changing one affects no other reader.
        """
        own = [op for op in self.ops if op.key is key]
        if not own or not (type(own[0]) is Clear or key.apply is None):
            self.reads.add(key.name)
        value = _private(self.snapshot.get(key))
        for op in own:
            if isinstance(op, Update):
                value = key.apply_update(value, op.update)
            else:
                value = _private(key.default)
        return value

    def update(self, key: StateKey[V, U], update: U) -> None:
        """Add an update; it is applied when the call's result is committed."""
        self.ops.append(Update(key=key, update=update))

    def set(self, key: StateKey[V, V], value: V) -> None:
        """Replace the value of a key that has no `apply` of its own.

        Raises:
            Misuse: The key has an `apply`; use `update`.
        """
        if key.apply is not None:
            message = f"State key '{key.name}' is changed by update(), not set()."
            raise Misuse(message)
        self.ops.append(Update(key=key, update=value))

    def clear(self, key: StateKey[V, U]) -> None:
        """Remove the key's value."""
        self.ops.append(Clear(key=key))


class ToolChannel(Protocol):
    """The connection of a running tool to its run."""

    def emit(self, event: AgentEvent) -> None:
        """Publish a live event of the run."""
        ...

    @property
    def is_cancelled(self) -> bool:
        """Whether the run was cancelled."""
        ...

    @property
    def sub_runs(self) -> SubRuns:
        """The child runs and tasks that the call can start."""
        ...

    @property
    def context(self) -> Any:
        """The context of the run, in the agent's context type."""
        ...

    @property
    def deps(self) -> Any:
        """The dependencies of the runtime."""
        ...


class ToolContext(Generic[DepsT, ContextT]):
    """Everything a tool may use, injected where a parameter is annotated with this class.

    `ToolContext[Deps, Context]` tells a type checker what `deps` and `context` are.
    """

    __slots__ = (
        "_channel", "_command", "agent", "call_id", "idempotency_key", "prepared", "profile",
        "resume", "run", "state", "suspension_id", "suspension_reason", "tool_name",
    )  # fmt: skip

    def __init__(
        self,
        *,
        run: RunIdentity,
        agent: AgentSpec,
        call: ToolCall,
        snapshot: Snapshot | None = None,
        idempotency_key: str = "",
        channel: ToolChannel | None = None,
    ) -> None:
        self.run = run
        self.agent = agent
        self.call_id = call.id
        self.tool_name = call.name
        self.idempotency_key = idempotency_key
        self.state = ToolState(snapshot or _NO_STATE)
        self.profile: ProfileAccess | None = None
        """Values shared between threads and agents."""
        self.prepared: Any = None
        """What the plugin that offers the tool has prepared for the agent."""
        self.resume: ToolCallResume | None = None
        """The decision, if the call was suspended and now continues."""
        self.suspension_id: str | None = None
        self.suspension_reason: str | None = None
        self._channel = channel
        self._command = EMPTY_COMMAND

    if not TYPE_CHECKING:
        # Accepts `ToolContext[Deps]` as well: the second variable has a default.
        __class_getitem__ = classmethod(GenericAlias)

    @property
    def context(self) -> ContextT:
        """The context of the run, in the agent's context type; without one a dict.

        It is what the caller claims. Who the caller is stands in `run`: `tenant_id`, `user_id`.

        Raises:
            Misuse: The context belongs to no run.
            InvalidContext: The agent's context type has changed since the run began.
        """
        found: ContextT = self._run_channel().context
        return found

    @property
    def deps(self) -> DepsT:
        """The dependencies of the runtime: what `AgentRuntime(deps=…)` was given or has opened.

        Raises:
            Misuse: The context belongs to no run, or the runtime is not open.
        """
        found: DepsT = self._run_channel().deps
        return found

    @property
    def is_cancelled(self) -> bool:
        """Whether the run was cancelled; for code that cannot await."""
        return self._channel is not None and self._channel.is_cancelled

    @property
    def sub_runs(self) -> SubRuns:
        """Delegates, background tasks and messages to other agents.

        Raises:
            Misuse: The context belongs to no run.
        """
        return self._run_channel().sub_runs

    def _run_channel(self) -> ToolChannel:
        if self._channel is None:
            message = f"Tool '{self.tool_name}' is not called by a run; it has nothing of one."
            raise Misuse(message)
        return self._channel

    async def spawn(
        self,
        work: TaskFunction,
        *,
        name: str | None = None,
        description: str = "",
        fate: TaskFate = TaskFate.CASCADE,
        timeout_ms: int | None = None,
    ) -> TaskRecord:
        """Start a function as a background task; its result is delivered to this thread once.

        Raises:
            TaskError: It cannot be started; nothing was started.
        """
        task = TaskInfo(name=name, description=description, fate=TaskFate(fate))
        return await self.sub_runs.spawn(work, task, timeout_ms=timeout_ms)

    @property
    def command(self) -> StateCommand:
        """The state command of this call so far."""
        if not self.state.ops:
            return self._command
        return StateCommand(
            patch=MutationBatch(ops=tuple(self.state.ops)),
            actions=self._command.actions,
            effects=self._command.effects,
        )

    def schedule(self, spec: ScheduledActionSpec[P], payload: P) -> None:
        """Schedule an action; it is queued when the call's result is committed."""
        self._command = self._command.schedule(spec, payload)

    def emit_effect(self, spec: EffectSpec[P], payload: P) -> None:
        """Request an effect that runs after the call's result is committed."""
        self._command = self._command.emit(spec, payload)

    def suspend(  # noqa: PLR0913 - the options of one call
        self,
        message: str = "",
        *,
        action: str = "",
        parameters: Any = None,
        mode: ResumeMode = ResumeMode.PASS_DECISION_TO_TOOL,
        response_schema: dict[str, Any] | None = None,
        suspension_id: str = "",
        asks: Asks | None = None,
    ) -> SuspendTicket:
        """Return a ticket; `return ctx.suspend(...)` from a tool suspends the call.

        `asks` determines how the answer is read: as a permission, as data, or as either.
        """
        return SuspendTicket(
            suspension=Suspension(
                id=suspension_id,
                action=action or f"tool:{self.tool_name}",
                message=message,
                parameters=parameters,
                response_schema=response_schema,
            ),
            pending=PendingToolCall(id=self.call_id, name=self.tool_name, arguments=parameters),
            resume_mode=mode,
            asks=None if asks is None else Asks(asks),
        )

    def report_activity(self, activity_type: str, content: Any) -> None:
        """Publish what the tool is doing; it replaces the earlier report."""
        if self._channel is not None:
            self._channel.emit(
                ActivitySnapshot(
                    message_id=self.call_id,
                    activity_type=activity_type,
                    content=content,
                    replace=True,
                )
            )

    def report_activity_delta(self, activity_type: str, patch: Any) -> None:
        """Publish a change of what the tool is doing."""
        if self._channel is not None:
            patches = patch if isinstance(patch, list) else [patch]
            self._channel.emit(
                ActivityDelta(message_id=self.call_id, activity_type=activity_type, patch=patches)
            )

    def progress(
        self,
        status: ProgressStatus | str = ProgressStatus.RUNNING,
        message: str | None = None,
        progress: float | None = None,
        *,
        loaded: int | None = None,
        total: int | None = None,
    ) -> None:
        """Report progress; `progress` is a fraction from 0 to 1."""
        if self._channel is None:
            return
        parent_call = self.run.parent_tool_call_id
        report = ToolCallProgress(
            node_id=f"tool_call:{self.call_id}",
            call_id=self.call_id,
            tool_name=self.tool_name,
            status=ProgressStatus(status),
            progress=progress,
            loaded=loaded,
            total=total,
            message=message,
            parent_node_id=f"tool_call:{parent_call}" if parent_call else f"run:{self.run.run_id}",
            parent_call_id=parent_call,
            run_id=self.run.run_id,
            parent_run_id=self.run.parent_run_id,
            thread_id=self.run.thread_id,
        )
        self.report_activity(PROGRESS_ACTIVITY, msgspec.to_builtins(report))

    def emit_output(self, delta: str) -> None:
        """Stream a piece of the tool's output while it runs."""
        if self._channel is not None:
            self._channel.emit(
                ToolCallStreamDelta(id=self.call_id, name=self.tool_name, delta=delta)
            )


_SCALARS = (int, str, float, bool, bytes, type(None))


def _private(value: V) -> V:
    return value if _is_immutable(value) else copy.deepcopy(value)


def _is_immutable(value: object) -> bool:
    """Whether a value can be shared: neither it nor anything inside it can be changed."""
    if isinstance(value, _SCALARS):
        return True
    if isinstance(value, tuple | frozenset):
        return all(map(_is_immutable, value))
    if isinstance(value, msgspec.Struct) and value.__struct_config__.frozen:
        return all(_is_immutable(getattr(value, name)) for name in value.__struct_fields__)
    return False
