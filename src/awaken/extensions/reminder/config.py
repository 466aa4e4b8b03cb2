"""What an agent is reminded of: its section `reminder`."""

from typing import Annotated, Literal

from msgspec import Meta

from awaken.contracts.messages.context_messages import ContextTarget
from awaken.contracts.record import StrictRecord

SECTION = "reminder"
Words = Annotated[str, Meta(min_length=1)]


class FieldMatch(StrictRecord, frozen=True, kw_only=True):
    """What one value of a result has to be; the path is that of a condition in a tool pattern."""

    path: Words
    op: Literal["glob", "exact", "regex", "not_glob", "not_exact", "not_regex"] = "glob"
    value: str


class FieldsMatch(StrictRecord, frozen=True, kw_only=True):
    """What several values of a result have to be, all of them."""

    fields: Annotated[tuple[FieldMatch, ...], Meta(min_length=1)]


class OutputMatch(StrictRecord, frozen=True, kw_only=True):
    """Which results are meant."""

    status: Literal["success", "error", "any"] = "any"
    content: str | FieldsMatch | None = None
    """A glob for the whole text, or the values of single fields."""


class ReminderMessage(StrictRecord, frozen=True, kw_only=True):
    """What is said, where, and how seldom."""

    content: Words
    target: ContextTarget = ContextTarget.SUFFIX_SYSTEM
    cooldown_turns: Annotated[int, Meta(ge=0)] = 0
    """Steps during which it is not said again."""


class ReminderRule(StrictRecord, frozen=True, kw_only=True):
    """Words that follow the results of certain calls."""

    tool: Words
    """A tool pattern: which calls."""
    message: ReminderMessage
    output: Literal["any"] | OutputMatch = "any"
    name: Words | None = None
    """Unique in the agent; without one the rule is called by its place and its tool."""


class ReminderConfig(StrictRecord, frozen=True, kw_only=True):
    """The rules, each asked by itself."""

    rules: tuple[ReminderRule, ...] = ()
