"""The section `permission` of an agent, and its rules as functions."""

from enum import StrEnum
from typing import ClassVar, Literal

from msgspec import UNSET, UnsetType

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.record import StrictRecord
from awaken.contracts.suspension.permissions import PermissionScope, ToolBehavior
from awaken.contracts.tools.tool import Tool

SECTION = "permission"
NAME = "permission"
"""The name of the plugin, by which its questions are recognized."""


class OnDeny(StrEnum):
    """What follows from a denied call."""

    RESULT = "result"
    """An error result, which the model reads."""
    END = "end"
    """The end of the run."""


class RuleConfig(StrictRecord, frozen=True, kw_only=True):
    """What happens to the calls that a pattern matches."""

    tool: str
    """A tool pattern, such as `Bash`, `mcp__*` or `Bash(git *)`."""
    behavior: ToolBehavior
    scope: PermissionScope = PermissionScope.THREAD
    """The widest scope in which an answer to this rule's question may be remembered."""


class PermissionConfig(StrictRecord, frozen=True, kw_only=True):
    """The rules of an agent. A denial beats a permission, and a permission beats a question."""

    section: ClassVar[str] = SECTION

    default_behavior: ToolBehavior | UnsetType = UNSET
    """What happens to a call that no rule matches; absent: what the plugin says, or `ask`."""
    rules: tuple[RuleConfig, ...] = ()
    on_deny: OnDeny | UnsetType = UNSET
    """What follows from a denied call; absent: what the plugin says, or `result`."""

    def add_section(self, section: "PermissionConfig") -> "PermissionConfig":
        """The rules of both; what a section says about the rest replaces what these say."""
        return PermissionConfig(
            default_behavior=section.default_behavior or self.default_behavior,
            rules=(*self.rules, *section.rules),
            on_deny=section.on_deny or self.on_deny,
        )


Scope = PermissionScope | Literal["once", "run", "thread", "project", "user"]


def allow(tool: str | Tool) -> RuleConfig:
    """Let the calls pass that a pattern matches, or all calls of a tool."""
    return RuleConfig(tool=_pattern_of(tool), behavior=ToolBehavior.ALLOW)


def ask(tool: str | Tool, *, scope: Scope = PermissionScope.THREAD) -> RuleConfig:
    """Have a person asked about them; `scope` is the widest in which an answer is remembered.

    Raises:
        InvalidSpec: There is no such scope.
    """
    try:
        widest = PermissionScope(scope)
    except ValueError as error:
        problem = f"scope {scope!r:.80} is none of: {', '.join(PermissionScope)}"
        raise InvalidSpec(what="ask(…)", problem=problem) from error
    return RuleConfig(tool=_pattern_of(tool), behavior=ToolBehavior.ASK, scope=widest)


def deny(tool: str | Tool) -> RuleConfig:
    """Refuse the calls that a pattern matches, or all calls of a tool."""
    return RuleConfig(tool=_pattern_of(tool), behavior=ToolBehavior.DENY)


def _pattern_of(tool: str | Tool) -> str:
    return tool if isinstance(tool, str) else tool.descriptor.id
