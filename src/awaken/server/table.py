"""Finds the route of a path among the routes with the same number of segments."""

import re
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")

_PARAMETER = re.compile(r"\{(\w+)(:path)?\}")
_REST = (0, "")


class RouteTable(Generic[T]):
    """Finds the target of a path; routes with a longer literal part are tried first.

    `{name}` matches a part of one segment, `{name:path}` everything up to the end.

    Raises:
        ValueError: Two routes are the same.
    """

    def __init__(self, entries: Iterable[tuple[str, str, T]]) -> None:
        self._plain: dict[str, dict[str, T]] = {}
        self._patterns: dict[tuple[int, str], dict[str, tuple[re.Pattern[str], dict[str, T]]]] = {}
        for method, path, target in sorted(entries, key=lambda it: -len(_literal(it[1]))):
            if self._targets(path).setdefault(method, target) is not target:
                raise ValueError(f"There are two routes for {method} {path}")

    def find(self, path: str) -> tuple[dict[str, T], dict[str, str]] | None:
        """Find the targets of a path by method, and the parameters in the path."""
        if (plain := self._plain.get(path)) is not None:
            return plain, {}
        size, first = _shape(path)
        for shape in ((size, first), (size, ""), _REST):
            for pattern, targets in self._patterns.get(shape, {}).values():
                if match := pattern.fullmatch(path):
                    return targets, match.groupdict()
        return None

    def _targets(self, path: str) -> dict[str, T]:
        if "{" not in path:
            return self._plain.setdefault(path, {})
        size, first = _shape(path)
        shape = _REST if ":path}" in path else (size, "" if "{" in first else first)
        return self._patterns.setdefault(shape, {}).setdefault(path, (_pattern(path), {}))[1]


def _shape(path: str) -> tuple[int, str]:
    return path.count("/"), path[1:].partition("/")[0]


def _literal(path: str) -> str:
    return _PARAMETER.sub("", path)


def _pattern(path: str) -> re.Pattern[str]:
    # Split into literal, name and kind by turns.
    parts = _PARAMETER.split(path)
    text = re.escape(parts[0])
    for name, rest, literal in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        text += f"(?P<{name}>{'.+' if rest else '[^/]+'}){re.escape(literal)}"
    return re.compile(text, re.DOTALL)
