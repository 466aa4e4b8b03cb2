"""One small value that fits a JSON schema, always the same one.

Knows the keywords that schemas of tools use. Where a schema demands more than that, for example
a pattern, the sample may not fit, and the tool will say so.
"""

from collections.abc import Callable, Mapping
from typing import Any

_DEPTH_MAX = 8
_TEXTS = {
    "date": "2024-01-31",
    "date-time": "2024-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "person@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_ORDER = ("object", "array", "string", "integer", "number", "boolean", "null")


def sample_of(schema: Mapping[str, Any]) -> Any:
    """Make a value that fits the schema; what is not required is left out."""
    return _sample(schema, schema, 0)


def _sample(schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _DEPTH_MAX:
        return None
    given = [schema[name] for name in ("const", "default") if name in schema]
    given += [schema[name][0] for name in ("enum", "examples") if schema.get(name)]
    if given:
        return given[0]
    meant = _resolve_schema(schema, root)
    if meant is not schema:
        return _sample(meant, root, depth + 1)
    kind = _type(schema)
    if kind == "object":
        properties, wanted = schema.get("properties", {}), schema.get("required", ())
        return {name: _sample(properties.get(name, {}), root, depth + 1) for name in wanted}
    if kind == "array":
        item, count = schema.get("items", {}), schema.get("minItems", 0)
        return [_sample(item, root, depth + 1)] * count
    return _SCALARS[kind](schema)


def _resolve_schema(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """The schema that another one refers to, or itself."""
    if "$ref" in schema:
        return _follow_reference(schema["$ref"], root)
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return _simplest(choices)
    if parts := schema.get("allOf"):
        return _join_parts(schema, parts)
    return schema


def _type(schema: Mapping[str, Any]) -> str:
    declared = schema.get("type")
    if isinstance(declared, str):
        return declared
    if declared:
        return next(name for name in _ORDER if name in declared)
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema else "string"


def _text(schema: Mapping[str, Any]) -> str:
    text = _TEXTS.get(schema.get("format", ""), "text")
    text = text.ljust(schema.get("minLength", 0), "x")
    return text[: schema.get("maxLength", len(text))]


def _number(schema: Mapping[str, Any], kind: Callable[[Any], Any]) -> Any:
    step = schema.get("multipleOf", 1)
    least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    most = schema.get("maximum", schema.get("exclusiveMaximum"))
    number = -(-least // step) * step
    if number == schema.get("exclusiveMinimum"):
        number += step
    if most is not None and number > most:
        number = most
    return kind(number)


def _follow_reference(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _simplest(choices: Any) -> Any:
    """A choice that says something: null is what people mean by leaving a value out."""
    return next((it for it in choices if it != {"type": "null"}), choices[0])


def _join_parts(schema: Mapping[str, Any], parts: Any) -> dict[str, Any]:
    joined: dict[str, Any] = {name: value for name, value in schema.items() if name != "allOf"}
    for part in parts:
        for name, value in part.items():
            if name == "properties":
                joined[name] = {**joined.get(name, {}), **value}
            elif name == "required":
                joined[name] = [*joined.get(name, ()), *value]
            else:
                joined[name] = value
    return joined


_SCALARS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "string": _text,
    "integer": lambda schema: _number(schema, int),
    "number": lambda schema: _number(schema, float),
    "boolean": lambda _schema: True,
    "null": lambda _schema: None,
}
