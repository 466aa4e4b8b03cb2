"""JSON Schemas in the form of the vendors: for tools, and for enforced answers."""

from typing import Any

from awaken.contracts.models.errors import InvalidRequest

NO_PARAMETERS = {"type": "object", "properties": {}}
"""For tools without a schema: vendors require the schema of an object."""

_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
)
_LIMITS = (
    *("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"),
    *("maxItems", "minItems"),
)
_TYPES = frozenset({"$ref", "anyOf", "const", "enum", "type"})
_OBJECTS = ("additionalProperties", "properties", "required")
_ENFORCED = frozenset((*_TYPES, *_LIMITS, *_OBJECTS, "$defs", "description", "items", "title"))


def is_any_object(schema: dict[str, Any] | None) -> bool:
    """Whether the schema accepts every JSON object: vendors have another option for that."""
    return schema == {"type": "object", "additionalProperties": True}


def strict_schema(schema: Any) -> Any:
    """Return the schema with the keywords that Claude enforces; the rest goes to the description.

    Raises:
        InvalidRequest: It has an object with unknown keys, which cannot be enforced.
    """
    if not isinstance(schema, dict):
        return schema
    rest = dict(schema)
    made: dict[str, Any] = {}
    if defs := rest.pop("$defs", None):
        made["$defs"] = {name: strict_schema(each) for name, each in defs.items()}
    if "$ref" in rest:
        return {**made, "$ref": rest["$ref"]}
    made |= {name: rest.pop(name) for name in ("description", "title") if name in rest}
    kind = rest.pop("type", None)
    if isinstance(kind, list):
        variants = [{"type": each, **({} if each == "null" else rest)} for each in kind]
        return {**made, "anyOf": [strict_schema(each) for each in variants]}
    made |= _choices(rest) or ({"type": kind, **_details(kind, rest)} if kind else {})
    if rest:
        rest_text = "{" + ", ".join(f"{name}: {value}" for name, value in rest.items()) + "}"
        made["description"] = (
            f"{made['description']}\n\n{rest_text}" if "description" in made else rest_text
        )
    return made


def _choices(rest: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords that replace a type; removes them from `rest`."""
    literal = {name: rest.pop(name) for name in ("enum", "const") if _is_plain(rest, name)}
    for name, called in (("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")):
        if isinstance(rest.get(name), list):
            return {**literal, called: [strict_schema(each) for each in rest.pop(name)]}
    return literal


def _is_plain(rest: dict[str, Any], name: str) -> bool:
    values = rest.get(name) if name == "enum" else [rest[name]] if name in rest else None
    return bool(values) and not any(isinstance(value, dict | list) for value in values or ())


def _details(kind: str, rest: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords that a type may have; removes them from `rest`."""
    made: dict[str, Any] = {}
    match kind:
        case "object":
            known = rest.pop("properties", {})
            if not known and isinstance(rest.get("additionalProperties"), dict):
                message = "Claude cannot enforce an object of any keys: use a list of key and value"
                raise InvalidRequest(message)
            made["properties"] = {name: strict_schema(each) for name, each in known.items()}
            rest.pop("additionalProperties", None)
            made["additionalProperties"] = False
            if "required" in rest:
                made["required"] = rest.pop("required")
        case "string" if rest.get("format") in _FORMATS:
            made["format"] = rest.pop("format")
        case "array":
            # A tuple has `items: false`, by which alone a list would be empty.
            if isinstance(rest.get("items"), dict):
                made["items"] = strict_schema(rest.pop("items"))
            if rest.get("minItems") in (0, 1):
                made["minItems"] = rest.pop("minItems")
    return made


def is_closed(schema: Any) -> bool:
    """Whether OpenAI can enforce the schema unchanged: every property known and required."""
    return isinstance(schema, dict) and schema.get("type") == "object" and _is_closed(schema)


def _is_closed(schema: Any) -> bool:
    if not isinstance(schema, dict) or not schema.keys() <= _ENFORCED:
        return False
    if not schema.keys() & _TYPES or ("$ref" in schema and len(schema) > 1):
        return False
    properties = schema.get("properties", {})
    if schema.get("type") == "object" and (
        schema.get("additionalProperties") is not False
        or set(schema.get("required", ())) != set(properties)
    ):
        return False
    parts = [*properties.values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    return all(map(_is_closed, [*parts, schema["items"]] if "items" in schema else parts))
