"""The replies of the native API: records without internal fields."""

from typing import Any, Generic, TypeVar

import msgspec

from awaken.contracts.identity import Adapter, RunMode, RunOrigin
from awaken.contracts.lifecycle import RunStatus, Termination, TicketStatus, reason_text
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.record import Record, always
from awaken.contracts.runs.records import ForkedAt, RunKind, RunRecord, Waiting
from awaken.contracts.runs.threads import ForkPoint, Thread
from awaken.contracts.storage.dispatch import DispatchStatus, InputMode, RunDispatch
from awaken.contracts.suspension.permissions import Remember
from awaken.contracts.suspension.tickets import (
    Asks,
    DecisionAction,
    ResumeMode,
    Suspension,
    Ticket,
    ToolCallResume,
)
from awaken.runtime.resolution.resolver import ResolvedAgent

T = TypeVar("T")


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """A reply that includes all fields, also empty ones."""


class MetadataView(Record, frozen=True, kw_only=True):
    """The title and custom fields of a thread; times in milliseconds."""

    created_at: int | None = None
    updated_at: int | None = None
    title: str | None = None
    custom: dict[str, Any]


class NativeThreadView(Record, frozen=True, kw_only=True):
    """A conversation, with its executing run, its unfinished run and its latest run."""

    id: str
    resource_id: str | None = None
    parent_thread_id: str | None = None
    forked_from: ForkPoint | None = None
    metadata: MetadataView
    active_run_id: str | None = None
    open_run_id: str | None = None
    latest_run_id: str | None = None


class ThreadSummary(Whole, frozen=True, kw_only=True):
    """One entry in a list of conversations."""

    id: str
    resource_id: str | None
    parent_thread_id: str | None
    title: str | None
    updated_at: int | None
    agent_id: str | None


class ThreadMatches(Whole, frozen=True, kw_only=True):
    """The threads that a search found."""

    items: tuple[ThreadSummary, ...]
    looked_at: int
    """How many threads it looked at: those that changed last, 1,000 at most."""
    is_complete: bool
    """Whether no other thread fits."""


class RunView(Record, frozen=True, kw_only=True):
    """A run; times in milliseconds."""

    run_id: str
    thread_id: str
    agent_id: str
    active_agent_id: str | None = None
    parent_run_id: str | None = None
    parent_thread_id: str | None = None
    parent_tool_call_id: str | None = None
    origin: RunOrigin
    run_mode: RunMode
    adapter: Adapter
    dispatch_id: str | None = None
    session_id: str | None = None
    transport_request_id: str | None = None
    kind: RunKind
    """What the run is for."""
    is_workflow: bool = False
    """Whether it executes the steps of a workflow, and so has a journal."""
    publication: int | None = None
    """The publication of the configuration that it runs on."""
    forked_from: ForkedAt | None = None
    """The place in another run from which it went on."""
    status: RunStatus
    waiting: Waiting | None = None
    termination: Termination | None = None
    termination_reason: str | None = None
    final_output: str | None = None
    continued_as: str | None = None
    """The fresh run that a workflow continues as."""
    steps: int
    input_tokens: int = always(0)
    output_tokens: int = always(0)
    usage: TokenUsage
    created_at: int
    started_at: int | None = None
    finished_at: int | None = None
    duration_ms: int | None = None
    """From its start to its end, with its waits; absent before its end."""
    context: dict[str, Any] | None = None
    """The context that it was given; lists leave it out."""
    updated_at: int


class DispatchView(Record, frozen=True, kw_only=True):
    """One delivery of input; times in milliseconds."""

    dispatch_id: str
    thread_id: str
    run_id: str
    taken_by: str | None = None
    mode: InputMode
    priority: int
    dedupe_key: str | None = None
    dispatch_epoch: int
    status: str
    """`Queued`, `Claimed`, `Acked`, `Cancelled`, `Superseded` or `DeadLetter`."""
    available_at: int
    attempt_count: int
    max_attempts: int
    last_error: str | None = None
    claimed_by: str | None = None
    lease_until: int | None = None
    completed_at: int | None = None
    created_at: int
    updated_at: int


class DecisionView(Record, frozen=True, kw_only=True):
    """A decision that was taken: by whom, when and what."""

    decision_id: str
    action: DecisionAction
    payload: Any = always(None)
    """A yes or no if the ticket asked for permission, else the tool's result or the answer."""
    reason: str | None = None
    arguments: Any = None
    """Edited arguments; absent if the call keeps its own."""
    decided_by: str | None = None
    decided_at: int
    remember: Remember | None = None
    """Whether it holds for later calls as well."""


class TicketView(Record, frozen=True, kw_only=True):
    """A suspended call that waits for a decision, or did."""

    ticket_id: str
    thread_id: str
    run_id: str
    tool_call_id: str
    tool_name: str
    arguments: Any = always(None)
    resume_mode: ResumeMode
    suspension: Suspension
    asks: Asks
    """Whether the ticket wants a yes or no, an answer, or either."""
    arguments_hash: str
    """May be sent with the decision, which is refused if the ticket has other arguments."""
    status: TicketStatus
    decision: DecisionView | None = None
    closed_because: str | None = None
    """Why it was closed without a decision."""
    expires_at: int | None = None
    on_expiry: DecisionAction
    deciders: tuple[str, ...] | None = None
    """The users who may decide; absent: every user with the right to decide."""
    asked_by: str = ""
    """The plugin whose gate asks; absent if the tool itself asks."""
    created_at: int
    updated_at: int


