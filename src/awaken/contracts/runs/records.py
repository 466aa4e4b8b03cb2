"""Runs: one execution on a thread, as requested and as recorded."""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic

import msgspec

from awaken.contracts.backend_results import BackendRunStatus
from awaken.contracts.errors import InvalidResume
from awaken.contracts.identity import (
    PROVENANCE,
    RunIdentity,
    RunProvenance,
    normalize_id,
    read_provenance,
)
from awaken.contracts.lifecycle import NATURAL_END, RunStatus, Suspended, Termination, tag_of
from awaken.contracts.messages.message import Message
from awaken.contracts.models.budgets import Budget
from awaken.contracts.models.inference import InferenceOverride, TokenUsage
from awaken.contracts.record import OutputT, Record
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.suspension.permissions import ToolGrant
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume
from awaken.contracts.tasks import TaskInfo
from awaken.contracts.tenancy import (
    TENANT_MARK,
    add_namespace,
    namespace_in,
    namespace_of,
    remove_namespace,
)
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
    PINNED_CONFIG_UNUSABLE = "pinned_config_unusable"
    """No process can use its agent as its publication configures it: repin or cancel it."""
    WORKFLOW_DIVERGED = "workflow_diverged"
    """The code of its workflow no longer fits its journal: old code, repin, reset or cancel."""


class Divergence(Record, frozen=True, kw_only=True):
    """Where the code of a workflow differs from the journal of a run."""

    step: str
    """The path of the step."""
    recorded: str
    """What the journal has there."""
    found: str
    """What the code does there."""


class Waiting(Record, frozen=True, kw_only=True):
    """The structured waiting state, present only while the run waits."""

    reason: WaitingReason
    ticket_ids: tuple[str, ...] = ()
    since_dispatch_id: str | None = None
    """The dispatch that was delivered when the wait began; None if the turn was not queued."""
    message: str | None = None
    """The reason as a single word."""
    question: str | None = None
    """The question of the remote agent, in its own words."""
    problem: str | None = None
    """Why no process can use its agent; only of `pinned_config_unusable`."""
    before: WaitingReason | None = None
    """What it waited for before that; absent: it was executing."""
    diverged: Divergence | None = None
    """How its workflow's code differs from its journal; only of `workflow_diverged`."""

    @property
    def is_for_own_tasks(self) -> bool:
        """Whether the run waits only for its own background tasks, which wake it.

        Tasks of a remote agent and work that only plugins know of are not its own: the run needs a
        message to continue after them.
        """
        return self.reason is WaitingReason.BACKGROUND_TASKS and self.message is None


class RunKind(StrEnum):
    """What a run is for; lists show chats and tasks unless another kind is asked for."""

    CHAT = "chat"
    TASK = "task"
    PREVIEW = "preview"
    EVAL = "eval"
    REPLAY = "replay"
    DEMO = "demo"
    FOLLOW_UP = "follow_up"  # Work that plugins do after the run `parent_run_id` has ended.


LISTED_KINDS = (RunKind.CHAT, RunKind.TASK)
"""The kinds that lists show unless another one is asked for."""


class ForkedAt(Record, frozen=True, kw_only=True):
    """The place in another run from which a run goes on."""

    run_id: str
    step: int
    """The step that the run does itself, wholly or in part; 1-based."""
    results: int | None = None
    """How many results of the step's calls it has from there; absent: not even the answer."""


class RunInput(Record, frozen=True, kw_only=True):
    """The messages of the thread that are the run's input."""

    message_ids: tuple[str, ...] = ()
    from_seq: int | None = None
    to_seq: int | None = None


