"""JSON Patch (RFC 6902): the change from one document to another."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

Operation = dict[str, Any]

_WITH_VALUE, _WITH_SOURCE = ("add", "replace", "test"), ("move", "copy")
_POINTER = re.compile(r"(/([^/~]|~[01])*)*")
_encode = msgspec.json.Encoder(order="deterministic").encode


def difference(old: Any, new: Any, path: str = "") -> list[Operation]:
    """The operations that turn the old document into the new one.

    Objects are compared member by member, everything else is replaced as a whole.
    """
    if not (isinstance(old, dict) and isinstance(new, dict)):
        # As JSON, because Python takes 1, 1.0 and True for the same.
        is_same = _encode(old) == _encode(new)
        return [] if is_same else [{"op": "replace", "path": path, "value": new}]
    found: list[Operation] = [
        {"op": "remove", "path": _member(path, name)} for name in old if name not in new
    ]
    for name, value in new.items():
        if name in old:
            found += difference(old[name], value, _member(path, name))
        else:
            found.append({"op": "add", "path": _member(path, name), "value": value})
    return found


def is_patch(operations: Sequence[Any]) -> bool:
    """Whether all of them are well-formed operations."""
    return all(isinstance(it, dict) and _is_operation(it) for it in operations)


def _is_operation(it: Operation) -> bool:
    pointers = [it.get("path"), it.get("from", None if it.get("op") in _WITH_SOURCE else "")]
    is_known = it.get("op") in ("remove", *_WITH_SOURCE) or (
        it.get("op") in _WITH_VALUE and "value" in it
    )
    return is_known and all(isinstance(p, str) and _POINTER.fullmatch(p) for p in pointers)


def _member(path: str, name: str) -> str:
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
