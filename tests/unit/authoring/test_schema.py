"""JSON Schemas from types, and their sanitizing."""

import dataclasses
import enum
from typing import Annotated, Any, Literal, NamedTuple, Optional

import jsonschema_rs
import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from awaken.authoring.functions import tool
from awaken.authoring.schema import sanitize_schema, schema_of
from awaken.contracts.errors import InvalidSpec

INTEGER = {"type": "integer"}
STRING = {"type": "string"}
CUT = {"type": "object", "properties": {}}


class Colour(enum.Enum):
    RED = "red"


class Inner(msgspec.Struct):
    """Something inside."""

    size: int


@dataclasses.dataclass
class Tree:
    value: int
    left: Optional["Tree"] = None
    children: list["Tree"] = dataclasses.field(default_factory=list)


class PydanticTree(pydantic.BaseModel):
    value: int = pydantic.Field(description="The value.", gt=0)
    child: "PydanticTree | None" = None


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    trick: str


class Row(NamedTuple):
    a: int
    b: str


class TitledModel(pydantic.BaseModel):
    title: str
    anyOf: list[int] | None = None


INNER = {
    "description": "Something inside.",
    "type": "object",
    "properties": {"size": INTEGER},
    "required": ["size"],
}
TREE = {
    "type": "object",
    "properties": {
        "value": INTEGER,
        "left": CUT,
        "children": {"type": "array", "items": CUT},
    },
    "required": ["value"],
}

SHAPES: list[tuple[Any, Any]] = [
    (int, INTEGER),
    (int | None, INTEGER),
    (list[int], {"type": "array", "items": INTEGER}),
    (list, {"type": "array", "items": {}}),
    (dict, {"type": "object", "properties": {}}),
    (dict[str, int], {"type": "object", "properties": {}, "additionalProperties": INTEGER}),
    (Inner, INNER),
    (Inner | None, INNER),
    (Colour, {"enum": ["red"]}),
    (Literal["a", "b", None], {"enum": ["a", "b"]}),
    (int | str | None, {"anyOf": [INTEGER, STRING]}),
    (Row, {"type": "array", "items": {"anyOf": [INTEGER, STRING]}, "minItems": 2, "maxItems": 2}),
    (
        Cat | Dog,
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"type": {"enum": [name]}, field: kind},
                    "required": ["type", field],
                }
                for name, field, kind in (("Cat", "lives", INTEGER), ("Dog", "trick", STRING))
            ]
        },
    ),
    (tuple[int, int], {"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 2}),
    (Tree, TREE),
    (
        PydanticTree,
        {
            "type": "object",
            "properties": {
                "value": {**INTEGER, "description": "The value.", "exclusiveMinimum": 0},
                "child": CUT,
            },
            "required": ["value"],
        },
    ),
    (
        list[TitledModel] | None,
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"title": STRING, "anyOf": {"type": "array", "items": INTEGER}},
                "required": ["title"],
            },
        },
    ),
    (Annotated[int, msgspec.Meta(description="Age.", ge=0)],
     {"type": "integer", "description": "Age.", "minimum": 0}),
]  # fmt: skip


def meta_keys(schema: Any, *, is_names: bool = False) -> set[str]:
    """Return the forbidden keywords in a schema; names of properties are no keywords."""
    if isinstance(schema, list):
        return set().union(*(meta_keys(item) for item in schema)) if schema else set()
    if not isinstance(schema, dict):
        return set()
    forbidden = {"$ref", "$defs", "$schema", "definitions", "title", "discriminator"}
    found = set() if is_names else forbidden & schema.keys()
    for key, value in schema.items():
        if is_names or key not in ("default", "enum", "const", "examples"):
            found |= meta_keys(value, is_names=not is_names and key == "properties")
    return found


@pytest.mark.parametrize(("type_", "expected"), SHAPES)
def test_a_type_becomes_one_plain_schema(type_: Any, expected: Any) -> None:
    schema = schema_of(type_, what="x")
    for key in ("description",) if type_ in (Colour, Tree, Row) else ():
        schema.pop(key, None)
    assert schema == expected
    assert meta_keys(schema) == set()
    assert sanitize_schema(schema) == schema
    jsonschema_rs.meta.validate(schema)


def test_types_that_all_name_each_other_do_not_explode() -> None:
    names = [f"T{index}" for index in range(12)]
    definitions = {
        name: {"type": "object", "properties": {other: {"$ref": f"#/$defs/{other}"}
                                                for other in names}}
        for name in names
    }  # fmt: skip
    schema = sanitize_schema({"$ref": "#/$defs/T0", "$defs": definitions})
    assert meta_keys(schema) == set()
    assert len(msgspec.json.encode(schema)) < 200_000
    jsonschema_rs.meta.validate(schema)


