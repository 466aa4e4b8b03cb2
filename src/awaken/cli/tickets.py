"""`awaken tickets`: tool calls that wait for a decision."""

from typing import Annotated

import msgspec
import typer

from awaken.contracts.errors import UnknownTicket
from awaken.contracts.storage.queries import TicketQuery
from awaken.contracts.suspension.tickets import Ticket
from awaken.contracts.workflows.waits import asks_person, describe_wait

from .command_context import CommandContext, store_command
from .command_line import new_app
from .list_options import DEFAULT_LIMIT, Cursor, Limit, OfThread, apply_cursor
from .output import as_json, facts, moment, short
from .ticket_text import spell_out

app = new_app("Tool calls that wait for a decision.")


@app.command("list")
@store_command()
async def list_tickets(
    context: CommandContext,
    thread: OfThread = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> None:
    """List open tickets, oldest first."""
    query = TicketQuery(thread_id=thread, limit=limit, with_total=True)
    page = await context.store.list_ticket_page(apply_cursor(query, cursor))
    # A workflow that sleeps or waits for an event asks no person.
    found = await context.store.list_tickets(thread)
    asked = tuple(it for it in page.items if asks_person(it))
    page = msgspec.structs.replace(page, items=asked, total=sum(map(asks_person, found)))
    context.show_page(page, _HEAD, _row)


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


def _list_deciders(ticket: Ticket) -> str:
    if not asks_person(ticket):
        return f"nobody: an event or the deadline. {describe_wait(ticket)}"
    return ", ".join(ticket.deciders or ())


def _about(ticket: Ticket) -> str:
    decision = ticket.decision
    schema = ticket.suspension.response_schema
    return facts(
        (
            ("ticket", ticket.ticket_id),
            ("thread", ticket.thread_id),
            ("run", ticket.run_id),
            ("tool", ticket.tool_name),
            ("arguments", spell_out(as_json(ticket.arguments, indent=None))),
            ("status", ticket.status),
            ("asks", spell_out(ticket.suspension.message or ticket.suspension.action)),
            ("asked by", ticket.asked_by),
            ("answer's schema", None if schema is None else as_json(schema, indent=None)),
            ("a decision means", ticket.resume_mode),
            ("deciders", _list_deciders(ticket)),
            ("deadline", moment(ticket.expires_at)),
            ("decision", None if decision is None else as_json(decision, indent=None)),
            ("closed because", ticket.closed_because),
            ("created", moment(ticket.created_at)),
        )
    )
