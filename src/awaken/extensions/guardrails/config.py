"""The section `guardrails` of an agent."""

from enum import StrEnum

from awaken.contracts.record import StrictRecord

SECTION = "guardrails"


class Place(StrEnum):
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
    on: tuple[Place, ...]
    action: Action = Action.REDACT
    detect: tuple[str, ...] = ()
    """Kinds of `awaken.redaction` (`secrets`, `pii`, `pii.email`, …) or checks of the plugin."""
    pattern: str | None = None
    """An RE2 expression of its own."""


class GuardrailsConfig(StrictRecord, frozen=True, kw_only=True):
    """What is checked, in this order."""

    rules: tuple[GuardRule, ...] = (
        GuardRule(
            name="secrets",
            on=(Place.INPUT, Place.OUTPUT, Place.TOOL_RESULTS),
            detect=("secrets",),
        ),
    )
