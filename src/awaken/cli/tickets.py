"""`awaken tickets`: tool calls that wait for a decision."""

import base64
import binascii
from typing import Annotated

import msgspec
import typer

from awaken.contracts.errors import CursorInvalid, UnknownTicket
from awaken.contracts.storage.queries import Page
from awaken.contracts.suspension.tickets import Ticket

from .command_context import CommandContext, store_command
from .command_line import new_app
from .list_options import DEFAULT_LIMIT, Cursor, Limit, OfThread
from .output import as_json, facts, moment, short

app = new_app("Tool calls that wait for a decision.")

Place = tuple[int, str]
"""The position of a ticket among the open ones: its creation time, then its id."""


@app.command("list")
@store_command()
async def list_tickets(
    context: CommandContext,
    thread: OfThread = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> None:
    """List open tickets, oldest first."""
    found = await context.store.list_tickets(thread)
    after = None if cursor is None else _place_at(cursor)
    left = [ticket for ticket in found if after is None or _place(ticket) > after]
    items = tuple(left[:limit])
    following = _cursor(_place(items[-1])) if len(left) > limit else None
    context.show_page(Page(items=items, total=len(found), next_cursor=following), _HEAD, _row)


@app.command("show")
@store_command()
async def show_ticket(
    context: CommandContext,
    ticket_id: Annotated[str, typer.Argument(metavar="ID", help="The ticket's id.")],
) -> None:
    """Show a ticket: its question, its call and its decision."""
    ticket = await context.store.find_ticket(ticket_id)
    if ticket is None:
        remedy = "`awaken tickets list` shows what is there"
        raise UnknownTicket(ticket_id=ticket_id, remedy=remedy)
    context.show(ticket, _about(ticket))


_HEAD = ("TICKET", "THREAD", "RUN", "TOOL", "CREATED", "DEADLINE", "ASKS")


def _row(ticket: Ticket) -> tuple[object, ...]:
    return (
        ticket.ticket_id,
        ticket.thread_id,
        ticket.run_id,
        ticket.tool_name,
        moment(ticket.created_at),
        moment(ticket.expires_at),
        short(ticket.suspension.message or ticket.suspension.action),
    )


def _about(ticket: Ticket) -> str:
    decision = ticket.decision
    schema = ticket.suspension.response_schema
    return facts(
        (
            ("ticket", ticket.ticket_id),
            ("thread", ticket.thread_id),
            ("run", ticket.run_id),
            ("tool", ticket.tool_name),
            ("arguments", short(as_json(ticket.arguments, indent=None), 1000)),
            ("status", ticket.status),
            ("asks", short(ticket.suspension.message or ticket.suspension.action, 1000)),
            ("asked by", ticket.asked_by),
            ("answer's schema", None if schema is None else as_json(schema, indent=None)),
            ("a decision means", ticket.resume_mode),
            ("deciders", ", ".join(ticket.deciders or ())),
            ("deadline", moment(ticket.expires_at)),
            ("decision", None if decision is None else as_json(decision, indent=None)),
            ("closed because", ticket.closed_because),
            ("created", moment(ticket.created_at)),
        )
    )


def _place(ticket: Ticket) -> Place:
    return ticket.created_at, ticket.ticket_id


def _cursor(place: Place) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode()


def _place_at(cursor: str) -> Place:
    try:
        place: Place = msgspec.json.decode(base64.urlsafe_b64decode(cursor), type=Place)
    except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
        raise CursorInvalid(problem="it is malformed") from error
    return place