class RunRecord(RunProvenance, frozen=True, kw_only=True):
    """The durable record of a run. All times are milliseconds."""

    run_id: str
    thread_id: str
    agent_id: str
    status: RunStatus = RunStatus.CREATED
    active_agent_id: str | None = None
    lineage: tuple[str, ...] = ()
    """The agents of its parent runs, root first; a run without a parent has none."""
    task: TaskInfo | None = None
    """Present when the run is a background task of its parent's thread."""
    trace: TraceContext | None = None
    """The trace it belongs to: its caller's, or that of the parent's tool call."""
    publication: int | None = None
    """The publication of the configuration that it runs on; None without managed configuration."""
    purpose: RunKind = RunKind.CHAT
    """What it was started for; `kind` also tells tasks apart."""
    world: str | None = None
    """The hash of the world that answers in place of its models and tools; None: reality."""
    forked_from: ForkedAt | None = None
    """Where it was forked from another run."""
    overrides: InferenceOverride | None = None
    """The parameters that the request gave, so that the requests of the run can be built again."""
    tool_choice: str | None = None
    """The tool choice of the request."""
    context: dict[str, Any] | None = None
    """The context of the request, as JSON: what the caller claims, for the run's whole life."""
    instructions: dict[str, str] | None = None
    """The instructions that were made for this run, by the agent that they are for."""
    is_workflow: bool = False
    """Whether it executes a function of steps instead of asking a model."""
    begun_by: tuple[str | None, ...] = ()
    """The user that it was started for, once a message of another speaker was taken in."""
    input: RunInput = RunInput()
    waiting: Waiting | None = None
    termination: Termination | None = None
    backend_status: BackendRunStatus | None = None
    """The status that its remote backend reported when the run ended or began to wait."""
    final_output: str | None = None
    continued_as: str | None = None
    """The fresh run that a workflow continues as."""
    steps: int = 0
    """Its steps so far; for a remote run, the steps that the remote side counted."""
    usage: TokenUsage = TokenUsage()
    bookmark: StoredValue | None = None
    """The position within a step, in the runtime's own form, for the worker that takes over."""
    log_start: int = 0
    """The thread's latest event before the run began; the run's own events follow it."""
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
            **dict(zip(PROVENANCE, read_provenance(self), strict=True)),
        )

    @property
    def kind(self) -> RunKind:
        """What the run is for."""
        is_task = self.task is not None and self.purpose is RunKind.CHAT
        return RunKind.TASK if is_task else self.purpose

    @property
    def ended(self) -> str | None:
        """How it ended: the type of its termination; None before its end."""
        if self.status is not RunStatus.DONE:
            return None
        return NATURAL_END if self.termination is None else tag_of(self.termination)

    @property
    def duration_ms(self) -> int | None:
        """How long it took from its start to its end, waits included; None before its end."""
        if self.started_at is None or self.finished_at is None:
            return None
        return max(0, self.finished_at - self.started_at)

    @property
    def is_resumable_waiting(self) -> bool:
        """Whether a decision or a new message can continue the run."""
        return self.status is RunStatus.WAITING and self.waiting is not None

    @property
    def is_held(self) -> bool:
        """Whether it waits because no process can use its agent as it is configured."""
        waiting = self.waiting
        return waiting is not None and waiting.reason is WaitingReason.PINNED_CONFIG_UNUSABLE

    def hold(self, problem: str, now_ms: int) -> "RunRecord":
        """Return the run as it waits for another publication; `release_hold` undoes it."""
        before = None if self.waiting is None else self.waiting.reason
        reason = WaitingReason.PINNED_CONFIG_UNUSABLE
        waiting = self.waiting or Waiting(reason=reason)
        waiting = msgspec.structs.replace(waiting, reason=reason, problem=problem, before=before)
        return msgspec.structs.replace(
            self, status=RunStatus.WAITING, waiting=waiting, updated_at=now_ms
        )

    def release_hold(self) -> "RunRecord":
        """Return the run as it was before it was held: executing, or waiting for what it did."""
        waiting = self.waiting
        if waiting is None or not self.is_held:
            return self
        if waiting.before is None:
            return msgspec.structs.replace(self, status=RunStatus.RUNNING, waiting=None)
        waiting = msgspec.structs.replace(waiting, reason=waiting.before, problem=None, before=None)
        return msgspec.structs.replace(self, waiting=waiting)

    @property
    def awaits_tasks(self) -> bool:
        """Whether it waits only for its own background tasks, and continues by itself."""
        return self.waiting is not None and self.waiting.is_for_own_tasks

    @property
    def awaits_message(self) -> bool:
        """Whether it waits without a ticket, so that a message continues it."""
        has_tickets = self.waiting is not None and bool(self.waiting.ticket_ids)
        return self.is_resumable_waiting and not has_tickets and not self.awaits_tasks