def test_a_type_without_a_json_form_is_refused_by_name() -> None:
    for type_, name in ((list[complex], "complex"), (object, "object")):
        problem = f"output of x is invalid: type '{name}' has no JSON form"
        with pytest.raises(InvalidSpec, match=problem):
            schema_of(type_, what="output of x")


def test_an_object_inside_of_a_type_is_any_data() -> None:
    assert schema_of(list[object], what="x") == {"type": "array", "items": {}}


NAMES = st.sampled_from(["a", "b", "title", "$ref", "anyOf", "default"])
KINDS = st.sampled_from(["object", "array", "string", "integer", "null"])
LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": KINDS | st.lists(KINDS, min_size=1, max_size=3, unique=True),
        "enum": st.lists(
            st.none() | st.integers(0, 2) | st.text(max_size=2), min_size=1, max_size=3
        ),
        "const": st.none() | st.integers(),
        "default": st.none() | st.integers() | st.just({"$ref": "data"}),
        "title": st.text(max_size=3),
        "description": st.text(max_size=3),
        "$schema": st.just("https://json-schema.org/draft/2020-12/schema"),
        "$ref": st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/$defs/zzz", "http://x/y"]),
        "minItems": st.integers(0, 2),
        "definitions": st.just({"x": {"type": "string"}}),
    },
)


def _composed(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    many = st.lists(inner, min_size=1, max_size=3)
    parts = st.fixed_dictionaries(
        {},
        optional={
            "anyOf": many,
            "oneOf": many,
            "allOf": many,
            "prefixItems": many,
            "items": inner | st.booleans(),
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "additionalProperties": inner | st.booleans(),
            "not": inner,
        },
    )
    return st.builds(lambda leaf, part: {**leaf, **part}, LEAVES, parts)


SCHEMAS = st.recursive(LEAVES, _composed, max_leaves=12)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SCHEMAS, st.dictionaries(st.sampled_from(["a", "b"]), SCHEMAS, max_size=2))
def test_sanitizing_is_idempotent_valid_and_leaves_its_input_alone(
    schema: dict[str, Any], definitions: dict[str, Any]
) -> None:
    whole = {**schema, "$defs": definitions}
    before = msgspec.json.encode(whole)
    once = sanitize_schema(whole)
    assert sanitize_schema(once) == once
    assert meta_keys(once) == set()
    assert msgspec.json.encode(whole) == before
    jsonschema_rs.meta.validate(once)


GOOGLE = """Look something up.

    It looks far and wide.

    Args:
        query (str | None): What to look for,
            in any language.
        limit: At most this many: never more.

    Returns:
        What was found.
    """
NUMPY = """Look something up.

    It looks far and wide.

    Parameters
    ----------
    query : str, optional
        What to look for,
        in any language.
    limit : int
        At most this many: never more.

    Returns
    -------
    str
        What was found.
    """
SPHINX = """Look something up.

    It looks far and wide.

    :param str query: What to look for,
        in any language.
    :param limit: At most this many: never more.
    :type limit: int
    :returns: What was found.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX])
def test_docstrings_of_every_style_describe_the_tool_and_its_parameters(docstring: str) -> None:
    async def look_up(query: str, limit: int = 3) -> str:
        return query

    look_up.__doc__ = docstring
    descriptor = tool(look_up).descriptor
    properties = descriptor.parameters["properties"]
    assert properties["query"]["description"] == "What to look for, in any language."
    assert properties["limit"] == {
        "type": "integer",
        "default": 3,
        "description": "At most this many: never more.",
    }
    assert descriptor.description.startswith("Look something up.\n\nIt looks far and wide.\n\n")
    assert "What was found." in descriptor.description
    assert "At most" not in descriptor.description
    assert ":type" not in descriptor.description


def test_annotations_describe_parameters_before_the_docstring_does() -> None:
    async def probe(
        a: Annotated[int, "From a text."],
        b: Annotated[int, msgspec.Meta(description="From Meta.")],
        c: Inner,
        d: int,
    ) -> None:
        """Probe.

        Args:
            a: Not this.
            c: The inner one.
        """

    properties = tool(probe).descriptor.parameters["properties"]
    assert {name: property_.get("description") for name, property_ in properties.items()} == {
        "a": "From a text.",
        "b": "From Meta.",
        "c": "The inner one.",
        "d": None,
    }


@settings(deadline=None)
@given(st.text(st.sampled_from("ab :-\n(),*\tArgs:Parameters"), max_size=80))
def test_no_docstring_breaks_the_declaration(docstring: str) -> None:
    async def probe(a: int) -> None: ...

    probe.__doc__ = docstring
    assert list(tool(probe).descriptor.parameters["properties"]) == ["a"]
