"""The YAML subset of a skill's frontmatter: block mappings, block lists and text.

All scalars are text. As in the specification's own validator, flow collections, anchors, tags and
duplicate keys are refused, so that a small document stays small in memory.
"""

from collections.abc import Iterator
from typing import Any

import yaml  # type: ignore[import-untyped]

from .problems import DocumentError

MAX_FRONTMATTER_CHARACTERS = 65_536
MAX_DEPTH = 8

Value = str | list[Any] | dict[str, Any]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def split_document(text: str) -> tuple[str, str]:
    """Separate the frontmatter from the body.

    Raises:
        DocumentError: There is no frontmatter between two lines `---`.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[0].rstrip() != "---":
        raise DocumentError("it must start with YAML frontmatter (---)")
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == "---":
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :]).strip()
    raise DocumentError("its frontmatter is not closed with ---")


def read_frontmatter(text: str) -> dict[str, Value]:
    """Read the frontmatter as a mapping.

    Raises:
        DocumentError: It is not a mapping of this subset, too large, or too deep.
    """
    if len(text) > MAX_FRONTMATTER_CHARACTERS:
        raise DocumentError(
            f"its frontmatter has more than {MAX_FRONTMATTER_CHARACTERS} characters"
        )
    try:
        events = iter(yaml.parse(text, Loader=_LOADER))
        next(events)  # The stream begins, and then the document, if there is one.
        next(events)
        value = _read_value(events, next(events, None), 0)
        next(events)
        if not isinstance(next(events), yaml.StreamEndEvent):
            raise DocumentError("its frontmatter is more than one document")
    except yaml.YAMLError as error:
        raise DocumentError(f"its frontmatter is not YAML: {_describe_error(error)}") from error
    if not isinstance(value, dict):
        raise DocumentError("its frontmatter must be a mapping")
    return value


def _read_value(events: Iterator[Any], event: Any, depth: int) -> Value:
    _check(event, depth)
    match event:
        case yaml.ScalarEvent():
            return str(event.value)
        case yaml.SequenceStartEvent():
            items: list[Any] = []
            while not isinstance(inner := next(events), yaml.SequenceEndEvent):
                items.append(_read_value(events, inner, depth + 1))
            return items
        case yaml.MappingStartEvent():
            return _read_mapping(events, depth)
        case _:
            raise DocumentError("its frontmatter is empty")


def _read_mapping(events: Iterator[Any], depth: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    while not isinstance(inner := next(events), yaml.MappingEndEvent):
        name = _read_value(events, inner, depth + 1)
        if not isinstance(name, str):
            raise DocumentError("a key of its frontmatter is not text")
        if name == "<<":
            raise DocumentError("its frontmatter has a merge key")
        if name in fields:
            raise DocumentError(f"its frontmatter has '{name[:64]}' twice")
        fields[name] = _read_value(events, next(events), depth + 1)
    return fields


def _check(event: Any, depth: int) -> None:
    if getattr(event, "anchor", None) is not None:
        raise DocumentError("its frontmatter has an anchor or an alias")
    if getattr(event, "flow_style", False) or getattr(event, "tag", None) is not None:
        raise DocumentError("its frontmatter has a tag, or {…} or […]: write plain lines")
    if depth > MAX_DEPTH:
        raise DocumentError(f"its frontmatter is nested more than {MAX_DEPTH} deep")


def _describe_error(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    place = f" in line {mark.line + 1}" if mark is not None else ""
    return f"{getattr(error, 'problem', None) or 'unreadable'}{place}"
