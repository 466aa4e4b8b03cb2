"""An index of many patterns, to match a call with all of them."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

from .calls import PatternCall
from .conditions import ConditionKind
from .screens import Entry, Screen, build_screens
from .tool_pattern import ToolPattern

T = TypeVar("T")

_REMEMBERED = 4_096


class _OfTool(NamedTuple, Generic[T]):
    """The entries for one tool: all of them, those without a screen, and the screens."""

    entries: Sequence[Entry[T]]
    unscreened: Sequence[Entry[T]]
    screens: Sequence[Screen[T]]


class PatternIndex(Generic[T]):
    """Patterns with an item each, in the given order.

    The patterns for a tool are looked up once, by its name for exact ones and by a prefix of its
    name for the rest, and cached for a bounded number of tools. So a call is compared with the
    arguments of those few only. Where many patterns search the same value, screens select the few
    that can match.
    """

    __slots__ = ("_broad", "_exact", "_lengths", "_of_tool", "_screens")

    def __init__(self, entries: Iterable[tuple[ToolPattern, T]]) -> None:
        self._exact: dict[str, list[Entry[T]]] = {}
        self._broad: dict[str, list[Entry[T]]] = {}
        self._of_tool: dict[str, _OfTool[T]] = {}
        ordered = [(order, pattern, item) for order, (pattern, item) in enumerate(entries)]
        for entry in ordered:
            tool = entry[1].tool
            is_exact = tool.kind is ConditionKind.EXACT
            place = self._exact if is_exact else self._broad
            place.setdefault(tool.text if is_exact else tool.prefix, []).append(entry)
        self._lengths = sorted({len(prefix) for prefix in self._broad})
        self._screens = {
            order: screen for screen in build_screens(ordered) for order, *_ in screen.entries
        }

    def of_tool(self, tool_id: str) -> list[T]:
        """The items of the patterns that match the tool, whatever the arguments."""
        return [item for _, _, item in self._lookup_tool(tool_id).entries]

    def of_call(self, call: PatternCall) -> list[T]:
        """The items of the candidate patterns; no other pattern matches the call."""
        return [item for _, _, item in self._find_candidates(call)]

    def may_match(self, call: PatternCall) -> list[T]:
        """The items of the patterns that may match."""
        return [
            it
            for _, pattern, it in self._find_candidates(call)
            if pattern.may_match_arguments(call)
        ]

    def must_match(self, call: PatternCall) -> list[T]:
        """The items of the patterns that must match."""
        return [
            it
            for _, pattern, it in self._find_candidates(call)
            if pattern.must_match_arguments(call)
        ]

    def _find_candidates(self, call: PatternCall) -> Sequence[Entry[T]]:
        found = self._lookup_tool(call.tool_id)
        if not found.screens:
            return found.entries
        left = (screen.find_candidates(call) for screen in found.screens)
        return sorted(chain(found.unscreened, *left), key=_order)

    def _lookup_tool(self, tool_id: str) -> _OfTool[T]:
        found = self._of_tool.get(tool_id)
        if found is None:
            found = self._find_entries(tool_id)
            if len(self._of_tool) < _REMEMBERED:
                self._of_tool[tool_id] = found
        return found

    def _find_entries(self, tool_id: str) -> _OfTool[T]:
        begins = [tool_id[:length] for length in self._lengths if length <= len(tool_id)]
        likely = [entry for begin in begins for entry in self._broad.get(begin, ())]
        broad = [entry for entry in likely if entry[1].matches_tool(tool_id)]
        entries = sorted(self._exact.get(tool_id, []) + broad, key=_order)
        unscreened = [entry for entry in entries if entry[0] not in self._screens]
        # All patterns of a screen have the same tool name, so the whole screen applies.
        screens = dict.fromkeys(self._screens[it[0]] for it in entries if it[0] in self._screens)
        return _OfTool(tuple(entries), tuple(unscreened), tuple(screens))


def _order(entry: Entry[T]) -> int:
    return entry[0]
