"""JSON Schemas that every model vendor accepts, from Python types or from other schemas.

Independent of functions and agents.
"""

from typing import Any

import msgspec

from awaken.contracts.errors import InvalidSpec

from .pydantic_models import describe_type, list_refused_members, model_schema

Schema = dict[str, Any]

MAX_DEPTH = 64
MAX_REFERENCES = 256
"""Limit of expanded references: types that all refer to each other would explode otherwise."""

MAX_NODES = 10_000
"""Limit of expanded subschemas; beyond it no reference is expanded."""

_OF_SCHEMA = frozenset(
    ["additionalProperties", "contains", "else", "if", "not", "propertyNames", "then",
     "unevaluatedItems", "unevaluatedProperties"]
)  # fmt: skip
_OF_NAMED_SCHEMAS = frozenset(["dependentSchemas", "patternProperties", "properties"])
_OF_SCHEMA_LIST = frozenset(["allOf", "anyOf", "oneOf", "prefixItems"])
_DROPPED = frozenset(["additionalItems", "definitions", "discriminator", "title"])
_ANNOTATIONS = frozenset(["default", "deprecated", "description", "examples"])


def schema_of(type_: Any, *, what: str) -> Schema:
    """Return the sanitized schema of a type that msgspec or pydantic knows.

    Raises:
        InvalidSpec: The type has no JSON form; `what` names its owner.
    """
    if type_ is object:
        # Inside of another type it is any data; alone it says nothing.
        raise InvalidSpec(what=what, problem="type 'object' has no JSON form")
    try:
        own = describe_type(type_)
        if own is not None:
            return sanitize_schema(own)
        if len(members := list_refused_members(type_)) > 1:
            return {"anyOf": [schema_of(it, what=what) for it in members]}
        schema = msgspec.json.schema(type_, schema_hook=_inline_model)
    except (TypeError, ValueError, NameError, AttributeError) as error:
        raise InvalidSpec(what=what, problem=str(error)) from error
    return sanitize_schema(schema)


def sanitize_schema(schema: Schema) -> Schema:
    """Return the schema fully inlined, without nulls as alternatives and without titles.

    Arrays always have `items`, objects always have `properties`. A reference back into itself is
    cut to its bare type. Idempotent; the input is not changed.
    """
    result: Schema = _Inliner(schema).node(schema, ("#",))
    return result


def _inline_model(type_: Any) -> Schema:
    if type_ is object:
        # Any data. msgspec takes an empty schema for none; the comment is removed in the end.
        return {"$comment": "any data"}
    # A model's references are relative to its own schema, so they are resolved before nesting.
    return sanitize_schema(model_schema(type_))


class _Inliner:
    """One walk over one root schema."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._references_left = MAX_REFERENCES
        self._nodes_left = MAX_NODES
        self._depth = 0

    def node(self, node: Any, seen: tuple[str, ...]) -> Any:
        if not isinstance(node, dict):
            return node if isinstance(node, bool) else {}
        if self._depth > MAX_DEPTH:
            return {}
        self._depth += 1
        self._nodes_left -= 1
        inner = {
            key: self._inline_value(key, value, seen)
            for key, value in node.items()
            if key not in _DROPPED and not key.startswith("$")
        }
        reference = node.get("$ref")
        if isinstance(reference, str):
            inner = {**self._inline_reference(reference, seen), **inner}
        self._depth -= 1
        return _normalize(inner)

    def _inline_value(self, key: str, value: Any, seen: tuple[str, ...]) -> Any:
        if key in _OF_SCHEMA or (key == "items" and not isinstance(value, list)):
            return self.node(value, seen)
        if key in _OF_NAMED_SCHEMAS:
            named = value if isinstance(value, dict) else {}
            return {name: self.node(schema, seen) for name, schema in named.items()}
        if key in _OF_SCHEMA_LIST or key == "items":
            listed = value if isinstance(value, list) else []
            return [self.node(schema, seen) for schema in listed]
        return value

    def _inline_reference(self, reference: str, seen: tuple[str, ...]) -> Schema:
        target = self._lookup(reference)
        if reference in seen or not self._references_left or self._nodes_left <= 0:
            return _normalize({"type": target.get("type", "object")})
        self._references_left -= 1
        inner = self.node(target, (*seen, reference))
        return inner if isinstance(inner, dict) else {}

    def _lookup(self, reference: str) -> Schema:
        found: Any = self._root if reference.startswith("#") else None
        for part in reference.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}


def _normalize(schema: Schema) -> Schema:
    # One rule can enable another; each rule only removes, so the loop terminates.
    while (simpler := _simplify(schema)) != schema:
        schema = simpler
    return simpler


def _simplify(schema: Schema) -> Schema:
    schema = _remove_null(schema)
    for key in ("allOf", "anyOf", "oneOf"):
        schema = _merge_single_branch(schema, key)
    kinds = schema.get("type")
    if kinds == "object" or (isinstance(kinds, list) and "object" in kinds):
        schema.setdefault("properties", {})
    if kinds == "array" or (isinstance(kinds, list) and "array" in kinds):
        schema["items"] = _merge_items(schema.pop("prefixItems", None), schema.get("items"))
    return schema


def _remove_null(schema: Schema) -> Schema:
    """Remove null wherever it is one of several choices; absence means the same."""
    result = dict(schema)
    for key, is_null in (
        ("type", lambda choice: choice == "null"),
        ("enum", lambda choice: choice is None),
        ("anyOf", _is_null_schema),
        ("oneOf", _is_null_schema),
    ):
        choices = schema.get(key)
        if not isinstance(choices, list):
            continue
        kept = [choice for choice in choices if not is_null(choice)] or choices[:1]
        result[key] = kept[0] if key == "type" and len(kept) == 1 else kept
        if len(kept) < len(choices) and result.get("default", ...) is None:
            del result["default"]
    return result


def _is_null_schema(choice: Any) -> bool:
    return isinstance(choice, dict) and (
        choice.get("type") == "null"
        or choice.get("enum") == [None]
        or choice.get("const", 0) is None
    )


def _merge_single_branch(schema: Schema, key: str) -> Schema:
    branches = schema.get(key)
    if branches == []:
        return {name: value for name, value in schema.items() if name != key}
    if not isinstance(branches, list) or len(branches) != 1 or not isinstance(branches[0], dict):
        return schema
    outer = {name: value for name, value in schema.items() if name != key}
    clashing = (branches[0].keys() & outer.keys()) - _ANNOTATIONS
    if any(branches[0][name] != outer[name] for name in clashing):
        return schema
    return {**branches[0], **outer}


def _merge_items(prefix: Any, items: Any) -> Schema:
    """Return one schema for all elements: few vendors accept one per position."""
    listed = [*(prefix or ()), *(items if isinstance(items, list) else [items])]
    distinct: list[Schema] = []
    for schema in listed:
        if isinstance(schema, dict) and schema not in distinct:
            distinct.append(schema)
    if len(distinct) > 1:
        return _normalize({"anyOf": distinct})
    return distinct[0] if distinct else {}
