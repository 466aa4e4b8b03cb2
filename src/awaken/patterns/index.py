"""Many patterns, asked at once."""

from collections.abc import Iterable
from typing import Generic, TypeVar

from .calls import Call
from .conditions import Kind
from .tool_pattern import ToolPattern

T = TypeVar("T")

_REMEMBERED = 4_096


class PatternIndex(Generic[T]):
    """Patterns with what belongs to each, in the order given.

    Which of them speak of a tool is found out once: by its name for exact ones, by the beginning of
    its name for the rest, and remembered for a bounded number of tools. So a call is compared with
    the arguments of those few only.
    """

    __slots__ = ("_broad", "_exact", "_lengths", "_of_tool")

    def __init__(self, entries: Iterable[tuple[ToolPattern, T]]) -> None:
        self._exact: dict[str, list[tuple[int, ToolPattern, T]]] = {}
        self._broad: dict[str, list[tuple[int, ToolPattern, T]]] = {}
        self._of_tool: dict[str, tuple[tuple[ToolPattern, T], ...]] = {}
        for order, (pattern, item) in enumerate(entries):
            is_exact = pattern.tool.kind is Kind.EXACT
            place = self._exact if is_exact else self._broad
            begin = pattern.tool.text if is_exact else pattern.tool.prefix
            place.setdefault(begin, []).append((order, pattern, item))
        self._lengths = sorted({len(prefix) for prefix in self._broad})

    def of_tool(self, tool_id: str) -> tuple[tuple[ToolPattern, T], ...]:
        """The patterns that speak of the tool, whatever the arguments."""
        found = self._of_tool.get(tool_id)
        if found is None:
            begins = [tool_id[:length] for length in self._lengths if length <= len(tool_id)]
            likely = [entry for begin in begins for entry in self._broad.get(begin, ())]
            broad = [entry for entry in likely if entry[1].matches_tool(tool_id)]
            entries = sorted(self._exact.get(tool_id, []) + broad, key=lambda entry: entry[0])
            found = tuple((pattern, item) for _, pattern, item in entries)
            if len(self._of_tool) < _REMEMBERED:
                self._of_tool[tool_id] = found
        return found

    def may_match(self, call: Call) -> list[T]:
        """What belongs to the patterns that may match."""
        entries = self.of_tool(call.tool_id)
        return [item for pattern, item in entries if pattern.may_match_arguments(call)]

    def must_match(self, call: Call) -> list[T]:
        """What belongs to the patterns that must match."""
        entries = self.of_tool(call.tool_id)
        return [item for pattern, item in entries if pattern.must_match_arguments(call)]
