"""The section `guardrails` of an agent."""

from enum import StrEnum
from typing import Annotated

import msgspec

from awaken.contracts.record import StrictRecord

SECTION = "guardrails"
MAX_CHARS = 10_000


class CheckPlace(StrEnum):
    """Which texts a rule looks at."""

    INPUT = "input"
    """What users, other agents and tasks say."""
    OUTPUT = "output"
    """What the model says."""
    TOOL_ARGUMENTS = "tool_arguments"
    TOOL_RESULTS = "tool_results"


class Action(StrEnum):
    """What is done when something is found."""

    BLOCK = "block"
    """It is not kept, not sent and not shown, and the run ends; of a tool, the call fails."""
    REDACT = "redact"
    """It is replaced where it stands."""
    ASK = "ask"
    """The run waits until somebody has looked at it."""


class GuardRule(StrictRecord, frozen=True, kw_only=True):
    """One check and what follows from it."""

    name: str
    on: tuple[CheckPlace, ...]
    action: Action = Action.REDACT
    detect: tuple[str, ...] = ()
    """Kinds of `awaken.redaction` (`secrets`, `pii`, `pii.email`, …) or checks of the plugin."""
    pattern: str | None = None
    """An RE2 expression of its own."""
    max_chars: Annotated[int, msgspec.Meta(ge=1, le=MAX_CHARS)] | None = None
    """How long what the pattern finds is at most; without it, answers are shown when whole."""


class GuardrailsConfig(StrictRecord, frozen=True, kw_only=True):
    """What is checked, in this order."""

    rules: tuple[GuardRule, ...] = (
        GuardRule(
            name="secrets",
            on=(CheckPlace.INPUT, CheckPlace.OUTPUT, CheckPlace.TOOL_RESULTS),
            detect=("secrets",),
        ),
    )
