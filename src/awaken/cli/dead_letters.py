"""`awaken dead-letters`: deliveries whose attempts are used up."""

from typing import Annotated

import typer

from awaken.contracts.dispatch import DispatchStatus, RunDispatch
from awaken.contracts.errors import RecordNotFound
from awaken.contracts.queries import DispatchQuery

from .command_line import new_app
from .desk import Desk, at_desk
from .listing import DEFAULT_LIMIT, Cursor, Limit, OfThread, missing, placed
from .printing import moment, plain, short

app = new_app("Deliveries whose attempts are used up.")


@app.command("list")
@at_desk()
async def list_dead_letters(
    desk: Desk, thread: OfThread = None, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> None:
    """List dead letters, oldest first."""
    wanted = DispatchQuery(thread_id=thread, status=DispatchStatus.DEAD_LETTER, limit=limit)
    page = await desk.store.list_dispatches(placed(wanted, cursor))
    desk.show_page(page, ("DISPATCH", "THREAD", "RUN", "ENDED", "LAST ERROR"), _row)


@app.command("replay")
@at_desk()
async def replay(
    desk: Desk,
    dispatch_id: Annotated[str, typer.Argument(metavar="ID", help="The dead letter's id.")],
) -> None:
    """Queue a dead letter again, with all its attempts; it works once."""
    try:
        receipt = await desk.mailbox.replay_dead_letter(dispatch_id)
    except RecordNotFound as error:
        raise missing("Dispatch", dispatch_id, "dead-letters list") from error
    text = f"Queued '{plain(dispatch_id)}' again as dispatch '{plain(receipt.dispatch_id)}'."
    desk.show(receipt, text)


def _row(dispatch: RunDispatch) -> tuple[object, ...]:
    return (
        dispatch.dispatch_id,
        dispatch.thread_id,
        dispatch.run_id,
        moment(dispatch.completed_at or dispatch.updated_at),
        short(dispatch.last_error),
    )
