"""An index screens its patterns: it asks few of them, and answers as if it had asked them all."""

from typing import Any

import pytest
import re2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from awaken.contracts.suspension.permissions import ToolBehavior
from awaken.extensions.permission.rules import Rule, RuleSet, decide
from awaken.patterns import (
    PatternCall,
    PatternError,
    PatternIndex,
    call_of,
    compile_regex,
    parse_pattern,
)

EXPRESSIONS = [
    *(r"push", r"^push", r"push$", r"\Apush\z", r"\bpush\b", r"\Bush", r"(?i)PUSH", r"(?-i)Push"),
    *(
        r"(?m)^push$",
        r"(?s)git.push",
        r"git.push",
        r"git.*push",
        r"(?i:GIT) push",
        r"(?U)git.+push",
    ),
    *(r"push|fetch", r"(push|)fetch", r"(?:push)?", r"pus[hH]", r"[^a]push", r"pu{1,3}sh", r"x*"),
    *(r"\x00\x00\x00", r"push\x00", r"\Qgit.push", r"\Qgit.push\E$", r"(?P<a>push)", r"\Cush"),
    *(r"\x{130}stanbul", r"istanbul", r"\x{17F}tra\x{DF}e", r"(?i)STRASSE", r"\p{Lu}ush", "日本語"),
    *(
        r"\pLush",
        r"K{3}",
        r"\x{FB01}le",
        r"push.{300}",
        r"(push){40}",
        r"\d+push",
        r"$^",
        r"\PNush",
    ),
]
GLOBS = [
    *("push", "push*", "*push", "*push*", "git {push,fetch}*", "git^push*", "[gG]it*push", "*", ""),
    *("git*push*main", "**/push", "日本語*", r"\*push", "İstanbul*", "STRASSE", "KKK", "a\x00bcd"),
]
PIECES = [
    *("push", "PUSH", "Push", "\uff50\uff55\uff53\uff48", "pu\u200bsh", "git ", "git.", "fetch"),
    *("main", " ", "  ", "\n", "\x00", "\x00\x00\x00", "a", "x", "*", "/", "9", "İstanbul"),
    *("istanbul", "i\u0307stanbul", "\u0131stanbul", "straße", "\u017ftraße", "STRASSE", "日本語"),
    *("\ufb01le", "\u212a\u212a\u212a", "kkk", "push" * 40, "y" * 300),
]
BEHAVIORS = [ToolBehavior.DENY, ToolBehavior.ALLOW, ToolBehavior.ASK]
VALUES = dict.fromkeys(("=~", "!=~"), EXPRESSIONS) | dict.fromkeys(("=", "!=", "~", "!~"), GLOBS)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)
SCALARS = TEXTS | st.none() | st.integers() | st.just("\ud800")
ARGUMENTS = st.fixed_dictionaries(
    {}, optional={"a": SCALARS | st.lists(SCALARS, max_size=3), "b": SCALARS}
)
MADE_UP = st.lists(
    st.sampled_from([*"|?*+().[]^$", "(?i)", "[^a]", "[ab]", r"\b", ".*", "(?:", "{2}", "\x00"])
    | st.text("abAB", min_size=2, max_size=4),
    min_size=1,
    max_size=8,
).map("".join)


