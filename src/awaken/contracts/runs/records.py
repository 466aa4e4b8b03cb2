"""Runs: one execution on a thread, as requested and as recorded."""

from collections.abc import Callable
from enum import StrEnum
from operator import attrgetter
from typing import Any

import msgspec

from awaken.contracts.backend_results import BackendRunStatus
from awaken.contracts.errors import InvalidResume, UsageError
from awaken.contracts.identity import Adapter, RunIdentity, RunMode, RunOrigin
from awaken.contracts.lifecycle import RunStatus, Suspended, Termination
from awaken.contracts.messages.message import Message
from awaken.contracts.models.budgets import Budget
from awaken.contracts.models.inference import InferenceOverride, TokenUsage
from awaken.contracts.record import Record
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.suspension.permissions import ToolGrant
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume
from awaken.contracts.tasks import TaskInfo
from awaken.contracts.tenancy import TENANT_MARK, namespace_in, namespace_of, shown_id, stored_id
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.contracts.tracing import TraceContext


class WaitingReason(StrEnum):
    """What a waiting run waits for."""

    TOOL_PERMISSION = "tool_permission"
    USER_INPUT = "user_input"
    BACKGROUND_TASKS = "background_tasks"
    EXTERNAL_EVENT = "external_event"
    RATE_LIMIT = "rate_limit"
    MANUAL_PAUSE = "manual_pause"


class Waiting(Record, frozen=True, kw_only=True):
    """The structured waiting state; present exactly while the run waits."""

    reason: WaitingReason
    ticket_ids: tuple[str, ...] = ()
    since_dispatch_id: str | None = None
    """The dispatch whose delivery it waits since; None when the turn was not queued."""
    message: str | None = None
    """Why it waits, as a word."""
    question: str | None = None
    """What whoever it waits for is asked, in the words of the other side."""

    @property
    def is_for_own_tasks(self) -> bool:
        """Whether the run waits for nothing but its own background tasks, which tell it.

        Tasks of a remote agent and work that only plugins know of are not its own: a message has
        to tell it of them.
        """
        return self.reason is WaitingReason.BACKGROUND_TASKS and self.message is None


class RunInput(Record, frozen=True, kw_only=True):
    """Which messages of the thread the run was given."""

    message_ids: tuple[str, ...] = ()
    from_seq: int | None = None
    to_seq: int | None = None


class RunRecord(Record, frozen=True, kw_only=True):
    """The durable record of a run. All times are milliseconds."""

    run_id: str
    thread_id: str
    agent_id: str
    status: RunStatus = RunStatus.CREATED
    active_agent_id: str | None = None
    parent_run_id: str | None = None
    parent_thread_id: str | None = None
    parent_tool_call_id: str | None = None
    lineage: tuple[str, ...] = ()
    """The agents above it, from the first; a run without a parent has none."""
    task: TaskInfo | None = None
    """Present when the run is a background task of its parent's thread."""
    origin: RunOrigin = RunOrigin.USER
    run_mode: RunMode = RunMode.FOREGROUND
    adapter: Adapter = Adapter.INTERNAL
    dispatch_id: str | None = None
    session_id: str | None = None
    transport_request_id: str | None = None
    tenant_id: str | None = None
    user_id: str | None = None
    trace: TraceContext | None = None
    """Which trace it belongs to: its caller's, or that of the call above it."""
    registry_version: int | None = None
    input: RunInput = RunInput()
    waiting: Waiting | None = None
    termination: Termination | None = None
    backend_status: BackendRunStatus | None = None
    """How the remote backend that executes it says it went, at its end or when it began to wait."""
    final_output: str | None = None
    steps: int = 0
    """Its steps so far; of one that executes elsewhere, those that the other side has counted."""
    usage: TokenUsage = TokenUsage()
    bookmark: StoredValue | None = None
    """Where in a step the run is, in the runtime's own form, for whoever takes it over."""
    log_start: int = 0
    """The thread's latest event before the run began; the run's own come after it."""
    created_at: int = 0
    started_at: int | None = None
    finished_at: int | None = None
    updated_at: int = 0

    @property
    def identity(self) -> RunIdentity:
        """Everything that names the run."""
        return RunIdentity(
            thread_id=self.thread_id,
            run_id=self.run_id,
            agent_id=self.agent_id,
            active_agent_id=self.active_agent_id,
            parent_thread_id=self.parent_thread_id,
            parent_run_id=self.parent_run_id,
            parent_tool_call_id=self.parent_tool_call_id,
            dispatch_id=self.dispatch_id,
            session_id=self.session_id,
            transport_request_id=self.transport_request_id,
            tenant_id=self.tenant_id,
            user_id=self.user_id,
            origin=self.origin,
            run_mode=self.run_mode,
            adapter=self.adapter,
        )

    @property
    def is_resumable_waiting(self) -> bool:
        """Whether a decision or a new message can continue the run."""
        return self.status is RunStatus.WAITING and self.waiting is not None

    @property
    def awaits_tasks(self) -> bool:
        """Whether it waits for nothing but its own background tasks, and goes on by itself."""
        return self.waiting is not None and self.waiting.is_for_own_tasks

    @property
    def awaits_message(self) -> bool:
        """Whether it waits for somebody and has no ticket: a message lets it go on."""
        has_tickets = self.waiting is not None and bool(self.waiting.ticket_ids)
        return self.is_resumable_waiting and not has_tickets and not self.awaits_tasks


