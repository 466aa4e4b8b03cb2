"""`awaken submit` and `awaken steer`: send input to threads."""

from typing import Annotated

import typer

from awaken.bootstrap.requests import RunOptions, run_request
from awaken.contracts.storage.dispatch import InputMode
from awaken.mailbox.receipts import SubmitReceipt

from .command_context import CommandContext, store_command
from .command_line import new_app
from .context_option import read_context
from .list_options import not_found_error
from .output import facts

app = new_app()

RunContextJson = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="JSON",
        help="The context of the run that it starts, a JSON object; the worker checks it.",
    ),
]
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
    run_context: RunContextJson = None,
) -> None:
    """Send input to a thread; a worker executes it."""
    receipt = await context.mailbox.submit(
        run_request(agent, text, thread, _options(run_context)),
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
    run_context: RunContextJson = None,
) -> None:
    """Send a message into a thread's running run; starts a run if there is none."""
    if await context.store.load_thread(thread) is None:
        raise not_found_error("Thread", thread, "threads list")
    request = run_request(None, text, thread, _options(run_context))
    receipt = await context.mailbox.submit(request, mode=InputMode.STEER)
    context.show(receipt, _text(receipt))


def _options(context: str | None) -> RunOptions:
    given = read_context(context)
    return {} if given is None else {"context": given}


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
