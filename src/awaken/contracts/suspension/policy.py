"""The port by which permission rules are inspected: tried on calls, and compared over past ones."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from awaken.contracts.record import Record

from .permissions import ToolBehavior


class PastCall(Record, frozen=True, kw_only=True):
    """A call that a model made in an earlier run."""

    thread_id: str
    run_id: str | None = None
    call_id: str
    tool: str
    arguments: Any = None


class PolicyChange(Record, frozen=True, kw_only=True):
    """A call that the new rule set decides differently."""

    call: PastCall
    before: ToolBehavior
    after: ToolBehavior
    rule: str
    """The pattern of the new rule that decides, or `default`."""


class PolicyDiff(Record, frozen=True, kw_only=True):
    """The differences between two rule sets."""

    calls: int
    changes: tuple[PolicyChange, ...] = ()

    def changes_to(self, behavior: ToolBehavior) -> tuple[PolicyChange, ...]:
        """The calls that get this behavior now and did not before."""
        return tuple(change for change in self.changes if change.after is behavior)


class CallVerdict(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What the rules decide about a call, and the rule that decides, or `default`."""

    behavior: ToolBehavior
    rule: str


class ArgumentRule(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A rule whose effect depends on the arguments of a call."""

    tool: str
    behavior: ToolBehavior
    pattern: str


class AgentPolicy(Record, frozen=True, kw_only=True, omit_defaults=False):
    """The effect of an agent's rules on its tools."""

    default_behavior: ToolBehavior
    hidden: tuple[str, ...]
    """The tools whose calls would all be denied: the model never sees them."""
    argument_rules: tuple[ArgumentRule, ...]


class PolicyInspector(Protocol):
    """Reads permission rules. Remembered decisions are not considered."""

    def inspect(self, prepared: Mapping[str, Any], tool_ids: Collection[str]) -> AgentPolicy | None:
        """Return the effect of an agent's compiled rules; None without any: every call passes."""
        ...

    def decide(self, prepared: Mapping[str, Any], tool: str, arguments: Any) -> CallVerdict:
        """Decide about a call by an agent's compiled rules.

        Raises:
            InvalidInput: The agent has no rules.
        """
        ...

    def section_of(self, sections: Mapping[str, Any]) -> Any:
        """Return the section of the rules among an agent's sections; without one, an empty one."""
        ...

    def compare(self, old: Any, new: Any, calls: Sequence[PastCall]) -> PolicyDiff:
        """Decide about calls by two sections, and return those that differ.

        Raises:
            InvalidInput: A section is malformed, or a rule in it cannot be used.
        """
        ...
