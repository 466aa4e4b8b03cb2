"""Output for people and programs: escaped text, tables, JSON.

Stored text comes from models and clients. Its control characters never reach a terminal.
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec
import typer

from awaken.contracts.lifecycle import Failed, Termination, reason_text
from awaken.contracts.messages.content import escape_unprintable

CELL_MAX = 60
_GAP = "  "

BOLD, DIM, GOOD, WARNING, ERROR = "1", "2", "32", "33", "31"
"""Styles, as a terminal spells them."""
_JOINERS = "\u200c\u200d"
"""Marks inside of words and of pictures, which would be unreadable without them."""


def has_colors(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal that shows colours, and the person wants them.

    `NO_COLOR` switches them off, `FORCE_COLOR` on, whatever the stream is.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal that can move its cursor; one that is closed is none."""
    return stream is not None and stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def can_draw(stream: TextIO) -> bool:
    """Whether a stream is a terminal that also shows the marks of spinners, boxes and Markdown."""
    encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "").replace("_", "")
    return is_terminal(stream) and encoding.startswith("utf")


def style(text: str, code: str, *, is_error: bool = False) -> str:
    """Style a text for stdout, or for stderr, if that shows colours."""
    stream = sys.stderr if is_error else sys.stdout
    return f"\x1b[{code}m{text}\x1b[0m" if has_colors(stream) else text


def safe_text(text: str) -> str:
    """Escape everything that could control a terminal; keep lines and tabs."""
    if text.isprintable():
        return text
    return "".join(
        mark if mark.isprintable() or mark in "\n\t" or mark in _JOINERS else plain(mark)
        for mark in text
    )


def print_stdout(text: str, *, has_end: bool = True) -> None:
    """Print to stdout, with the end of the line unless more follows."""
    typer.echo(_encodable(text, sys.stdout), nl=has_end, color=has_colors(sys.stdout))


def print_stderr(text: str, *, has_end: bool = True) -> None:
    """Print to stderr; a message that cannot be written changes nothing."""
    shown = _encodable(text, sys.stderr)
    with suppress(OSError):
        typer.echo(shown, err=True, nl=has_end, color=has_colors(sys.stderr))


def as_json(value: Any, *, indent: int | None = 2) -> str:
    """Encode a record as ASCII JSON, without terminal control characters."""
    return json.dumps(json.loads(msgspec.json.encode(value)), indent=indent)


def plain(value: object) -> str:
    """Escape everything that cannot be printed, on one line."""
    return "" if value is None else escape_unprintable(str(value))


def short(value: object, limit: int = CELL_MAX) -> str:
    """The beginning of a text, as `plain` shows it."""
    # Cut before it is escaped: a stored text may be a megabyte long.
    text = plain(("" if value is None else str(value))[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + "…"


def moment(at_ms: int | None) -> str:
    """A time as people read it."""
    if not at_ms:
        return ""
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"
    except (ValueError, OverflowError, OSError):
        return str(at_ms)


def dollars(amount: float | None) -> str:
    """Format an amount to a millionth: one answer often costs less than a cent."""
    return "" if amount is None else f"${amount:,.6f}"


def termination_text(termination: Termination | None) -> str:
    """How a run ended; empty if it has not."""
    match termination:
        case None:
            return ""
        case Failed(message=message, code=code):
            return f"error {code}: {message}"
        case _:
            return reason_text(termination)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Format aligned columns under their names; ids are never cut."""
    lines = [list(head), *([plain(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    first, *rest = (
        _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    return "\n".join([style(first, BOLD), *rest])


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Format names and values, one pair per line; absent values are left out."""
    found = [(name, plain(value)) for name, value in pairs if value not in (None, "", (), {})]
    width = max((len(name) for name, _ in found), default=0)
    return "\n".join(f"{name.ljust(width)}{_GAP}{value}" for name, value in found)


def section(title: str, body: str) -> str:
    """Format a titled part of a longer text; nothing if its body is empty."""
    return f"\n\n{title}\n{body}" if body else ""


def _encodable(text: str, stream: TextIO) -> str:
    """Escape what the stream cannot encode: not every terminal uses UTF-8."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
