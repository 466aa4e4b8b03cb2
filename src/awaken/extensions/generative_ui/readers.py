"""The common part of the readers of generated text: lines, limits and results."""

from typing import Any, Protocol

from awaken.contracts.record import Record

LINE_MAX = 32_768
LINES_MAX = 4_000
BYTES_MAX = 512_000

PatchOperation = dict[str, Any]
"""A JSON Patch operation on the preview that clients have."""


class Interface(Record, frozen=True, kw_only=True):
    """The interface that was read from a text."""

    content: dict[str, Any]
    problem: str | None = None
    """Why it cannot be rendered."""
    warnings: tuple[str, ...] = ()
    """What was omitted from it."""


class InterfaceReader(Protocol):
    """Reads a text in pieces; the result does not depend on how it is cut."""

    @property
    def preview(self) -> dict[str, Any]:
        """The interface so far, as clients see it."""
        ...

    def feed(self, text: str) -> list[PatchOperation]:
        """Read more text; return the changes of the preview."""
        ...

    def finish(self) -> Interface:
        """Return the result after the end of the text."""
        ...


class LineBuffer:
    """Splits text into lines. Text beyond the limits is discarded, and `problem` says so."""

    def __init__(self) -> None:
        self.size = 0
        self.problem: str | None = None
        self._lines = 0
        self._rest = ""

    def feed(self, text: str) -> list[str]:
        """Read more text; return the lines that it completes."""
        self.size += len(text)
        if self.problem is not None:
            return []
        *lines, self._rest = (self._rest + text).split("\n")
        return self._within(lines)

    def finish(self) -> list[str]:
        """The last line, if it has no newline."""
        last, self._rest = self._rest, ""
        return self._within([last]) if last.strip() and self.problem is None else []

    def _within(self, lines: list[str]) -> list[str]:
        self._lines += len(lines)
        if self.size > BYTES_MAX or self._lines > LINES_MAX:
            self.problem = f"the text has more than {BYTES_MAX} characters or {LINES_MAX} lines"
        elif max(map(len, (*lines, self._rest))) > LINE_MAX:
            self.problem = f"a line has more than {LINE_MAX} characters"
        if self.problem is not None:
            self._rest = ""
            return []
        return [line.removesuffix("\r") for line in lines]


def strip_fences(text: str) -> str:
    """The text inside the code fences; the whole text if it has none."""
    kept: list[str] = []
    is_inside = has_fence = False
    for line in text.splitlines():
        if line.startswith("```"):
            is_inside, has_fence = not is_inside, True
        elif is_inside:
            kept.append(line)
    return "\n".join(kept) if has_fence else text
