"""Schedules and triggers in the database of the store."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from awaken.contracts.errors import AlreadyExists
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.keysets import make_page, plan_walk
from awaken.contracts.storage.mailbox import THREAD_BACKLOG_MAX
from awaken.contracts.storage.queries import (
    DeliveryQuery,
    FiringQuery,
    KeysetQuery,
    ListKey,
    Page,
    ScheduleQuery,
    TriggerQuery,
)
from awaken.contracts.storage.schedule_errors import ScheduleChanged
from awaken.contracts.storage.schedules import (
    ClaimedSchedules,
    Firing,
    FiringWrite,
    HookDelivery,
    Schedule,
    Trigger,
    firing_key,
)
from awaken.stores.rules import schedules as rules

from . import mailbox, rows
from .session import Database, Row, SqlSession

T = TypeVar("T")

SCHEDULE = msgspec.json.Decoder(Schedule)
FIRING = msgspec.json.Decoder(Firing)
TRIGGER = msgspec.json.Decoder(Trigger)
DELIVERY = msgspec.json.Decoder(HookDelivery)


class SqlSchedules:
    """A `ScheduleStore` in a SQL database."""

    _database: Database

    async def add_schedule(self, schedule: Schedule) -> Schedule:
        """Store a new schedule."""
        return await self._database.write(partial(_add_schedule, schedule=schedule))

    async def find_schedule(self, schedule_id: str) -> Schedule | None:
        """Return a schedule, or None."""

        async def work(session: SqlSession) -> Schedule | None:
            row = await session.one("find_schedule", schedule_id)
            return None if row is None else _decode_schedule(row[0], schedule_id)

        return await self._database.read_row(work)

    async def save_schedule(self, schedule: Schedule) -> Schedule:
        """Replace a schedule that still has the revision of the given one."""

        async def work(session: SqlSession) -> Schedule:
            row = await session.one("lock_schedule", schedule.schedule_id)
            if row is None or row[0] != schedule.revision:
                raise ScheduleChanged(record_id=schedule.schedule_id)
            return await _save_schedule(session, schedule)

        return await self._database.write(work)

    async def delete_schedule(self, schedule_id: str) -> bool:
        """Remove a schedule with its history; False if there is none."""

        async def work(session: SqlSession) -> bool:
            is_there = bool(await session.run("delete_schedule", schedule_id))
            await session.run("clear_firings", schedule_id)
            return is_there

        return await self._database.write(work)

    async def list_schedules(self, query: ScheduleQuery) -> Page[Schedule]:
        """List schedules by creation time, ties by id."""
        filters = (query.tenant_id, query.status, query.agent_id)
        read = partial(
            _read_page,
            table="schedules",
            query=query,
            filters=filters,
            decode=lambda row: rows.unpack_listed(row[0], SCHEDULE, f"Schedule '{row[1]}'"),
            key_of=lambda it: (it.created_at, it.schedule_id),
        )
        return await self._database.read(read)

    async def find_next_wake(self, *, is_judge: bool = True) -> tuple[int, int | None]:
        """Return the database's time, and when the first schedule wants to be looked at."""

        async def work(session: SqlSession) -> tuple[int, int | None]:
            row = await session.one("find_next_wake", int(is_judge))
            return (await session.now()).wall_ms, None if row is None else row[0]

        return await self._database.read_row(work)

    async def claim_schedules(
        self, claim_token: str, lease_ms: int, *, limit: int = 50, is_judge: bool = True
    ) -> ClaimedSchedules:
        """Lease schedules that are due and that no process has a lease on."""

        async def work(session: SqlSession) -> ClaimedSchedules:
            now = await session.now()
            leases = (now.lease_ms, now.lease_ms + rules.LEASE_MS_MAX)
            found = await session.all(
                "list_due_schedules", now.wall_ms, *leases, int(is_judge), limit
            )
            items: list[Schedule] = []
            for row in found:
                schedule = rows.unpack_listed(row[1], SCHEDULE, f"Schedule '{row[0]}'")
                if schedule is not None:
                    items.append(schedule)
                # A damaged one does not keep the others from firing, and is left alone for long.
                length = rules.LEASE_MS_MAX if schedule is None else lease_ms
                await session.run("lease_schedule", row[0], claim_token, now.lease_ms + length)
            return ClaimedSchedules(now=now.wall_ms, items=tuple(items))

        return await self._database.write(work)

    async def write_firing(self, write: FiringWrite) -> bool:
        """Record firings, queue their dispatch and move the schedule on: all of it or nothing."""
        return await self._database.write(partial(_write_firing, write=write))

    async def list_firings(self, query: FiringQuery) -> Page[Firing]:
        """List firings by their due time, ties by id."""
        read = partial(
            _read_page,
            table="firings",
            query=query,
            filters=(query.schedule_id, query.outcome),
            decode=lambda row: rows.unpack_listed(row[0], FIRING, f"Firing '{row[1]}'"),
            key_of=firing_key,
        )
        return await self._database.read(read)

    async def add_trigger(self, trigger: Trigger) -> Trigger:
        """Store a new trigger."""

        async def work(session: SqlSession) -> Trigger:
            made = rules.create_trigger(trigger, (await session.now()).wall_ms)
            names = (made.trigger_id, made.creator.tenant_id, made.spec.target.agent_id)
            numbers = (made.revision, made.created_at)
            if not await session.run("add_trigger", *names, *numbers, rows.pack(made)):
                raise AlreadyExists(kind="Trigger", record_id=made.trigger_id)
            return made

        return await self._database.write(work)

    async def find_trigger(self, trigger_id: str) -> Trigger | None:
        """Return a trigger, or None."""

        async def work(session: SqlSession) -> Trigger | None:
            row = await session.one("find_trigger", trigger_id)
            return None if row is None else _decode_trigger(row[0], trigger_id)

        return await self._database.read_row(work)

    async def save_trigger(self, trigger: Trigger) -> Trigger:
        """Replace a trigger that still has the revision of the given one."""

        async def work(session: SqlSession) -> Trigger:
            row = await session.one("lock_trigger", trigger.trigger_id)
            if row is None or row[1] != trigger.revision:
                raise ScheduleChanged(record_id=trigger.trigger_id)
            stored = _decode_trigger(row[0], trigger.trigger_id)
            made = rules.replace_trigger(trigger, stored, (await session.now()).wall_ms)
            await _save_trigger(session, made)
            return made

        return await self._database.write(work)

    async def delete_trigger(self, trigger_id: str) -> bool:
        """Remove a trigger with its deliveries; False if there is none."""

        async def work(session: SqlSession) -> bool:
            is_there = bool(await session.run("delete_trigger", trigger_id))
            await session.run("clear_deliveries", trigger_id)
            return is_there

        return await self._database.write(work)

    async def list_triggers(self, query: TriggerQuery) -> Page[Trigger]:
        """List triggers by creation time, ties by id."""
        read = partial(
            _read_page,
            table="triggers",
            query=query,
            filters=(query.tenant_id, query.agent_id),
            decode=lambda row: rows.unpack_listed(row[0], TRIGGER, f"Trigger '{row[1]}'"),
            key_of=lambda it: (it.created_at, it.trigger_id),
        )
        return await self._database.read(read)

    async def find_delivery(self, trigger_id: str, delivery_id: str) -> HookDelivery | None:
        """Return a delivery, or None."""

        async def work(session: SqlSession) -> HookDelivery | None:
            row = await session.one("find_delivery", trigger_id, delivery_id)
            return None if row is None else _decode_delivery(row)

        return await self._database.read_row(work)

    async def accept_delivery(
        self, delivery: HookDelivery, dispatch: RunDispatch | None = None
    ) -> HookDelivery | None:
        """Record a delivery and queue its dispatch, all or nothing; a repeat changes nothing."""
        return await self._database.write(
            partial(_accept_delivery, delivery=delivery, dispatch=dispatch)
        )

    async def list_deliveries(self, query: DeliveryQuery) -> Page[HookDelivery]:
        """List deliveries by when they were received, ties by id."""
        read = partial(
            _read_page,
            table="deliveries",
            query=query,
            filters=(query.trigger_id, query.outcome),
            decode=lambda row: rows.unpack_listed(row[0], DELIVERY, f"Delivery '{row[1]}'"),
            key_of=lambda it: (it.received_at, it.delivery_id),
        )
        return await self._database.read(read)

    async def purge_firings(self, before_ms: int, delivered_before_ms: int, limit: int) -> int:
        """Remove older firings and deliveries, at most `limit` of each; returns how many."""

        async def work(session: SqlSession) -> int:
            removed = await session.run("purge_firings", before_ms, limit)
            return removed + await session.run("purge_deliveries", delivered_before_ms, limit)

        return await self._database.write(work)


