"""Screens select the candidates among many patterns in one pass over the text of a value.

A screen removes only patterns that cannot match; the others are evaluated one by one. So it changes
the time of a match, never its result.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import re2

from .calls import Path, PatternCall
from .regexes import Needle, options_of
from .tool_pattern import ToolPattern

T = TypeVar("T")
Entry = tuple[int, ToolPattern, T]
"""A pattern of an index: its position, the pattern, and its item."""
_Member = tuple[Entry[T], Path | None, Needle, Needle]
"""An entry that matches only if a value contains a needle, as it is or folded."""

_FEWEST = 8
"""The minimum number of patterns; fewer are as fast one by one."""
_MARK = b"\0\0\0"
"""Appended to every text, as a match that must always be found."""


class Screen(Generic[T]):
    """Patterns of the same tools, each with a needle for the values at the same path."""

    __slots__ = ("_folded", "_given", "_path", "entries")

    def __init__(self, members: Sequence[_Member[T]]) -> None:
        self.entries = [entry for entry, *_ in members]
        self._path = members[0][1]
        self._given = _Sieve([given for *_, given, _ in members], ignore_case=False)
        self._folded = _Sieve([folded for *_, folded in members], ignore_case=True)

    def find_candidates(self, call: PatternCall) -> Iterable[Entry[T]]:
        """The entries that can match, in no order; the patterns of the others do not match.

        A pattern that must match also may match, so one search serves both evaluations.
        """
        found = set[int]()
        for reading in call.readings(self._path):
            if reading is None:
                continue
            if reading.given is None:
                return self.entries
            for form, folded in reading.forms:
                found.update(self._given.find_needles(form), self._folded.find_needles(folded))
        return [self.entries[place] for place in found]


class _Sieve:
    """Many needles; RE2 searches only for the literal words that each of them requires.

    So their common cost does not depend on the expressions between those words.
    """

    __slots__ = ("_filter", "_limits", "_shortest")

    def __init__(self, needles: Sequence[Needle], *, ignore_case: bool) -> None:
        self._limits = [needle.limit for needle in needles]
        self._shortest = min(self._limits)
        self._filter: re2.Filter | None = re2.Filter()
        try:
            for needle in needles:
                self._filter.Add(needle.source, options_of(ignore_case=ignore_case))
            self._filter.Add(_MARK, options_of(ignore_case=False))
            self._filter.Compile()
        except re2.error:
            # Together they are too large, so each of them has to be evaluated.
            self._filter = None

    def find_needles(self, data: bytes) -> Iterable[int]:
        """The indexes of the needles that the text may contain, or for which it is too long."""
        count = len(self._limits)
        found: list[int] | None = None
        if self._filter is not None:
            found = self._filter.Match(data + _MARK, potential=True)
        # RE2 does not report that its memory ran out: then it finds nothing, not even the mark.
        if not found or found.pop() != count:
            return range(count)
        if len(data) > self._shortest:
            found += [place for place, limit in enumerate(self._limits) if limit < len(data)]
        return found


def build_screens(entries: Iterable[Entry[T]]) -> Iterator[Screen[T]]:
    """Build screens for groups of entries that are large enough; an entry is in one at most."""
    groups: dict[tuple[str, str, Path | None], list[_Member[T]]] = {}
    for entry in entries:
        tool = entry[1].tool
        for condition in entry[1].conditions:
            if needles := condition.needles:
                key = (tool.kind, tool.text, condition.path)
                groups.setdefault(key, []).append((entry, condition.path, *needles))
                break
    yield from (Screen(members) for members in groups.values() if len(members) >= _FEWEST)
