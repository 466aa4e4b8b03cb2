"""The use cases of schedules, for the host's own code and for callers of a server."""

from collections.abc import Awaitable, Callable
from itertools import chain, islice
from typing import Any, TypedDict, Unpack

import msgspec

from awaken.contracts.clock import IdSource
from awaken.contracts.errors import IllegalTransition, InvalidInput
from awaken.contracts.storage.queries import FiringQuery, Page, ScheduleQuery
from awaken.contracts.storage.schedule_errors import (
    ScheduleChanged,
    ScheduleUsedUp,
    UnknownSchedule,
)
from awaken.contracts.storage.schedules import (
    Creator,
    CronTiming,
    Firing,
    FiringWrite,
    IntervalTiming,
    OneShotTiming,
    OverlapPolicy,
    RunTarget,
    Schedule,
    ScheduleSpec,
    ScheduleStatus,
    ScheduleStore,
    Timing,
)

from .callers import (
    HOST,
    ScheduleCaller,
    check_new_id,
    check_revision,
    retry_change,
)
from .due_times import check_spec, find_next_due, iterate_due
from .firing import ScheduleFirer
from .mapping import check_event_target
from .plans import CHANGED, count_firing, find_wake, skip_overdue
from .rights import RunStarter
from .run_requests import StartedBy, build_request

UPCOMING_MAX = 100
_TIMING = ("cron", "zone", "every_ms", "start_at", "at")


class ScheduleOptions(TypedDict, total=False):
    """When a schedule is due, whose it is, and how it fires; see `ScheduleSpec`."""

    cron: str
    """Local times, as five fields: `0 8 * * MON-FRI`."""
    zone: str
    """The IANA zone of `cron`; UTC unless given."""
    every_ms: int
    start_at: int
    """The time from which `every_ms` is counted; the creation unless given."""
    at: int
    """One time, in milliseconds since the epoch."""
    tenant_id: str
    user_id: str
    context: dict[str, Any]
    thread_id: str
    """The thread of every run; absent: each run has a new one."""
    event: str
    """The event that an open workflow on the thread gets; see `RunTarget`."""
    description: str
    overlap: OverlapPolicy | str
    catch_up: int
    jitter_ms: int
    end_at: int
    max_count: int


