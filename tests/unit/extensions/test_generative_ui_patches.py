"""JSON Patch, and the specs that are built of it line by line."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken.extensions.generative_ui.json_patch import (
    TOKENS_MAX,
    PatchRefused,
    apply_operation,
    is_same,
    pointer_tokens,
    value_at,
)
from awaken.extensions.generative_ui.json_render import (
    ELEMENTS_MAX,
    LEVELS_MAX,
    SpecReader,
    empty_spec,
    spec_problem,
)
from awaken.extensions.generative_ui.readers import BYTES_MAX, LINE_MAX, LINES_MAX, Interface
from awaken.protocols.ag_ui.patch import difference, is_patch

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text(max_size=3)
NAMES = st.text("ab/~-01é", max_size=3)
JSON = st.recursive(
    SCALARS,
    lambda it: st.lists(it, max_size=3) | st.dictionaries(NAMES, it, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, JSON, max_size=3)

# The examples of RFC 6902, appendix A: document, operations, and what comes out; None is refused.
EXAMPLES: list[tuple[str, Any, list[Any], Any]] = [
    (
        "A.1",
        {"foo": "bar"},
        [{"op": "add", "path": "/baz", "value": "qux"}],
        {"baz": "qux", "foo": "bar"},
    ),
    (
        "A.2",
        {"foo": ["bar", "baz"]},
        [{"op": "add", "path": "/foo/1", "value": "qux"}],
        {"foo": ["bar", "qux", "baz"]},
    ),
    ("A.3", {"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
    (
        "A.4",
        {"foo": ["bar", "qux", "baz"]},
        [{"op": "remove", "path": "/foo/1"}],
        {"foo": ["bar", "baz"]},
    ),
    (
        "A.5",
        {"baz": "qux", "foo": "bar"},
        [{"op": "replace", "path": "/baz", "value": "boo"}],
        {"baz": "boo", "foo": "bar"},
    ),
    (
        "A.6",
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    (
        "A.7",
        {"foo": ["all", "grass", "cows", "eat"]},
        [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    (
        "A.8",
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [
            {"op": "test", "path": "/baz", "value": "qux"},
            {"op": "test", "path": "/foo/1", "value": 2},
        ],
        {"baz": "qux", "foo": ["a", 2, "c"]},
    ),
    ("A.9", {"baz": "qux"}, [{"op": "test", "path": "/baz", "value": "bar"}], None),
    (
        "A.10",
        {"foo": "bar"},
        [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
        {"foo": "bar", "child": {"grandchild": {}}},
    ),
    (
        "A.11",
        {"foo": "bar"},
        [{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}],
        {"foo": "bar", "baz": "qux"},
    ),
    ("A.12", {"foo": "bar"}, [{"op": "add", "path": "/baz/bat", "value": "qux"}], None),
    ("A.14", {"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
    ("A.15", {"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": "10"}], None),
    (
        "A.16",
        {"foo": ["bar"]},
        [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}],
        {"foo": ["bar", ["abc", "def"]]},
    ),
    ("whole", {"a": 1}, [{"op": "add", "path": "", "value": [1]}], [1]),
    ("whole replaced", {"a": 1}, [{"op": "replace", "path": "", "value": None}], None),
    ("null added", {}, [{"op": "add", "path": "/a", "value": None}], {"a": None}),
    (
        "copied",
        {"a": {"b": 1}},
        [{"op": "copy", "from": "/a", "path": "/c"}],
        {"a": {"b": 1}, "c": {"b": 1}},
    ),
    ("moved onto itself", {"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
    ("empty name", {"": 1}, [{"op": "replace", "path": "/", "value": 2}], {"": 2}),
    ("numeric name", {"0": 1}, [{"op": "remove", "path": "/0"}], {}),
]


@pytest.mark.parametrize(
    ("name", "document", "patch", "wanted"), EXAMPLES, ids=[it[0] for it in EXAMPLES]
)
def test_the_examples_of_the_rfc_come_out_as_it_says(
    name: str, document: Any, patch: list[Any], wanted: Any
) -> None:
    if wanted is None and name != "whole replaced":
        with pytest.raises(PatchRefused):
            apply_all(document, patch)
    else:
        assert apply_all(document, patch) == wanted


REFUSED: list[tuple[Any, Any]] = [
    ({}, {"op": "remove", "path": "/a"}),
    ({}, {"op": "replace", "path": "/a", "value": 1}),
    ({}, {"op": "test", "path": "/a", "value": None}),
    ({}, {"op": "copy", "from": "/a", "path": "/b"}),
    ({"a": 1}, {"op": "add", "path": "/a"}),
    ({"a": 1}, {"op": "add", "value": 1}),
    ({"a": 1}, {"op": "copy", "path": "/b"}),
    ({"a": 1}, {"op": "set", "path": "/a", "value": 1}),
    ({"a": 1}, {"path": "/a", "value": 1}),
    ({"a": 1}, {"op": "add", "path": "a", "value": 1}),
    ({"a": 1}, {"op": "add", "path": 5, "value": 1}),
    ({"a": 1}, {"op": "add", "path": "/~2", "value": 1}),
    ({"a": 1}, {"op": "add", "path": "/a/b", "value": 1}),
    ({"a": 1}, {"op": "remove", "path": ""}),
    ({"a": {"b": 1}}, {"op": "move", "from": "/a", "path": "/a/b"}),
    ({"a": {}}, {"op": "move", "from": "", "path": "/a/b"}),
    ([{"a": 1}, {"b": 2}], {"op": "move", "from": "/0", "path": "/0/c"}),
    (list(range(12)), {"op": "remove", "path": "/01"}),
    ([1, 2], {"op": "add", "path": "/3", "value": 1}),
    ([1, 2], {"op": "add", "path": "/01", "value": 1}),
    ([1, 2], {"op": "add", "path": "/-1", "value": 1}),
    ([1, 2], {"op": "add", "path": "/1e0", "value": 1}),
    ([1, 2], {"op": "add", "path": "/²", "value": 1}),
    ([1, 2], {"op": "remove", "path": "/-"}),
    ([1, 2], {"op": "remove", "path": "/2"}),
    ([1, 2], {"op": "replace", "path": "/-", "value": 1}),
    ([], {"op": "remove", "path": "/0"}),
    ([1, 2], {"op": "test", "path": "/0", "value": True}),
    ({}, {"op": "add", "path": "/a" * (TOKENS_MAX + 1), "value": 1}),
]


@pytest.mark.parametrize(("document", "operation"), REFUSED, ids=str)
def test_what_cannot_be_done_is_refused_and_changes_nothing(document: Any, operation: Any) -> None:
    before = copy.deepcopy(document)
    with pytest.raises(PatchRefused):
        apply_operation(document, operation)
    assert document == before


def apply_all(document: Any, patch: list[Any]) -> Any:
    for operation in patch:
        document = apply_operation(document, operation)
    return document


def pointer(*tokens: str) -> str:
    return "".join("/" + it.replace("~", "~0").replace("/", "~1") for it in tokens)


@settings(deadline=None)
@given(OBJECTS, OBJECTS)
def test_the_difference_of_two_documents_turns_one_into_the_other(old: Any, new: Any) -> None:
    before = copy.deepcopy(old)
    assert is_same(apply_all(old, difference(old, new)), new)
    assert is_same(old, before)


@settings(deadline=None)
@given(JSON, JSON)
def test_two_values_are_the_same_when_their_json_is(left: Any, right: Any) -> None:
    def plain(value: Any) -> str:
        numbers = json.loads(json.dumps(value), parse_int=float)
        return json.dumps(numbers, sort_keys=True).replace("-0.0", "0.0")

    assert is_same(left, right) is (plain(left) == plain(right))


@settings(deadline=None)
@given(st.lists(st.text("~/a01é", max_size=4), max_size=5))
def test_a_pointer_is_read_as_it_was_written(tokens: list[str]) -> None:
    assert pointer_tokens(pointer(*tokens)) == tokens


@settings(deadline=None)
@given(OBJECTS, NAMES, JSON, NAMES)
def test_operations_undo_each_other(document: Any, name: str, value: Any, other: str) -> None:
    added = apply_operation(document, {"op": "add", "path": pointer(name), "value": value})
    assert is_same(value_at(added, pointer(name)), value)
    if name not in document:
        assert is_same(apply_operation(added, {"op": "remove", "path": pointer(name)}), document)
    moved = apply_operation(added, {"op": "move", "from": pointer(name), "path": pointer(other)})
    copied = apply_operation(added, {"op": "copy", "from": pointer(name), "path": pointer(other)})
    assert is_same(value_at(moved, pointer(other)), value)
    assert (name in moved) is (name == other)
    expected = (
        copied
        if name == other
        else apply_operation(copied, {"op": "remove", "path": pointer(name)})
    )
    assert is_same(moved, expected)


@settings(deadline=None)
@given(st.lists(SCALARS, max_size=5), st.integers(0, 6), SCALARS)
def test_a_value_is_put_into_a_list_before_the_one_at_its_place(
    items: list[Any], index: int, value: Any
) -> None:
    operation = {"op": "add", "path": f"/{index}", "value": value}
    if index > len(items):
        with pytest.raises(PatchRefused):
            apply_operation(items, operation)
        return
    grown = apply_operation(items, operation)
    assert grown == [*items[:index], value, *items[index:]]
    assert apply_operation(grown, {"op": "remove", "path": f"/{index}"}) == items


PATCHES = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "set"])},
    optional={
        "path": st.sampled_from(
            ["/root", "/elements/a", "/elements/a/children/-", "/x/y/z", "", "/0"]
        ),
        "from": st.sampled_from(["/elements", "/elements/a", "/root", ""]),
        "value": st.sampled_from(
            ["a", {"type": "Card", "children": ["a"]}, 5, None, {"children": []}]
        ),
    },
)


@settings(deadline=None)
@given(st.lists(PATCHES | st.sampled_from(["prose", "{", "[]", "12"]), max_size=12), st.data())
def test_however_a_text_is_cut_the_same_is_shown_and_the_same_comes_out(
    lines: list[Any], data: Any
) -> None:
    text = "\n".join(it if isinstance(it, str) else json.dumps(it) for it in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    reader, view = SpecReader({}), empty_spec()
    for piece in pieces:
        changes = reader.feed(piece)
        assert is_patch(changes)
        view = apply_all(view, changes)
        assert view == reader.preview
    assert reader.finish() == compiled(text)


def compiled(text: str, **components: str) -> Interface:
    reader = SpecReader(components)
    reader.feed(text)
    return reader.finish()


def written(*operations: Any) -> str:
    return "\n".join(json.dumps(it) for it in operations)


CARD = {"type": "Card", "props": {"title": "Hi"}, "children": ["text"]}
TEXT = {"type": "Text", "props": {"text": "Hello"}}
SPEC = {"root": "card", "elements": {"card": CARD, "text": TEXT}}
ADDS = (
    {"op": "add", "path": "/root", "value": "card"},
    {"op": "add", "path": "/elements/card", "value": CARD},
    {"op": "add", "path": "/elements/text", "value": TEXT},
)


def test_lines_that_are_operations_build_the_spec_and_others_are_left_out() -> None:
    root, card, text = map(json.dumps, ADDS)
    told = compiled(
        f"Here you are:\n```json\n{root}\r\n\n{card}\n// a comment\n[{text}]\n{text}\n```"
    )
    assert told == Interface(content=SPEC)


def test_an_answer_without_operations_may_be_the_spec_itself() -> None:
    assert compiled(json.dumps(SPEC, indent=2)) == Interface(content=SPEC)
    assert compiled(f"Sure!\n```json\n{json.dumps(SPEC)}\n```\nDone.") == Interface(content=SPEC)


def test_what_is_above_an_added_value_is_added_first_as_operations_of_its_own() -> None:
    reader = SpecReader({})
    shown = reader.feed(written({"op": "add", "path": "/state/a~1b/c", "value": 1}) + "\n")
    assert shown == [
        {"op": "add", "path": "/state", "value": {}},
        {"op": "add", "path": "/state/a~1b", "value": {}},
        {"op": "add", "path": "/state/a~1b/c", "value": 1},
    ]
    assert apply_all(empty_spec(), shown) == reader.preview


def test_an_operation_that_does_not_fit_is_reported_and_the_rest_goes_on() -> None:
    wrong = {"op": "remove", "path": "/elements/none"}
    told = compiled(
        written(
            *ADDS, wrong, {"op": "replace", "path": "/elements/text/props/text", "value": "Bye"}
        )
    )
    assert told.problem is None
    assert told.content["elements"]["text"]["props"]["text"] == "Bye"
    assert len(told.warnings) == 1
    assert "'none' is not there" in told.warnings[0]
    assert len(compiled(written(*ADDS, *[wrong] * 50)).warnings) == 10


PROBLEMS: list[tuple[Any, str]] = [
    ([], "'root' and 'elements'"),
    ({"root": "a"}, "'root' and 'elements'"),
    ({"root": "a", "elements": {}}, "'root' must be"),
    ({"root": 1, "elements": {"a": TEXT}}, "'root' must be"),
    ({"root": "a", "elements": {"a": 5}}, "has no 'type'"),
    ({"root": "a", "elements": {"a": {"props": {}}}}, "has no 'type'"),
    (
        {"root": "a", "elements": {"a": {"type": "T", "props": []}}},
        "'props' that are not an object",
    ),
    ({"root": "a", "elements": {"a": {"type": "T", "children": "b"}}}, "not a list of names"),
    ({"root": "a", "elements": {"a": {"type": "T", "children": [1]}}}, "not a list of names"),
    (
        {"root": "a", "elements": {"a": {"type": "T", "children": ["b"]}}},
        "child 'b', which does not",
    ),
    ({"root": "a", "elements": {"a": {"type": "Pie"}}}, "unknown type 'Pie'; known are Card, Text"),
    ({"root": "0", "elements": {str(i): TEXT for i in range(ELEMENTS_MAX + 1)}}, "more than 500"),
]


@pytest.mark.parametrize(("spec", "problem"), PROBLEMS, ids=[it[1] for it in PROBLEMS])
def test_a_spec_that_cannot_be_rendered_is_refused_with_the_reason(spec: Any, problem: str) -> None:
    known = {"Card": "c", "Text": "t"} if "Pie" in problem else {}
    assert problem in (spec_problem(spec, known) or "")
    assert spec_problem(SPEC, {"Card": "c", "Text": "t"}) is None


def test_copies_cannot_make_a_spec_larger_than_its_limit() -> None:
    grow = [{"op": "copy", "from": "/elements", "path": f"/elements/e{it}"} for it in range(60)]
    told = compiled(
        written(
            *ADDS, {"op": "add", "path": "/elements/big", "value": {"type": "x" * 30_000}}, *grow
        )
    )
    assert len(json.dumps(told.content)) < 2_000_000
    assert told.warnings


def test_a_spec_cannot_be_deeper_than_its_limit() -> None:
    deeper = [{"op": "copy", "from": "/elements", "path": "/elements/a"}] * 40
    value: Any = 1
    for _ in range(LEVELS_MAX + 1):
        value = [value]
    told = compiled(written(*ADDS, *deeper, {"op": "add", "path": "/deep", "value": value}))
    assert "deep" not in told.content
    assert "levels" in told.warnings[-1]
    assert compiled(json.dumps({**SPEC, "deep": value})).problem is not None


LONG: list[tuple[str, str]] = [
    ("one long line", "x" * (LINE_MAX + 1)),
    ("many lines", "\n" * (LINES_MAX + 1)),
    ("much text", "\n".join(["x" * 10_000] * (BYTES_MAX // 10_000 + 1))),
]


@pytest.mark.parametrize(("name", "text"), LONG, ids=[it[0] for it in LONG])
@pytest.mark.parametrize("piece", [1_000, 1_000_000])
def test_a_text_beyond_the_limits_is_refused_however_it_comes(
    name: str, text: str, piece: int
) -> None:
    reader = SpecReader({})
    reader.feed(written(*ADDS) + "\n")
    for at in range(0, len(text), piece):
        reader.feed(text[at : at + piece])
    assert "more than" in (reader.finish().problem or "")
