"""Hostile expressions and globs are decided on 100 KB, or refused when they are written."""

import pytest

from awaken.patterns import PatternCall, PatternError, call_of, parse_pattern

SIZE = 100 * 1024
HOSTILE = [
    *(r"(a+)+$", r"(a*)*$", r"(a|a)*$", r"(a|aa)+$", r"(.*)*x", r"(.*a){12}", r"(\w+\s?)+$"),
    *(r"^(a+)+b", r"(x+x+)+y", r"([a-zA-Z]+)*$", r"(a|b|ab)*c", r"(.+)+;", r"(\d+)+!", r"a*a*a*b"),
    *(r"(a?){30}a{30}b", r"(a|b)*a(a|b){12}c", r"(a|b)*a(a|b){100}c", r".*a.{8}b.{8}c"),
    *(r".*a.{60}b.{60}c", r"(a{30}){30}b", r"\w*[a-f]\w{60}!", r"(?i)(.*a){30}z", r"\C*\C*q"),
    *(r"(?s)(.+)(.+)(.+)$z", "[ab]*a" + "." * 480 + "c", r"(\p{L}+)+\pN", r"(é|e)*\p{L}{40}!"),
    *(r"(a.*b.*c.*d.*e.*f)+z", r"^(([a-z])+.)+[A-Z]([a-z])+$", r"(?:a{1,40}){1,20}x"),
    *(r"(.*?,){25}P", r"\b(\w+)\b(\s+\w+)*\bz", r"(a{0,100}b{0,100})*c", r"(ab|a)*(b|$)z"),
    *(r"(.*)(.*)(.*)(.*)(.*)[^a]", r"^(\w+\.?)+@(\w+\.)+$", r"(<[^>]*>)*x", r"(a*)*(a*)*(a*)*b"),
]
GLOBS = ["*a" * 200, "*?" * 200, "{a,b}*" * 80, "[ab]*" * 100, "{a,{b,{c,*}}}*" * 30 + "z"]
REFUSED = [
    r"(a+)\1",
    r"(?=a+)b",
    r"(?<!a)b",
    r"(?>a+)b",
    r"a{1001}",
    r"(((a{100}){100}){100})",
    "(" * 400,
]


@pytest.fixture(scope="module")
def calls() -> list[PatternCall]:
    texts = ["a" * SIZE, "ab" * (SIZE // 2), "é€ab1 " * (SIZE // 9), "a" * (SIZE - 1) + "!"]
    return [call_of("T", {"c": text}) for text in texts]


@pytest.mark.parametrize("source", HOSTILE)
def test_a_hostile_expression_is_decided(source: str, calls: list[PatternCall]) -> None:
    value = source.replace("\\", "\\\\")
    for operator in ("=~", "!=~"):
        pattern = parse_pattern(f'T(c {operator} "{value}")')
        for call in calls:
            assert pattern.may_match(call) or not pattern.must_match(call)


@pytest.mark.parametrize("source", HOSTILE)
def test_a_hostile_name_of_tools_is_refused_or_asked_about_any_tool(source: str) -> None:
    try:
        pattern = parse_pattern(f"/({source})|/")
    except PatternError as error:
        refused = error
    else:
        assert pattern.matches_tool("a" * 1_024)
        return
    assert "too large for a name" in refused.problem


@pytest.mark.parametrize("source", GLOBS)
def test_a_hostile_glob_is_decided(source: str, calls: list[PatternCall]) -> None:
    for text in (f'T(c ~ "{source}")', f"T({source})"):
        pattern = parse_pattern(text)
        for call in calls:
            assert pattern.may_match(call) or not pattern.must_match(call)


@pytest.mark.parametrize("source", REFUSED)
def test_what_cannot_be_bounded_is_refused_when_it_is_written(source: str) -> None:
    value = source.replace("\\", "\\\\")
    with pytest.raises(PatternError):
        parse_pattern(f'T(c =~ "{value}")')


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(set(HOSTILE)) >= 30