class AgentView(Whole, frozen=True, kw_only=True):
    """An agent that can be run."""

    id: str
    description: str
    model: str
    tools: tuple[str, ...]
    context_schema: dict[str, Any] | None = None
    """The JSON Schema of the context that its runs are given; absent: any object."""
    is_workflow: bool = False
    """Whether it is a function of steps instead of a model's agent."""
    input_schema: dict[str, Any] | None = None
    """The JSON Schema of a workflow's arguments, which are the text of the message as JSON."""


class ModelChoice(Whole, frozen=True, kw_only=True):
    """A model that may answer for an agent."""

    id: str
    upstream_model: str
    """Its name at the provider."""
    is_own: bool
    """Whether the agent has it anyway."""


class ModelChoices(Whole, frozen=True, kw_only=True):
    """The agent's own model or pool, and the models that a run may take in its place."""

    model: str
    items: tuple[ModelChoice, ...]


class Listed(Whole, Generic[T], frozen=True, kw_only=True):
    """A page of a list, the same for every list; the cursor is for the next page.

    A log grows: its `next_cursor` is where to continue, also when there is nothing more yet.
    """

    items: tuple[T, ...]
    has_more: bool = False
    next_cursor: str | None = None
    total: int | msgspec.UnsetType = msgspec.UNSET
    """How many there are on all pages; only when the query asks with `total=true`."""


class AgentList(Listed[AgentView], frozen=True, kw_only=True):
    """A page of the agents; the namespace and the place are as in Awaken for Rust."""

    namespace: str = "agents"
    offset: int = 0
    limit: int = 0


class ActiveRunView(Whole, frozen=True, kw_only=True):
    """The run of a thread that executes or waits."""

    active_run: RunView | None


class Accepted(Record, frozen=True, kw_only=True):
    """The request is durable; names what it is about."""

    status: str
    thread_id: str | None = None
    run_id: str | None = None
    dispatch_id: str | None = None
    ticket_id: str | None = None
    decision_id: str | None = None
    superseded_dispatches: int | None = None


class Queued(Whole, frozen=True, kw_only=True):
    """Input that is queued for a run of its own."""

    dispatch_id: str
    run_id: str
    thread_id: str


def thread_view(thread: Thread) -> NativeThreadView:
    """Convert a thread to its view."""
    return msgspec.convert(thread, NativeThreadView, from_attributes=True)


def run_view(run: RunRecord, *, is_whole: bool = False) -> RunView:
    """Convert a run to its view; what is wrong with its agent is for whom may see the whole."""
    if run.waiting is not None and run.waiting.problem is not None and not is_whole:
        waiting = msgspec.structs.replace(run.waiting, problem=None)
        run = msgspec.structs.replace(run, waiting=waiting)
    return msgspec.structs.replace(
        msgspec.convert(run, RunView, from_attributes=True),
        termination_reason=None if run.termination is None else reason_text(run.termination),
        input_tokens=run.usage.prompt_tokens or 0,
        output_tokens=run.usage.completion_tokens or 0,
        context=None,
    )


def dispatch_view(dispatch: RunDispatch) -> DispatchView:
    """Convert a delivery to its view; the token of its claim is a secret of the worker."""
    view = msgspec.convert(dispatch, DispatchView, from_attributes=True)
    return msgspec.structs.replace(view, status=status_name(dispatch.status))


def status_name(status: DispatchStatus) -> str:
    """The wire form of a delivery's status, such as `DeadLetter`."""
    return status.title().replace("_", "")


def ticket_view(ticket: Ticket) -> TicketView:
    """Convert a ticket to its view."""
    fields = {name: getattr(ticket, name) for name in _TICKET_FIELDS}
    shown = {
        "asks": ticket.question_kind,
        "arguments_hash": ticket.call_hash,
        "decision": None if ticket.decision is None else _decision_view(ticket.decision),
    }
    return TicketView(tool_call_id=ticket.call_id, **fields | shown)


def _decision_view(decision: ToolCallResume) -> DecisionView:
    return DecisionView(
        decision_id=decision.decision_id,
        action=decision.action,
        payload=decision.result,
        reason=decision.reason,
        arguments=decision.arguments,
        decided_by=decision.decided_by,
        decided_at=decision.updated_at,
        remember=decision.remember,
    )


def agent_view(agent: ResolvedAgent) -> AgentView:
    """Convert an agent to its view, without its instructions."""
    spec, context = agent.spec, agent.context
    return AgentView(
        id=spec.id,
        description=spec.description,
        model=spec.model_id,
        tools=agent.tool_ids,
        context_schema=None if context is None else context.schema,
        is_workflow=agent.workflow is not None,
        input_schema=None if agent.workflow is None else agent.workflow.arguments.schema,
    )


_TICKET_FIELDS = tuple(
    name
    for name in TicketView.__struct_fields__
    if name not in ("tool_call_id", "asks", "arguments_hash", "decision")
)
