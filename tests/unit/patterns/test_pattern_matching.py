"""Which calls a pattern means: generously for what denies, strictly for what allows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.patterns import call_of, parse_pattern

Arguments = Any


def may(pattern: str, arguments: Arguments, tool: str = "T") -> bool:
    return parse_pattern(pattern).may_match(call_of(tool, arguments))


def must(pattern: str, arguments: Arguments, tool: str = "T") -> bool:
    return parse_pattern(pattern).must_match(call_of(tool, arguments))


@pytest.mark.parametrize(
    ("pattern", "tool_id", "matches"),
    [
        ("Bash", "Bash", True),
        ("Bash", "bash", False),
        ("Bash", "Bash2", False),
        ("mcp__*", "mcp__a__b", True),
        ("mcp__*", "amcp__a", False),
        ("read_?ile", "read_file", True),
        ("[rw]ead", "read", True),
        ("[!rw]ead", "read", False),
        ("{read,write}_*", "write_file", True),
        ("/file/", "read_file", True),
        ("/^file/", "read_file", False),
        ("/(?i)FILE$/", "read_file", True),
        (r"a\*", "a*", True),
        (r"a\*", "ab", False),
    ],
)
def test_tools_are_named_exactly_by_glob_or_by_expression(
    pattern: str, tool_id: str, matches: bool
) -> None:
    assert parse_pattern(pattern).matches_tool(tool_id) is matches
    assert may(pattern, {"a": 1}, tool_id) is matches
    assert must(pattern, {"a": 1}, tool_id) is matches


@pytest.mark.parametrize(
    ("glob", "text", "fits"),
    [
        ("git *", "git status", True),
        ("git *", "git", False),
        ("git*", "git", True),
        ("src/*", "src/a/b.py", True),
        ("src/**", "src/a/b.py", True),
        ("src/**/x.py", "src/x.py", True),
        ("src/**/x.py", "src/a/b/x.py", True),
        ("src/**/x.py", "src/ax.py", False),
        ("**/x.py", "x.py", True),
        ("**/x.py", "ax.py", False),
        ("a**/x.py", "ax.py", False),
        ("a**/x.py", "ab/x.py", True),
        ("[-a]x", "-x", True),
        ("a?c", "abc", True),
        ("a?c", "aéc", True),
        ("a?c", "ac", False),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[]a]x", "]x", True),
        ("[a-]x", "-x", True),
        (r"[\]]x", "]x", True),
        ("{a,b{c,d}}x", "bdx", True),
        ("{a,b{c,d}}x", "bx", False),
        ("{a,}x", "x", True),
        (r"\{a\}", "{a}", True),
        (r"a\*b", "a*b", True),
        (r"a\*b", "axb", False),
        ("a.c", "abc", False),
        ("a,b", "a,b", True),
        ("*", "", True),
        ("é*", "ete", False),
        ("é*", "école", True),
        ("*é", "café", True),
    ],
)
def test_a_glob_fits_the_whole_text(glob: str, text: str, fits: bool) -> None:
    quoted = glob.replace("\\", "\\\\")
    assert must(f'T(v ~ "{quoted}")', {"v": text}) is fits
    assert may(f'T(v ~ "{quoted}")', {"v": text}) is fits
    assert must(f'T(v !~ "{quoted}")', {"v": text}) is not fits
    assert may(f'T(v !~ "{quoted}")', {"v": text}) is not fits


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        ('T(v = "abc")', "abc", True),
        ('T(v = "abc")', "abcd", False),
        ('T(v = "")', None, True),
        ('T(v = "true")', True, True),
        ('T(v = "12")', 12, True),
        ('T(v = "1.5")', 1.5, True),
        ('T(v = "123456789012345678901")', 123456789012345678901, True),
        ('T(v = "[1,2]")', [1, 2], True),
        ('T(v = "{\\"a\\":1,\\"b\\":2}")', {"b": 2, "a": 1}, True),
        ('T(v =~ "b")', "abc", True),
        ('T(v =~ "^b")', "abc", False),
        ('T(v !=~ "b")', "abc", False),
        ('T(v != "abc")', "abd", True),
    ],
)
def test_values_are_compared_as_text(pattern: str, value: Any, fits: bool) -> None:
    assert must(pattern, {"v": value}) is fits
    assert may(pattern, {"v": value}) is fits


EDITS = {"edits": [{"path": "/tmp/a", "n": 1}, {"path": "/etc/b", "n": 2}], "x": {"y": "z"}}


@pytest.mark.parametrize(
    ("pattern", "is_possible", "is_certain"),
    [
        ('T(x.y = "z")', True, True),
        ('T(x.* = "z")', True, True),
        ('T(edits[0].path = "/tmp/a")', True, True),
        ('T(edits[2].path = "/tmp/a")', False, False),
        ('T(edits[*].path ~ "/tmp/*")', True, False),
        ('T(edits[*].path ~ "/*")', True, True),
        ('T(edits[*].path !~ "/tmp/*")', True, False),
        ('T(edits[*].path !~ "/var/*")', True, True),
        ('T(edits.*.n =~ "^[12]$")', True, True),
        ('T(*[*].path ~ "/*")', True, False),
        ('T(x.y = "z", edits[1].n = "2")', True, True),
        ('T(x.y = "z", edits[1].n = "3")', False, False),
        ('T(nothing ~ "*")', False, False),
        ('T(nothing !~ "*")', True, False),
        ('T(nothing != "a")', True, False),
        ('T(nothing !=~ "a")', True, False),
        ('T(x.y.z = "z")', False, False),
        ('T(edits[*].size != "1")', True, False),
    ],
)
def test_paths_lead_into_the_arguments_and_what_is_missing_is_never_certain(
    pattern: str, is_possible: bool, is_certain: bool
) -> None:
    assert may(pattern, EDITS) is is_possible
    assert must(pattern, EDITS) is is_certain


def test_the_items_of_nothing_are_missing() -> None:
    assert not may('T(edits[*].path ~ "*")', {"edits": []})
    assert not must('T(edits[*].path !~ "x")', {"edits": []})
    assert not must('T(x.* !~ "x")', {"x": {}})


@pytest.mark.parametrize("arguments", [None, [], "git x", 5, {}], ids=repr)
def test_arguments_that_are_no_object_have_no_paths(arguments: Arguments) -> None:
    assert not may('T(command ~ "*")', arguments)
    assert may('T(command !~ "*")', arguments)
    assert not must('T(command !~ "x")', arguments)


def test_the_primary_value_is_the_only_argument_or_all_of_them_with_sorted_keys() -> None:
    assert must("T(git *)", {"command": "git status"})
    assert must('T(\\{"a":1,"b":2\\})', {"b": 2, "a": 1})
    assert must('T(\\{"a":1,"b":2\\})', {"a": 1, "b": 2})
    assert must("T(\\{\\})", {})
    assert not must("T(git *)", {"command": "git status", "timeout": 5})


DISGUISES: dict[str, Arguments] = {
    "as it is": "rm -rf /",
    "upper case": "RM -rf /",
    "full width": "\uff52\uff4d -rf /",
    "zero width": "r\u200bm -rf /",
    "soft hyphen": "r\u00adm -rf /",
    "direction mark": "\u202erm -rf /",
    "variation selector": "r\ufe0fm -rf /",
    "tag characters": "rm\U000e0020\U000e0041 -rf /",
    "filler": "r\u3164m -rf /",
    "filler as a space": "rm\u3164-rf /",
    "blank of braille": "r\u2800m -rf /",
    "blank of braille as a space": "rm\u2800-rf /",
    "hidden behind a letter": "\u200brm\u2800 -rf /",
    "control": "r\x00m -rf /",
    "bell": "\x07rm -rf /",
    "leading space": "  rm -rf /",
    "leading line break": "\nrm -rf /",
    "trailing line break": "rm -rf /\n",
    "more space": "rm   -rf /",
    "tab": "rm\t-rf /",
    "line break inside": "rm \n -rf /",
    "no-break space": "rm\u00a0-rf /",
    "ideographic space": "rm\u3000-rf /",
    "math letters": "𝓇𝓂 -rf /",
    "circled": "ⓡⓜ -rf /",
    "list": ["rm", "-rf", "/"],
    "list of one": ["rm -rf /"],
    "second of a list": ["ls", "rm -rf /"],
    "nested list": [["rm", "-rf", "/"]],
    "object": {"line": "rm -rf /"},
    "object in a list": [{"argv": ["RM", "-rf", "/"]}],
}


@pytest.mark.parametrize(
    "rule", ["T(rm -rf *)", 'T(command ~ "rm -rf *")', 'T(command =~ "^rm -rf")']
)
@pytest.mark.parametrize("name", DISGUISES)
def test_a_denial_sees_through_disguises(name: str, rule: str) -> None:
    assert may(rule, {"command": DISGUISES[name]})
    assert must(rule, {"command": DISGUISES[name]}) is (name == "as it is")


@pytest.mark.parametrize("name", DISGUISES)
def test_a_negated_allowance_sees_through_disguises_as_well(name: str) -> None:
    assert not must('T(command !~ "rm -rf *")', {"command": DISGUISES[name]})


@pytest.mark.parametrize("name", DISGUISES)
def test_a_denial_of_the_primary_value_holds_with_more_arguments(name: str) -> None:
    arguments = {"a": 1, "command": DISGUISES[name], "timeout": 5}
    assert may("T(rm -rf *)", arguments)
    assert not must("T(rm -rf *)", arguments)


@pytest.mark.parametrize("mark", ["\u200b", "\u2060", "\u2800", "\u1160"])
def test_a_denial_sees_an_accent_that_is_torn_from_its_letter(mark: str) -> None:
    assert may("T(café *)", {"command": f"cafe{mark}\u0301 x"})
    assert not must('T(command !~ "café *")', {"command": f"cafe{mark}\u0301 x"})


def test_a_denial_written_in_capitals_or_with_more_space_holds_too() -> None:
    assert may("T(RM  -rf *)", {"c": "rm -rf /"})
    assert may('T(c = "ﬁle ")', {"c": "FILE"})
    assert may('T(c ~ "[A-Z]x")', {"c": "bX"})
    assert may('T(n = "1")', {"n": 1.0})
    assert may('T(c ~ "?x")', {"c": "\nx"})
    assert may('T(c =~ "^RM -RF")', {"c": "rm -rf /"})
    assert may('T(*"c":"rm -rf /"*)', {"a": 1, "c": "rm\n-rf /"})


@pytest.mark.parametrize("text", ["git \u200bx", "git x\n", "git a\nrm b", "git\tx", "git \x1bx"])
def test_what_nobody_sees_is_allowed_only_by_an_equal_text_or_by_any(text: str) -> None:
    arguments = {"c": text}
    assert not must("T(git*)", arguments)
    assert not must('T(c ~ "git*")', arguments)
    assert not must('T(c =~ "^git")', arguments)
    assert not must('T(*[*] ~ "git*")', {"c": [text]})
    assert not must("T(*git*)", {"a": {"b": [text]}, "d": 1})
    assert must(f'T(c = "{text}")', arguments)
    assert must('T(c ~ "*")', arguments)
    assert must("T(**)", arguments)
    assert must("T", arguments)


def test_unseen_characters_in_names_are_not_allowed_by_a_glob() -> None:
    assert must('T(*"ab":1*)', {"ab": 1, "c": 2})
    assert not must('T(*"c":2*)', {"a\u200bb": 1, "c": 2})
    assert not must('T(*"c":2*)', {"a\nb": 1, "c": 2})


@pytest.mark.parametrize(
    "value",
    ["x" * 300_000, "half \ud800", ["x"] * 2_000, {"a": "x" * 300_000}],
    ids=["long", "surrogate", "many", "long inside"],
)
def test_what_cannot_be_decided_is_denied_and_not_allowed(value: Any) -> None:
    for rule in ('T(c ~ "never")', 'T(c !~ "never")', 'T(c =~ "never")', 'T(c = "x")', "T(never)"):
        assert may(rule, {"c": value}), rule
        assert not must(rule, {"c": value}), rule
    assert must("T", {"c": value})


def test_arguments_deeper_than_can_be_followed_are_denied_and_not_allowed() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    assert may("T(never)", {"c": deep})
    assert not must("T(*x*)", {"c": deep})
    while isinstance(deep, list):  # freed one by one, the interpreter's own recursion is bounded
        deep = deep.pop()


def test_an_expression_too_large_for_the_text_takes_the_careful_side() -> None:
    rule, text = 'T(c =~ "(a|b)*a(a|b){400}c")', {"c": "ab" * 50_000}
    assert may(rule, text)
    assert not must(rule, text)
    assert not may(rule, {"c": "ab" * 100})


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
_VALUES = st.recursive(
    _LEAVES, lambda it: st.lists(it, max_size=3) | st.dictionaries(st.text(), it, max_size=3)
)
_RULES = st.sampled_from(
    [
        *("T(*a*)", 'T(a ~ "*a*")', 'T(a !~ "*a*")', 'T(a = "a")', 'T(a != "a")', "T(?)"),
        *('T(a !=~ "[a-z]")', 'T(*[*] ~ "*")', 'T(a.* !~ "")', 'T(a[0] != "")', 'T(a =~ "[^a]")'),
    ]
)


@given(_RULES, st.dictionaries(st.sampled_from("ab"), _VALUES) | _VALUES)
def test_whatever_is_certain_is_possible(rule: str, arguments: Arguments) -> None:
    assert may(rule, arguments) or not must(rule, arguments)


@given(st.dictionaries(st.sampled_from("ab"), _VALUES))
def test_a_condition_and_its_negation_are_never_both_certain_and_never_both_impossible(
    arguments: Arguments,
) -> None:
    for yes, no in (("~", "!~"), ("=", "!="), ("=~", "!=~")):
        rules = [f'T(a {operator} "a")' for operator in (yes, no)]
        assert not all(must(rule, arguments) for rule in rules)
        assert any(may(rule, arguments) for rule in rules)
