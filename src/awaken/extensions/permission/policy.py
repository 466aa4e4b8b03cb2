"""Compares two rule sets over past calls. Answers and grants are not considered."""

from collections.abc import Iterable, Sequence
from typing import Any

from awaken.contracts.record import Record
from awaken.contracts.suspension.permissions import ToolBehavior
from awaken.patterns import call_of

from .rules import RuleSet, decide


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


def policy_diff(old: RuleSet, new: RuleSet, calls: Sequence[PastCall]) -> PolicyDiff:
    """Decide about every call by both rule sets and keep those that differ."""
    return PolicyDiff(calls=len(calls), changes=tuple(_changes(old, new, calls)))


def _changes(old: RuleSet, new: RuleSet, calls: Iterable[PastCall]) -> Iterable[PolicyChange]:
    for past in calls:
        call = call_of(past.tool, past.arguments)
        before, after = decide(old, call), decide(new, call)
        if before.behavior is not after.behavior:
            yield PolicyChange(
                call=past,
                before=before.behavior,
                after=after.behavior,
                rule=after.rule_text,
            )
