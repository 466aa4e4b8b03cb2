"""`awaken schedules`: runs that start by time."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from awaken.bootstrap.scheduling import build_operator_scheduling
from awaken.contracts.storage.queries import FiringQuery, Order, ScheduleQuery
from awaken.contracts.storage.schedules import (
    CronTiming,
    Firing,
    FiringOutcome,
    IntervalTiming,
    OneShotTiming,
    OverlapPolicy,
    Schedule,
    ScheduleStatus,
)
from awaken.scheduling.schedules import Schedules

from .command_context import CommandContext, store_command
from .command_line import new_app
from .list_options import DEFAULT_LIMIT, Cursor, Limit, OfTenant, apply_cursor
from .output import facts, moment, short

app = new_app("Runs that start by time: cron expressions, intervals and single times.")

ScheduleId = Annotated[str, typer.Argument(metavar="SCHEDULE", help="The schedule's id.")]


def _schedules(context: CommandContext) -> Schedules:
    return build_operator_scheduling(context.store, context.mailbox.services).schedules


@app.command("create")
@store_command()
async def create_schedule(  # noqa: PLR0913 - one parameter for each option
    context: CommandContext,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent that is started.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What it is told.")],
    schedule_id: Annotated[str | None, typer.Option("--id", help="The schedule's id.")] = None,
    cron: Annotated[str | None, typer.Option("--cron", help="Five fields: local times.")] = None,
    zone: Annotated[str, typer.Option("--zone", help="The IANA zone of --cron.")] = "UTC",
    every: Annotated[int | None, typer.Option("--every", help="Every so many seconds.")] = None,
    at: Annotated[datetime | None, typer.Option("--at", help="Once, at this time of UTC.")] = None,
    thread: Annotated[
        str | None, typer.Option("--thread", help="The thread of every run; absent: a new one.")
    ] = None,
    overlap: Annotated[
        OverlapPolicy | None,
        typer.Option("--overlap", help="What to do while the previous run has not ended."),
    ] = None,
    catch_up: Annotated[
        int | None, typer.Option("--catch-up", help="How many missed due times still fire.")
    ] = None,
    max_count: Annotated[
        int | None, typer.Option("--max-count", help="How many runs it starts at most.")
    ] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="The tenant of its runs.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="The user of its runs.")] = None,
) -> None:
    """Create a schedule; processes that execute runs fire it."""
    given: dict[str, Any] = {
        "cron": cron, "thread_id": thread, "overlap": overlap, "catch_up": catch_up,
        "max_count": max_count, "tenant_id": tenant, "user_id": user,
        "every_ms": None if every is None else every * 1000,
        "at": None if at is None else int(at.replace(tzinfo=UTC).timestamp() * 1000),
    }  # fmt: skip
    options: Any = {name: value for name, value in given.items() if value is not None}
    made = await _schedules(context).create(
        agent, text, schedule_id=schedule_id, zone=zone, **options
    )
    context.show(made, f"'{made.schedule_id}' is due next at {moment(made.next_due)}.")


@app.command("list")
@store_command()
async def list_schedules(
    context: CommandContext,
    tenant: OfTenant = None,
    status: Annotated[
        ScheduleStatus | None, typer.Option("--status", help="Only those in this status.")
    ] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> None:
    """List schedules with their next due times and last outcomes, oldest first."""
    query = ScheduleQuery(tenant_id=tenant, status=status, limit=limit)
    page = await _schedules(context).list(apply_cursor(query, cursor))
    head = ("SCHEDULE", "AGENT", "WHEN", "STATUS", "NEXT DUE", "LAST", "RUN")
    context.show_page(page, head, _row)


@app.command("show")
@store_command()
async def show_schedule(context: CommandContext, schedule_id: ScheduleId) -> None:
    """Show a schedule."""
    found = await _schedules(context).get(schedule_id)
    context.show(found, _about(found))


@app.command("upcoming")
@store_command()
async def list_upcoming(
    context: CommandContext,
    schedule_id: ScheduleId,
    count: Annotated[int, typer.Option("--count", min=1, max=100, help="How many.")] = 10,
) -> None:
    """List the next due times of a schedule."""
    due = await _schedules(context).upcoming(schedule_id, count)
    context.show({"due": due}, "\n".join(map(moment, due)) or "It has no due time.")


@app.command("history")
@store_command()
async def list_firings(
    context: CommandContext,
    schedule_id: ScheduleId,
    outcome: Annotated[
        FiringOutcome | None, typer.Option("--outcome", help="Only those that ended so.")
    ] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> None:
    """List what became of the due times of a schedule, newest first."""
    query = FiringQuery(schedule_id=schedule_id, outcome=outcome, limit=limit, order=Order.DESC)
    page = await _schedules(context).firings(schedule_id, apply_cursor(query, cursor))
    head = ("DUE", "COUNT", "OUTCOME", "REASON", "DECIDED", "RUN")
    context.show_page(page, head, _firing_row)


@app.command("pause")
@store_command()
async def pause_schedule(context: CommandContext, schedule_id: ScheduleId) -> None:
    """Pause a schedule: it has no due times until it is resumed."""
    found = await _schedules(context).pause(schedule_id)
    context.show(found, f"'{schedule_id}' is paused.")


@app.command("resume")
@store_command()
async def resume_schedule(context: CommandContext, schedule_id: ScheduleId) -> None:
    """Resume a paused schedule, from its next due time on."""
    found = await _schedules(context).resume(schedule_id)
    context.show(found, f"'{schedule_id}' is due next at {moment(found.next_due)}.")


@app.command("fire")
@store_command()
async def fire_schedule(context: CommandContext, schedule_id: ScheduleId) -> None:
    """Start a run of a schedule now; a worker executes it."""
    firing = await _schedules(context).fire(schedule_id)
    said = f"Run {firing.run_id} is queued." if firing.run_id else f"No run: {firing.detail}"
    context.show(firing, said)


@app.command("delete")
@store_command()
async def delete_schedule(context: CommandContext, schedule_id: ScheduleId) -> None:
    """Delete a schedule with its history; runs that it started go on."""
    await _schedules(context).delete(schedule_id)
    context.show({"schedule_id": schedule_id}, f"'{schedule_id}' is deleted.")


def _row(schedule: Schedule) -> tuple[object, ...]:
    last = schedule.last
    return (
        schedule.schedule_id,
        schedule.spec.target.agent_id,
        _timing(schedule),
        schedule.status,
        moment(schedule.next_due),
        "" if last is None else last.outcome,
        "" if last is None else last.run_id or "",
    )


def _firing_row(firing: Firing) -> tuple[object, ...]:
    return (
        moment(firing.due_at),
        firing.count,
        firing.outcome,
        firing.reason or "",
        moment(firing.fired_at),
        firing.run_id or "",
    )


def _timing(schedule: Schedule) -> str:
    match schedule.spec.timing:
        case CronTiming(expression=expression, zone=zone):
            return f"{expression} {zone}"
        case IntervalTiming(every_ms=every):
            return f"every {every / 1000:g} s"
        case OneShotTiming(at=at):
            return f"at {moment(at)}"


def _about(schedule: Schedule) -> str:
    spec, last = schedule.spec, schedule.last
    overlap = "" if spec.overlap is OverlapPolicy.SKIP else spec.overlap
    return facts(
        (
            ("schedule", schedule.schedule_id),
            ("description", spec.description),
            ("agent", spec.target.agent_id),
            ("input", short(spec.target.input, 1000)),
            ("when", _timing(schedule)),
            ("status", schedule.status),
            ("next due", moment(schedule.next_due)),
            ("overlap", overlap),
            ("catch-up", spec.catch_up),
            ("fired", schedule.fired_count),
            ("not fired", schedule.skipped_count),
            ("last", last and f"{last.outcome} {last.reason or ''}"),
            ("last run", schedule.last_run_id),
            ("tenant", schedule.creator.tenant_id),
            ("created by", schedule.creator.principal_id),
            ("created", moment(schedule.created_at)),
        )
    )
