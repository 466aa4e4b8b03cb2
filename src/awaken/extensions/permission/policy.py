"""Compares two rule sets over past calls. Answers and grants are not considered."""

from collections.abc import Iterable, Sequence

from awaken.contracts.suspension.policy import PastCall, PolicyChange, PolicyDiff
from awaken.patterns import call_of

from .rules import RuleSet, decide


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
