"""The section `guardrails` of an agent."""

from enum import StrEnum
from typing import Annotated

import msgspec

from awaken.contracts.record import StrictRecord

SECTION = "guardrails"
MAX_CHARS = 10_000


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


class GuardrailsConfig(StrictRecord, frozen=True, kw_only=True):
    """The rules, in the order in which they are applied."""

    rules: tuple[GuardRule, ...] = (
        GuardRule(
            name="secrets",
            on=(CheckPlace.INPUT, CheckPlace.OUTPUT, CheckPlace.TOOL_RESULTS),
            detect=("secrets",),
        ),
    )
