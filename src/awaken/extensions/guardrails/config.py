"""The section `guardrails` of an agent."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.record import Record, StrictRecord

if TYPE_CHECKING:
    from awaken.authoring.typed_delegates import NamedAgent

SECTION = "guardrails"
MAX_CHARS = 10_000
MAX_JUDGE_MS = 300_000


class CheckPlace(StrEnum):
    """Which texts a rule checks."""

    INPUT = "input"
    """Messages of users, other agents and tasks."""
    OUTPUT = "output"
    """Answers of the model."""
    TOOL_ARGUMENTS = "tool_arguments"
    TOOL_RESULTS = "tool_results"


class Action(StrEnum):
    """What follows from a finding."""

    BLOCK = "block"
    """The text is not stored, sent or shown, and the run ends; a tool call fails."""
    REDACT = "redact"
    """The found part is replaced."""
    ASK = "ask"
    """The run waits until a person has reviewed it."""


class OnJudgeFailure(StrEnum):
    """What happens to a text that an agent should have judged and did not."""

    BLOCK = "block"
    """As if the agent had objected."""
    PASS = "pass"
    """As if there were no such rule."""


class GuardVerdict(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent says about a text that it judges: its `output_type`."""

    passes: bool
    reason: str = ""
    """Why it does not pass; whoever reviews the text reads it, and the caller of a blocked run."""


class GuardRule(StrictRecord, frozen=True, kw_only=True, gc=True, dict=True):
    """One check and what follows from it.

    Raises:
        InvalidSpec: `agent` is neither an agent nor an id.
    """

    name: str
    on: tuple[CheckPlace, ...]
    action: Action = Action.REDACT
    detect: tuple[str, ...] = ()
    """Kinds of `awaken.redaction` (`secrets`, `pii`, `pii.email`, …) or checks of the plugin."""
    pattern: str | None = None
    """An RE2 expression."""
    max_chars: Annotated[int, msgspec.Meta(ge=1, le=MAX_CHARS)] | None = None
    """The maximum length of a match of the pattern; without it, answers are not streamed."""
    if TYPE_CHECKING:
        agent: "str | NamedAgent | None" = None
    else:
        # What is stored, sent and read from files: an agent that is given becomes its id.
        agent: str | None = None
    """An agent, or its id, that judges every text, instead of `detect` and `pattern`.

    See `GuardVerdict`. An agent given here is registered with the one that has the rule.
    """
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=MAX_JUDGE_MS)] = 30_000
    """How long the agent may take."""
    on_failure: OnJudgeFailure = OnJudgeFailure.BLOCK
    """What happens to the text if the agent gives no verdict."""

    def __post_init__(self) -> None:
        agent: Any = self.agent
        if agent is None or isinstance(agent, str):
            return
        agent_id = getattr(getattr(agent, "spec", None), "id", None)
        if not isinstance(agent_id, str):
            problem = f"{agent!r} is no agent; pass an Agent, or its id"
            raise InvalidSpec(what=f"GuardRule '{self.name}'", problem=problem)
        msgspec.structs.force_setattr(self, "agent", agent_id)
        # Not a field: only code can give an agent.
        self.__dict__["_given"] = agent

    @property
    def judge_id(self) -> str | None:
        """The id of the agent that judges."""
        agent: Any = self.agent
        return agent  # type: ignore[no-any-return]

    @property
    def named_agents(self) -> "tuple[NamedAgent, ...]":
        """The agent that it was given as an object."""
        return (self.__dict__["_given"],) if "_given" in self.__dict__ else ()


class GuardrailsConfig(StrictRecord, frozen=True, kw_only=True):
    """The rules, in the order in which they are applied."""

    section: ClassVar[str] = SECTION

    rules: tuple[GuardRule, ...] = (
        GuardRule(
            name="secrets",
            on=(CheckPlace.INPUT, CheckPlace.OUTPUT, CheckPlace.TOOL_RESULTS),
            detect=("secrets",),
        ),
    )

    @property
    def named_agents(self) -> "tuple[NamedAgent, ...]":
        """The agents that rules were given as objects."""
        return tuple(agent for rule in self.rules for agent in rule.named_agents)
