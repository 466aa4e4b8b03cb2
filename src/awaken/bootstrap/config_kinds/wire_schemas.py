"""JSON Schemas (2020-12) of the HTTP forms, derived from the specs."""

from collections.abc import Mapping
from typing import Any

import msgspec

from awaken.contracts.secrets import RedactedString

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SECRET: dict[str, Any] = {
    "description": "Never shown. A text is moved into the secret store; null or an empty text "
    "clears it; absence keeps it.",
    "anyOf": [
        {"type": ["string", "null"]},
        {
            "type": "object",
            "properties": {"$secret": {"type": "string"}},
            "required": ["$secret"],
            "additionalProperties": False,
        },
    ],
    "writeOnly": True,
}
SECRETS: dict[str, Any] = {
    "type": ["object", "null"],
    "additionalProperties": SECRET,
    "writeOnly": True,
}
READ_ONLY_BOOL: dict[str, Any] = {"type": "boolean", "readOnly": True}
READ_ONLY_TEXT: dict[str, Any] = {"type": ["string", "null"], "readOnly": True}
READ_ONLY_TEXTS: dict[str, Any] = {
    "type": "array",
    "items": {"type": "string"},
    "readOnly": True,
}
_TIMES = {name: {"type": "integer", "readOnly": True} for name in ("created_at", "updated_at")}


def build_schema(spec: type, id_field: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a spec with other properties; None removes one of the spec."""
    (_,), parts = msgspec.json.schema_components([spec], schema_hook=_describe_secret)
    whole = dict(parts.pop(spec.__name__))
    fields = dict(whole["properties"])
    del fields[id_field]
    fields = {"id": {"type": "string", "pattern": "^[A-Za-z0-9._:@-]{1,128}$"}, **fields}
    for name, schema in (*properties.items(), *_TIMES.items()):
        if schema is None:
            fields.pop(name, None)
        else:
            fields[name] = schema
    required = [it for it in whole.get("required", ()) if it in fields and it != "id"]
    whole.update(properties=fields, required=["id", *required], additionalProperties=False)
    used: set[str] = set()
    schema = _point_to_defs({"$schema": DIALECT, **whole}, used)
    defs: dict[str, Any] = {}
    while missing := used - defs.keys():
        defs |= {name: _point_to_defs(parts[name], used) for name in missing}
    return {**schema, "$defs": dict(sorted(defs.items()))} if defs else schema


def _describe_secret(type_: type) -> dict[str, Any]:
    if type_ is RedactedString:
        return SECRET
    message = f"{type_.__name__} has no JSON Schema"
    raise NotImplementedError(message)


def _point_to_defs(value: Any, used: set[str]) -> Any:
    """Return a schema whose references point into `$defs`; collects their names in `used`."""
    match value:
        case {"$ref": str(target), **rest}:
            used.add(name := target.rsplit("/", 1)[-1])
            return {**rest, "$ref": f"#/$defs/{name}"}
        case dict():
            return {name: _point_to_defs(it, used) for name, it in value.items()}
        case list():
            return [_point_to_defs(it, used) for it in value]
    return value
