"""`awaken dispatches`: deliveries of input to threads."""

from typing import Annotated

import typer

from awaken.contracts.errors import RecordNotFound
from awaken.contracts.storage.dispatch import DispatchStatus, RunDispatch
from awaken.contracts.storage.queries import DispatchQuery
from awaken.services.dispatches import Deliveries

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
from .output import facts, moment, short

app = new_app("Deliveries of input to threads.")


@app.command("list")
@store_command()
async def list_dispatches(
    context: CommandContext,
    thread: OfThread = None,
    status: Annotated[
        DispatchStatus | None, typer.Option("--status", help="Only those in this status.")
    ] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> None:
    """List deliveries, oldest first."""
    query = apply_cursor(DispatchQuery(thread_id=thread, status=status, limit=limit), cursor)
    context.show_page(await Deliveries(context.mailbox).list_page(query), _HEAD, _row)


@app.command("show")
@store_command()
async def show_dispatch(
    context: CommandContext,
    dispatch_id: Annotated[str, typer.Argument(metavar="ID", help="The dispatch's id.")],
) -> None:
    """Show a delivery: its status, its attempts and its last error."""
    try:
        dispatch = await Deliveries(context.mailbox).find(dispatch_id)
    except RecordNotFound as error:
        raise not_found_error("Dispatch", dispatch_id, "dispatches list") from error
    context.show(dispatch, _about(dispatch))


_HEAD = ("DISPATCH", "THREAD", "RUN", "MODE", "STATUS", "ATTEMPTS", "CREATED", "LAST ERROR")


def _row(dispatch: RunDispatch) -> tuple[object, ...]:
    return (
        dispatch.dispatch_id,
        dispatch.thread_id,
        dispatch.run_id,
        dispatch.mode,
        dispatch.status,
        f"{dispatch.attempt_count}/{dispatch.max_attempts}",
        moment(dispatch.created_at),
        short(dispatch.last_error),
    )


def _about(dispatch: RunDispatch) -> str:
    text = " ".join(message.text for message in dispatch.request.messages)
    return facts(
        (
            ("dispatch", dispatch.dispatch_id),
            ("thread", dispatch.thread_id),
            ("run", dispatch.run_id),
            ("agent", dispatch.request.agent_id),
            ("mode", dispatch.mode),
            ("status", dispatch.status),
            ("attempts", f"{dispatch.attempt_count} of {dispatch.max_attempts}"),
            ("last error", short(dispatch.last_error, 1000)),
            ("claimed by", dispatch.claimed_by),
            ("to be cancelled", dispatch.cancel_cause),
            ("priority", dispatch.priority),
            ("dedupe key", dispatch.dedupe_key),
            ("due", moment(dispatch.available_at)),
            ("created", moment(dispatch.created_at)),
            ("updated", moment(dispatch.updated_at)),
            ("ended", moment(dispatch.completed_at)),
            ("input", short(text, 1000)),
        )
    )
