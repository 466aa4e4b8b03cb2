"""`awaken cancel`: cancels what is queued, executes or waits."""

from typing import Annotated

import typer

from awaken.contracts.errors import RecordNotFound

from .command_context import CommandContext, store_command
from .command_line import new_app
from .output import plain

app = new_app()


class NothingToCancel(RecordNotFound):
    """No dispatch, run or thread of this id can be cancelled."""

    template = (
        "There is nothing to cancel: no dispatch, run or thread '{record_id}' is queued, executes "
        "or waits; `awaken runs list` shows how runs stand."
    )


@app.command()
@store_command()
async def cancel(
    context: CommandContext,
    id_: Annotated[str, typer.Argument(metavar="ID", help="A dispatch's, run's or thread's id.")],
) -> None:
    """Cancel a dispatch, a run, or the run of a thread, in whichever process it executes."""
    if not await context.mailbox.cancel(id_):
        raise NothingToCancel(kind="Dispatch, run or thread", record_id=id_)
    context.show({"id": id_, "is_cancelled": True}, f"Cancelled '{plain(id_)}'.")
