"""The option `--context`: the context of runs, as JSON."""

import shlex
from typing import Annotated, Any

import msgspec
import typer

from awaken.authoring.run_contexts import ContextType
from awaken.contracts.errors import InvalidInput

ContextJson = Annotated[
    str | None,
    typer.Option("--context", metavar="JSON", help="The context of every run, a JSON object."),
]
_SAMPLES: dict[str, Any] = {
    "string": "…",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
}


def read_context(text: str | None) -> dict[str, Any] | None:
    """Read the value of the option.

    Raises:
        InvalidInput: It is no JSON object.
    """
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        problem = f'it is no JSON object, such as \'{{"id": "c-7"}}\': {error}'
        raise InvalidInput(what="--context", problem=problem) from error


def describe_context(kind: ContextType | None) -> str:
    """How to pass a context, with the required fields of its type."""
    schema: Any = {} if kind is None else kind.schema
    if "$ref" in schema:
        schema = schema.get("$defs", {}).get(schema["$ref"].rpartition("/")[2], {})
    fields, required = schema.get("properties", {}), schema.get("required", ())
    sample = {name: _SAMPLES.get(fields.get(name, {}).get("type"), "…") for name in required}
    return f"Pass it with --context {shlex.quote(msgspec.json.encode(sample).decode())}"
