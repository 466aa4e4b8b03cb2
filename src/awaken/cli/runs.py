"""`awaken runs`: executions on threads."""

from typing import Annotated

import msgspec
import typer

from awaken.contracts.errors import InvalidInput, UnknownRun
from awaken.contracts.events import LoggedEvent
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.dispatch import InputMode
from awaken.contracts.storage.queries import Order, RunQuery
from awaken.contracts.storage.store import Store, ToolRecord
from awaken.contracts.suspension.tickets import Ticket
from awaken.mailbox.workflow_runs import (
    SentEvent,
    find_receiver,
    find_sent_event,
    make_event,
    plan_reset,
    reset_run,
)

from .command_context import CommandContext, store_command
from .command_line import new_app
from .list_options import (
    DEFAULT_LIMIT,
    Cursor,
    Limit,
    OfTenant,
    OfThread,
    apply_cursor,
)
from .output import (
    as_json,
    dollars,
    facts,
    moment,
    section,
    short,
    table,
    termination_text,
)

EVENTS_AT_ONCE = 1000

app = new_app("Executions on threads.")


class UnlistedRun(UnknownRun):
    """The store has no such run."""

    template = "Run '{run_id}' does not exist; `awaken runs list` shows what is there."


class RunNotBegun(UnknownRun):
    """The run's input is queued or dead, and no run was stored."""

    template = (
        "Run '{run_id}' has not begun: its input is {status}; "
        "`awaken dispatches show {dispatch_id}` says more."
    )
    status: str
    dispatch_id: str


