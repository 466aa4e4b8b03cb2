"""Tool permissions: the types that the permission plugin, skills and decisions share."""

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
    """The scope of a permission."""

    ONCE = "once"
    """Only the call in question."""
    RUN = "run"
    THREAD = "thread"
    PROJECT = "project"
    """Every run of the same tenant; without tenants, every run of the store."""
    USER = "user"
    """Every run of the same person."""


class Remember(Record, frozen=True, kw_only=True):
    """Applies a decision to later calls as well: a resume allows them, a cancel denies them."""

    scope: PermissionScope
    pattern: str | None = None
    """The calls as a tool pattern; absent: those that match the same rule."""


def remember_of(value: Any) -> Remember | None:
    """Read a client's `remember` value: a scope, or a scope and a pattern; None if it is absent.

    Raises:
        InvalidInput: It is malformed.
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
    """Calls that are allowed for the rest of the run, for example by a skill for its own tools.

    A grant replaces the question to a person. It never overrides a denial.
    """

    source: str
    """The origin, for example `skill:pdf`; a second grant of a source replaces the first."""
    patterns: tuple[str, ...]
    agent_id: str = ""
    """The agent that it applies to; a handoff does not transfer it. Blank: every agent."""

    def counts_for(self, agent_id: str) -> bool:
        """Whether it applies to the calls of this agent."""
        return self.agent_id in ("", agent_id)


PERMISSION_ACTION = "tool:PermissionConfirm"
"""The action of the question whether a call may be made."""

APPROVAL = "approval"
"""Names the question of a tool that is declared with `approval`: its asker and its topic."""

PERMISSION_ASKERS = frozenset({APPROVAL, "permission"})
"""The gates that ask whether a call may be made; one yes answers the question of both."""

ASKING_TOOLS = frozenset({"guardrail_review"})
"""Tools that only ask a person, so that they need no permission themselves."""

TOOL_GRANTS: StateKey[Mapping[str, ToolGrant], ToolGrant] = StateKey(
    "__runtime.tool_grants",
    default={},
    type=dict[str, ToolGrant],
    apply=lambda value, grant: {**value, grant.source: grant},
    update_type=ToolGrant,
    merge=MergeStrategy.COMMUTATIVE,
)
"""By source; read by the gates that decide on calls."""

WANTED_TOOLS: StateKey[tuple[str, ...], tuple[str, ...]] = StateKey(
    "__runtime.wanted_tools",
    default=(),
    type=tuple[str, ...],
    apply=lambda value, more: (*value, *(it for it in dict.fromkeys(more) if it not in value)),
    merge=MergeStrategy.COMMUTATIVE,
)
"""Tools, as ids or globs, whose full descriptions the run needs; read by deferred tools."""
