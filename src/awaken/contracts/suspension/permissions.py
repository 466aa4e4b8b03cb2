"""What runs may do with tools: the words that permission, skills and decisions share."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidInput
from awaken.contracts.record import Record
from awaken.contracts.state.keys import MergeStrategy, StateKey


class ToolBehavior(StrEnum):
    """What happens to a call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class PermissionScope(StrEnum):
    """How far a permission reaches."""

    ONCE = "once"
    """The one call that was asked about."""
    RUN = "run"
    THREAD = "thread"
    PROJECT = "project"
    """Every run of the same tenant; without tenants, every run of the store."""
    USER = "user"
    """Every run of the same person."""


class Remember(Record, frozen=True, kw_only=True):
    """That a decision holds for later calls as well: a resume allows them, a cancel denies them."""

    scope: PermissionScope
    pattern: str | None = None
    """Which calls, as a tool pattern; absent: those that the same rule asks about."""


def remember_of(value: Any) -> Remember | None:
    """What a client says about later calls: a scope, or a scope and a pattern; absent: nothing.

    Raises:
        InvalidInput: It is neither.
    """
    if value is None or isinstance(value, Remember):
        return value
    given = {"scope": value} if isinstance(value, str) else value
    try:
        return msgspec.convert(given, Remember)
    except msgspec.ValidationError as error:
        scopes = ", ".join(PermissionScope)
        problem = f"say a scope ({scopes}), or {{'scope': …, 'pattern': …}}"
        raise InvalidInput(what="remember", problem=problem) from error


class ToolGrant(Record, frozen=True, kw_only=True):
    """Calls that something allows for the rest of the run, such as a skill for its own tools.

    A grant answers in the place of those who would be asked. It never undoes a denial.
    """

    source: str
    """What grants it, for example `skill:pdf`; a second grant of a source replaces its first."""
    patterns: tuple[str, ...]
    agent_id: str = ""
    """Whose calls it is about; a handoff does not pass it on. Blank: those of every agent."""

    def counts_for(self, agent_id: str) -> bool:
        """Whether it is about the calls of this agent."""
        return self.agent_id in ("", agent_id)


ASKING_TOOLS = frozenset({"guardrail_review"})
"""Tools that do nothing but ask a person: nobody has to be asked before."""

TOOL_GRANTS: StateKey[Mapping[str, ToolGrant], ToolGrant] = StateKey(
    "__runtime.tool_grants",
    default={},
    type=dict[str, ToolGrant],
    apply=lambda value, grant: {**value, grant.source: grant},
    update_type=ToolGrant,
    merge=MergeStrategy.COMMUTATIVE,
)
"""By source; read by whoever decides about calls."""

WANTED_TOOLS: StateKey[tuple[str, ...], tuple[str, ...]] = StateKey(
    "__runtime.wanted_tools",
    default=(),
    type=tuple[str, ...],
    apply=lambda value, more: (*value, *(it for it in dict.fromkeys(more) if it not in value)),
    merge=MergeStrategy.COMMUTATIVE,
)
"""Tools, as ids or globs, that the run needs in full; read by whoever defers tools."""
