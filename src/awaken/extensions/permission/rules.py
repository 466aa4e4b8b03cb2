"""Rules and the one function that decides by them.

Pure: the gate, the preview and the policy diff all ask `decide`, and all hide what `hidden_tools`
names. What can stop a call is matched generously, what lets it pass is matched strictly.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from awaken.contracts.suspension.permissions import PermissionScope, ToolBehavior
from awaken.patterns import PatternCall, PatternIndex, ToolPattern

_REACH = {
    scope: reach
    for reach, scope in enumerate(
        (
            PermissionScope.ONCE,
            PermissionScope.RUN,
            PermissionScope.THREAD,
            # A person is one of those who share a project.
            PermissionScope.USER,
            PermissionScope.PROJECT,
        )
    )
}
DEFAULT_SCOPE = PermissionScope.THREAD
"""How far the answer to a question may be remembered that only the default asks."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens to the calls that a pattern describes."""

    pattern: ToolPattern
    behavior: ToolBehavior
    scope: PermissionScope = DEFAULT_SCOPE
    """Of a question: how far its answer may reach. Of an answer: how far it does."""
    tool: str | None = None
    """The one tool that the rule is about, whatever else its pattern describes."""
    is_answer: bool = False
    """Whether a person said so, who may take it back."""

    def is_about(self, tool_id: str) -> bool:
        """Whether some call of the tool can be meant."""
        return self.tool in (None, tool_id) and self.pattern.matches_tool(tool_id)

    def fits(self, call: PatternCall) -> bool:
        """Whether the call is meant: in doubt it is, unless the rule would let it pass."""
        if self.tool not in (None, call.tool_id):
            return False
        if self.behavior is ToolBehavior.ALLOW:
            return self.pattern.must_match(call)
        return self.pattern.may_match(call)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happens to a call, and the rule that says so; without one it is the default."""

    behavior: ToolBehavior
    rule: Rule | None = None

    @property
    def scope(self) -> PermissionScope:
        """How far the answer to the question may be remembered at most."""
        return DEFAULT_SCOPE if self.rule is None else self.rule.scope

    @property
    def rule_text(self) -> str:
        """The pattern of the rule, or `default`."""
        return "default" if self.rule is None else self.rule.pattern.text


class RuleSet:
    """The rules of a configuration, most specific first."""

    __slots__ = ("_index", "default", "rules")

    def __init__(
        self, rules: Iterable[Rule] = (), default: ToolBehavior = ToolBehavior.ASK
    ) -> None:
        self.default = default
        self.rules = by_specificity(rules)
        self._index = PatternIndex((rule.pattern, rule) for rule in self.rules)

    def about(self, tool_id: str) -> list[Rule]:
        """The rules that can mean calls of the tool, most specific first."""
        return self._index.of_tool(tool_id)

    def worth_asking(self, call: PatternCall) -> list[Rule]:
        """The rules that may fit the call, most specific first; no other one does."""
        return self._index.of_call(call)


def by_specificity(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules, most specific first; of equal ones, in the order in which they were given."""
    return tuple(sorted(rules, key=lambda rule: rule.pattern.specificity, reverse=True))


def decide(rules: RuleSet, call: PatternCall, answers: Sequence[Rule] = ()) -> Verdict:
    """What happens to a call: a denial beats a permission, a permission beats a question.

    Of rules that say the same the most specific one speaks. `answers` are what people and grants
    have said before: their denials always count, their permissions only where the rules ask, and
    only as far as the question allows its answers to reach.
    """
    about = rules.worth_asking(call)
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


def hidden_tools(
    rules: RuleSet, tool_ids: Iterable[str], answers: Sequence[Rule] = ()
) -> tuple[str, ...]:
    """The tools of which every call would be denied, whatever its arguments are."""
    shut = [rule for rule in answers if _is_shutting(rule)]
    return tuple(
        tool_id
        for tool_id in tool_ids
        if _is_shut(rules, tool_id) or any(rule.is_about(tool_id) for rule in shut)
    )


def is_within(scope: PermissionScope, limit: PermissionScope) -> bool:
    """Whether something that reaches as far as `scope` stays within the limit."""
    return _REACH[scope] <= _REACH[limit]


def _first(behavior: ToolBehavior, rules: Iterable[Rule], call: PatternCall) -> Rule | None:
    return next((it for it in rules if it.behavior is behavior and it.fits(call)), None)


def _is_shut(rules: RuleSet, tool_id: str) -> bool:
    about = rules.about(tool_id)
    if any(_is_shutting(rule) for rule in about):
        return True
    is_open = any(rule.behavior is not ToolBehavior.DENY for rule in about)
    return rules.default is ToolBehavior.DENY and not is_open


def _is_shutting(rule: Rule) -> bool:
    return rule.behavior is ToolBehavior.DENY and not rule.pattern.has_arguments
