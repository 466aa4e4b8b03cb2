"""`awaken dead-letters`: deliveries and outbox commands whose attempts are used up."""

from typing import Annotated

import typer

from awaken.contracts.errors import RecordNotFound
from awaken.contracts.storage.dispatch import DispatchStatus, RunDispatch
from awaken.contracts.storage.queries import DispatchQuery, page_of
from awaken.contracts.storage.store import OutboxEntry
from awaken.services.dispatches import Deliveries, thread_of

from .command_context import CommandContext, store_command
from .command_line import new_app
from .list_options import (
    DEFAULT_LIMIT,
    Cursor,
    Limit,
    OfThread,
    apply_cursor,
    not_found_error,
)
from .output import moment, plain, short

app = new_app("Deliveries whose attempts are used up.")

OfOutbox = Annotated[
    bool,
    typer.Option(
        "--outbox",
        help="Outbox commands instead: messages, results and cancels that commits asked for.",
    ),
]


@app.command("list")
@store_command()
async def list_dead_letters(
    context: CommandContext,
    thread: OfThread = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    *,
    is_outbox: OfOutbox = False,
) -> None:
    """List dead letters, oldest first."""
    dead = DispatchQuery(thread_id=thread, status=DispatchStatus.DEAD_LETTER, limit=limit)
    wanted = apply_cursor(dead, cursor)
    deliveries = Deliveries(context.mailbox)
    if is_outbox:
        found = await deliveries.list_dead_outbox(thread, offset=wanted.offset, limit=wanted.limit)
        page_of_dead = page_of(found.items, found.total or 0, wanted)
        context.show_page(page_of_dead, _ORDER_HEAD, _order_row)
        return
    page = await deliveries.list_page(wanted)
    context.show_page(page, ("DISPATCH", "THREAD", "RUN", "ENDED", "LAST ERROR"), _row)


@app.command("replay")
@store_command()
async def replay(
    context: CommandContext,
    dead_id: Annotated[str, typer.Argument(metavar="ID", help="The dead letter's id.")],
    *,
    is_outbox: OfOutbox = False,
) -> None:
    """Queue a dead letter again, with all its attempts; possible once."""
    await (_retry_order(context, dead_id) if is_outbox else _replay_dispatch(context, dead_id))


async def _replay_dispatch(context: CommandContext, dispatch_id: str) -> None:
    try:
        receipt = await Deliveries(context.mailbox).replay(dispatch_id)
    except RecordNotFound as error:
        raise not_found_error("Dispatch", dispatch_id, "dead-letters list") from error
    text = f"Queued '{plain(dispatch_id)}' again as dispatch '{plain(receipt.dispatch_id)}'."
    context.show(receipt, text)


async def _retry_order(context: CommandContext, entry_id: str) -> None:
    try:
        entry = await Deliveries(context.mailbox).retry_outbox(entry_id)
    except RecordNotFound as error:
        raise not_found_error(
            "Dead outbox command", entry_id, "dead-letters list --outbox"
        ) from error
    context.show(entry, f"Outbox command '{plain(entry_id)}' is tried again.")


def _row(dispatch: RunDispatch) -> tuple[object, ...]:
    return (
        dispatch.dispatch_id,
        dispatch.thread_id,
        dispatch.run_id,
        moment(dispatch.completed_at or dispatch.updated_at),
        short(dispatch.last_error),
    )


_ORDER_HEAD = ("ORDER", "KIND", "ABOUT", "ATTEMPTS", "LAST ERROR")


def _order_row(entry: OutboxEntry) -> tuple[object, ...]:
    about = short(thread_of(entry))
    return entry.entry_id, entry.kind, about, entry.attempts, short(entry.error)