@app.command("list")
@store_command()
async def list_runs(  # noqa: PLR0913 - each is an option of the command
    context: CommandContext,
    tenant: OfTenant = None,
    thread: OfThread = None,
    status: Annotated[
        RunStatus | None, typer.Option("--status", help="Only those in this status.")
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Only those of this agent.")] = None,
    order: Annotated[
        Order, typer.Option("--order", help="desc lists the newest run first.")
    ] = Order.ASC,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> None:
    """List runs by creation time, oldest first."""
    query = RunQuery(
        tenant_id=tenant,
        thread_id=thread,
        status=status,
        agent_id=agent,
        order=order,
        limit=limit,
        with_total=True,
    )
    context.show_page(await context.store.list_runs(apply_cursor(query, cursor)), _HEAD, _row)


@app.command("show")
@store_command()
async def show_run(
    context: CommandContext,
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The run's id.")],
    *,
    with_events: Annotated[bool, typer.Option("--events", help="With its events.")] = False,
) -> None:
    """Show a run: its status, why it waits, its tool calls, its events."""
    store = context.store
    run = await store.load_run(run_id)
    if run is None:
        queued = await store.find_dispatch_of_run(run_id)
        if queued is None:
            raise UnlistedRun(run_id=run_id)
        raise RunNotBegun(run_id=run_id, status=queued.status, dispatch_id=queued.dispatch_id)
    journal = await store.list_tool_records(run_id)
    tickets = await _tickets(store, run)
    events = await _events(store, run) if with_events else ()
    document = {"run": run, "tool_records": journal, "tickets": tickets}
    if with_events:
        document["events"] = events
    parts = (
        section("Waits for", table(_TICKET_HEAD, map(_ticket_row, tickets)) if tickets else ""),
        section("Tool calls", table(_TOOL_HEAD, map(_tool_row, journal)) if journal else ""),
        section("Events", table(_EVENT_HEAD, map(_event_row, events)) if events else ""),
    )
    context.show(document, _about(run) + "".join(parts))


@app.command("event")
@store_command()
async def send_event(
    context: CommandContext,
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The run's id.")],
    name: Annotated[str, typer.Argument(help="The event's name.")],
    payload: Annotated[str, typer.Argument(help="What it carries, as JSON.")] = "null",
    event_id: Annotated[
        str | None, typer.Option("--id", help="The same event under the same id is sent once.")
    ] = None,
) -> None:
    """Send an event to a run of a workflow."""
    run = await _load_run(context, run_id)
    try:
        data = msgspec.json.decode(payload)
    except msgspec.DecodeError as error:
        raise InvalidInput(what="The payload", problem="it is not JSON") from error
    services = context.mailbox.services
    named = services.ids.new_id() if event_id is None else event_id
    event = SentEvent(run_id=run.run_id, name=name, payload=data, event_id=named)
    shown = await find_sent_event(services, run, event)
    if shown is None:
        run = await find_receiver(services, run)
        request = await make_event(services, run, event)
        receipt = await context.mailbox.submit(
            request, mode=InputMode.STEER, dedupe_key=event.dedupe_key, asked=event.asked
        )
        shown = event.make_receipt(is_duplicate=receipt.is_duplicate)
    context.show(shown, f"Event '{name}' was sent to run '{run_id}' as '{named}'.\n")


@app.command("reset")
@store_command()
async def reset(
    context: CommandContext,
    run_id: Annotated[str, typer.Argument(metavar="ID", help="The run's id.")],
    step: Annotated[
        str | None, typer.Argument(help="It and all later steps are taken again.")
    ] = None,
    *,
    is_dry: Annotated[bool, typer.Option("--dry-run", help="Only show what it would do.")] = False,
) -> None:
    """Let a workflow that waits take steps again, or be entered again; lists their effects."""
    services = context.mailbox.services
    run = await _load_run(context, run_id)
    plan = await plan_reset(services, run, step)
    if not is_dry:
        await reset_run(services, run, plan)
    taken = ", ".join(plan.steps) or "none"
    stays = "".join(f"  its effect stays: {it}\n" for it in plan.effects)
    context.show(plan, f"Steps that are taken again: {taken}\n{stays}")


async def _load_run(context: CommandContext, run_id: str) -> RunRecord:
    run = await context.store.load_run(run_id)
    if run is None:
        raise UnlistedRun(run_id=run_id)
    return run


_HEAD = ("RUN", "THREAD", "AGENT", "STATUS", "UPDATED", "ENDED BY")


def _row(run: RunRecord) -> tuple[object, ...]:
    return (
        run.run_id,
        run.thread_id,
        run.active_agent_id or run.agent_id,
        run.status,
        moment(run.updated_at),
        short(termination_text(run.termination)),
    )


def _about(run: RunRecord) -> str:
    waiting, usage = run.waiting, run.usage
    counts = {
        name: getattr(usage, name) for name in usage.__struct_fields__ if name != "cost_nanos"
    }
    tokens = ", ".join(f"{name} {count}" for name, count in counts.items() if count is not None)
    return facts(
        (
            ("run", run.run_id),
            ("thread", run.thread_id),
            ("agent", run.active_agent_id or run.agent_id),
            ("status", run.status),
            ("ended by", termination_text(run.termination)),
            ("waits because of", waiting and waiting.reason),
            ("message", waiting and short(waiting.question or waiting.message, 1000)),
            ("parent run", run.parent_run_id),
            ("dispatch", run.dispatch_id),
            ("steps", run.steps),
            ("usage", tokens),
            ("cost", dollars(usage.cost_usd)),
            ("tenant", run.tenant_id),
            ("created", moment(run.created_at)),
            ("started", moment(run.started_at)),
            ("finished", moment(run.finished_at)),
            ("updated", moment(run.updated_at)),
            ("continued as", run.continued_as),
            ("answer", short(run.final_output, 1000)),
        )
    )


_TICKET_HEAD = ("TICKET", "TOOL", "STATUS", "ASKS")


def _ticket_row(ticket: Ticket) -> tuple[object, ...]:
    asks = ticket.suspension.message or ticket.suspension.action
    return (ticket.ticket_id, ticket.tool_name, ticket.status, short(asks))


_TOOL_HEAD = ("STEP", "CALL", "TOOL", "EFFECT", "STATUS", "ATTEMPT", "RESULT")


def _tool_row(record: ToolRecord) -> tuple[object, ...]:
    result = record.result
    return (
        record.step,
        record.call_id,
        record.tool_name,
        record.effect,
        record.status,
        record.attempt,
        "" if result is None else short(f"{result.status}: {result.message or result.data}"),
    )


_EVENT_HEAD = ("SEQ", "AT", "EVENT", "DETAILS")


def _event_row(logged: LoggedEvent) -> tuple[object, ...]:
    kind = str(logged.event.__struct_config__.tag)
    details = as_json(logged.event, indent=None)
    return (logged.seq, moment(logged.created_at), kind, short(details))


async def _tickets(store: Store, run: RunRecord) -> tuple[Ticket, ...]:
    """The tickets that a run waits for."""
    wanted = () if run.waiting is None else run.waiting.ticket_ids
    found = [await store.find_ticket(ticket_id) for ticket_id in wanted]
    return tuple(ticket for ticket in found if ticket is not None)


async def _events(store: Store, run: RunRecord) -> tuple[LoggedEvent, ...]:
    """Read the events of a run from the log of its thread."""
    found: list[LoggedEvent] = []
    after = 0
    while page := await store.list_events(run.thread_id, after=after, limit=EVENTS_AT_ONCE):
        found += [logged for logged in page if logged.run_id == run.run_id]
        after = page[-1].seq
    return tuple(found)
