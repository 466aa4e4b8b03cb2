"""The section `permission` of an agent."""

from enum import StrEnum

from awaken.contracts.record import StrictRecord
from awaken.contracts.suspension.permissions import PermissionScope, ToolBehavior

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

    default_behavior: ToolBehavior = ToolBehavior.ASK
    """What happens to a call that no rule matches."""
    rules: tuple[RuleConfig, ...] = ()
    on_deny: OnDeny = OnDeny.RESULT
