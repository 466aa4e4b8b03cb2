"""Checks whether a path can exist in arguments that fit a JSON Schema."""

from collections.abc import Iterator
from typing import Any

from .calls import Path

_ANYTHING: dict[str, Any] = {}
_MAX_BRANCHES = 64
_BRANCHES = ("anyOf", "oneOf", "allOf")


def path_problem(path: Path, schema: Any) -> str | None:
    """Describe where the path leaves the schema; `None` if it can exist.

    An object that declares properties has no others, unless it sets `additionalProperties`.
    """
    places = [schema]
    walked = "the arguments"
    for step in path.steps:
        branches = [branch for place in places for branch in _list_branches(place, schema)]
        places = [
            below for branch in branches[:_MAX_BRANCHES] for below in _step_into(branch, step)
        ]
        if not places:
            known = sorted({name for it in branches for name in it.get("properties", {})})
            return f"'{path.text}': {walked} have no {_name_step(step)}; known: {', '.join(known)}"
        walked = f"the values at {_name_step(step)}"
    return None


def _name_step(step: str | int | None) -> str:
    if step is None:
        return "items"
    return f"'{step}'" if isinstance(step, str) else f"item [{step}]"


def _list_branches(place: Any, root: Any) -> list[dict[str, Any]]:
    """The alternative schemas of a place, with references resolved."""
    found: list[dict[str, Any]] = []
    waiting, seen = [place], set[str]()
    while waiting and len(found) < _MAX_BRANCHES:
        schema = waiting.pop()
        if not isinstance(schema, dict):
            found.extend([_ANYTHING] if schema is True else [])
            continue
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in seen:
            seen.add(reference)
            waiting.append(_resolve_reference(reference, root))
        branches = [it for key in _BRANCHES for it in schema.get(key, ())]
        waiting.extend(branches)
        if "$ref" not in schema and (not branches or "properties" in schema):
            found.append(schema)
    return found


def _resolve_reference(reference: str, root: Any) -> Any:
    """The target of a reference; an empty schema if it is not in this document."""
    if not reference.startswith("#"):
        return _ANYTHING
    place = root
    for name in reference.removeprefix("#").split("/")[1:]:
        key = name.replace("~1", "/").replace("~0", "~")
        place = place.get(key, _ANYTHING) if isinstance(place, dict) else _ANYTHING
    return place


def _step_into(schema: dict[str, Any], step: str | int | None) -> Iterator[Any]:
    if step is None or isinstance(step, str):
        yield from _step_into_object(schema, step)
    if step is None or isinstance(step, int):
        yield from _step_into_array(schema, step)


def _step_into_object(schema: dict[str, Any], name: str | None) -> Iterator[Any]:
    if not _allows(schema, "object"):
        return
    properties = schema.get("properties", {})
    more = schema.get("additionalProperties", not properties)
    if name is None:
        yield from properties.values()
    elif name in properties:
        yield properties[name]
        return
    yield from schema.get("patternProperties", {}).values()
    if more is not False:
        yield more


def _step_into_array(schema: dict[str, Any], index: int | None) -> Iterator[Any]:
    if not _allows(schema, "array"):
        return
    first = schema.get("prefixItems", [])
    if index is None:
        yield from first
    elif index < len(first):
        yield first[index]
        return
    if schema.get("items", True) is not False:
        yield schema.get("items", True)


def _allows(schema: dict[str, Any], kind: str) -> bool:
    types = schema.get("type", kind)
    return kind in ([types] if isinstance(types, str) else types)
