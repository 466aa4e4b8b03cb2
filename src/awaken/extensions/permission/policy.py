"""Compares two rule sets over past calls. Answers and grants are not considered."""

from collections.abc import Iterable, Sequence

from awaken.contracts.suspension.policy import ApprovalNeed, PastCall, PolicyChange, PolicyDiff
from awaken.patterns import call_of

from .rules import RuleSet, Verdict, apply_approval, decide


def policy_diff(old: RuleSet, new: RuleSet, calls: Sequence[PastCall]) -> PolicyDiff:
    """Decide about every call by both rule sets and keep those that differ."""
    return PolicyDiff(calls=len(calls), changes=tuple(_changes(old, new, calls)))


def _changes(old: RuleSet, new: RuleSet, calls: Iterable[PastCall]) -> Iterable[PolicyChange]:
    # Most rules are about a tool, whatever its arguments are: one decision is that of all calls.
    decided: dict[str, tuple[Verdict, Verdict] | None] = {}
    for past in calls:
        verdicts = decided.get(past.tool)
        if verdicts is None:
            call = call_of(past.tool, past.arguments)
            verdicts = decide(old, call), decide(new, call)
            if past.tool not in decided:
                is_same = not (_reads_arguments(old, past.tool) or _reads_arguments(new, past.tool))
                decided[past.tool] = verdicts if is_same else None
        # What only a run can tell is left to the rules: a looser rule is not to be missed.
        is_needed = past.approval is ApprovalNeed.NEEDED
        before, after = (apply_approval(it, is_needed=is_needed) for it in verdicts)
        if before.behavior is not after.behavior:
            yield PolicyChange(
                call=past,
                before=before.behavior,
                after=after.behavior,
                rule=after.rule_text,
            )


def _reads_arguments(rules: RuleSet, tool: str) -> bool:
    """Whether a rule about a tool depends on the arguments of the call."""
    return any(it.pattern.has_arguments and it.is_about(tool) for it in rules.rules)
