"""The port by which permission rules are inspected: tried on calls, and compared over past ones."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from awaken.contracts.record import Record

from .permissions import ToolBehavior


class ApprovalNeed(StrEnum):
    """What a tool that is declared with `approval` says about a call, outside any run."""

    NEEDED = "needed"
    NOT_NEEDED = "not_needed"
    DEPENDS_ON_RUN = "depends_on_run"
    """The predicate reads the run, so that only a run can tell."""
    INVALID_ARGUMENTS = "invalid_arguments"
    """The call fails before a person would be asked."""


class ApprovalTime(StrEnum):
    """Which calls of a tool need an approval."""

    ALWAYS = "always"
    DEPENDS_ON_ARGUMENTS = "depends_on_arguments"


class ToolApproval(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A tool that is declared with `approval`."""

    tool: str
    when: ApprovalTime


class PastCall(Record, frozen=True, kw_only=True):
    """A call that a model made in an earlier run."""

    thread_id: str
    run_id: str | None = None
    call_id: str
    tool: str
    arguments: Any = None
    approval: ApprovalNeed | None = None
    """What the tool's `approval` says; absent: it has none, or its code is not known here."""


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
    """What happens to a call, and what decides: a rule, `default`, or the tool's `approval`."""

    behavior: ToolBehavior
    rule: str
    approval: ApprovalNeed | None = None
    """What the tool's `approval` says about the call; None if it has none."""


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

    def decide(
        self,
        prepared: Mapping[str, Any],
        tool: str,
        arguments: Any,
        approval: ApprovalNeed | None = None,
    ) -> CallVerdict:
        """Decide about a call by an agent's compiled rules, and by what its tool says.

        Without rules every call passes that no tool wants to be approved.
        """
        ...

    def rules_of(self, prepared: Mapping[str, Any]) -> Any:
        """Return all rules of an agent as one section, those of its plugin included."""
        ...

    def add_section(self, prepared: Mapping[str, Any], section: Any, what: str) -> Any:
        """Return the rules that an agent would have with another section.

        Raises:
            InvalidInput: The section is malformed.
        """
        ...

    def compare(self, old: Any, new: Any, calls: Sequence[PastCall]) -> PolicyDiff:
        """Decide about calls by two sections, and return those that differ.

        Raises:
            InvalidInput: A section is malformed, or a rule in it cannot be used.
        """
        ...
