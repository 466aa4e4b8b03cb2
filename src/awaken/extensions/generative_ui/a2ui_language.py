"""What may be said in each version of A2UI, as `a2ui.yaml` has it."""

from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec
import yaml  # type: ignore[import-untyped]

from awaken.authoring.json_schemas import JsonSchema
from awaken.contracts.record import StrictRecord

Version = Literal["v0.8", "v0.9", "v1.0"]

Properties = dict[str, str]
"""Kinds by property; the name of one that may be absent ends in `?`."""
Schema = dict[str, Any]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class A2uiKind(StrictRecord, frozen=True, kw_only=True, rename={"shape": "is"}):
    """What a value may be: in words for models, and as a shape."""

    says: str
    shape: Any


class Language(StrictRecord, frozen=True, kw_only=True):
    """One version."""

    version: str = ""
    catalog_id: str
    """The catalog that the components are of."""
    mark: str = ""
    """What stands before `path` and `call` in values that are computed."""
    envelope: Properties
    """What every component has besides its own properties."""
    messages: dict[str, Properties]
    components: dict[str, Properties]
    functions: dict[str, Properties]
    kinds: dict[str, A2uiKind]

    @property
    def is_nested(self) -> bool:
        """Whether a component is wrapped into an object with its type as only member."""
        return self.version == "v0.8"

    def says(self, kind: str) -> str:
        """What a value of a kind must be, in words."""
        known = self.kinds.get(kind)
        return f"one of {kind.replace('|', ', ')}" if known is None else known.says


@cache
def language_of(version: str) -> Language:
    """What may be said in a version."""
    language = msgspec.convert(_document()[version], Language)
    return msgspec.structs.replace(language, version=version)


@cache
def _document() -> Any:
    text = files(__package__).joinpath("a2ui.yaml").read_text("utf-8")
    return yaml.load(text, Loader=_LOADER)


@cache
def schema_of(version: str, kind: str) -> JsonSchema:
    """The JSON Schema of a kind of values, compiled."""
    kinds = language_of(version).kinds
    shapes = {name: _expanded(known.shape) for name, known in kinds.items()}
    return JsonSchema({"$defs": shapes, **_expanded(kind)}, what=f"kind '{kind}'")


def _expanded(shape: Any) -> Schema:
    """The JSON Schema of a shape."""
    if isinstance(shape, str):
        return {"enum": shape.split("|")} if "|" in shape else {"$ref": f"#/$defs/{shape}"}
    if isinstance(shape, list):
        least = shape[1] if len(shape) > 1 else 0
        return {"type": "array", "items": _expanded(shape[0]), "minItems": least}
    if "anyOf" in shape:
        return {"anyOf": [_expanded(it) for it in shape["anyOf"]]}
    if "schema" in shape:
        return dict(shape["schema"])
    return {
        "type": "object",
        "properties": {name.rstrip("?"): _expanded(kind) for name, kind in shape.items()},
        "required": [name for name in shape if not name.endswith("?")],
        "additionalProperties": False,
    }
