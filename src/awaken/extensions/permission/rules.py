"""Rules and the one function that decides by them.

Pure: the gate, the preview and the policy diff all use `decide` and `find_hidden_tools`. Rules
that stop a call match generously; rules that allow it match strictly.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from awaken.contracts.suspension.permissions import APPROVAL, PermissionScope, ToolBehavior
from awaken.patterns import ConditionKind, PatternCall, PatternIndex, ToolPattern

_REACH = {
    scope: reach
    for reach, scope in enumerate(
        (
            PermissionScope.ONCE,
            PermissionScope.RUN,
            PermissionScope.THREAD,
            # A user is one of those who share a project.
            PermissionScope.USER,
            PermissionScope.PROJECT,
        )
    )
}
DEFAULT_SCOPE = PermissionScope.THREAD
"""The scope of an answer to a question that only the default asks."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens to the calls that a pattern matches."""

    pattern: ToolPattern
    behavior: ToolBehavior
    scope: PermissionScope = DEFAULT_SCOPE
    """Of a question: the widest scope of its answer. Of an answer: its scope."""
    tool: str | None = None
    """The only tool that the rule applies to, even if its pattern matches others."""
    is_answer: bool = False
    """Whether it is a person's answer, which can be revoked."""
    is_grant: bool = False
    """Whether a skill grants it for the rest of the run."""

    def is_about(self, tool_id: str) -> bool:
        """Whether the rule can match a call of the tool."""
        return self.tool in (None, tool_id) and self.pattern.matches_tool(tool_id)

    def fits(self, call: PatternCall) -> bool:
        """Whether the rule matches the call: in doubt it does, unless the rule allows the call."""
        if self.tool not in (None, call.tool_id):
            return False
        if self.behavior is ToolBehavior.ALLOW:
            return self.pattern.must_match(call)
        return self.pattern.may_match(call)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happens to a call, and the rule that decides; None is the default."""

    behavior: ToolBehavior
    rule: Rule | None = None

    @property
    def names_tool(self) -> bool:
        """Whether a person's answer decides, or a rule that names exactly this tool."""
        rule = self.rule
        if rule is None or rule.is_grant:
            return False
        return rule.is_answer or rule.pattern.tool.kind is ConditionKind.EXACT

    @property
    def scope(self) -> PermissionScope:
        """The widest scope in which the answer may be remembered."""
        return DEFAULT_SCOPE if self.rule is None else self.rule.scope

    @property
    def rule_text(self) -> str:
        """The pattern of the rule, `default`, or `approval`."""
        if self.rule is None:
            return APPROVAL if self is APPROVAL_NEEDED else "default"
        return self.rule.pattern.text


APPROVAL_NEEDED = Verdict(ToolBehavior.ASK)
"""The verdict on a call that only its tool wants to be approved."""


def apply_approval(verdict: Verdict, *, is_needed: bool) -> Verdict:
    """Ask about a call that its tool wants to be approved and that no rule approves by name."""
    is_approved = verdict.behavior is not ToolBehavior.ALLOW or verdict.names_tool
    return APPROVAL_NEEDED if is_needed and not is_approved else verdict


class RuleSet:
    """The rules of a configuration, most specific first."""

    __slots__ = ("_index", "default", "rules")

    def __init__(
        self, rules: Iterable[Rule] = (), default: ToolBehavior = ToolBehavior.ASK
    ) -> None:
        self.default = default
        self.rules = by_specificity(rules)
        self._index = PatternIndex((rule.pattern, rule) for rule in self.rules)

    def rules_for_tool(self, tool_id: str) -> list[Rule]:
        """The rules that can match calls of the tool, most specific first."""
        return self._index.of_tool(tool_id)

    def rules_for_call(self, call: PatternCall) -> list[Rule]:
        """The rules that may match the call, most specific first; no other rule matches it."""
        return self._index.of_call(call)


def by_specificity(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Sort the rules, most specific first; equal ones keep their order."""
    return tuple(sorted(rules, key=lambda rule: rule.pattern.specificity, reverse=True))


def decide(rules: RuleSet, call: PatternCall, answers: Sequence[Rule] = ()) -> Verdict:
    """Decide about a call: a denial beats a permission, a permission beats a question.

    Of rules with the same behavior the most specific one decides. `answers` are remembered answers
    and grants: their denials always count, their permissions only where the rules ask, and only
    within the scope that the question allows.
    """
    about = rules.rules_for_call(call)
    if denial := _first(ToolBehavior.DENY, (*about, *answers), call):
        return Verdict(ToolBehavior.DENY, denial)
    if permission := _first(ToolBehavior.ALLOW, about, call):
        return Verdict(ToolBehavior.ALLOW, permission)
    question = _first(ToolBehavior.ASK, about, call)
    verdict = Verdict(rules.default if question is None else ToolBehavior.ASK, question)
    if verdict.behavior is ToolBehavior.ASK:
        near = [rule for rule in answers if is_within(rule.scope, verdict.scope)]
        if answer := _first(ToolBehavior.ALLOW, near, call):
            return Verdict(ToolBehavior.ALLOW, answer)
    return verdict


def find_hidden_tools(
    rules: RuleSet, tool_ids: Iterable[str], answers: Sequence[Rule] = ()
) -> tuple[str, ...]:
    """The tools whose calls would all be denied, with any arguments."""
    shut = [rule for rule in answers if _is_shutting(rule)]
    return tuple(
        tool_id
        for tool_id in tool_ids
        if _is_shut(rules, tool_id) or any(rule.is_about(tool_id) for rule in shut)
    )


def is_within(scope: PermissionScope, limit: PermissionScope) -> bool:
    """Whether a scope is not wider than the limit."""
    return _REACH[scope] <= _REACH[limit]


def _first(behavior: ToolBehavior, rules: Iterable[Rule], call: PatternCall) -> Rule | None:
    return next((it for it in rules if it.behavior is behavior and it.fits(call)), None)


def _is_shut(rules: RuleSet, tool_id: str) -> bool:
    about = rules.rules_for_tool(tool_id)
    if any(_is_shutting(rule) for rule in about):
        return True
    is_open = any(rule.behavior is not ToolBehavior.DENY for rule in about)
    return rules.default is ToolBehavior.DENY and not is_open


def _is_shutting(rule: Rule) -> bool:
    return rule.behavior is ToolBehavior.DENY and not rule.pattern.has_arguments
