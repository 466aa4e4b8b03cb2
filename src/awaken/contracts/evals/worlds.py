"""What a run is given instead of reality: answers of models, results of tools, decisions."""

from enum import StrEnum
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidValue
from awaken.contracts.models.inference import InferenceOverride, TokenUsage
from awaken.contracts.record import Record, StrictRecord
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.suspension.tickets import DecisionAction

from .ids import check_eval_id


class ModelSource(StrEnum):
    """Who answers the requests of a run."""

    LIVE = "live"
    RECORDED = "recorded"
    """The recording's answers, by position; a request whose digest differs is a divergence."""
    SCRIPTED = "scripted"


class ToolSource(StrEnum):
    """Who answers the tool calls of a run."""

    RECORDED = "recorded"
    """Stubs first, then the recording; what has no answer follows `on_miss`."""
    LIVE = "live"
    """The real tools; those with effects need `allow_effects`."""
    SIMULATED = "simulated"
    """A model that knows the schema and recorded examples; never part of a gate."""


class OnMiss(StrEnum):
    """What happens to a call that has no recorded answer and no stub."""

    DIVERGE = "diverge"
    """The run ends as diverged."""
    LIVE_NONE = "live_none"
    """The real tool is executed if its effect is `none`; otherwise the run ends as diverged."""
    SIMULATE = "simulate"
    ERROR = "error"
    """The model reads that the tool failed."""


class OnQuestion(StrEnum):
    """What happens to a question that nothing decides."""

    STOP = "stop"
    APPROVE = "approve"
    DENY = "deny"


class CallMatch(StrEnum):
    """Which recorded call answers: each call is used once."""

    ARGS = "args"
    """The first unused call of the same tool with equal arguments."""
    ORDINAL = "ordinal"
    """The call at the same place of the run, if its tool is the same."""
    NAME = "name"
    """The first unused call of the same tool."""


class ToolStub(StrictRecord, frozen=True, kw_only=True):
    """An answer of a tool that a case states."""

    when: Any = None
    """A subset of the arguments; absent: any arguments."""
    result: Any = msgspec.UNSET
    error: str | None = None
    times: int | None = None
    """How often it answers; absent: always."""


class ToolPolicy(StrictRecord, frozen=True, kw_only=True):
    """How tool calls are answered."""

    source: ToolSource = ToolSource.RECORDED
    stubs: dict[str, tuple[ToolStub, ...]] = {}
    match: CallMatch = CallMatch.ARGS
    ignore: tuple[str, ...] = ()
    """Paths in arguments that do not count when calls are compared, such as `/requested_at`."""
    on_miss: OnMiss = OnMiss.DIVERGE
    allow_live: tuple[str, ...] = ()
    """Tools, as ids or globs, whose real code may run; with effects only if `allow_effects`."""
    allow_effects: bool = False
    """Whether tools with effects may be executed; needs the scope `invoke` and is audited."""
    delegates: str = "recorded"
    """`recorded`: one result for each; `replay`: the child replays its own recording."""

    def __post_init__(self) -> None:
        if self.delegates not in ("recorded", "replay"):
            raise InvalidValue(what="delegates", problem="it is 'recorded' or 'replay'")

    @property
    def is_simulated(self) -> bool:
        """Whether a model may invent the result of a call: then no gate can pass on it."""
        return self.source is ToolSource.SIMULATED or self.on_miss is OnMiss.SIMULATE

    @property
    def sources(self) -> frozenset[ToolSource]:
        """All who may answer a call: `allow_live` and `on_miss` let others answer some calls."""
        found = {self.source}
        if self.allow_live or self.on_miss is OnMiss.LIVE_NONE:
            found.add(ToolSource.LIVE)
        if self.is_simulated:
            found.add(ToolSource.SIMULATED)
        return frozenset(found)


class ScriptedCall(StrictRecord, frozen=True, kw_only=True):
    """A tool call of a scripted answer."""

    name: str
    arguments: Any = {}
    id: str | None = None


class ScriptedTurn(StrictRecord, frozen=True, kw_only=True):
    """One scripted answer of the model: a text, calls, or an error."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    usage: TokenUsage | None = None
    stop: str | None = None
    error: str | None = None
    """The type of the provider's error, such as `rate_limited`; the text is its message."""
    retry_after_ms: int | None = None
    """How long the provider of the error asks to wait; the wait takes no time."""


class PlannedDecision(StrictRecord, frozen=True, kw_only=True):
    """A decision on questions of a tool."""

    tool: str
    action: DecisionAction = DecisionAction.RESUME
    result: Any = None
    when: Any = None
    """A subset of the call's arguments; absent: any."""


class SimulatedUser(StrictRecord, frozen=True, kw_only=True):
    """A person whom a model plays, instead of further turns."""

    goal: str
    persona: str = ""
    facts: tuple[str, ...] = ()
    model_id: str | None = None
    max_turns: int = 8
    stop: str = "DONE"
    """What the model says when the goal is reached or given up."""


class Variant(StrictRecord, frozen=True, kw_only=True):
    """What is tried: an agent, with changes."""

    name: str
    agent_id: str | None = None
    """Absent: the agent of the case's recording, else the default agent."""
    publication: int | None = None
    draft_id: str | None = None
    model_id: str | None = None
    instructions: str | None = None
    """Instead of the agent's own."""
    tool_descriptions: dict[str, str] = {}
    changes: dict[str, Any] = {}
    """Fields of the agent's spec to replace."""
    overrides: InferenceOverride | None = None

    def __post_init__(self) -> None:
        check_eval_id("variant", self.name)


class World(Record, frozen=True, kw_only=True):
    """What a run is given instead of reality.

    It keeps no position: how far scripts and recorded calls are used follows from the transcript
    and the tool journal of the run, so that another process can take the run over.
    """

    models: ModelSource = ModelSource.LIVE
    recording: str | None = None
    """The hash of the recording object that answers."""
    script: tuple[ScriptedTurn, ...] = ()
    tools: ToolPolicy = ToolPolicy()
    decisions: tuple[PlannedDecision, ...] = ()
    """Asked before the decisions of the recording."""
    on_question: OnQuestion = OnQuestion.STOP
    from_step: int = 1
    """The first step that is not taken from the recording as it is."""
    agent: AgentSpec | None = None
    """An agent that exists in this world only, or is another one here."""
    variant: Variant | None = None
    """What is tried: one agent with changes."""
    seed: int = 0
    keep_going: bool = False
    """Whether a divergence is noted and the run goes on with the recorded answers."""


class DivergenceKind(StrEnum):
    """Where a replay parts from its recording."""

    REQUEST = "request"
    ANSWER = "answer"
    CALL = "call"
    RESULT = "result"
    DECISION = "decision"
    STATE = "state"
    END = "end"


class ReplayDivergence(Record, frozen=True, kw_only=True):
    """One difference between a recording and the run that replays it."""

    step: int
    kind: DivergenceKind
    path: str = ""
    """A JSON pointer into what differs, such as `/calls/1/arguments/amount`."""
    recorded: Any = None
    replayed: Any = None