class OnBusy(StrEnum):
    """What happens to a request whose thread has an executing run."""

    QUEUE = "queue"
    """It starts after the work that the thread already has."""
    INTERRUPT = "interrupt"
    """The executing run is cancelled, and queued input is dropped."""
    REJECT = "reject"
    """It is refused with `ThreadBusy`."""


class RunRequest(RunProvenance, frozen=True, kw_only=True):
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
    lineage: tuple[str, ...] = ()
    """The agents of its parent runs, root first."""
    task: TaskInfo | None = None
    """Makes the run a background task of its parent's thread."""
    continue_run_id: str | None = None
    run_id_hint: str | None = None
    dispatch_id_hint: str | None = None
    tenant_id: str | None = None
    """The tenant that pays and owns new threads; threads of other tenants are not found."""
    user_id: str | None = None
    """The user who asks; permissions of a user apply to that user's runs."""
    trace: TraceContext | None = None
    """The trace of the caller that the run belongs to."""
    budgets: tuple[Budget, ...] = ()
    """Limits besides those of the agent and the runtime."""
    budget_group: str | None = None
    """Whose ledger the budgets of scope `group` are kept in; clients cannot set it."""
    expected_messages: int | None = None
    """How many messages the thread must have; with another number the request is refused."""
    output_schema: dict[str, Any] | None = None
    """The JSON Schema that the answer must fit, instead of the agent's output type."""
    tool_choice: str | None = None
    """Which tool the first answer must call, or `required` for any, or `none`."""
    context: dict[str, Any] | None = None
    """The context of a new run, as JSON; a run that continues keeps the one that it has."""
    grant: ToolGrant | None = None
    """Calls that the starter of the run allows in it; clients cannot set it."""
    blocked: str | None = None
    """Why the run can only end: a screen blocked a part of the request."""
    wanted_tools: tuple[str, ...] = ()
    """Tools, as ids or globs, whose full descriptions the run needs from its start."""
    on_busy: OnBusy = OnBusy.QUEUE
    """What happens to it while another run of the thread executes."""
    publication: int | None = None
    """The publication that a new run takes; absent: the one that is live when it begins."""
    purpose: RunKind = RunKind.CHAT
    """What a new run is for; clients cannot set it."""
    world: str | None = None
    """The hash of the world that a new run is given instead of reality; clients cannot set it."""
    history: tuple[Message, ...] = ()
    """What a thread without messages begins with, answers included; clients cannot set it."""
    session_tools: tuple[ToolDescriptor, ...] = ()
    """Tools of the client's session; only the process that has the session open can run them."""

    def with_stored_ids(self) -> "RunRequest":
        """The request with its ids in stored form: in the namespace of its tenant or its thread."""
        if self.tenant_id is None and (self.thread_id or "")[:1] != TENANT_MARK:
            return self
        namespace = self._namespace()
        return self._rename(namespace, add_namespace) if namespace else self

    def with_trimmed_ids(self) -> "RunRequest":
        """The request with its optional ids trimmed; blank means absent. The thread's id stays."""
        values = zip(TRIMMED_IDS, read_trimmed_ids(self), strict=True)
        changes = {name: normalize_id(value) for name, value in values}
        return msgspec.structs.replace(self, **changes)

    def with_given_ids(self) -> "RunRequest":
        """The request with its ids as the tenant gives them, without the namespace."""
        namespace = self._namespace()
        return self._rename(namespace, remove_namespace) if namespace else self

    def identify(self, run_id: str, thread_id: str, agent_id: str) -> RunIdentity:
        """Return the identity of a new run that executes the request."""
        # Field by field: unpacking a mapping takes twice as long.
        return RunIdentity(
            thread_id=thread_id,
            run_id=run_id,
            agent_id=agent_id,
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

    def _namespace(self) -> str:
        namespace = "" if self.tenant_id is None else namespace_of(self.tenant_id)
        return namespace or ("" if self.thread_id is None else namespace_in(self.thread_id))

    def _rename(self, namespace: str, rename: Callable[[str, str], str]) -> "RunRequest":
        named = {name: value for name in _OWN_IDS if (value := getattr(self, name))}
        changes = {name: rename(namespace, value) for name, value in named.items()}
        return msgspec.structs.replace(self, **changes)

    @property
    def is_quiet(self) -> bool:
        """Whether all its messages are quiet: they wake no run."""
        for message in self.messages:
            if message.sender is None or not message.sender.is_quiet:
                return False
        return bool(self.messages)


TRIMMED_IDS = (
    "agent_id",
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
read_trimmed_ids = attrgetter(*TRIMMED_IDS)
"""Reads the ids that `with_trimmed_ids` trims."""
_OWN_IDS = (
    "thread_id",
    "run_id_hint",
    "continue_run_id",
    "dispatch_id_hint",
    "parent_thread_id",
    "parent_run_id",
)
"""The id fields that a client, or code acting for it, may choose."""


def context_in(meta: object) -> Any:
    """The context of a run in the `context` of a client's metadata; None if it has none.

    Admission checks whether it is a JSON object and fits the agent.
    """
    return meta.get("context") if isinstance(meta, Mapping) else None


def run_id_in_use(run_id: str) -> InvalidResume:
    """The error for a run id that another run or a queued dispatch already has."""
    return InvalidResume(run_id=run_id, problem="a run with this id exists")


class RunResult(Record, Generic[OutputT], frozen=True, kw_only=True):
    """The result for the caller: the state of the run after it ended or began to wait."""

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
    output: OutputT = None  # type: ignore[assignment]  # See the docstring.
    """The answer in the agent's output type; without one, its text.

    None, whatever its type says, unless the run ended by itself: a run that waits, was blocked,
    stopped or cancelled has no output.
    """
    continued_as: str | None = None
    """The fresh run that a workflow continues as: `ctx.continue_as_new` ended this one. That run
    has the output, this one has none."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Reached only for what a result does not have: the words of other frameworks.
            hint = {
                "data": "; write result.output",
                "final_output": "; write result.output",
                "interruptions": "; write result.tickets",
                "usage_metadata": "; write result.usage",
            }.get(name, "")
            if name in ("messages", "all_messages", "new_messages", "to_input_list"):
                hint = "; write await runtime.messages(result.thread_id), or pass the thread_id on"
            message = f"a RunResult has no '{name}'{hint}"
            raise AttributeError(message, name=name, obj=self)

    @property
    def is_waiting(self) -> bool:
        """Whether the run needs input from outside to continue."""
        return self.status is RunStatus.WAITING

    @property
    def awaits_tasks(self) -> bool:
        """Whether it waits only for its own background tasks."""
        return self.is_waiting and not isinstance(self.termination, Suspended)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON data, with every field, as a route of FastAPI sends it.

        Raises:
            TypeError: The output has no JSON form.
        """
        # Few programs send results on: this module is loaded by those that do.
        from .result_json import encode_fields  # noqa: PLC0415

        return encode_fields(self)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        # FastAPI asks for `dict(result)` where a route does not say what it returns.
        return iter(self.to_dict().items())

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        from .result_json import describe_for_pydantic  # noqa: PLC0415

        return describe_for_pydantic(cls)

    @property
    def __pydantic_serializer__(self) -> Any:
        from .result_json import build_serializer  # noqa: PLC0415

        return build_serializer(type(self))


class SteerReceipt(Record, frozen=True, kw_only=True):
    """Whether an executing run accepted messages, and the ids they will have."""

    is_accepted: bool
    run_id: str | None = None
    message_ids: tuple[str, ...] = ()
