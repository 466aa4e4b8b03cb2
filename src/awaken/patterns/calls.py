"""A tool call as patterns see it, and paths into its arguments."""

from collections.abc import Iterator
from typing import Any

import msgspec

from .readings import Reading, read_value


class Path(msgspec.Struct, frozen=True):
    """A path into the arguments: names, indexes, and `None` for every item."""

    text: str
    steps: tuple[str | int | None, ...]


class PatternCall:
    """A call whose values are read once, however many patterns compare them."""

    __slots__ = ("_found", "arguments", "tool_id")

    def __init__(self, tool_id: str, arguments: Any) -> None:
        self.tool_id = tool_id
        self.arguments = arguments
        self._found: dict[str, tuple[Reading | None, ...]] = {}

    def readings(self, path: Path | None) -> tuple[Reading | None, ...]:
        """The values at the path, one per branch, `None` where a branch ends too early.

        Without a path this is the primary value: the only argument, or all of them as one object.
        """
        key = "" if path is None else path.text
        found = self._found.get(key)
        if found is None:
            values = [_choose_primary(self.arguments) if path is None else self.arguments]
            for step in () if path is None else path.steps:
                values = [item for value in values for item in _iter_step(value, step)]
            found = tuple(None if value is _MISSING else read_value(value) for value in values)
            self._found[key] = found
        return found


def call_of(tool_id: str, arguments: Any) -> PatternCall:
    """The call of a tool with decoded JSON arguments."""
    return PatternCall(tool_id, arguments)


_MISSING = object()


def _choose_primary(arguments: Any) -> Any:
    if isinstance(arguments, dict) and len(arguments) == 1:
        return next(iter(arguments.values()))
    return arguments


def _iter_step(value: Any, step: str | int | None) -> Iterator[Any]:
    match value, step:
        case dict(), str() if step in value:
            yield value[step]
        case list(), int() if step < len(value):
            yield value[step]
        case dict(), None if value:
            yield from value.values()
        case list(), None if value:
            yield from value
        case _:
            yield _MISSING