class OnBusy(StrEnum):
    """What becomes of a request whose thread has a run that executes."""

    QUEUE = "queue"
    """It begins when the thread has done what it has to do."""
    INTERRUPT = "interrupt"
    """What the thread does is cancelled, and what it has queued is dropped."""
    REJECT = "reject"
    """It is refused with `ThreadBusy`."""


class RunRequest(Record, frozen=True, kw_only=True):
    """A request to run an agent on a thread."""

    thread_id: str | None = None
    """Absent: a new thread."""
    agent_id: str | None = None
    """Absent: the thread's active agent, else its latest run's agent, else `default`."""
    messages: tuple[Message, ...] = ()
    decisions: tuple[tuple[str, ToolCallResume], ...] = ()
    """Pairs of a ticket, suspension or call id and the decision on it."""
    overrides: InferenceOverride | None = None
    frontend_tools: tuple[ToolDescriptor, ...] = ()
    origin: RunOrigin = RunOrigin.USER
    run_mode: RunMode = RunMode.FOREGROUND
    adapter: Adapter = Adapter.INTERNAL
    parent_run_id: str | None = None
    parent_thread_id: str | None = None
    parent_tool_call_id: str | None = None
    lineage: tuple[str, ...] = ()
    """The agents above it, from the first."""
    task: TaskInfo | None = None
    """Makes the run a background task of its parent's thread."""
    continue_run_id: str | None = None
    run_id_hint: str | None = None
    dispatch_id_hint: str | None = None
    dispatch_id: str | None = None
    session_id: str | None = None
    transport_request_id: str | None = None
    tenant_id: str | None = None
    """Who pays, and owns the thread that the run creates; threads of others are not found."""
    user_id: str | None = None
    """Who asks; what was permitted for a person holds for their runs."""
    trace: TraceContext | None = None
    """Which trace of the caller the run belongs to."""
    budgets: tuple[Budget, ...] = ()
    """Limits besides those of the agent and the runtime."""
    expected_messages: int | None = None
    """How many messages the thread must have; a request that goes on elsewhere is refused."""
    output_schema: dict[str, Any] | None = None
    """The JSON Schema that the answer must fit, in the place of the agent's own output type."""
    tool_choice: str | None = None
    """Which tool the first answer must call, or `required` for any, or `none`."""
    grant: ToolGrant | None = None
    """Calls that whoever begins the run allows in it; it is no client's to give."""
    blocked: str | None = None
    """Why the run may only be ended: a screen blocked something that came with the request."""
    wanted_tools: tuple[str, ...] = ()
    """Tools, as ids or globs, that the run needs in full from its beginning."""
    on_busy: OnBusy = OnBusy.QUEUE
    """What becomes of it while another run of the thread executes."""
    session_tools: tuple[ToolDescriptor, ...] = ()
    """Tools of the client's session, which only the process with the open session can execute."""

    def owned(self) -> "RunRequest":
        """The request with its ids as they are stored: trimmed, and its tenant's or its thread's.

        A blank id means that there is none.
        """
        untrimmed = {}
        for name, value in zip(_IDS, _ids_of(self), strict=True):
            if value is not None and (not value or value != value.strip()):
                untrimmed[name] = value.strip() or None
        if untrimmed:
            return msgspec.structs.replace(self, **untrimmed).owned()
        if self.tenant_id is None and (self.thread_id is None or self.thread_id[0] != TENANT_MARK):
            return self
        namespace = self._namespace()
        return self._rename(namespace, stored_id) if namespace else self

    def as_given(self) -> "RunRequest":
        """The request with its ids as its tenant gives them; the opposite of `owned`."""
        namespace = self._namespace()
        return self._rename(namespace, shown_id) if namespace else self

    def _namespace(self) -> str:
        namespace = "" if self.tenant_id is None else namespace_of(self.tenant_id)
        return namespace or ("" if self.thread_id is None else namespace_in(self.thread_id))

    def _rename(self, namespace: str, rename: Callable[[str, str], str]) -> "RunRequest":
        named = {name: value for name in _OWN_IDS if (value := getattr(self, name))}
        changes = {name: rename(namespace, value) for name, value in named.items()}
        return msgspec.structs.replace(self, **changes)

    @property
    def is_quiet(self) -> bool:
        """Whether it only tells what wakes nobody."""
        for message in self.messages:
            if message.sender is None or not message.sender.is_quiet:
                return False
        return bool(self.messages)