class Schedules:
    """Creates, changes and fires schedules. Ids and threads are the caller's own."""

    def __init__(
        self,
        store: ScheduleStore,
        firer: ScheduleFirer,
        starter: RunStarter,
        ids: IdSource,
        now_ms: Callable[[], Awaitable[int]],
        caller: ScheduleCaller = HOST,
    ) -> None:
        self._store = store
        self._firer = firer
        self._starter = starter
        self._ids = ids
        self._now_ms = now_ms
        self._caller = caller

    def as_caller(self, caller: ScheduleCaller) -> "Schedules":
        """Return the use cases as a caller of a server sees them."""
        return Schedules(self._store, self._firer, self._starter, self._ids, self._now_ms, caller)

    async def create(
        self,
        agent_id: str,
        input: Any,
        *,
        schedule_id: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Create a schedule; it is durable when this returns, and fires in any process.

        Args:
            agent_id: The agent that each due time starts.
            input: A text, a list of messages as JSON, or another JSON value.
            schedule_id: The name of the schedule. None: a new id.
            **options: When it is due (one of `cron`, `every_ms` and `at`) and how; see
                `ScheduleOptions`.

        Raises:
            InvalidInput: An argument is malformed, or there is not exactly one timing.
            UnknownAgent: The agent is not registered.
            AlreadyExists: There is a schedule with that id.
        """
        fields: dict[str, Any] = dict(options)
        timing = make_timing(**{it: fields.pop(it) for it in _TIMING if it in fields})
        target = RunTarget(
            agent_id=agent_id,
            input=input,
            context=fields.pop("context", None),
            thread_id=fields.pop("thread_id", None),
            event=fields.pop("event", None),
        )
        tenant_id, user_id = fields.pop("tenant_id", None), fields.pop("user_id", None)
        caller = self._caller
        if tenant_id is not None and caller.tenant_id is None:
            caller = msgspec.structs.replace(caller, tenant_id=tenant_id)
        spec = make_spec(timing, target, fields)
        made = await self.as_caller(caller).add(spec, schedule_id, user_id)
        return await self.get(caller.add_namespace(made.schedule_id))

    async def add(
        self, spec: ScheduleSpec, schedule_id: str | None = None, user_id: str | None = None
    ) -> Schedule:
        """Create a schedule; it is durable when this returns, and fires in any process.

        Raises:
            InvalidInput: A field is malformed, or the timing names no time from now on.
            UnknownAgent: The agent is not registered.
            UnknownThread: The thread belongs to another tenant.
            InvalidWorkflowInput: The input does not fit the workflow.
            InvalidContext: The context does not fit the agent.
            AlreadyExists: There is a schedule with that id.
            RightsUnverifiable: The caller's rights cannot be looked up later.
        """
        now = await self._now_ms()
        creator = await self._caller.as_creator(self._starter, user_id)
        await self._check(spec, creator, now)
        given = self._ids.new_id() if schedule_id is None else check_new_id(schedule_id)
        blank = Schedule(
            schedule_id=self._caller.add_namespace(given),
            spec=spec,
            creator=creator,
            created_at=now,
        )
        made = await self._store.add_schedule(_plan_next(blank, now))
        await self._firer.announce()
        return self._show(made)

    async def get(self, schedule_id: str) -> Schedule:
        """Return a schedule.

        Raises:
            UnknownSchedule: There is none, or it belongs to another tenant.
        """
        return self._show(await self._load(schedule_id))

    async def list(
        self, query: ScheduleQuery | None = None, *, with_demo: bool = False
    ) -> Page[Schedule]:
        """List schedules by creation time; of a tenant, its own.

        Without those of the demo data a page may be short although another one follows.
        """
        query = query or ScheduleQuery()
        if self._caller.tenant_id is not None:
            query = msgspec.structs.replace(query, tenant_id=self._caller.tenant_id)
        page = await self._store.list_schedules(query)
        shown = (self._show(it) for it in page.items if with_demo or not it.creator.is_demo)
        return msgspec.structs.replace(page, items=tuple(shown))

    async def update(
        self, schedule_id: str, spec: ScheduleSpec, *, revision: str | None = None
    ) -> Schedule:
        """Replace what a schedule says; its next due time follows from the new timing.

        Args:
            schedule_id: The schedule.
            spec: What it says from now on.
            revision: The `spec_revision` of what the caller has read. None: whatever it says.

        Raises:
            UnknownSchedule: There is none, or it belongs to another tenant.
            InvalidInput: A field is malformed, or the timing names no time from now on.
            UnknownAgent: The agent is not registered.
            UnknownThread: The thread belongs to another tenant.
            InvalidWorkflowInput: The input does not fit the workflow.
            InvalidContext: The context does not fit the agent.
            NotTheCreator: The caller may not change it.
            ScheduleChanged: Another caller changed it since the caller has read it.
        """
        stored = await self._load(schedule_id)
        check_revision(schedule_id, stored, revision)
        creator = await self._caller.take_over(self._starter, schedule_id, stored.creator)
        await self._check(spec, creator, await self._now_ms())

        def change(schedule: Schedule, now: int) -> Schedule:
            if schedule.creator != stored.creator:
                raise ScheduleChanged(record_id=schedule_id)
            check_revision(schedule_id, schedule, revision)
            changed = msgspec.structs.replace(schedule, spec=spec, creator=creator)
            is_paused = schedule.status is ScheduleStatus.PAUSED
            return changed if is_paused else _plan_next(changed, now)

        return await self._change(schedule_id, change)

    async def check_control(self, schedule_id: str) -> None:
        """Refuse a caller that may not pause, resume, fire or delete a schedule.

        Raises:
            UnknownSchedule: There is none, or it belongs to another tenant.
            NotTheCreator: The caller is neither its creator nor an operator.
        """
        await self._load_to_control(schedule_id)

    async def pause(self, schedule_id: str) -> Schedule:
        """Stop firing until it is resumed; the times meanwhile are not due.

        Raises:
            UnknownSchedule: There is none, or it belongs to another tenant.
            IllegalTransition: It has ended.
            NotTheCreator: The caller is neither its creator nor an operator.
        """

        def change(schedule: Schedule, _now: int) -> Schedule:
            _check_open(schedule, ScheduleStatus.PAUSED)
            return msgspec.structs.replace(
                schedule, status=ScheduleStatus.PAUSED, next_due=None, wake_at=None
            )

        return await self._change(schedule_id, change)

    async def resume(self, schedule_id: str) -> Schedule:
        """Fire again, from the next due time on.

        Raises:
            UnknownSchedule: There is none, or it belongs to another tenant.
            IllegalTransition: It has ended.
            NotTheCreator: The caller is neither its creator nor an operator.
        """

        def change(schedule: Schedule, now: int) -> Schedule:
            _check_open(schedule, ScheduleStatus.ACTIVE)
            is_active = schedule.status is ScheduleStatus.ACTIVE
            return schedule if is_active else _plan_next(schedule, now)

        return await self._change(schedule_id, change)

    async def delete(self, schedule_id: str) -> None:
        """Remove a schedule with its history; runs that it started go on.

        Raises:
            UnknownSchedule: There is none, or it belongs to another tenant.
            NotTheCreator: The caller is neither its creator nor an operator.
        """
        stored = await self._load_to_control(schedule_id)
        await self._store.delete_schedule(stored.schedule_id)

    async def fire(self, schedule_id: str) -> Firing:
        """Start a run now, in the name of the creator; due times stay as they are.

        The last run that it may start ends it.

        Raises:
            UnknownSchedule: There is none, or it belongs to another tenant.
            NotTheCreator: The caller is neither its creator nor an operator.
            ScheduleUsedUp: It has started as many runs as it may.
            StorageError: The run cannot be queued.
        """

        async def fire_once() -> Firing:
            stored = await self._load_to_control(schedule_id)
            if stored.fires_left == 0:
                count_max = stored.spec.max_count or 0
                raise ScheduleUsedUp(schedule_id=schedule_id, max_count=count_max)
            firing = await self._firer.fire_now(stored)
            if firing is None:
                raise ScheduleChanged(record_id=schedule_id)
            return firing

        return self.show_firing(await retry_change(fire_once))

    async def upcoming(self, schedule_id: str, count: int = 10) -> tuple[int, ...]:
        """Return the next due times of a schedule, without their jitter; a paused one has none.

        Raises:
            UnknownSchedule: There is none, or it belongs to another tenant.
        """
        stored = await self._load(schedule_id)
        if stored.next_due is None:
            return ()
        after = iterate_due(stored.spec, stored.next_due, stored.created_at)
        due = chain((stored.next_due,), after)
        return tuple(islice(due, _limit_times(count, stored.fires_left)))

    async def preview(self, spec: ScheduleSpec, count: int = 10) -> tuple[int, ...]:
        """Return the next due times that a schedule would have; nothing is stored.

        Raises:
            InvalidInput: A field is malformed, or the timing names no time from now on.
        """
        now = await self._now_ms()
        check_spec(spec, now)
        due = iterate_due(spec, now, now)
        return tuple(islice(due, _limit_times(count, spec.max_count)))

    async def firings(self, schedule_id: str, query: FiringQuery | None = None) -> Page[Firing]:
        """List what became of due times, by due time.

        Raises:
            UnknownSchedule: There is none, or it belongs to another tenant.
        """
        stored = await self._load(schedule_id)
        query = query or FiringQuery(schedule_id=schedule_id)
        query = msgspec.structs.replace(query, schedule_id=stored.schedule_id)
        page = await self._store.list_firings(query)
        return msgspec.structs.replace(page, items=tuple(map(self.show_firing, page.items)))

    def show_firing(self, firing: Firing) -> Firing:
        """Return a firing with the ids that the caller knows."""
        hide = self._caller.hide_namespace
        return msgspec.structs.replace(
            firing,
            firing_id=hide(firing.firing_id),
            schedule_id=hide(firing.schedule_id),
            run_id=firing.run_id and hide(firing.run_id),
            thread_id=firing.thread_id and hide(firing.thread_id),
        )

    async def _check(self, spec: ScheduleSpec, creator: Creator, now: int) -> None:
        check_spec(spec, now)
        target = spec.target
        check_event_target(target.event, target.thread_id, "target.thread_id")
        new = StartedBy(kind="schedule", id="new", created_at=now, key="0")
        request = build_request(target, creator, new)
        await self._starter.check_agent(target.agent_id)
        if target.thread_id is not None:
            await self._firer.check_thread(creator, target.thread_id)
        if target.event is None:
            await self._starter.check_target(request)
        else:
            await self._starter.check_receiver(target.agent_id)

    async def _change(
        self, schedule_id: str, change: Callable[[Schedule, int], Schedule]
    ) -> Schedule:
        async def change_once() -> Schedule:
            stored, now = await self._load_to_control(schedule_id), await self._now_ms()
            changed = change(stored, now)
            if changed is stored:
                return stored
            overdue = skip_overdue(stored, now, CHANGED)
            if overdue is None:
                return await self._store.save_schedule(changed)
            # What no process has fired yet is not lost silently.
            write = FiringWrite(schedule=count_firing(changed, overdue), firings=(overdue,))
            if not await self._store.write_firing(write):
                raise ScheduleChanged(record_id=schedule_id)
            return await self._load(schedule_id)

        made = await retry_change(change_once)
        await self._firer.announce()
        return self._show(made)

    async def _load_to_control(self, schedule_id: str) -> Schedule:
        stored = await self._load(schedule_id)
        self._caller.check_control(schedule_id, stored.creator)
        return stored

    async def _load(self, schedule_id: str) -> Schedule:
        stored = await self._store.find_schedule(self._caller.add_namespace(schedule_id))
        if stored is None or not self._caller.sees(stored.creator):
            raise UnknownSchedule(schedule_id=schedule_id)
        return stored

    def _show(self, schedule: Schedule) -> Schedule:
        hide = self._caller.hide_namespace
        return msgspec.structs.replace(
            schedule,
            schedule_id=hide(schedule.schedule_id),
            last=None if schedule.last is None else self.show_firing(schedule.last),
            last_run_id=schedule.last_run_id and hide(schedule.last_run_id),
        )


def make_timing(
    *,
    cron: str | None = None,
    zone: str = "UTC",
    every_ms: int | None = None,
    start_at: int | None = None,
    at: int | None = None,
) -> Timing:
    """Make a timing of the one that is given.

    Raises:
        InvalidInput: None is given, or several are, or one that belongs to another.
    """
    given = [it for it in (cron, every_ms, at) if it is not None]
    if len(given) != 1:
        raise InvalidInput(what="timing", problem="give one of cron, every_ms and at")
    if start_at is not None and every_ms is None:
        raise InvalidInput(what="start_at", problem="it is for every_ms")
    if cron is not None:
        return CronTiming(expression=cron, zone=zone)
    if zone != "UTC":
        raise InvalidInput(what="zone", problem="it is for cron; other times have none")
    if every_ms is not None:
        return IntervalTiming(every_ms=every_ms, start_at=start_at)
    assert at is not None
    return OneShotTiming(at=at)


def make_spec(timing: Timing, target: RunTarget, options: dict[str, Any]) -> ScheduleSpec:
    """Make what a schedule says, with further fields by name.

    Raises:
        InvalidInput: There is no such field, or a value is of another type.
    """
    spec = ScheduleSpec(timing=timing, target=target)
    try:
        fields = msgspec.to_builtins(spec) | msgspec.to_builtins(options)
        return msgspec.convert(fields, ScheduleSpec)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(what="schedule", problem=str(error)) from error


def _plan_next(schedule: Schedule, now: int) -> Schedule:
    """Return a schedule that is active at its next due time, or has ended."""
    after = max(now, schedule.decided_until)
    due = find_next_due(schedule.spec, after, schedule.created_at)
    if due is None or schedule.fires_left == 0:
        return schedule.end()
    return msgspec.structs.replace(
        schedule,
        status=ScheduleStatus.ACTIVE,
        next_due=due,
        wake_at=find_wake(schedule, due),
    )


def _limit_times(count: int, fires_left: int | None) -> int:
    """Return how many due times are shown: those that would start no run are none."""
    return min(count, UPCOMING_MAX, UPCOMING_MAX if fires_left is None else fires_left)


def _check_open(schedule: Schedule, new: ScheduleStatus) -> None:
    if schedule.status is ScheduleStatus.ENDED:
        thing = f"Schedule '{schedule.schedule_id}'"
        raise IllegalTransition(thing=thing, old=schedule.status.value, new=new.value)
