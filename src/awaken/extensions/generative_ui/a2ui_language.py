"""The messages, components and functions of each A2UI version, read from `a2ui.yaml`."""

from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec
import yaml  # type: ignore[import-untyped]

from awaken.authoring.json_schemas import JsonSchema
from awaken.contracts.record import StrictRecord

Version = Literal["v0.8", "v0.9", "v1.0"]

Properties = dict[str, str]
"""Kinds by property; the names of optional properties end in `?`."""
Schema = dict[str, Any]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class A2uiKind(StrictRecord, frozen=True, kw_only=True, rename={"shape": "is"}):
    """A kind of values: described in words for models, and as a shape."""

    says: str
    shape: Any


class Language(StrictRecord, frozen=True, kw_only=True):
    """One version of A2UI."""

    version: str = ""
    catalog_id: str
    """The catalog of the components."""
    mark: str = ""
    """The prefix of `path` and `call` in computed values."""
    envelope: Properties
    """The properties that every component has besides its own."""
    messages: dict[str, Properties]
    components: dict[str, Properties]
    functions: dict[str, Properties]
    kinds: dict[str, A2uiKind]

    @property
    def is_nested(self) -> bool:
        """Whether a component is wrapped in an object whose only member is its type."""
        return self.version == "v0.8"

    def describe_kind(self, kind: str) -> str:
        """Describe a kind in words."""
        known = self.kinds.get(kind)
        return f"one of {kind.replace('|', ', ')}" if known is None else known.says


@cache
def language_of(version: str) -> Language:
    """Load the language of a version."""
    language = msgspec.convert(_document()[version], Language)
    return msgspec.structs.replace(language, version=version)


@cache
def _document() -> Any:
    text = files(__package__).joinpath("a2ui.yaml").read_text("utf-8")
    return yaml.load(text, Loader=_LOADER)


@cache
def schema_of(version: str, kind: str) -> JsonSchema:
    """The compiled JSON Schema of a kind."""
    kinds = language_of(version).kinds
    shapes = {name: _expand_shape(known.shape) for name, known in kinds.items()}
    return JsonSchema({"$defs": shapes, **_expand_shape(kind)}, what=f"kind '{kind}'")


def _expand_shape(shape: Any) -> Schema:
    """The JSON Schema of a shape."""
    if isinstance(shape, str):
        return {"enum": shape.split("|")} if "|" in shape else {"$ref": f"#/$defs/{shape}"}
    if isinstance(shape, list):
        least = shape[1] if len(shape) > 1 else 0
        return {"type": "array", "items": _expand_shape(shape[0]), "minItems": least}
    if "anyOf" in shape:
        return {"anyOf": [_expand_shape(it) for it in shape["anyOf"]]}
    if "schema" in shape:
        return dict(shape["schema"])
    return {
        "type": "object",
        "properties": {name.rstrip("?"): _expand_shape(kind) for name, kind in shape.items()},
        "required": [name for name in shape if not name.endswith("?")],
        "additionalProperties": False,
    }
