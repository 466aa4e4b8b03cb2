"""What is a tool pattern, what is refused and where, and the canonical text."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.contracts.errors import UsageError
from awaken.patterns import PatternError, ToolPattern, parse_condition, parse_pattern


def _with_conditions(count: int) -> str:
    conditions = ", ".join(['a = "b"'] * count)
    return f"Bash({conditions})"


CANONICAL = {
    "Bash": "Bash",
    "  Bash  ": "Bash",
    "Bash(*)": "Bash",
    " Bash ( * ) ": "Bash",
    "mcp__*": "mcp__*",
    "{read,write}_file": "{read,write}_file",
    "/^mcp__(a|b)/": "/^mcp__(a|b)/",
    "/a(b|/)c/": "/a(b|/)c/",
    r"/a\/b/": r"/a\/b/",
    "Bash( git * )": "Bash(git *)",
    "Bash(echo (a (b)) c)": "Bash(echo (a (b)) c)",
    r"Bash(echo \) \()": r"Bash(echo \) \()",
    "Bash(* --force)": "Bash(* --force)",
    "Read(*.py)": "Read(*.py)",
    "Read(~/x)": "Read(~/x)",
    "Bash(*=*)": "Bash(*=*)",
    r"Bash(A\=b)": r"Bash(A\=b)",
    'Bash(command~"git *")': 'Bash(command ~ "git *")',
    'Bash( a = "x" ,b!="y" )': 'Bash(a = "x", b != "y")',
    'Tool(my-key ~ "x")': 'Tool(my-key ~ "x")',
    'Tool(a.b[0][*].*.c-d =~ "x")': 'Tool(a.b[0][*].*.c-d =~ "x")',
    'Tool(* ~ "x")': 'Tool(* ~ "x")',
    'Tool(a.* !=~ "x")': 'Tool(a.* !=~ "x")',
    r'Tool(a =~ "\d\"\\w")': r'Tool(a =~ "\\d\"\\w")',
    r'Tool(a = "\\")': r'Tool(a = "\\")',
    'Tool(a !~ ")")': 'Tool(a !~ ")")',
    'Tool(a = "")': 'Tool(a = "")',
}

REFUSED = {
    "": (0, "tool's name"),
    "   ": (3, "tool's name"),
    "(x)": (0, "tool's name"),
    "Bash git": (5, "nothing after"),
    "Bash)": (4, "tool's name"),
    "'Bash'": (0, "tool's name"),
    "Bash(x) y": (8, "nothing after"),
    "//": (1, "empty"),
    "/abc": (0, "expected `/`"),
    "/(?=a)/": (1, "RE2 refuses"),
    "/a/b": (3, "nothing after"),
    "Bash(": (4, "expected `)`"),
    "Bash()": (5, "write `(*)`"),
    "Bash(  )": (7, "write `(*)`"),
    "Bash(a (b)": (4, "expected `)`"),
    "Bash(a ~ 'x')": (9, "double quotes"),
    "Bash(a=~'x')": (8, "double quotes"),
    "Bash(* ~ 'x')": (9, "double quotes"),
    "Bash(a ~ x)": (9, "double quotes"),
    "Bash(FOO=bar)": (9, "backslash before the operator"),
    'Bash(a == "x")': (8, "double quotes"),
    'Bash(a ~ "x)': (9, "at the end of the value"),
    'Bash(a ~ "x\\")': (9, "at the end of the value"),
    'Bash(a ~ "x",)': (13, "expected a path"),
    'Bash(a ~ "x", b)': (15, "operators"),
    'Bash(a ~ "x" b ~ "y")': (13, "`,`"),
    'Bash(a[1234567] ~ "x")': (7, "digits"),
    'Bash(a ~ "[x")': (10, "never closed"),
    'Bash(a ~ "ab{c")': (12, "never closed"),
    'Bash(a ~ "{c}")': (12, "alternatives"),
    'Bash(a ~ "c}")': (11, "alternatives"),
    'Bash(a ~ "[z-a]")': (10, "ranges go upwards"),
    'Bash(a ~ "x\\\\")': (11, "backslash escapes"),
    'Bash(a =~ "(")': (11, "RE2 refuses"),
    'Bash(a !=~ "a{2000}")': (12, "RE2 refuses"),
    'Bash(a =~ "\\1")': (11, "RE2 refuses"),
    'Bash(a =~ "")': (11, "empty"),
    'Bash("git *")': (5, "no quotes"),
    "Bash('git *')": (5, "no quotes"),
    "a[": (1, "never closed"),
    "Bash(a\ud800)": (6, "surrogate"),
    'Bash(a = "\udfff")': (10, "surrogate"),
    f'Bash(a =~ "{"x" * 513}")': (11 + 512, "at most 512"),
    f"Bash({'x' * 513})": (5 + 512, "at most 512"),
    "x" * 4097: (4096, "at most 4096"),
    _with_conditions(33): (301, "at most 32"),
}


@pytest.mark.parametrize(("written", "canonical"), CANONICAL.items())
def test_a_pattern_has_one_canonical_text_which_reads_as_itself(
    written: str, canonical: str
) -> None:
    pattern = parse_pattern(written)
    assert pattern.text == canonical
    assert parse_pattern(canonical) == pattern
    assert hash(parse_pattern(canonical)) == hash(pattern)
    assert parse_pattern(canonical).text == canonical


@pytest.mark.parametrize(("written", "where"), REFUSED.items(), ids=lambda it: ascii(it)[:60])
def test_what_is_no_pattern_is_refused_with_the_place_and_a_way_out(
    written: str, where: tuple[int, str]
) -> None:
    with pytest.raises(PatternError) as caught:
        parse_pattern(written)
    position, hint = where
    error = caught.value
    assert isinstance(error, UsageError)
    assert (error.position, error.pattern) == (position, written)
    assert f"at character {position}: " in str(error)
    assert hint in error.problem
    str(error).encode()


@pytest.mark.parametrize(
    ("written", "specificity"),
    {
        "Bash": (3, 0, 0, 0),
        "Ba*": (2, 0, 0, 0),
        "/Ba/": (1, 0, 0, 0),
        "Bash(*)": (3, 0, 0, 0),
        "Bash(git *)": (3, 1, 1, 2),
        'Bash(a = "x")': (3, 1, 1, 3),
        'Bash(a != "x", b =~ "x", c !~ "x")': (3, 1, 3, 6),
        _with_conditions(32): (3, 1, 32, 96),
    }.items(),
)
def test_the_more_a_pattern_says_the_greater_is_its_specificity(
    written: str, specificity: tuple[int, ...]
) -> None:
    pattern = parse_pattern(written)
    assert pattern.specificity == specificity
    assert pattern.has_arguments is bool(specificity[1])


def test_conditions_can_be_made_of_their_parts() -> None:
    assert parse_condition("a.b[0]", "=", 'x"').text == r'a.b[0] = "x\""'
    for path, operator, value in [("a b", "=", "x"), ("", "=", "x"), ("a", "is", "x")]:
        with pytest.raises(PatternError):
            parse_condition(path, operator, value)
    with pytest.raises(PatternError, match="never closed"):
        parse_condition("a", "~", "[")


@given(st.text())
def test_any_text_is_a_pattern_or_is_refused(text: str) -> None:
    _read_or_refused(text)


@given(st.text(alphabet="aB1_- .,*?[](){}/\\\"'~=!\n\u200b"))
def test_any_text_of_the_languages_own_characters_is_a_pattern_or_is_refused(text: str) -> None:
    _read_or_refused(text)
    _read_or_refused(f"T({text})")
    _read_or_refused(f'T(a =~ "{text}")')
    _read_or_refused(f"/{text}/")


_SEGMENTS = st.builds(
    str.__add__,
    st.text(alphabet=string.ascii_letters + string.digits + "_-", min_size=1) | st.just("*"),
    st.sampled_from(["", "[0]", "[*]", "[12][*]"]),
)
_PATHS = st.lists(_SEGMENTS, min_size=1, max_size=4).map(".".join)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(st.lists(st.tuples(_PATHS, st.sampled_from(["=", "!="]), _TEXTS), min_size=1, max_size=4))
def test_whatever_value_is_meant_can_be_written_and_is_read_back(
    conditions: list[tuple[str, str, str]],
) -> None:
    made = [parse_condition(*parts).text for parts in conditions]
    text = f"Tool({', '.join(made)})"
    pattern = parse_pattern(text)
    assert pattern.text == text
    for (path, operator, value), condition in zip(conditions, pattern.conditions, strict=True):
        assert condition.text.startswith(f'{path} {operator} "')
        assert condition.value == value


def _read_or_refused(text: str) -> None:
    try:
        pattern = parse_pattern(text)
    except PatternError as refused:
        is_inside = 0 <= refused.position <= len(text)
    else:
        is_inside = True
        _check_round_trip(pattern)
    assert is_inside


def _check_round_trip(pattern: ToolPattern) -> None:
    again = parse_pattern(pattern.text)
    assert (again, again.text, again.specificity) == (pattern, pattern.text, pattern.specificity)
