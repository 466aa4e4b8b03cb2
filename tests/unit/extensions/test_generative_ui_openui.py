"""OpenUI Lang: what is a statement, where it ends, and what is wrong with a program."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken.extensions.generative_ui.config import OpenUiConfig
from awaken.extensions.generative_ui.json_patch import apply_operation
from awaken.extensions.generative_ui.openui import WARNINGS_MAX, ProgramReader
from awaken.extensions.generative_ui.openui_syntax import (
    STATEMENT_MAX,
    OpenUiCall,
    SyntaxRefused,
    parse_statement,
)
from awaken.extensions.generative_ui.prompts import openui_rules
from awaken.extensions.generative_ui.readers import Interface

LIBRARY = OpenUiConfig(
    agent="writer",
    root="Card",
    components={
        "Card": ("children: Component[]", "title?: string"),
        "Text": ("text: string",),
        "Button": ("label: string", "action?: ActionExpression", "variant?: 'primary'"),
    },
)
ANY = OpenUiConfig(agent="writer")


def read(text: str, library: OpenUiConfig = ANY) -> Interface:
    reader = ProgramReader(library)
    reader.feed(text)
    return reader.finish()


GOOD: list[tuple[str, list[str], list[tuple[str, int]]]] = [
    ("a = 1", [], []),
    ('a = "x\\"y"', [], []),
    ("a = 'it\\'s'", [], []),
    ("a = -1.5e3", [], []),
    ("a = [1 -2, 3 - 1, -5]", [], []),
    ("a = true && !false || null", [], []),
    ("$a = []", [], []),
    ("a = b.c.0.1[d]", ["b", "d"], []),
    ("a = {x: b, 'y z': c, 2: d, $s: 1, Card: e}", ["b", "c", "d", "e"], []),
    ("a = $on ? b : c ? d : e", ["b", "c", "d", "e"], []),
    ("a = (b + c) * 2 >= d % 3", ["b", "c", "d"], []),
    ("a = 1 === 2 != 3", [], []),
    ("a = Card([b, Text('x') c,])", ["b", "c"], [("Text", 1), ("Card", 1)]),
    ("a = Card(null, null, x)", ["x"], [("Card", 3)]),
    ("a = @Count(@Filter(rows.all, 'f', '==', $v))", ["rows"], [("@Filter", 4), ("@Count", 1)]),
    ("a = @Each(rows, 't', Text(t.name + u))", ["rows", "u"], [("Text", 1), ("@Each", 3)]),
    (
        "a = [@Each(r, 't', @Each(t, 'i', i)), t]",
        ["r", "t"],
        [("@Each", 3), ("@Each", 3)],
    ),
    ("a = Action([@Set($x, 1), @Run(q)])", ["q"], [("@Set", 2), ("@Run", 1), ("Action", 1)]),
    ("a = Query('tool', {n: $x}, {rows: []}, 30)", [], [("Query", 4)]),
    ("Header = Text('x') // a comment (", [], [("Text", 1)]),
    ("a = Text('x');", [], [("Text", 1)]),
    ("a = Card(\n  [b],\n  # why\n  'x'\n)", ["b"], [("Card", 2)]),
]


@pytest.mark.parametrize(("text", "references", "calls"), GOOD, ids=[it[0] for it in GOOD])
def test_a_statement_is_read_with_everything_that_it_names(
    text: str, references: list[str], calls: list[tuple[str, int]]
) -> None:
    statement = parse_statement(text)
    assert statement is not None
    assert list(statement.references) == references
    assert list(statement.calls) == [OpenUiCall(name=it, arguments=count) for it, count in calls]


BAD = [
    "a = ",
    "a = (1",
    "a = [1",
    "a = {x 1}",
    "a = {: 1}",
    "a = 1 +",
    "a = ? b : c",
    "a = b ? c",
    "a = Card(",
    "a = b c",
    "a = foo(1)",
    "a = 1)",
    "a = 'open",
    "a = b.",
    "a = b[1",
    "a = * 2",
    "a = " + "(" * 100 + "1" + ")" * 100,
    "a = " + "[" * 5_000,
    "a = $x = 1",
]


@pytest.mark.parametrize("text", BAD, ids=[it[:20] for it in BAD])
def test_what_begins_like_a_statement_and_is_none_is_refused(text: str) -> None:
    with pytest.raises(SyntaxRefused):
        parse_statement(text)


@pytest.mark.parametrize("text", ["", "prose", "a == b", "@a = 1", "1 = 2", "true = 1", "- a = 1"])
def test_a_line_that_is_no_statement_is_left_out(text: str) -> None:
    assert parse_statement(text) is None


SPLIT: list[tuple[str, list[str]]] = [
    ("a = 1\nb = 2", ["a = 1", "b = 2"]),
    ("a = Card([\n  b,\n  c\n])\nb = 2", ["a = Card([\n  b,\n  c\n])", "b = 2"]),
    ('a = "one\n// no comment\nb = 2"\nc = 3', ['a = "one\n// no comment\nb = 2"', "c = 3"]),
    ("a = $n > 0\n  ? 'x'\n  : 'y'\nb = 2", ["a = $n > 0\n  ? 'x'\n  : 'y'", "b = 2"]),
    ("a = $n ? 1 :\n  2\nb = 2", ["a = $n ? 1 :\n  2", "b = 2"]),
    ("a = $n ?\n 1\n: 2\nb = 2", ["a = $n ?\n 1\n: 2", "b = 2"]),
    ("a = $n ? 1\n  + 2\n  : 3\nb = 2", ["a = $n ? 1\n  + 2\n  : 3", "b = 2"]),
    ("a = {x: 1}\nb = 2", ["a = {x: 1}", "b = 2"]),
    ("It's a page:\na = 1\nthat's all", ["a = 1"]),
    ('He said "look.\n```\na = 1\n```\nb = 2', ["a = 1"]),
    ("x = 1\ny = 2\n```openui-lang\na = 1\n```\nand\n```\nb = 2\n```", ["a = 1", "b = 2"]),
    ("```\na = 1", ["a = 1"]),
    ('```\na = "\n```\n"\n```\nb = 2', ['a = "\n```\n"']),
    ("a = 1\r\nb = 2\r\n", ["a = 1", "b = 2"]),
    ("a = (1\nb = 2\n", []),
    ("a = 1 2\nb = 2", ["b = 2"]),
]


@pytest.mark.parametrize(("text", "wanted"), SPLIT, ids=[it[0] for it in SPLIT])
@pytest.mark.parametrize("piece", [1, 3, 1_000])
def test_statements_end_where_the_language_says_however_they_come(
    text: str, wanted: list[str], piece: int
) -> None:
    reader, view = ProgramReader(ANY), ProgramReader(ANY).preview
    for at in range(0, len(text), piece):
        for change in reader.feed(text[at : at + piece]):
            view = apply_operation(view, change)
        assert view == reader.preview
    assert reader.finish().content == {"statements": wanted}


@settings(deadline=None)
@given(st.text("ab=Card(){}[]\"'?:,.$@ \n`#/1\\", max_size=60), st.data())
def test_however_a_text_is_cut_the_same_comes_out(text: str, data: Any) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    reader = ProgramReader(LIBRARY)
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        reader.feed(text[start:end])
    assert reader.finish() == read(text, LIBRARY)


def test_a_program_is_whole_and_nothing_is_said_about_it() -> None:
    program = (
        'root = Card([title, go, list], "Tickets")\n'
        'title = Text("You have " + @Count(data.rows))\n'
        'go = Button("Go", Action([@Run(data), @Set($open, true)]), "primary")\n'
        'list = @Each(data.rows, "row", Text(row.title))\n'
        'data = Query("list", {open: $open}, {rows: []})\n'
        "$open = false\n"
    )
    told = read(program, LIBRARY)
    assert told == Interface(content={"statements": program.strip().split("\n")})


WARNED: list[tuple[str, str]] = [
    ("root = Card([a])", "root: 'a' is not defined"),
    ("root = Card([Pie()])", "root: there is no component Pie; known are Card, Text, Button"),
    ("root = Card([Text()])", "root: Text takes 1 to 1 arguments: text: string"),
    ("root = Card([], 'x', 'y')", "root: Card takes 1 to 2 arguments"),
    ("root = Card([@Shout(1)])", "root: there is no function @Shout"),
    ("root = Card([])\na = Text('x')", "a: nothing refers to it, so it is not shown"),
    ("root = Card([])\na = 1 2", "a = 1 2: '2' is not expected there"),
]


@pytest.mark.parametrize(("program", "warning"), WARNED, ids=[it[1] for it in WARNED])
def test_what_a_client_would_leave_out_is_reported(program: str, warning: str) -> None:
    told = read(program, LIBRARY)
    assert told.problem is None
    assert any(it.startswith(warning) for it in told.warnings)


def test_warnings_are_bounded() -> None:
    told = read("root = Card([" + ",".join(f"x{it}" for it in range(100)) + "])", LIBRARY)
    assert len(told.warnings) == WARNINGS_MAX


ROOTS: list[tuple[str, OpenUiConfig, str | None]] = [
    ("root = Card([])", LIBRARY, None),
    ("root = page\npage = Card([])", LIBRARY, None),
    ("root = $t ? a : b\na = Card([])\nb = Card([])", LIBRARY, None),
    ("page = Card([])", LIBRARY, None),
    ("page = Text('x')", LIBRARY, "there is no statement 'root = …'"),
    ("page = Card([])", ANY, "there is no statement 'root = …'"),
    ("root = 5", LIBRARY, "'root' must be a component"),
    ("root = Query('t')", LIBRARY, "'root' must be a component"),
    ("just prose", LIBRARY, "the text has no statements"),
    ("", LIBRARY, "the text has no statements"),
]


@pytest.mark.parametrize(("program", "library", "problem"), ROOTS, ids=[it[0] for it in ROOTS])
def test_a_program_needs_a_root(program: str, library: OpenUiConfig, problem: str | None) -> None:
    found = read(program, library).problem
    assert found == problem if problem is None else (found or "").startswith(problem)


def test_a_statement_of_many_lines_is_bounded_and_read_in_one_pass() -> None:
    lines = ["root = Card(["] + ["a,"] * 3_900 + ["])"]
    assert read("\n".join(lines)).problem is None
    long = ["root = Card([])", "x = ["] + ["a," * 200] * 100 + ["]"]
    told = read("\n".join(long))
    assert told.content == {"statements": ["root = Card([])"]}
    assert f"more than {STATEMENT_MAX} characters" in told.warnings[0]


def test_the_rules_name_every_component_and_are_themselves_a_program() -> None:
    rules = openui_rules(LIBRARY)
    assert "- Button(label: string, action?: ActionExpression, variant?: 'primary')" in rules
    example = [it for it in rules.splitlines() if it.startswith(("root =", "title ="))]
    assert read("\n".join(example), LIBRARY).warnings == ()
    assert openui_rules(LIBRARY) == rules