_IDS = (
    "agent_id",
    "thread_id",
    "parent_run_id",
    "parent_thread_id",
    "parent_tool_call_id",
    "continue_run_id",
    "run_id_hint",
    "dispatch_id_hint",
    "dispatch_id",
    "session_id",
    "transport_request_id",
    "tenant_id",
    "user_id",
)
_ids_of = attrgetter(*_IDS)
_OWN_IDS = (
    "thread_id",
    "run_id_hint",
    "continue_run_id",
    "dispatch_id_hint",
    "parent_thread_id",
    "parent_run_id",
)
"""What clients may choose, and others in their place as well."""


def used_run_id(run_id: str) -> InvalidResume:
    """The refusal of a run id that another run has, or input that is queued for one."""
    return InvalidResume(run_id=run_id, problem="a run with this id exists")


class RunResult(Record, frozen=True, kw_only=True):
    """What a caller gets back: how the run stands after it ended or began to wait."""

    run_id: str
    thread_id: str
    agent_id: str
    status: RunStatus
    text: str = ""
    """The last answer of the run."""
    termination: Termination | None = None
    steps: int = 0
    usage: TokenUsage = TokenUsage()
    tickets: tuple[Ticket, ...] = ()
    """What a waiting run waits for."""
    output: Any = None
    """The answer decoded into the agent's output type."""

    @property
    def is_waiting(self) -> bool:
        """Whether the run has to hear something from outside to go on."""
        return self.status is RunStatus.WAITING

    @property
    def awaits_tasks(self) -> bool:
        """Whether it waits for nobody but its own background tasks."""
        return self.is_waiting and not isinstance(self.termination, Suspended)


class DecisionReceipt(Record, frozen=True, kw_only=True):
    """A decision that was taken; the same decision again gives the same receipt."""

    ticket_id: str
    run_id: str
    thread_id: str
    decision_id: str


class AmbiguousId(UsageError):
    """An id is that of a run and that of a thread on which another run executes."""

    code = "ambiguous_id"
    template = (
        "'{given}' is a run on thread '{thread_id}', and a thread with another run, '{run_id}'; "
        "name thread '{thread_id}' to mean the first, or run '{run_id}' to mean the second."
    )
    given: str
    thread_id: str
    run_id: str


class SteerReceipt(Record, frozen=True, kw_only=True):
    """Whether a running run took messages in, and under which ids they will appear."""

    is_accepted: bool
    run_id: str | None = None
    message_ids: tuple[str, ...] = ()
