"""Schemas, the index of many patterns, tool globs, expressions with a bound."""

import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.patterns import (
    PatternError,
    PatternIndex,
    call_of,
    compile_regex,
    compile_tool_glob,
    parse_pattern,
)
from awaken.patterns.readings import fold

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "string"},
        "edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {},
        "either": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Edit"}]},
        "pair": {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
        "node": {"$ref": "#/$defs/Node"},
        "loop": {"$ref": "#/$defs/Loop"},
        "other": {"$ref": "https://example.com/schema"},
        "maybe": {"type": ["object", "null"], "properties": {"a": True}},
        "named": {"type": "object", "patternProperties": {"^x": {"type": "string"}}},
        "closed": {"type": "object", "additionalProperties": False},
        "open": {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
        "both": {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]},
    },
    "$defs": {
        "Edit": {"type": "object", "properties": {"path": {"type": "string"}}},
        "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}},
        "Loop": {"$ref": "#/$defs/Loop"},
    },
}
POSSIBLE = [
    *("command", "edits", "edits[0].path", "edits[*].path", "edits.*.path", "env.HOME", "env.*"),
    *("free.a.b[0]", "either.path", "pair[0]", "node.next.next.next", "other.a", "maybe.a"),
    *("named.x", "open.b", "both.a", "both.b", "*", "*[*].path"),
]
IMPOSSIBLE = {
    "comand": "have no 'comand'; known: both, closed, command",
    "command.x": "the values at 'command' have no 'x'",
    "edits.path": "have no 'path'",
    "edits[0].file": "known: path",
    "command[0]": "have no item [0]",
    "either.file": "known: path",
    "pair[1]": "have no item [1]",
    "env.HOME.x": "have no 'x'",
    "closed.a": "have no 'a'",
    "closed.*": "have no items",
    "node.next.last": "known: next",
    "loop.a": "have no 'a'",
}


@pytest.mark.parametrize("path", POSSIBLE)
def test_a_path_that_the_schema_can_have_is_no_problem(path: str) -> None:
    assert parse_pattern(f'T({path} ~ "x")').problems(SCHEMA) == ()


@pytest.mark.parametrize(("path", "problem"), IMPOSSIBLE.items())
def test_a_path_that_the_schema_cannot_have_is_told(path: str, problem: str) -> None:
    (told,) = parse_pattern(f'T(command = "a", {path} ~ "x")').problems(SCHEMA)
    assert told.startswith(f"'{path}': ")
    assert problem in told


def test_a_pattern_without_conditions_has_no_problem_with_any_schema() -> None:
    assert parse_pattern("T(git *)").problems(SCHEMA) == parse_pattern("T").problems(False) == ()
    assert (
        parse_pattern('T(a = "x")').problems(True) == parse_pattern('T(a = "x")').problems({}) == ()
    )
    assert parse_pattern('T(a = "x")').problems(False) != ()


RULES = [
    *("read", "wri*", "/e/", "read(/etc/*)", 'read(path ~ "/etc/*")', 'read(path !~ "/etc/*")'),
    *("*", "nothing", 'write(path = "x")', "read", "/^read$/(*.py)"),
]


@given(st.sampled_from(["read", "write", "nothing", "x"]), st.sampled_from(["/etc/a", "x", "b.py"]))
def test_an_index_finds_what_each_pattern_alone_would_in_the_order_given(
    tool_id: str, path: str
) -> None:
    patterns = [parse_pattern(text) for text in RULES]
    index = PatternIndex(list(zip(patterns, RULES, strict=True)))
    call = call_of(tool_id, {"path": path})
    for _ in range(2):
        assert index.may_match(call) == [it.text for it in patterns if it.may_match(call)]
        assert index.must_match(call) == [it.text for it in patterns if it.must_match(call)]
        assert index.of_tool(tool_id) == [it.text for it in patterns if it.matches_tool(tool_id)]


def test_an_index_remembers_a_bounded_number_of_tools() -> None:
    index = PatternIndex([(parse_pattern("a*"), 1)])
    for n in range(5_000):
        assert index.may_match(call_of(f"a{n}", {})) == [1]
    assert len(index._of_tool) <= 4_096


@pytest.mark.parametrize(
    ("glob", "tool_id", "matches"),
    [
        ("*", "anything", True),
        ("mcp__*", "mcp__a", True),
        ("mcp__*", "xmcp__a", False),
        ("*_file", "read_file", True),
        ("*_file", "read_files", False),
        ("a*b*c", "aXbYc", True),
        ("a**c", "ac", True),
        ("a?c", "abc", True),
        (r"a\?c", "abc", False),
        ("[ab]", "a", True),
        ("[!ab]", "a", False),
        ("mcp__files__{write,delete}_*", "mcp__files__delete_all", True),
        ("mcp__files__{write,delete}_*", "mcp__files__read_all", False),
        (r"a\*", "a*", True),
        (r"a\*", "ab", False),
        (r"a\\*", r"a\b", True),
        (r"\a", "a", True),
        (r"\C\*", r"C*", True),
        (r"\\C\**", r"\C*", True),
        (r"\\C\**", r"\C*x", True),
    ],
)
def test_a_glob_of_tools_is_the_glob_of_patterns(glob: str, tool_id: str, matches: bool) -> None:
    assert compile_tool_glob(glob)(tool_id) is matches


@pytest.mark.parametrize("glob", ["", "a\\", "x" * 513, "\ud800", "[a", "{a", "a}"])
def test_what_is_no_glob_of_tools_is_refused(glob: str) -> None:
    with pytest.raises(PatternError):
        compile_tool_glob(glob)


@given(st.text(), st.text())
def test_an_escaped_text_is_a_glob_for_itself_only(text: str, other: str) -> None:
    escaped = "".join(f"\\{char}" for char in text[:200])
    try:
        fits = compile_tool_glob(escaped)
    except PatternError:
        assert not text or max(text) >= "\ud800"
        return
    assert fits(text[:200])
    assert fits(other) is (other == text[:200])


def test_an_expression_is_searched_within_its_bounds() -> None:
    regex = compile_regex("b+$")
    assert regex.search("abb", otherwise=False)
    assert not regex.search("abba", otherwise=True)
    for otherwise in (True, False):
        assert regex.search("b" * 300_000, otherwise=otherwise) is otherwise
        assert regex.search("\ud800", otherwise=otherwise) is otherwise


@pytest.mark.parametrize("mark", [chr(it) for it in (0x200B, 0x2800, 0x3164, 0xFFA0, 0xFE0F)])
def test_what_hides_between_a_letter_and_its_accent_hides_nothing(mark: str) -> None:
    assert fold(f"cafe{mark}\u0301") == fold("CAFÉ") == "café"


@given(st.text(alphabet="eE\u0301\u0345\u200b\u2800\u1160\u3164\u017fßİﬁΐΰ\u03b9\u0308Å\u212b "))
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


def test_folding_leaves_no_character_that_nobody_sees() -> None:
    hidden = [chr(code) for code in range(sys.maxunicode + 1) if _is_hidden(chr(code))]
    assert [char for char in hidden if fold(f"a{char}b") not in ("ab", "a b")] == []
    assert len(hidden) > 200


def _is_hidden(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Zs")
