"""`awaken submit` and `awaken steer`: send input to threads."""

from typing import Annotated

import typer

from awaken.bootstrap.requests import run_request
from awaken.contracts.storage.dispatch import InputMode
from awaken.mailbox.receipts import SubmitReceipt

from .command_context import CommandContext, store_command
from .command_line import new_app
from .list_options import not_found_error
from .output import facts

app = new_app()

Text = Annotated[str, typer.Argument(help="What to say.")]


@app.command()
@store_command(may_create=True)
async def submit(  # noqa: PLR0913 - typer makes an option of each parameter
    context: CommandContext,
    agent: Annotated[str, typer.Argument(help="The agent's id.")],
    text: Text,
    thread: Annotated[
        str | None, typer.Option("--thread", help="The thread; absent: a new one.")
    ] = None,
    mode: Annotated[
        InputMode, typer.Option("--mode", help="How it reaches the thread.")
    ] = InputMode.QUEUE,
    dedupe_key: Annotated[
        str | None, typer.Option("--dedupe-key", help="The same input under one key counts once.")
    ] = None,
    priority: Annotated[
        int, typer.Option("--priority", min=0, max=255, help="0 goes first.")
    ] = 128,
    delay_ms: Annotated[
        int, typer.Option("--delay-ms", min=0, help="How many milliseconds to wait at least.")
    ] = 0,
) -> None:
    """Send input to a thread; a worker executes it."""
    receipt = await context.mailbox.submit(
        run_request(agent, text, thread, {}),
        mode=mode,
        dedupe_key=dedupe_key,
        priority=priority,
        delay_ms=delay_ms,
    )
    context.show(receipt, _text(receipt))


@app.command()
@store_command()
async def steer(
    context: CommandContext,
    thread: Annotated[str, typer.Argument(help="The thread's id.")],
    text: Text,
) -> None:
    """Send a message into a thread's running run; starts a run if there is none."""
    if await context.store.load_thread(thread) is None:
        raise not_found_error("Thread", thread, "threads list")
    request = run_request(None, text, thread, {})
    receipt = await context.mailbox.submit(request, mode=InputMode.STEER)
    context.show(receipt, _text(receipt))


def _text(receipt: SubmitReceipt) -> str:
    return facts(
        (
            ("dispatch", receipt.dispatch_id),
            ("thread", receipt.thread_id),
            ("run", receipt.run_id),
            ("mode", receipt.mode),
            ("status", receipt.status),
            ("duplicate", "yes, nothing was changed" if receipt.is_duplicate else None),
        )
    )
