"""Deciding by rules: what beats what, how far answers reach, and which tools are hidden."""

import itertools
from typing import Any

import pytest

from awaken.contracts.suspension.permissions import PermissionScope, ToolBehavior
from awaken.contracts.suspension.remembered_answers import (
    ANSWERS_MAX,
    RememberedAnswer,
    answers_after,
)
from awaken.extensions.permission.rules import Rule, RuleSet, decide, find_hidden_tools
from awaken.patterns import call_of, parse_pattern

ALLOW, ASK, DENY = ToolBehavior.ALLOW, ToolBehavior.ASK, ToolBehavior.DENY
ONCE, RUN, THREAD, PROJECT, USER = (
    PermissionScope.ONCE,
    PermissionScope.RUN,
    PermissionScope.THREAD,
    PermissionScope.PROJECT,
    PermissionScope.USER,
)


def rule(
    text: str, behavior: str, scope: PermissionScope = THREAD, tool: str | None = None
) -> Rule:
    return Rule(parse_pattern(text), ToolBehavior(behavior), scope, tool)


def rules(*written: tuple[str, str], default: str = "ask") -> RuleSet:
    return RuleSet((rule(*it) for it in written), ToolBehavior(default))


def bash(command: Any) -> Any:
    return call_of("Bash", {"command": command})


LS = bash("ls -l")


@pytest.mark.parametrize("order", [*itertools.permutations(["allow", "ask", "deny"])])
def test_a_denial_beats_a_permission_and_a_permission_beats_a_question_in_any_order(
    order: tuple[str, ...],
) -> None:
    texts = {"allow": "Bash(ls *)", "ask": 'Bash(command = "ls -l")', "deny": "*"}
    assert decide(rules(*((texts[it], it) for it in order)), LS).behavior is DENY
    without = [it for it in order if it != "deny"]
    assert decide(rules(*((texts[it], it) for it in without)), LS).behavior is ALLOW
    assert decide(rules((texts["ask"], "ask"), default="allow"), LS).behavior is ASK


@pytest.mark.parametrize("behavior", ["allow", "ask", "deny"])
def test_of_rules_that_say_the_same_the_most_specific_one_speaks(behavior: str) -> None:
    texts = ["/^B/", "B*", "Bash", "Bash(ls *)", 'Bash(command = "ls -l")']
    for given in (texts, texts[::-1]):
        for count in range(1, len(texts) + 1):
            some = [(text, behavior) for text in given if text in texts[:count]]
            verdict = decide(rules(*some), LS)
            assert verdict.behavior is ToolBehavior(behavior)
            assert verdict.rule_text == texts[count - 1]


@pytest.mark.parametrize("default", ["allow", "ask", "deny"])
def test_a_call_that_no_rule_means_gets_the_default(default: str) -> None:
    verdict = decide(rules(("Read", "deny"), ("Bash(rm *)", "deny"), default=default), LS)
    assert (verdict.behavior, verdict.rule_text) == (ToolBehavior(default), "default")


def test_in_doubt_a_call_is_denied_or_asked_about_and_never_allowed() -> None:
    disguised = bash("l\u200bs -l")
    assert decide(rules(("Bash(ls *)", "deny"), default="allow"), disguised).behavior is DENY
    assert decide(rules(("Bash(ls *)", "ask"), default="allow"), disguised).behavior is ASK
    assert decide(rules(("Bash(ls *)", "allow")), disguised).behavior is ASK


def test_an_answer_counts_where_the_rules_ask_and_nowhere_else() -> None:
    said = (rule("Bash(ls *)", "allow", RUN),)
    assert decide(rules(), LS, said).behavior is ALLOW
    assert decide(rules(("Bash", "ask")), LS, said).behavior is ALLOW
    assert decide(rules(("Bash(ls *)", "deny")), LS, said).behavior is DENY
    assert decide(rules(default="deny"), LS, said).behavior is DENY
    assert decide(rules(), bash("rm x"), said).behavior is ASK


def test_a_remembered_denial_counts_whatever_the_rules_say() -> None:
    said = (rule("Bash(ls *)", "deny", RUN),)
    for given in (rules(("Bash", "allow")), rules(default="allow"), rules()):
        assert decide(given, LS, said).behavior is DENY
        assert decide(given, LS, (*said, rule("Bash", "allow", RUN))).behavior is DENY


