"""`awaken threads`: conversations."""

from typing import Annotated, Any

import typer

from awaken.contracts.messages.message import Message, MessageRecord
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.queries import LIMIT_MAX, MessageQuery, Order, RunQuery, ThreadQuery
from awaken.contracts.storage.store import Checkout, DeleteStrategy, Store

from .command_context import CommandContext, store_command
from .command_line import new_app
from .list_options import (
    DEFAULT_LIMIT,
    Cursor,
    Limit,
    OfTenant,
    apply_cursor,
    not_found_error,
)
from .output import (
    facts,
    moment,
    plain,
    section,
    short,
    table,
    termination_text,
)
from .standard_input import confirm

RUNS_SHOWN = 5

app = new_app("Conversations.")

ThreadId = Annotated[str, typer.Argument(metavar="ID", help="The thread's id.")]


@app.command("list")
@store_command()
async def list_threads(
    context: CommandContext,
    tenant: OfTenant = None,
    resource: Annotated[
        str | None, typer.Option("--resource", help="Only those of this owner.")
    ] = None,
    parent: Annotated[
        str | None, typer.Option("--parent", help="Only children of this thread.")
    ] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> None:
    """List threads, most recently updated first."""
    query = ThreadQuery(tenant_id=tenant, resource_id=resource, parent_id=parent, limit=limit)
    context.show_page(
        await context.store.list_threads(apply_cursor(query, cursor)), THREAD_HEAD, _row
    )


@app.command("show")
@store_command()
async def show_thread(
    context: CommandContext,
    thread_id: ThreadId,
    messages: Annotated[
        int, typer.Option("--messages", min=0, max=LIMIT_MAX, help="How many of the last messages.")
    ] = 10,
) -> None:
    """Show a thread: metadata, state, latest runs, last messages."""
    checkout = await context.store.checkout(thread_id)
    if checkout is None:
        raise not_found_error("Thread", thread_id, "threads list")
    runs = await _latest_runs(context.store, thread_id)
    said = await _last_messages(context.store, thread_id, messages)
    document = {
        "thread": checkout.thread,
        "state": checkout.state,
        "runs": runs,
        "messages": said,
    }
    context.show(document, _text(checkout, runs, said))


@app.command("delete")
@store_command()
async def delete_thread(
    context: CommandContext,
    thread_id: ThreadId,
    strategy: Annotated[
        DeleteStrategy, typer.Option("--strategy", help="What happens to its children.")
    ] = DeleteStrategy.REJECT,
    *,
    is_sure: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    with_cases: Annotated[
        bool, typer.Option("--with-cases", help="Also the cases and recordings of evals from it.")
    ] = False,
) -> None:
    """Delete a thread with everything that belongs to it; tells which cases still hold it."""
    thread = await context.store.load_thread(thread_id)
    if thread is None:
        raise not_found_error("Thread", thread_id, "threads list")
    if not is_sure:
        question = f"Delete thread '{plain(thread_id)}' with {thread.message_count} messages?"
        confirm(question)
    await context.store.delete_thread(thread_id, strategy)
    held = await _find_cases(context, thread_id, is_erased=with_cases)
    text = f"Deleted thread '{plain(thread_id)}'."
    if held:
        text += f" {held} objects of evals still hold it; `awaken eval forget` deletes them."
    context.show({"thread_id": thread_id, "is_deleted": True, "eval_objects": held}, text)


async def _find_cases(context: CommandContext, thread_id: str, *, is_erased: bool) -> int:
    """Return how many cases and recordings still hold a thread; delete them if asked to."""
    # Few stores have datasets, and other commands need none of it.
    from awaken.contracts.evals.store import open_eval_store  # noqa: PLC0415
    from awaken.evals.datasets import Datasets  # noqa: PLC0415
    from awaken.runtime.primitives.system import SystemClock  # noqa: PLC0415

    datasets = Datasets(open_eval_store(context.store), SystemClock(), by="operator")
    if is_erased:
        await datasets.erase_sources(thread_id=thread_id)
    return len(await datasets.list_sources(thread_id=thread_id))


THREAD_HEAD = ("THREAD", "MESSAGES", "OPEN RUN", "UPDATED", "TITLE")


def _row(thread: Thread) -> tuple[object, ...]:
    return (
        thread.id,
        thread.message_count,
        thread.open_run_id,
        moment(thread.metadata.updated_at),
        short(thread.metadata.title),
    )


def _text(
    checkout: Checkout, runs: tuple[RunRecord, ...], messages: tuple[MessageRecord, ...]
) -> str:
    thread, metadata = checkout.thread, checkout.thread.metadata
    about = facts(
        (
            ("thread", thread.id),
            ("title", metadata.title),
            ("tenant", thread.tenant_id),
            ("owner", thread.resource_id),
            ("parent", thread.parent_thread_id),
            ("created", moment(metadata.created_at)),
            ("updated", moment(metadata.updated_at)),
            ("custom", metadata.custom),
            ("open run", thread.open_run_id),
            ("messages", thread.message_count),
        )
    )
    state = [
        (name, value.version, len(bytes(value.data))) for name, value in checkout.state.items()
    ]
    said = "\n".join(f"{record.seq}. {_format_message(record.message)}" for record in messages)
    return (
        about
        + section("State", table(("KEY", "VERSION", "BYTES"), sorted(state)) if state else "")
        + section("Latest runs", table(_RUN_HEAD, map(_run_row, runs)) if runs else "")
        + section("Last messages", said)
    )


_RUN_HEAD = ("RUN", "STATUS", "AGENT", "UPDATED", "ENDED BY")


def _run_row(run: RunRecord) -> tuple[object, ...]:
    ended = short(termination_text(run.termination))
    return (run.run_id, run.status, run.agent_id, moment(run.updated_at), ended)


def _format_message(message: Message) -> str:
    """Format a message with its calls, each on its own line and cut if it is long."""
    lines: list[Any] = [f"{message.role}: {short(message.text, 1000)}"]
    for call in message.tool_calls or ():
        lines.append(f"   calls {plain(call.name)} {short(call.arguments, 200)} ({plain(call.id)})")
    if message.tool_call_id is not None:
        lines[0] += f" (answers {plain(message.tool_call_id)})"
    return "\n".join(lines)


async def _latest_runs(store: Store, thread_id: str) -> tuple[RunRecord, ...]:
    """The newest runs, newest last."""
    query = RunQuery(thread_id=thread_id, limit=RUNS_SHOWN, order=Order.DESC)
    return (await store.list_runs(query)).items[::-1]


async def _last_messages(store: Store, thread_id: str, count: int) -> tuple[MessageRecord, ...]:
    if count == 0:
        return ()
    query = MessageQuery(order=Order.DESC, limit=count)
    return tuple(reversed((await store.list_messages(thread_id, query)).items))
