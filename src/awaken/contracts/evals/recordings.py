"""What one run did, as a portable document that is made from its log."""

from typing import Any

from awaken.contracts.lifecycle import Termination
from awaken.contracts.messages.message import Message
from awaken.contracts.models.budgets import Budget
from awaken.contracts.models.inference import InferenceOverride, TokenUsage
from awaken.contracts.models.model_specs import ModelSpec
from awaken.contracts.record import Record, always
from awaken.contracts.runs.records import RunKind
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.suspension.tickets import SuspendTicket, ToolCallOutcome, ToolCallResume
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import ToolDescriptor, ToolEffect

FORMAT = "recording/1"
BYTES_MAX = 32 * 1024 * 1024
"""The largest recording that is made or read."""


class RecordedDecision(Record, frozen=True, kw_only=True):
    """A question that a call asked, and the decision on it; no decision: it was never answered."""

    question: SuspendTicket
    decision: ToolCallResume | None = None
    activation: int = 1
    """In which activation of the run it took effect, 1-based: decisions with the same number came
    together."""


class RecordedCall(Record, frozen=True, kw_only=True):
    """One tool call of a step, with its final result."""

    id: str
    tool: str
    arguments: Any = None
    effect: ToolEffect = ToolEffect.NONE
    result: ToolResult
    outcome: ToolCallOutcome
    updates: tuple[tuple[str, str, Any], ...] = ()
    """What its tool did to the state, as the tool journal keeps it: (key, verb, JSON)."""
    decisions: tuple[RecordedDecision, ...] = ()
    """What it asked before its result, in order."""
    ms: int = 0
    attempts: int = 1
    digest: str | None = None
    """The digest of the result and the updates that the run had; None: the recording has none."""
    has_run: bool = False
    """Whether its tool was executed; otherwise a gate, a check or a decision answered it."""


class RecordedStep(Record, frozen=True, kw_only=True):
    """One model turn, what was called in it, and what reached the run before it."""

    n: int
    """1-based."""
    digest: str | None = None
    """The digest of the request, as the log has it; None if the log has none."""
    inputs: tuple[Message, ...] = ()
    """Steering and news of tasks that entered the transcript before this step's request."""
    resumed_as: str | None = None
    """The agent that the run went on with, if it waited before this step."""
    answer: Message | None = None
    """None if the run ended before any of it."""
    is_cut: bool = False
    """Whether the run ended before the answer was whole."""
    model: str = ""
    usage: TokenUsage | None = None
    """None if the provider did not report it: missing, not zero."""
    at: int = 0
    """When its inference began, in milliseconds; 0 if the log does not say."""
    ms: int = 0
    first_token_ms: int | None = None
    attempts: int = 1
    calls: tuple[RecordedCall, ...] = ()
    children: "tuple[Recording, ...]" = ()
    """Runs of delegates and background tasks that calls of this step started."""
    state: dict[str, StoredValue | None] = {}
    """The thread's and the run's values that changed up to the end of the step."""


class RecordedRun(Record, frozen=True, kw_only=True):
    """How the run began and ended."""

    run_id: str
    thread_id: str
    agent_id: str
    active_agent_id: str | None = None
    parent_call_id: str | None = None
    """The call of the parent that started it."""
    kind: RunKind = RunKind.CHAT
    is_workflow: bool = False
    termination: Termination | None = None
    """None of a run that waits."""
    final_output: str | None = None
    usage: TokenUsage = TokenUsage()
    cost_usd: float | None = None
    """None if a model of the run has no price."""
    context: dict[str, Any] | None = None
    overrides: InferenceOverride | None = None
    tool_choice: str | None = None
    frontend_tools: tuple[ToolDescriptor, ...] = ()
    """Tools that its client brought and executed."""
    session_tools: tuple[ToolDescriptor, ...] = ()
    output_schema: dict[str, Any] | None = None
    budgets: tuple[Budget, ...] = ()
    """Limits that its request brought."""
    is_open: bool = False
    """Whether it had not ended when it was recorded."""
    waits_for: str | None = None
    """What it waits for, if it has not ended."""
    created_at: int = 0
    duration_ms: int | None = None
    tenant_id: str | None = None
    user_id: str | None = None
    begun_by: tuple[str | None, ...] = ()
    """The user whom a workflow's code sees, if it acts for another one since."""


class RecordedConfig(Record, frozen=True, kw_only=True):
    """What the run was configured with."""

    awaken: str
    """The version that made the recording."""
    publication: int | None = None
    agents: dict[str, AgentSpec] = {}
    """The agents that spoke in the run, by id."""
    instructions: dict[str, str] = {}
    """The instructions that were made for this run, by agent."""
    models: tuple[ModelSpec, ...] = ()
    tools: tuple[ToolDescriptor, ...] = ()
    tools_of: dict[str, tuple[str, ...]] = {}
    """The ids of the tools that each agent had."""


class RecordedState(Record, frozen=True, kw_only=True):
    """The values of state before the run's first step."""

    thread: dict[str, StoredValue] = {}
    run: dict[str, StoredValue] = {}


class Recording(Record, frozen=True, kw_only=True):
    """What one run did: enough to have it again without a network and without its tools."""

    format: str = always(FORMAT)
    run: RecordedRun
    config: RecordedConfig
    history: tuple[Message, ...] = ()
    """The thread before the run's input."""
    input: tuple[Message, ...] = ()
    state: RecordedState = RecordedState()
    steps: tuple[RecordedStep, ...] = ()
    journal: tuple[dict[str, Any], ...] = ()
    """The journal of a workflow's run, entry by entry, as the store keeps it."""
    journal_digests: tuple[str, ...] = ()
    """The digests of these entries; empty: the recording has none."""
    redacted: tuple[str, ...] = ()
    """The names of the detectors that replaced something."""
    incomplete: tuple[str, ...] = ()
    """What is missing, such as `log purged before step 3`; empty: nothing."""