async def _add_schedule(session: SqlSession, schedule: Schedule) -> Schedule:
    made = rules.create_schedule(schedule, (await session.now()).wall_ms)
    is_added = await session.run(
        "add_schedule",
        made.schedule_id,
        made.creator.tenant_id,
        made.spec.target.agent_id,
        made.status.value,
        made.creator.principal_id,
        made.wake_at,
        made.revision,
        made.created_at,
        rows.pack(made),
    )
    if not is_added:
        raise AlreadyExists(kind="Schedule", record_id=made.schedule_id)
    return made


async def _save_schedule(session: SqlSession, schedule: Schedule) -> Schedule:
    """Write a locked schedule, and end the lease on it."""
    made = rules.replace_schedule(schedule, (await session.now()).wall_ms)
    await session.run(
        "save_schedule",
        made.schedule_id,
        made.spec.target.agent_id,
        made.status.value,
        made.creator.principal_id,
        made.wake_at,
        made.revision,
        rows.pack(made),
    )
    return made


async def _write_firing(session: SqlSession, write: FiringWrite) -> bool:
    row = await session.one("lock_schedule", write.schedule.schedule_id)
    if row is None or not rules.may_write_firing(write, row[0], row[1]):
        return False
    for firing in write.firings:
        if await session.one("has_firing", firing.firing_id) is not None:
            return False
    now = (await session.now()).wall_ms
    firings = [msgspec.structs.replace(it, fired_at=now) for it in write.firings]
    for it in firings:
        columns = (it.firing_id, it.schedule_id, it.due_at, it.outcome.value, it.fired_at)
        await session.run("add_firing", *columns, rows.pack(it))
    schedule = write.schedule
    if firings:
        schedule = msgspec.structs.replace(schedule, last=firings[-1])
    await _save_schedule(session, schedule)
    if write.dispatch is not None:
        await mailbox.submit(session, write.dispatch, THREAD_BACKLOG_MAX)
    return True