REACH = [ONCE, RUN, THREAD, USER, PROJECT]


@pytest.mark.parametrize("limit", REACH)
@pytest.mark.parametrize("scope", REACH)
def test_an_answer_that_reaches_further_than_its_question_allows_does_not_count(
    limit: PermissionScope, scope: PermissionScope
) -> None:
    given = RuleSet([rule("Bash", "ask", limit)])
    verdict = decide(given, LS, (rule("Bash", "allow", scope),))
    is_within = REACH.index(scope) <= REACH.index(limit)
    assert verdict.behavior is (ALLOW if is_within else ASK)


def test_an_answer_about_one_tool_says_nothing_of_others_that_its_pattern_means() -> None:
    said = (rule("*", "allow", RUN, tool="Bash"), rule("*", "deny", RUN, tool="Write"))
    assert decide(rules(), LS, said).behavior is ALLOW
    assert decide(rules(), call_of("Read", {}), said).behavior is ASK
    assert decide(rules(), call_of("Write", {}), said).behavior is DENY
    assert find_hidden_tools(rules(), ["Bash", "Read", "Write"], said) == ("Write",)


@pytest.mark.parametrize("text", ["Bash", "B*", "/^Ba/", "*", "Bash(*)"])
def test_a_tool_that_is_denied_whatever_its_arguments_are_is_hidden(text: str) -> None:
    given = rules((text, "deny"), ("Bash(ls *)", "allow"), default="allow")
    assert "Bash" in find_hidden_tools(given, ["Bash", "Read"])


def test_a_tool_of_which_some_call_could_pass_is_shown() -> None:
    given = rules(("Bash(rm *)", "deny"), ("Read", "ask"), default="allow")
    assert find_hidden_tools(given, ["Bash", "Read", "Other"]) == ()


def test_where_the_default_denies_only_tools_with_a_rule_of_their_own_are_shown() -> None:
    given = rules(("Bash(ls *)", "allow"), ("Re*", "ask"), ("Reset", "deny"), default="deny")
    assert find_hidden_tools(given, ["Bash", "Read", "Reset", "Other"]) == ("Reset", "Other")


def test_what_is_hidden_is_denied_with_any_arguments() -> None:
    given = rules(("B*", "deny"), ("Read(a*)", "deny"), ("Read", "allow"), default="deny")
    for tool_id in find_hidden_tools(given, ["Bash", "Read", "Other"]):
        for arguments in (None, {}, {"a": 1}, [], "text", {"command": ["x"]}):
            assert decide(given, call_of(tool_id, arguments)).behavior is DENY


def answer(
    at: int, behavior: str = "allow", pattern: str = "Bash", tool: str = "Bash", **more: Any
) -> RememberedAnswer:
    said = ToolBehavior(behavior)
    return RememberedAnswer(
        pattern=pattern, tool=tool, behavior=said, scope=THREAD, decided_at=at, **more
    )


def test_the_last_decision_about_the_same_calls_stays_however_often_and_late_others_are_added() -> (
    None
):
    first, second, third = answer(1), answer(2, "deny"), answer(2, "allow", call_id="c")
    for order in itertools.permutations([first, second, third, first]):
        kept: Any = {}
        for each in order:
            kept = answers_after(kept, each)
        assert [*kept.values()] == [second]


def test_answers_are_bounded_and_denials_are_never_the_ones_that_go() -> None:
    kept: Any = {}
    for at in range(10):
        kept = answers_after(kept, answer(at, "deny", f"D{at}"))
    for at in range(ANSWERS_MAX + 5):
        kept = answers_after(kept, answer(100 + at, "allow", f"A{at}"))
    patterns = {it.pattern for it in kept.values()}
    assert len(kept) == len(patterns) == ANSWERS_MAX
    assert {f"D{at}" for at in range(10)} | {f"A{ANSWERS_MAX + 4}"} <= patterns
    assert "A0" not in patterns


def test_answers_about_different_calls_never_take_each_others_place() -> None:
    kept: Any = {}
    names = [
        ("", "a b"),
        ("a", "b"),
        ("a b", "*"),
        ("a", "b *"),
        ("", '["a","b"]'),
        ("", "b"),
    ]
    for tool, pattern in names:
        kept = answers_after(kept, answer(1, pattern=pattern, tool=tool))
    assert [(it.tool, it.pattern) for it in kept.values()] == names
