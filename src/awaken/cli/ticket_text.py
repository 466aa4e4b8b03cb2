"""How a tool call and a ticket are shown to the person who decides: all of it, and escaped."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from awaken.contracts.suspension.tickets import Ticket

from .output import plain, short

ARGUMENT_CHARS = 8_000
"""How much of one argument is shown; the rest is counted, never left out silently."""


def call_text(name: str, arguments: Any) -> str:
    """A call on one line, cut where it is long."""
    if not isinstance(arguments, Mapping):
        return plain(name)
    shown = ", ".join(f"{plain(key)}={short(_as_text(it))}" for key, it in arguments.items())
    return f"{plain(name)}({shown})"


def ticket_lines(ticket: Ticket) -> Iterator[tuple[str, str]]:
    """The lines of a question, each with its style."""
    yield plain(ticket.tool_name), "bold"
    arguments = ticket.arguments
    if isinstance(arguments, Mapping):
        for key, value in arguments.items():
            yield from _argument_lines(plain(key), value)
    elif arguments is not None:
        yield from _argument_lines("arguments", arguments)
    if ticket.suspension.message:
        yield plain(ticket.suspension.message), ""
    yield _asker_text(ticket), "dim"


def _argument_lines(name: str, value: Any) -> Iterator[tuple[str, str]]:
    text = value if isinstance(value, str) else _as_text(value)
    hidden = len(text) - ARGUMENT_CHARS
    lines = text[:ARGUMENT_CHARS].split("\n")
    if len(lines) == 1:
        yield f"  {name}: {plain(lines[0])}", ""
    else:
        yield f"  {name}:", ""
        yield from ((f"    {plain(line)}", "") for line in lines)
    if hidden > 0:
        yield f"    … and {hidden:,} more characters that are not shown", "bold red"


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