async def _save_trigger(session: SqlSession, trigger: Trigger) -> None:
    columns = (trigger.trigger_id, trigger.spec.target.agent_id, trigger.revision)
    await session.run("save_trigger", *columns, rows.pack(trigger))


async def _accept_delivery(
    session: SqlSession, delivery: HookDelivery, dispatch: RunDispatch | None
) -> HookDelivery | None:
    # The lock lets two requests with one delivery go one after the other.
    row = await session.one("lock_trigger", delivery.trigger_id)
    if row is None:
        return None
    found = await session.one("find_delivery", delivery.trigger_id, delivery.delivery_id)
    known = None if found is None else _decode_delivery(found)
    if not rules.is_repeat(known) and delivery.digest:
        found = await session.one("find_delivered_digest", delivery.trigger_id, delivery.digest)
        known = None if found is None else _decode_delivery(found)
    if rules.is_repeat(known):
        return known
    trigger = _decode_trigger(row[0], delivery.trigger_id)
    made = msgspec.structs.replace(delivery, received_at=(await session.now()).wall_ms)
    columns = (made.trigger_id, made.delivery_id, made.digest or None, made.outcome.value)
    await session.run("add_delivery", *columns, made.received_at, rows.pack(made))
    await _save_trigger(session, rules.add_delivery(trigger, made))
    if dispatch is not None:
        await mailbox.submit(session, dispatch, THREAD_BACKLOG_MAX)
    return made


async def _read_page(
    session: SqlSession,
    *,
    table: str,
    query: KeysetQuery,
    filters: tuple[str | None, ...],
    decode: Callable[[Row], T | None],
    key_of: Callable[[T], ListKey],
) -> Page[T]:
    walk = plan_walk(query)
    bounds = (*walk.low, *walk.high)
    place = (query.limit + 1, query.offset)
    found = await session.all(f"list_{table}_{walk.order}", *bounds, *filters, *place)
    shown = found[: query.limit]
    items = [it for it in map(decode, shown) if it is not None]
    more = (shown[-1][2], shown[-1][1]) if len(found) > query.limit else None
    total: Any = None
    if query.with_total:
        whole = plan_walk(msgspec.structs.replace(query, after=None, before=None))
        row = await session.one(f"count_{table}", *whole.low, *whole.high, *filters)
        assert row is not None
        total = row[0]
    return make_page(items, query, more, key_of, total, damaged=len(shown) - len(items))


def _decode_schedule(blob: bytes, schedule_id: str) -> Schedule:
    return rows.unpack(blob, SCHEDULE, f"Schedule '{schedule_id}'")


def _decode_trigger(blob: bytes, trigger_id: str) -> Trigger:
    return rows.unpack(blob, TRIGGER, f"Trigger '{trigger_id}'")


def _decode_delivery(row: Row) -> HookDelivery:
    return rows.unpack(row[0], DELIVERY, f"Delivery '{row[1]}'")
