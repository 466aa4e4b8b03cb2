"""`awaken schedules`: runs that start by time."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec
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
    Timing,
)
from awaken.scheduling.schedules import Schedules, make_timing

from .apps import FORMS, load_app
from .command_context import CommandContext, store_command
from .command_line import new_app
from .list_options import DEFAULT_LIMIT, Cursor, Limit, OfTenant, apply_cursor
from .output import facts, moment, short
from .record_commands import RecordId, add_record_commands

app = new_app("Runs that start by time: cron expressions, intervals and single times.")

Cron = Annotated[str | None, typer.Option("--cron", help="Five fields: local times.")]
Zone = Annotated[str | None, typer.Option("--zone", help="The IANA zone of --cron; else UTC.")]
Every = Annotated[int | None, typer.Option("--every", help="Every so many seconds.")]
At = Annotated[datetime | None, typer.Option("--at", help="Once, at this time of UTC.")]
Thread = Annotated[
    str | None, typer.Option("--thread", help="The thread of every run; absent: a new one.")
]
AsEvent = Annotated[
    str | None,
    typer.Option("--as-event", help="Send this event to the workflow that is open on --thread."),
]
Overlap = Annotated[
    OverlapPolicy | None,
    typer.Option("--overlap", help="What to do while the previous run has not ended."),
]
CatchUp = Annotated[
    int | None, typer.Option("--catch-up", help="How many missed due times still fire.")
]
Jitter = Annotated[
    int | None, typer.Option("--jitter", help="Fire up to so many seconds after the due time.")
]
End = Annotated[
    datetime | None, typer.Option("--end", help="No due time is later than this time of UTC.")
]
MaxCount = Annotated[
    int | None, typer.Option("--max-count", help="How many runs it starts at most.")
]
Description = Annotated[str | None, typer.Option("--description", help="What it is for.")]


AppPlace = Annotated[
    str | None,
    typer.Option("--app", help=f"The code of its agents, which checks the input: {FORMS}."),
]


class Removable(StrEnum):
    """What a schedule need not say."""

    END = "end"
    MAX_COUNT = "max-count"
    THREAD = "thread"
    AS_EVENT = "as-event"


_FIELDS = {Removable.END: "end_at", Removable.MAX_COUNT: "max_count"}
_TARGET_FIELDS = {Removable.THREAD: "thread_id", Removable.AS_EVENT: "event"}


def _schedules(context: CommandContext, app_place: str | None = None) -> Schedules:
    agents = () if app_place is None else load_app(app_place).agents
    return build_operator_scheduling(context.store, context.mailbox.services, agents).schedules


@app.command("create")
@store_command()
async def create_schedule(  # noqa: PLR0913 - one parameter for each option
    context: CommandContext,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent that is started.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What it is told.")],
    schedule_id: Annotated[str | None, typer.Option("--id", help="The schedule's id.")] = None,
    cron: Cron = None,
    zone: Zone = None,
    every: Every = None,
    at: At = None,
    thread: Thread = None,
    as_event: AsEvent = None,
    overlap: Overlap = None,
    catch_up: CatchUp = None,
    jitter: Jitter = None,
    end: End = None,
    max_count: MaxCount = None,
    description: Description = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="The tenant of its runs.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="The user of its runs.")] = None,
    app_place: AppPlace = None,
) -> None:
    """Create a schedule; processes that execute runs fire it."""
    options: Any = _keep_given(
        cron=cron, zone=zone, every_ms=_to_ms(every), at=_to_time(at), thread_id=thread,
        event=as_event, overlap=overlap, catch_up=catch_up, jitter_ms=_to_ms(jitter),
        end_at=_to_time(end), max_count=max_count, description=description, tenant_id=tenant,
        user_id=user,
    )  # fmt: skip
    told = _read_payload(text) if as_event else text
    made = await _schedules(context, app_place).create(
        agent, told, schedule_id=schedule_id, **options
    )
    context.show(made, f"'{made.schedule_id}' is due next at {moment(made.next_due)}.")


@app.command("update")
@store_command()
async def update_schedule(  # noqa: PLR0913 - one parameter for each option
    context: CommandContext,
    schedule_id: RecordId,
    agent: Annotated[str | None, typer.Option("--agent", help="The agent that is started.")] = None,
    text: Annotated[str | None, typer.Option("--text", help="What it is told.")] = None,
    cron: Cron = None,
    zone: Zone = None,
    every: Every = None,
    at: At = None,
    thread: Thread = None,
    as_event: AsEvent = None,
    overlap: Overlap = None,
    catch_up: CatchUp = None,
    jitter: Jitter = None,
    end: End = None,
    max_count: MaxCount = None,
    description: Description = None,
    unset: Annotated[
        list[Removable] | None, typer.Option("--unset", help="Take this away; repeatable.")
    ] = None,
    app_place: AppPlace = None,
) -> None:
    """Change what a schedule says; what is not given stays as it is."""
    found = await _schedules(context).get(schedule_id)
    target = msgspec.structs.replace(
        found.spec.target,
        **{_TARGET_FIELDS[it]: None for it in unset or () if it in _TARGET_FIELDS},
        **_keep_given(agent_id=agent, thread_id=thread, event=as_event),
    )
    if text is not None:
        told = _read_payload(text) if target.event else text
        target = msgspec.structs.replace(target, input=told)
    spec = msgspec.structs.replace(
        found.spec,
        timing=_change_timing(found.spec.timing, cron, zone, _to_ms(every), _to_time(at)),
        target=target,
        **{_FIELDS[it]: None for it in unset or () if it in _FIELDS},
        **_keep_given(
            overlap=overlap, catch_up=catch_up, jitter_ms=_to_ms(jitter), end_at=_to_time(end),
            max_count=max_count, description=description,
        ),
    )  # fmt: skip
    cases = _schedules(context, app_place)
    changed = await cases.update(schedule_id, spec, revision=found.spec_revision)
    context.show(changed, f"'{schedule_id}' is due next at {moment(changed.next_due)}.")


def _change_timing(
    known: Timing, cron: str | None, zone: str | None, every_ms: int | None, at: int | None
) -> Timing:
    if (cron, every_ms, at) == (None, None, None):
        if zone is None:
            return known
        if isinstance(known, CronTiming):
            return msgspec.structs.replace(known, zone=zone)
    start_at = None
    if zone is None and cron is not None and isinstance(known, CronTiming):
        zone = known.zone
    if every_ms is not None and isinstance(known, IntervalTiming):
        start_at = known.start_at
    return make_timing(cron=cron, zone=zone or "UTC", every_ms=every_ms, start_at=start_at, at=at)


def _keep_given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _to_ms(seconds: int | None) -> int | None:
    return None if seconds is None else seconds * 1000


def _to_time(given: datetime | None) -> int | None:
    return None if given is None else int(given.replace(tzinfo=UTC).timestamp() * 1000)


def _read_payload(text: str) -> Any:
    """Return what an event carries: JSON, or a text that is none."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


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