def written(path: str, operator: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{path} {operator} "{escaped}"'


RULES = [
    *(
        f"{tool}({written(path, operator, value)})"
        for tool, path in (("T", "a"), ("U", "a"), ("*", "a[*]"), ("/T/", "b"))
        for operator, values in VALUES.items()
        for value in values
    ),
    *(f"T({glob})" for glob in GLOBS if glob),
    *(f'T(b !~ "x", {written("a", "=~", value)}, b ~ "*")' for value in EXPRESSIONS),
    *("T", "*", "U", "/U/"),
]


class Both:
    """Patterns in an index, and the same ones alone."""

    def __init__(self, texts: list[str]) -> None:
        self.patterns = [parse_pattern(text) for text in texts]
        self.index = PatternIndex([(it, place) for place, it in enumerate(self.patterns)])

    def assert_same(self, call: PatternCall) -> None:
        may, must = self.index.may_match(call), self.index.must_match(call)
        assert may == [place for place, it in enumerate(self.patterns) if it.may_match(call)]
        assert must == [place for place, it in enumerate(self.patterns) if it.must_match(call)]
        asked = self.index.of_call(call)
        assert asked == sorted(asked)
        assert {*must} <= {*may} <= {*asked} <= {*self.index.of_tool(call.tool_id)}


@pytest.fixture(scope="module")
def both() -> Both:
    return Both(RULES)


@settings(max_examples=60)
@example("T", {"a": ["git", "push"]})
@example("T", {"a": "git^push"})
@given(st.sampled_from(["T", "U"]), ARGUMENTS)
def test_an_index_answers_as_its_patterns_do_alone(
    both: Both, tool_id: str, arguments: dict[str, Any]
) -> None:
    both.assert_same(call_of(tool_id, arguments))


@pytest.mark.parametrize("size", [1_000, 10_000, 300_000])
def test_what_is_too_long_for_some_patterns_is_asked_of_them(both: Both, size: int) -> None:
    for text in ("y" * size, "git push " * (size // 9), "é" * (size // 2)):
        both.assert_same(call_of("T", {"a": text, "b": [text]}))


@settings(max_examples=40)
@given(st.lists(MADE_UP, min_size=8, max_size=12), st.text("abAB \n\x00", max_size=12))
def test_an_index_answers_as_any_expressions_do_alone(sources: list[str], text: str) -> None:
    Both([f"T({written('a', '=~', it)})" for it in sources if readable(it)] * 4).assert_same(
        call_of("T", {"a": text})
    )


def readable(source: str) -> bool:
    try:
        compile_regex(source)
    except PatternError:
        return False
    return True


@pytest.mark.parametrize("operator", ["=~", "~", "="])
def test_of_many_patterns_that_speak_of_a_tool_few_are_asked(operator: str) -> None:
    rules = [f"*({written('command', operator, f'deploy {n} ')})" for n in range(100, 1_100)]
    index = Both([*rules, "T"]).index
    for given_text, asked in (("deploy 107 ", [7, 1000]), ("ls", [1000]), ("", [1000])):
        assert index.of_call(call_of("T", {"command": given_text})) == asked
    assert len(index.of_call(call_of("T", {"command": "\ud800"}))) == 1_001


def out_of_memory(*_: object, **__: object) -> None:
    """As `re2.Filter.Match` answers then."""


def refuses(*_: object) -> None:
    raise re2.error("too large")


@pytest.mark.parametrize(
    ("name", "fails"), [("Add", refuses), ("Compile", refuses), ("Match", out_of_memory)]
)
def test_where_the_screen_fails_every_pattern_is_asked(
    name: str, fails: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(re2.Filter, name, fails)
    both = Both(RULES)
    for text in ("git push", "", "İstanbul"):
        call = call_of("T", {"a": [text], "b": text})
        both.assert_same(call)
        assert both.index.of_call(call) == both.index.of_tool("T")


@settings(max_examples=50)
@given(ARGUMENTS)
def test_a_decision_by_many_rules_is_the_one_that_asking_all_of_them_gives(
    decisive: RuleSet, arguments: dict[str, Any]
) -> None:
    call = call_of("T", arguments)
    fitting = [rule for rule in decisive.rules if rule.fits(call)]
    expected = sorted(fitting, key=lambda rule: BEHAVIORS.index(rule.behavior))
    assert decide(decisive, call).rule == next(iter(expected), None)


@pytest.fixture(scope="module")
def decisive(both: Both) -> RuleSet:
    """Rules without those that are about every call of the tool."""
    patterns = both.patterns[1:-4:5]
    return RuleSet(Rule(it, BEHAVIORS[place % 3]) for place, it in enumerate(patterns))
