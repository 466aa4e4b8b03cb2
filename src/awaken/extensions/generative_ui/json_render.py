"""JSON render: a spec `{root, elements}` that grows line by line, each line a JSON Patch operation.

A line that is not an operation is ignored. An answer without any operation may be the spec itself.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from .json_patch import PatchRefused, apply_operation, pointer_tokens, value_at
from .readers import Interface, LineBuffer, PatchOperation, strip_fences

ELEMENTS_MAX = 500
REFUSALS_MAX = 10
LEVELS_MAX = 32
SPEC_MAX = 512_000
"""The maximum weight of a spec, about one for each character."""

Spec = dict[str, Any]


class SpecReader:
    """Reads a spec as it is written."""

    def __init__(self, components: Mapping[str, str]) -> None:
        self._components = components
        self._lines = LineBuffer()
        self._text: list[str] = []
        self._spec: Spec = empty_spec()
        self._operations = self._weight = 0
        self._refused: list[str] = []

    @property
    def preview(self) -> Spec:
        """The spec so far, as clients see it."""
        return self._spec

    def feed(self, text: str) -> list[PatchOperation]:
        """Read more text; return the RFC 6902 operations that it completes."""
        if self._lines.problem is None:
            self._text.append(text)
        return [it for line in self._lines.feed(text) for it in self._take(line)]

    def finish(self) -> Interface:
        """The whole spec and its problems."""
        for line in self._lines.finish():
            self._take(line)
        if not self._operations and (whole := _whole("".join(self._text))) is not None:
            self._spec = whole
        problem = self._lines.problem or spec_problem(self._spec, self._components)
        return Interface(content=self._spec, problem=problem, warnings=tuple(self._refused))

    def _take(self, line: str) -> list[PatchOperation]:
        operation = _operation(line)
        if operation is None:
            return []
        done: list[PatchOperation] = []
        spec = self._spec
        try:
            for it in (*_parents(spec, operation), operation):
                spec = apply_operation(spec, it)
                done.append(it)
            weight = _weight_after(self._weight, self._spec, operation)
        except PatchRefused as refusal:
            if len(self._refused) < REFUSALS_MAX:
                self._refused.append(f"{line[:80]}: {refusal}")
            return []
        self._spec, self._weight = spec, weight
        self._operations += 1
        return done


def empty_spec() -> Spec:
    """The initial spec."""
    return {"root": "", "elements": {}}


def spec_problem(spec: Any, components: Mapping[str, str] = {}) -> str | None:
    """Why a spec cannot be rendered, or None when it can."""
    elements = spec.get("elements") if isinstance(spec, dict) else None
    if not isinstance(elements, dict):
        return "a spec is an object with 'root' and 'elements'"
    root = spec.get("root")
    if not isinstance(root, str) or root not in elements:
        return "'root' must be the name of one of the 'elements'"
    if len(elements) > ELEMENTS_MAX:
        return f"there are more than {ELEMENTS_MAX} elements"
    for name, element in elements.items():
        if (problem := _element_problem(element, elements, components)) is not None:
            return f"element {name[:80]!r} {problem}"
    return None


def _element_problem(element: Any, elements: Spec, components: Mapping[str, str]) -> str | None:
    type_ = element.get("type") if isinstance(element, dict) else None
    if not isinstance(type_, str) or not type_:
        return "has no 'type'"
    if components and type_ not in components:
        return f"is of the unknown type {type_[:80]!r}; known are {', '.join(components)}"
    if not isinstance(element.get("props", {}), dict):
        return "has 'props' that are not an object"
    children = element.get("children", [])
    if not isinstance(children, list) or not all(isinstance(it, str) for it in children):
        return "has 'children' that are not a list of names"
    missing = next((it for it in children if it not in elements), None)
    return None if missing is None else f"has the child {missing[:80]!r}, which does not exist"


def _operation(line: str) -> Spec | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        operation = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(operation, dict) or not isinstance(operation.get("op"), str):
        return None
    return operation if operation.get("path") else None


def _parents(spec: Spec, operation: Spec) -> list[Spec]:
    """The missing parent objects of an `add`, which models omit."""
    if operation["op"] != "add" or not isinstance(operation["path"], str):
        return []
    missing: list[Spec] = []
    place: Any = spec
    path = ""
    for token in pointer_tokens(operation["path"])[:-1]:
        path = f"{path}/{token.replace('~', '~0').replace('/', '~1')}"
        if not isinstance(place, dict):
            break
        if token not in place:
            missing.append({"op": "add", "path": path, "value": {}})
        place = place.get(token, {})
    return missing


def _weight_after(before: int, spec: Spec, operation: Spec) -> int:
    """The maximum weight of a spec after an operation: copies could double it line by line."""
    source = operation.get("from")
    value = operation.get("value")
    if operation["op"] in ("copy", "move") and isinstance(source, str):
        value = value_at(spec, source)
    weight = _weight(value, LEVELS_MAX - operation["path"].count("/"))
    after = before if operation["op"] == "move" else before + weight
    if after > SPEC_MAX:
        raise PatchRefused("the spec is too large")
    return after


def _weight(value: Any, levels: int) -> int:
    if levels < 0:
        raise PatchRefused(f"a spec has at most {LEVELS_MAX} levels")
    if isinstance(value, dict):
        return 8 + sum(len(it) + _weight(inner, levels - 1) for it, inner in value.items())
    if isinstance(value, list):
        return 8 + sum(_weight(it, levels - 1) for it in value)
    return 8 + (len(value) if isinstance(value, str) else 0)


def _whole(text: str) -> Spec | None:
    try:
        spec = msgspec.json.decode(strip_fences(text))
        _weight(spec, LEVELS_MAX)
    except (msgspec.DecodeError, RecursionError, PatchRefused):
        return None
    return spec if isinstance(spec, dict) else None
