"""The work that a schema from outside makes is counted before it is done."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.authoring.json_schemas import JsonSchema
from awaken.authoring.schema import MAX_NODES, sanitize_schema
from awaken.authoring.schema_costs import NODES_MAX, STEPS_MAX, SchemaCost, count_nodes
from awaken.authoring.schema_tools import ArgumentSchema
from awaken.contracts.errors import InvalidSpec
from awaken.contracts.tools.tool import InvalidArguments

TOO_MANY = "too many steps"
TREE: dict[str, Any] = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["name"],
        }
    },
    "$ref": "#/$defs/node",
}
ANY_JSON: dict[str, Any] = {
    "$id": "https://example.com/json",
    "$dynamicAnchor": "value",
    "anyOf": [
        {"type": ["string", "number", "boolean", "null"]},
        {"type": "array", "items": {"$dynamicRef": "#value"}},
        {"type": "object", "additionalProperties": {"$ref": "#"}},
    ],
}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def doubled(keyword: str, depth: int = 30) -> dict[str, Any]:
    steps = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(depth)
    }
    return {"$defs": {**steps, f"d{depth}": {"type": "integer"}}, "$ref": "#/$defs/d0"}


def ambiguous(keyword: str) -> dict[str, Any]:
    again = {"properties": {"a": {"$ref": "#"}}}
    return {keyword: [again, again, again]}


BOMBS: dict[str, tuple[dict[str, Any], Any]] = {
    **{f"doubled {it}": (doubled(it), "x") for it in ("allOf", "anyOf", "oneOf")},
    **{f"ambiguous {it}": (ambiguous(it), nested(40)) for it in ("allOf", "anyOf", "oneOf")},
    "ambiguous if": (
        {"if": {"properties": {"a": {"$ref": "#"}}}, "then": {"properties": {"a": {"$ref": "#"}}}},
        nested(60),
    ),
    "ambiguous not": (
        {"properties": {"a": {"not": {"$ref": "#"}}}, "patternProperties": {"a": {"$ref": "#"}}},
        nested(60),
    ),
    "dynamic": (
        {"$dynamicAnchor": "n", "properties": {"a": {"anyOf": [{"$dynamicRef": "#n"}] * 3}}},
        nested(40),
    ),
    "anchored": (
        {"$anchor": "n", "properties": {"a": {"anyOf": [{"$ref": "#n"}] * 3}}},
        nested(40),
    ),
    "by its own name": (
        {"$id": "http://x/a", "properties": {"a": {"anyOf": [{"$ref": "http://x/a"}] * 3}}},
        nested(40),
    ),
    "unevaluated": (
        {"properties": {"a": {"$ref": "#"}}, "unevaluatedProperties": {"$ref": "#"}},
        nested(60),
    ),
    "a wide choice for many": (
        {"items": {"anyOf": [{"const": n} for n in range(1000)]}}, list(range(10_000, 20_000))
    ),
    "a long list for many": ({"items": {"enum": list(range(5000))}}, ["x"] * 2000),
    "members of everything": (
        {"additionalProperties": {"anyOf": [{"$ref": "#"}] * 9}}, nested(30)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_check_that_would_take_too_long_is_not_begun(name: str) -> None:
    schema, value = BOMBS[name]
    checked = JsonSchema(schema, what="it")
    # A validator that is asked would not come back.
    checked._validator = None
    (told,) = checked.violations(value)
    assert TOO_MANY in told


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}},
         "$ref": "#/$defs/a"},
        {"if": {"$ref": "#"}, "then": {}},
    ],
)  # fmt: skip
def test_a_schema_that_applies_itself_without_end_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec, match="without looking into the value"):
        JsonSchema(schema, what="it")


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"p{n}": {"type": "integer"} for n in range(NODES_MAX)}},
        {"enum": list(range(NODES_MAX))},
        {"patternProperties": {f"a{n}": {} for n in range(NODES_MAX // 50)}},
        {"allOf": [{"pattern": f"a{n}"} for n in range(NODES_MAX // 50)]},
        {"description": "x" * 300 * NODES_MAX},
    ],
)
def test_a_schema_that_is_too_large_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec, match="more than 10000 parts"):
        JsonSchema(schema, what="it")


@pytest.mark.parametrize(
    "pattern", ["(?:a{1,900}){1,900}", "((a{0,99}){0,99}){0,99}", r"\p{L}" * 200]
)
def test_a_pattern_that_becomes_large_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidSpec):
        JsonSchema({"pattern": pattern}, what="it")


def test_a_document_inside_the_document_is_refused() -> None:
    inner = {"$id": "http://y", "$ref": "#"}
    with pytest.raises(InvalidSpec, match="of its own"):
        JsonSchema({"properties": {"a": inner}}, what="it")
    # A member may well be called so.
    assert JsonSchema({"properties": {"$id": {"type": "string"}}}, what="it").violations({}) == []


def test_schemas_that_refer_to_themselves_are_still_of_use() -> None:
    tree: dict[str, Any] = {"name": "a", "children": []}
    for _ in range(30):
        tree = {"name": "b", "children": [tree, {"name": "c"}]}
    assert JsonSchema(TREE, what="it").violations(tree) == []
    (told,) = JsonSchema(TREE, what="it").violations({"name": "a", "children": [{}]})
    assert "$.children[0]" in told
    rows = [{"id": n, "tags": ["a", "b"], "deep": {"x": [1.5, None]}} for n in range(500)]
    assert JsonSchema(ANY_JSON, what="it").violations(rows) == []


def test_a_large_value_that_fits_is_taken_and_one_that_does_not_is_named_as_a_whole() -> None:
    table = JsonSchema({"items": {"type": "object", "required": ["id"]}}, what="it")
    rows = [{"id": n, "name": "x" * 20} for n in range(20_000)]
    assert table.violations(rows) == []
    (told,) = table.violations([*rows, {}])
    assert "too large to say where" in told


values = st.recursive(
    st.none() | st.integers(0, 3) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=12,
)


@given(values)
def test_the_rough_bound_is_never_below_the_count(value: Any) -> None:
    schema = {
        "anyOf": [{"type": "object", "additionalProperties": {"$ref": "#/$defs/x"}},
                  {"items": {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]}}],
        "$defs": {"x": {"allOf": [{"minLength": 1}, {"properties": {"a": {}, "b": {}}}]}},
    }  # fmt: skip
    cost = SchemaCost(schema, what="it")
    assert 1 <= cost.count_steps(value) <= cost.estimate_steps(value) <= STEPS_MAX


def test_references_are_expanded_to_so_many_parts_and_no_more() -> None:
    wide = {"type": "object", "properties": {f"p{n}": {"type": "integer"} for n in range(2000)}}
    fields = {f"f{n}": {"$ref": "#/$defs/wide"} for n in range(200)}
    made = sanitize_schema({"type": "object", "properties": fields, "$defs": {"wide": wide}})
    assert count_nodes(made, 10**9) < 4 * MAX_NODES
    assert made["properties"]["f0"] == wide
    assert made["properties"]["f199"] == {"type": "object", "properties": {}}


def test_arguments_for_a_schema_bomb_are_refused_like_others_that_do_not_fit() -> None:
    arguments = ArgumentSchema({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {
        "x": ambiguous("anyOf")["anyOf"][0], **doubled("anyOf")["$defs"],
    }, "required": ["a"], "additionalProperties": {"$ref": "#/$defs/d0"}})  # fmt: skip
    assert arguments.validate({"a": 1}) == {"a": 1}
    with pytest.raises(InvalidArguments, match=TOO_MANY):
        arguments.validate({"a": 1, "b": 1})


def test_counting_ends_above_the_limit() -> None:
    assert count_nodes([[0] * 1000] * 1000, 50) < 3_000
