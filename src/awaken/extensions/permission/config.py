"""The section `permission` of an agent, as people write it."""

from enum import StrEnum

from awaken.contracts.record import StrictRecord
from awaken.contracts.suspension.permissions import PermissionScope, ToolBehavior

SECTION = "permission"
NAME = "permission"
"""What the plugin is called, and so who asks."""


class OnDeny(StrEnum):
    """What a refused call comes to."""

    RESULT = "result"
    """An error result: the model reads it and goes on."""
    END = "end"
    """The end of the run."""


class RuleConfig(StrictRecord, frozen=True, kw_only=True):
    """What happens to the calls that a pattern describes."""

    tool: str
    """A tool pattern, such as `Bash`, `mcp__*` or `Bash(git *)`."""
    behavior: ToolBehavior
    scope: PermissionScope = PermissionScope.THREAD
    """How far an answer to this rule's question may be remembered at most."""


class PermissionConfig(StrictRecord, frozen=True, kw_only=True):
    """The rules of an agent. A denial beats a permission, and a permission beats a question."""

    default_behavior: ToolBehavior = ToolBehavior.ASK
    """What happens to a call that no rule describes."""
    rules: tuple[RuleConfig, ...] = ()
    on_deny: OnDeny = OnDeny.RESULT
