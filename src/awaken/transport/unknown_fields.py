"""Names an unknown field in a client's request, and suggests the closest known name.

This runs only for a request that is already refused; accepted requests cost nothing.
"""

import difflib
import re
from collections.abc import Iterator
from typing import Any

from msgspec import inspect

NAME_MAX = 100
"""Longer names are cut: no field has such a long name, and comparing it would be slow."""
_NESTED = re.compile(r"Object contains unknown field `(.*)` - at `\$([^`]*)`", re.DOTALL)
_OUTERMOST = re.compile(r"Object contains unknown field `(.*)`()", re.DOTALL)
_PLACE = re.compile(r"\.([A-Za-z_]\w*)|\[[^\]]*\]")
_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")


def unknown_field(error: Exception, type_: Any) -> str | None:
    """Describe a field that `type_` does not have; None when something else is wrong."""
    text = str(error)
    found = _NESTED.fullmatch(text) or _OUTERMOST.fullmatch(text)
    if found is None:
        return None
    name, place = found[1], found[2]
    known = sorted(set(_names_at(inspect.type_info(type_), place)))
    near = _nearest(name, known)
    hint = f"did you mean '{near}'?" if near else f"the fields are: {', '.join(known) or 'none'}"
    where = f" of '{place.lstrip('.')}'" if place else ""
    return f"'{name[:NAME_MAX]}' is no field{where}; {hint}"


def _nearest(name: str, known: list[str]) -> str | None:
    wanted = _HUMP.sub(r"_\1", name[:NAME_MAX]).lower()
    near = difflib.get_close_matches(wanted, known, n=1)
    return near[0] if near else None


def _names_at(type_: inspect.Type, place: str) -> Iterator[str]:
    level = [type_]
    for step in _PLACE.finditer(place):
        level = [child for it in level for child in _children(it, step[1])]
    for struct in (member for it in level for member in _members(it)):
        if isinstance(struct, inspect.StructType):
            yield from (field.encode_name for field in struct.fields)
            if struct.tag_field is not None:
                yield struct.tag_field


def _children(type_: inspect.Type, name: str | None) -> Iterator[inspect.Type]:
    """The types of a field; without a name, the types of the items."""
    for member in _members(type_):
        match member:
            case inspect.StructType(fields=fields) if name is not None:
                yield from (field.type for field in fields if field.encode_name == name)
            case inspect.CollectionType(item_type=item) if name is None:
                yield item
            case inspect.DictType(value_type=value) if name is None:
                yield value


def _members(type_: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(type_, inspect.UnionType):
        for member in type_.types:
            yield from _members(member)
    elif isinstance(type_, inspect.Metadata):
        yield from _members(type_.type)
    else:
        yield type_