@app.command("upcoming")
@store_command()
async def list_upcoming(
    context: CommandContext,
    schedule_id: RecordId,
    count: Annotated[int, typer.Option("--count", min=1, max=100, help="How many.")] = 10,
) -> None:
    """List the next due times of a schedule."""
    due = await _schedules(context).upcoming(schedule_id, count)
    context.show({"due": due}, "\n".join(map(moment, due)) or "It has no due time.")


@app.command("history")
@store_command()
async def list_firings(
    context: CommandContext,
    schedule_id: RecordId,
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


@app.command("fire")
@store_command()
async def fire_schedule(context: CommandContext, schedule_id: RecordId) -> None:
    """Start a run of a schedule now; a worker executes it."""
    firing = await _schedules(context).fire(schedule_id)
    said = f"Run {firing.run_id} is queued." if firing.run_id else f"No run: {firing.detail}"
    context.show(firing, said)


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
            ("jitter", f"{spec.jitter_ms / 1000:g} s" if spec.jitter_ms else None),
            ("end", moment(spec.end_at)),
            ("max count", spec.max_count),
            ("thread", spec.target.thread_id),
            ("event", spec.target.event),
            ("fired", schedule.fired_count),
            ("not fired", schedule.skipped_count),
            ("last", last and f"{last.outcome} {last.reason or ''}"),
            ("last run", schedule.last_run_id),
            ("tenant", schedule.creator.tenant_id),
            ("created by", schedule.creator.principal_id),
            ("created", moment(schedule.created_at)),
        )
    )


add_record_commands(
    app,
    "schedule",
    _schedules,
    _about,
    {
        "show": "Show a schedule.",
        "pause": "Pause a schedule: it has no due times until it is resumed.",
        "resume": "Resume a paused schedule, from its next due time on.",
        "delete": "Delete a schedule with its history; runs that it started go on.",
    },
)
