"""Output for people and programs: escaped text, tables, JSON.

Stored text comes from models and clients. Its control characters never reach a terminal.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec
import typer

from awaken.contracts.lifecycle import Failed, Termination, reason_text
from awaken.contracts.messages.content import escape_unprintable

CELL_MAX = 60
_GAP = "  "


def print_stdout(text: str) -> None:
    """Print to stdout."""
    typer.echo(_encodable(text, sys.stdout))


def print_stderr(text: str) -> None:
    """Print to stderr."""
    typer.echo(_encodable(text, sys.stderr), err=True)


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
    return "\n".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


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
