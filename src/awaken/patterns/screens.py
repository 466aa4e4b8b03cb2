"""Which of many patterns are worth asking, found out in one pass over the text of a value.

A screen takes away only patterns that do not fit; those it leaves are asked one by one. So it
changes how long an answer takes, never the answer.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import re2

from .calls import Path, PatternCall
from .regexes import Needle, options_of
from .tool_pattern import ToolPattern

T = TypeVar("T")
Entry = tuple[int, ToolPattern, T]
"""A pattern of an index: its place in the order, itself, and what belongs to it."""
_Member = tuple[Entry[T], Path | None, Needle, Needle]
"""An entry that fits only where a value has a needle, as it stands or folded."""

_FEWEST = 8
"""Patterns of a screen; fewer are asked as fast one by one."""
_MARK = b"\0\0\0"
"""Is put behind every text, as something that has to be found."""


class Screen(Generic[T]):
    """Patterns of the same tools, each with a needle in the values at the same path."""

    __slots__ = ("_folded", "_given", "_path", "entries")

    def __init__(self, members: Sequence[_Member[T]]) -> None:
        self.entries = [entry for entry, *_ in members]
        self._path = members[0][1]
        self._given = _Sieve([given for *_, given, _ in members], ignore_case=False)
        self._folded = _Sieve([folded for *_, folded in members], ignore_case=True)

    def left(self, call: PatternCall) -> Iterable[Entry[T]]:
        """The entries worth asking; the patterns of the others do not fit, in no order.

        What must fit may fit as well, so one look serves both questions.
        """
        found = set[int]()
        for reading in call.readings(self._path):
            if reading is None:
                continue
            if reading.given is None:
                return self.entries
            for form, folded in reading.forms:
                found.update(self._given.left(form), self._folded.left(folded))
        return [self.entries[place] for place in found]


class _Sieve:
    """Many needles, of which RE2 searches only for the words that each of them cannot be without.

    So what they cost together does not depend on what they have between those words.
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
            # They are too large together, so each of them has to be asked.
            self._filter = None

    def left(self, data: bytes) -> Iterable[int]:
        """The places of the needles that may be in UTF-8 text, or for which it is too long."""
        count = len(self._limits)
        found: list[int] | None = None
        if self._filter is not None:
            found = self._filter.Match(data + _MARK, potential=True)
        # RE2 does not tell that its memory ran out: it finds nothing then, not even the mark.
        if not found or found.pop() != count:
            return range(count)
        if len(data) > self._shortest:
            found += [place for place, limit in enumerate(self._limits) if limit < len(data)]
        return found


def screens_of(entries: Iterable[Entry[T]]) -> Iterator[Screen[T]]:
    """Screens for those entries where it is worth it, each in one at most."""
    groups: dict[tuple[str, str, Path | None], list[_Member[T]]] = {}
    for entry in entries:
        tool = entry[1].tool
        for condition in entry[1].conditions:
            if needles := condition.needles:
                key = (tool.kind, tool.text, condition.path)
                groups.setdefault(key, []).append((entry, condition.path, *needles))
                break
    yield from (Screen(members) for members in groups.values() if len(members) >= _FEWEST)
