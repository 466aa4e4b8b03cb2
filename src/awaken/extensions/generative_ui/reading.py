"""What the readers of generated text have in common: lines, limits, and what comes out."""

from typing import Any, Protocol

from awaken.contracts.record import Record

LINE_MAX = 32_768
LINES_MAX = 4_000
BYTES_MAX = 512_000

Shown = dict[str, Any]
"""A JSON Patch operation on what a client has been shown."""


class Interface(Record, frozen=True, kw_only=True):
    """What a text came to."""

    content: dict[str, Any]
    problem: str | None = None
    """Why it cannot be rendered."""
    warnings: tuple[str, ...] = ()
    """What was left out of it."""


class InterfaceReader(Protocol):
    """Reads a text piece by piece; however it is cut, the same comes out."""

    @property
    def shown(self) -> dict[str, Any]:
        """What a client has been shown so far."""
        ...

    def feed(self, text: str) -> list[Shown]:
        """Take more text; returns how what is shown changes."""
        ...

    def finish(self) -> Interface:
        """The text has ended."""
        ...


class LineBuffer:
    """Cuts text into lines. What exceeds the limits is not kept, and `problem` says so."""

    def __init__(self) -> None:
        self.size = 0
        self.problem: str | None = None
        self._lines = 0
        self._rest = ""

    def feed(self, text: str) -> list[str]:
        """Take more text; returns the lines that it completes."""
        self.size += len(text)
        if self.problem is not None:
            return []
        *lines, self._rest = (self._rest + text).split("\n")
        return self._within(lines)

    def finish(self) -> list[str]:
        """The last line, if it has no end."""
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


def unfenced(text: str) -> str:
    """What is inside of a text's code fences; the whole text when it has none."""
    kept: list[str] = []
    is_inside = has_fence = False
    for line in text.splitlines():
        if line.startswith("```"):
            is_inside, has_fence = not is_inside, True
        elif is_inside:
            kept.append(line)
    return "\n".join(kept) if has_fence else text
