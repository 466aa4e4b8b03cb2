"""The section `guardrails` of an agent."""

from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from awaken.contracts.record import Record, StrictRecord

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
    """Why it does not pass; people who review the text read it."""


class GuardRule(StrictRecord, frozen=True, kw_only=True):
    """One check and what follows from it."""

    name: str
    on: tuple[CheckPlace, ...]
    action: Action = Action.REDACT
    detect: tuple[str, ...] = ()
    """Kinds of `awaken.redaction` (`secrets`, `pii`, `pii.email`, …) or checks of the plugin."""
    pattern: str | None = None
    """An RE2 expression."""
    max_chars: Annotated[int, msgspec.Meta(ge=1, le=MAX_CHARS)] | None = None
    """The maximum length of a match of the pattern; without it, answers are not streamed."""
    agent: str | None = None
    """An agent that judges every text, instead of `detect` and `pattern`; see `GuardVerdict`."""
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=MAX_JUDGE_MS)] = 30_000
    """How long the agent may take."""
    on_failure: OnJudgeFailure = OnJudgeFailure.BLOCK
    """What happens to the text if the agent gives no verdict."""


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
