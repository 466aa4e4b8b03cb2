"""`awaken dead-letters`: deliveries, and orders of commits, whose attempts are used up."""

from typing import Annotated

import typer

from awaken.contracts.errors import RecordNotFound
from awaken.contracts.storage.dispatch import DispatchStatus, RunDispatch
from awaken.contracts.storage.queries import DispatchQuery, page_of
from awaken.contracts.storage.store import OutboxEntry

from .command_line import new_app
from .desk import CommandContext, at_desk
from .listing import DEFAULT_LIMIT, Cursor, Limit, OfThread, missing, placed
from .printing import moment, plain, short

app = new_app("Deliveries whose attempts are used up.")

OfOutbox = Annotated[
    bool,
    typer.Option(
        "--outbox",
        help="Orders instead: letters, reports and stops that commits of a thread asked for.",
    ),
]


@app.command("list")
@at_desk()
async def list_dead_letters(
    desk: CommandContext,
    thread: OfThread = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    *,
    is_outbox: OfOutbox = False,
) -> None:
    """List dead letters, oldest first."""
    dead = DispatchQuery(thread_id=thread, status=DispatchStatus.DEAD_LETTER, limit=limit)
    wanted = placed(dead, cursor)
    if is_outbox:
        found = await desk.mailbox.dead_orders(thread)
        items = found[wanted.offset : wanted.offset + wanted.limit]
        desk.show_page(page_of(items, len(found), wanted), _ORDER_HEAD, _order_row)
        return
    page = await desk.store.list_dispatches(wanted)
    desk.show_page(page, ("DISPATCH", "THREAD", "RUN", "ENDED", "LAST ERROR"), _row)


@app.command("replay")
@at_desk()
async def replay(
    desk: CommandContext,
    dead_id: Annotated[str, typer.Argument(metavar="ID", help="The dead letter's id.")],
    *,
    is_outbox: OfOutbox = False,
) -> None:
    """Queue a dead letter again, with all its attempts; it works once."""
    await (_retry_order(desk, dead_id) if is_outbox else _replay_dispatch(desk, dead_id))


async def _replay_dispatch(desk: CommandContext, dispatch_id: str) -> None:
    try:
        receipt = await desk.mailbox.replay_dead_letter(dispatch_id)
    except RecordNotFound as error:
        raise missing("Dispatch", dispatch_id, "dead-letters list") from error
    text = f"Queued '{plain(dispatch_id)}' again as dispatch '{plain(receipt.dispatch_id)}'."
    desk.show(receipt, text)


async def _retry_order(desk: CommandContext, entry_id: str) -> None:
    try:
        entry = await desk.mailbox.retry_order(entry_id)
    except RecordNotFound as error:
        raise missing("Dead order", entry_id, "dead-letters list --outbox") from error
    desk.show(entry, f"Order '{plain(entry_id)}' is tried again.")


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
    payload = entry.payload if isinstance(entry.payload, dict) else {}
    thread_id = payload.get("thread_id") or payload.get("parent_thread_id")
    return entry.entry_id, entry.kind, short(thread_id), entry.attempts, short(entry.error)
