"""What an agent is reminded of: its section `reminder`."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from awaken.contracts.messages.context_messages import ContextTarget
from awaken.contracts.record import StrictRecord

SECTION = "reminder"
Words = Annotated[str, Meta(min_length=1)]


class FieldMatch(StrictRecord, frozen=True, kw_only=True):
    """A condition on one value of a result; the path has the syntax of a tool pattern."""

    path: Words
    op: Literal["glob", "exact", "regex", "not_glob", "not_exact", "not_regex"] = "glob"
    value: str


class FieldsMatch(StrictRecord, frozen=True, kw_only=True):
    """Conditions on several values of a result; all of them must hold."""

    fields: Annotated[tuple[FieldMatch, ...], Meta(min_length=1)]


class OutputMatch(StrictRecord, frozen=True, kw_only=True):
    """Which results a rule matches."""

    status: Literal["success", "error", "any"] = "any"
    content: str | FieldsMatch | None = None
    """A glob for the whole text, or conditions on single fields."""


class ReminderMessage(StrictRecord, frozen=True, kw_only=True):
    """The text, where it is placed, and how often."""

    content: Words
    target: ContextTarget = ContextTarget.SUFFIX_SYSTEM
    cooldown_turns: Annotated[int, Meta(ge=0)] = 0
    """Steps during which it is not repeated."""


class ReminderRule(StrictRecord, frozen=True, kw_only=True):
    """A text that follows the results of certain calls."""

    tool: Words
    """A tool pattern: which calls."""
    message: ReminderMessage
    output: Literal["any"] | OutputMatch = "any"
    name: Words | None = None
    """Unique in the agent; the default is made of the rule's position and its tool."""


class ReminderConfig(StrictRecord, frozen=True, kw_only=True):
    """The rules; each is checked independently."""

    section: ClassVar[str] = SECTION

    rules: tuple[ReminderRule, ...] = ()
