"""How a tool call and a ticket are shown to the person who decides: all of it, and escaped.

White space hides nothing: what would push the rest out of sight is shown by its length.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import msgspec

from awaken.contracts.suspension.tickets import Ticket

from .output import plain, short

_CALL_CHARS = 60
_MARKS_MAX = 4
"""How many marks a letter may carry: the scripts that need most have four."""
_EMPTY_LINES_MAX = 2
_SPACES = re.compile(r"(?<=[^ ]) {3,}|^ {41,}")
_ESCAPES = re.compile(r"(\\(?:[bfnrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}))\1{3,}")
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef"
    "\u0334-\u0338\u0488\u0489\u20dd-\u20e4]"
)
"""Characters that can be printed, and show nothing or strike out what stands beside them."""


def call_text(name: str, arguments: Any) -> str:
    """A call on one line, cut where it is long."""
    if not isinstance(arguments, Mapping):
        return plain(name)
    shown = ", ".join(f"{plain(key)}={_cut(_as_text(it))}" for key, it in arguments.items())
    return f"{plain(name)}({shown})"


def spell_out(text: str) -> str:
    """Text on one line in which nothing is hidden: neither by characters nor by white space."""
    shown = plain(_UNSEEN.sub(_escape, _spell_marks(text)))
    shown = _ESCAPES.sub(lambda it: f"<{it[1]} x {len(it[0]) // len(it[1])}>", shown)
    return _SPACES.sub(lambda it: f"<{len(it[0])} spaces>", shown)


def ticket_lines(ticket: Ticket) -> Iterator[tuple[str, str]]:
    """The lines of a question, each with its style."""
    yield spell_out(ticket.tool_name), "bold"
    arguments = ticket.arguments
    if isinstance(arguments, Mapping):
        for key, value in arguments.items():
            yield from _argument_lines(spell_out(str(key)), value)
    elif arguments is not None:
        yield from _argument_lines("arguments", arguments)
    if ticket.suspension.message:
        yield spell_out(ticket.suspension.message), ""
    yield _asker_text(ticket), "dim"


def _argument_lines(name: str, value: Any) -> Iterator[tuple[str, str]]:
    lines = [*_fold_empty((value if isinstance(value, str) else _as_text(value)).split("\n"))]
    if len(lines) == 1:
        yield f"  {name}: {lines[0]}", ""
    else:
        yield f"  {name}:", ""
        yield from ((f"    {line}", "") for line in lines)


def _fold_empty(lines: list[str]) -> Iterator[str]:
    """Spell the lines out, with many empty ones as their number."""
    for is_empty, group in groupby(lines, lambda line: not line.strip(" ")):
        found = [*group]
        if is_empty and len(found) > _EMPTY_LINES_MAX:
            yield f"<{len(found)} empty lines>"
        else:
            yield from map(spell_out, found)


def _spell_marks(text: str) -> str:
    """Escape marks that stand on no letter, and those that are more than letters have."""
    if text.isascii():
        return text
    marks, shown = _MARKS_MAX, list[str]()
    for character in text:
        kind = unicodedata.category(character)[0]
        marks = marks + 1 if kind == "M" else 0 if kind == "L" else _MARKS_MAX
        is_odd = kind == "M" and marks > _MARKS_MAX
        shown.append(_spell(character) if is_odd else character)
    return "".join(shown)


def _escape(found: re.Match[str]) -> str:
    return _spell(found[0])


def _spell(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _cut(text: str) -> str:
    # Cut before it is spelled out: an argument may be a megabyte long.
    shown = spell_out(text[: _CALL_CHARS * 10])
    is_whole = len(shown) <= _CALL_CHARS and len(text) <= _CALL_CHARS * 10
    return shown if is_whole else f"{shown[: _CALL_CHARS - 1]}…"


def _asker_text(ticket: Ticket) -> str:
    asked = ticket.suspension.parameters
    rule = asked.get("rule") if isinstance(asked, Mapping) else None
    asker = f"the plugin '{plain(ticket.asked_by)}'" if ticket.asked_by else "the tool itself"
    return f"Asked by {asker}" + (f", rule: {short(rule, 200)}" if rule else "")


def _as_text(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        return str(value)
