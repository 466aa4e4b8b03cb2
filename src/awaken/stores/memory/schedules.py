"""Schedules and triggers in this process's memory."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from awaken.contracts.clock import Clock
from awaken.contracts.errors import AlreadyExists
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.keysets import list_rows
from awaken.contracts.storage.queries import (
    DeliveryQuery,
    FiringQuery,
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

T = TypeVar("T")


class MemorySchedules:
    """A `ScheduleStore` that lives as long as this object. No method suspends."""

    def __init__(self, clock: Clock, enqueue: Callable[[RunDispatch], RunDispatch]) -> None:
        self._clock = clock
        self._enqueue = enqueue
        self._schedules: dict[str, Schedule] = {}
        self._leases: dict[str, tuple[str, int]] = {}
        """The token of each lease, and its end by the monotonic clock."""
        self._firings: dict[str, Firing] = {}
        self._triggers: dict[str, Trigger] = {}
        self._deliveries: dict[tuple[str, str], HookDelivery] = {}

    def add_schedule(self, schedule: Schedule) -> Schedule:
        """Store a new schedule."""
        made = rules.create_schedule(schedule, self._clock.now_ms())
        if made.schedule_id in self._schedules:
            raise AlreadyExists(kind="Schedule", record_id=made.schedule_id)
        self._schedules[made.schedule_id] = made
        return made

    def find_schedule(self, schedule_id: str) -> Schedule | None:
        """Return a schedule, or None."""
        return self._schedules.get(schedule_id)

    def save_schedule(self, schedule: Schedule) -> Schedule:
        """Replace a schedule that still has the revision of the given one."""
        stored = self._schedules.get(schedule.schedule_id)
        if stored is None or stored.revision != schedule.revision:
            raise ScheduleChanged(record_id=schedule.schedule_id)
        return self._put(schedule)

    def delete_schedule(self, schedule_id: str) -> bool:
        """Remove a schedule with its history; False if there is none."""
        self._leases.pop(schedule_id, None)
        kept = {no: it for no, it in self._firings.items() if it.schedule_id != schedule_id}
        self._firings = kept
        return self._schedules.pop(schedule_id, None) is not None

    def list_schedules(self, query: ScheduleQuery) -> Page[Schedule]:
        """List schedules by creation time, ties by id."""
        found = [
            it
            for it in self._schedules.values()
            if query.tenant_id in (None, it.creator.tenant_id)
            and query.status in (None, it.status.value)
            and query.agent_id in (None, it.spec.target.agent_id)
        ]
        return list_rows(found, query, lambda it: (it.created_at, it.schedule_id))

    def find_next_wake(self, *, is_judge: bool) -> tuple[int, int | None]:
        """Return the time, and when the first schedule wants to be looked at."""
        wakes = [it.wake_at or 0 for it in self._list_waking(is_judge=is_judge)]
        return self._clock.now_ms(), min(wakes, default=None)

    def claim_schedules(
        self, claim_token: str, lease_ms: int, *, limit: int, is_judge: bool
    ) -> ClaimedSchedules:
        """Lease schedules that are due and that no process has a lease on."""
        now, lease_now = self._clock.now_ms(), self._clock.monotonic_ms()
        due = [
            it
            for it in self._list_waking(is_judge=is_judge)
            if (it.wake_at or 0) <= now and not self._is_leased(it.schedule_id, lease_now)
        ]
        due.sort(key=lambda it: (it.wake_at or 0, it.schedule_id))
        for it in due[:limit]:
            self._leases[it.schedule_id] = (claim_token, lease_now + lease_ms)
        return ClaimedSchedules(now=now, items=tuple(due[:limit]))

    def write_firing(self, write: FiringWrite) -> bool:
        """Record firings, queue their dispatch and move the schedule on: all of it or nothing."""
        schedule = write.schedule
        stored = self._schedules.get(schedule.schedule_id)
        token, _ = self._leases.get(schedule.schedule_id, (None, 0))
        if stored is None or not rules.may_write_firing(write, stored.revision, token):
            return False
        if any(it.firing_id in self._firings for it in write.firings):
            return False
        if write.dispatch is not None:
            # It raises before anything is changed.
            self._enqueue(write.dispatch)
        now = self._clock.now_ms()
        for it in write.firings:
            fired = msgspec.structs.replace(it, fired_at=now)
            self._firings[it.firing_id] = fired
            schedule = msgspec.structs.replace(schedule, last=fired)
        self._put(schedule)
        return True

    def list_firings(self, query: FiringQuery) -> Page[Firing]:
        """List firings by their due time, ties by id."""
        found = [
            it
            for it in self._firings.values()
            if it.schedule_id == query.schedule_id and query.outcome in (None, it.outcome.value)
        ]
        return list_rows(found, query, firing_key)

    def add_trigger(self, trigger: Trigger) -> Trigger:
        """Store a new trigger."""
        made = rules.create_trigger(trigger, self._clock.now_ms())
        if made.trigger_id in self._triggers:
            raise AlreadyExists(kind="Trigger", record_id=made.trigger_id)
        self._triggers[made.trigger_id] = made
        return made

    def find_trigger(self, trigger_id: str) -> Trigger | None:
        """Return a trigger, or None."""
        return self._triggers.get(trigger_id)

    def save_trigger(self, trigger: Trigger) -> Trigger:
        """Replace a trigger that still has the revision of the given one."""
        stored = self._triggers.get(trigger.trigger_id)
        if stored is None or stored.revision != trigger.revision:
            raise ScheduleChanged(record_id=trigger.trigger_id)
        made = rules.replace_trigger(trigger, stored, self._clock.now_ms())
        self._triggers[made.trigger_id] = made
        return made

    def delete_trigger(self, trigger_id: str) -> bool:
        """Remove a trigger with its deliveries; False if there is none."""
        kept = {key: it for key, it in self._deliveries.items() if key[0] != trigger_id}
        self._deliveries = kept
        return self._triggers.pop(trigger_id, None) is not None

    def list_triggers(self, query: TriggerQuery) -> Page[Trigger]:
        """List triggers by creation time, ties by id."""
        found = [
            it
            for it in self._triggers.values()
            if query.tenant_id in (None, it.creator.tenant_id)
            and query.agent_id in (None, it.spec.target.agent_id)
        ]
        return list_rows(found, query, lambda it: (it.created_at, it.trigger_id))

    def find_delivery(self, trigger_id: str, delivery_id: str) -> HookDelivery | None:
        """Return a delivery, or None."""
        return self._deliveries.get((trigger_id, delivery_id))

    def accept_delivery(
        self, delivery: HookDelivery, dispatch: RunDispatch | None
    ) -> HookDelivery | None:
        """Record a delivery and queue its dispatch, all or nothing; a repeat changes nothing."""
        trigger = self._triggers.get(delivery.trigger_id)
        if trigger is None:
            return None
        known = self._deliveries.get((delivery.trigger_id, delivery.delivery_id))
        if not rules.is_repeat(known) and delivery.digest:
            known = self._find_digest(delivery)
        if rules.is_repeat(known):
            return known
        if dispatch is not None:
            # It raises before anything is changed.
            self._enqueue(dispatch)
        made = msgspec.structs.replace(delivery, received_at=self._clock.now_ms())
        self._deliveries[made.trigger_id, made.delivery_id] = made
        self._triggers[made.trigger_id] = rules.add_delivery(trigger, made)
        return made

    def list_deliveries(self, query: DeliveryQuery) -> Page[HookDelivery]:
        """List deliveries by when they were received, ties by id."""
        found = [
            it
            for it in self._deliveries.values()
            if it.trigger_id == query.trigger_id and query.outcome in (None, it.outcome.value)
        ]
        return list_rows(found, query, lambda it: (it.received_at, it.delivery_id))

    def purge_firings(self, before_ms: int, delivered_before_ms: int, limit: int) -> int:
        """Remove older firings and deliveries, at most `limit` of each; returns how many."""
        fired = sorted(self._firings.values(), key=lambda it: it.fired_at)
        old = [it.firing_id for it in fired if it.fired_at < before_ms][:limit]
        for firing_id in old:
            del self._firings[firing_id]
        received = sorted(self._deliveries.items(), key=lambda it: it[1].received_at)
        gone = [key for key, it in received if it.received_at < delivered_before_ms][:limit]
        for key in gone:
            del self._deliveries[key]
        return len(old) + len(gone)

    def _list_waking(self, *, is_judge: bool) -> list[Schedule]:
        return [
            it
            for it in self._schedules.values()
            if it.wake_at is not None and (is_judge or it.creator.principal_id is None)
        ]

    def _is_leased(self, schedule_id: str, now: int) -> bool:
        lease = self._leases.get(schedule_id)
        return lease is not None and rules.is_leased(lease[1], now)

    def _put(self, schedule: Schedule) -> Schedule:
        made = rules.replace_schedule(schedule, self._clock.now_ms())
        self._leases.pop(made.schedule_id, None)
        self._schedules[made.schedule_id] = made
        return made

    def _find_digest(self, delivery: HookDelivery) -> HookDelivery | None:
        for known in self._deliveries.values():
            is_same = (known.trigger_id, known.digest) == (delivery.trigger_id, delivery.digest)
            if is_same and rules.is_repeat(known):
                return known
        return None
