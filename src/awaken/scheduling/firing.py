"""Fires schedules: waits for the next due time, decides it, and queues its run, once.

Every process that executes runs may fire. One look costs one small read; the process sleeps until
the first schedule is due, and looks again when another process changes one, or at each sweep.
"""

import asyncio
import contextlib
import logging

import msgspec

from awaken.contracts.errors import QueueFull
from awaken.contracts.storage.bus import Signal, SignalKind, Unsubscribe
from awaken.contracts.storage.schedules import (
    Firing,
    FiringOutcome,
    FiringWrite,
    OverlapPolicy,
    Schedule,
    ScheduleStatus,
    ScheduleStore,
)
from awaken.mailbox.outages import Outage
from awaken.mailbox.services import MailboxServices

from .plans import (
    OVERLAP,
    FiringPlan,
    count_firing,
    find_wake,
    name_firing,
    plan_firing,
)
from .rights import RunRefusal, RunStarter
from .run_requests import StartedBy
from .starts import WantedStart, plan_start

logger = logging.getLogger(__name__)

LEASE_MS = 30_000
RECHECK_MS = 5_000
"""How often to look whether the previous run of a waiting due time has ended."""
PAUSE_MS = 1_000
"""The pause before the next look at a schedule that is due and leased to another process."""
CLAIMED_MAX = 50
SLEEP_MS_MAX = 24 * 60 * 60 * 1000


class ScheduleFirer:
    """Fires the schedules of a store, together with the firers of other processes."""

    def __init__(
        self, store: ScheduleStore, services: MailboxServices, starter: RunStarter
    ) -> None:
        self._store = store
        self._services = services
        self._starter = starter
        self._wake = asyncio.Event()
        self._looping: asyncio.Task[None] | None = None
        self._unsubscribe: Unsubscribe | None = None

    def start(self) -> None:
        """Fire what is due, from now on; calling it twice is harmless."""
        if self._looping is None:
            self._unsubscribe = self._services.bus.subscribe(self._on_signal)
            self._looping = asyncio.create_task(self._fire_until_stopped(), name="schedules")

    async def stop(self) -> None:
        """Stop; a lease that is still held ends by itself."""
        if self._looping is None:
            return
        if self._unsubscribe is not None:
            self._unsubscribe()
        looping, self._looping = self._looping, None
        looping.cancel()
        await asyncio.wait([looping])

    def wake(self) -> None:
        """Look again now: a schedule is new or was changed."""
        self._wake.set()

    async def announce(self) -> None:
        """Tell the firers of all processes to look again."""
        self.wake()
        self._services.send_signal(SignalKind.SCHEDULES_CHANGED)

    async def fire_due(self) -> int:
        """Decide everything that is due; returns how many due times were fired or refused."""
        count = 0
        while True:
            token = self._services.ids.new_id()
            claimed = await self._store.claim_schedules(
                token, LEASE_MS, limit=CLAIMED_MAX, is_judge=self._starter.is_judge
            )
            for schedule in claimed.items:
                count += await self._decide(schedule, claimed.now, token)
            if not claimed.items:
                return count

    async def fire_now(self, schedule: Schedule) -> Firing | None:
        """Start a run of a schedule by hand, whatever is due; its due times stay as they are.

        Returns None if the schedule was changed meanwhile.

        Raises:
            StorageError: The run cannot be queued.
        """
        now = await self._services.store.now_ms()
        key = self._services.ids.new_id()
        firing = Firing(
            firing_id=f"{schedule.schedule_id}@{key}",
            schedule_id=schedule.schedule_id,
            due_at=now,
            outcome=FiringOutcome.FIRED,
            is_manual=True,
            fired_at=now,
        )
        if schedule.spec.overlap is OverlapPolicy.SKIP and await self._is_running(schedule):
            firing = _skip_overlap(firing)
            write = FiringWrite(schedule=count_firing(schedule, firing), firings=(firing,))
        else:
            write = await self._build_write(schedule, firing, key)
        if not await self._store.write_firing(write):
            return None
        await self._announce_dispatch(write)
        return write.firings[-1]

    async def _fire_until_stopped(self) -> None:
        config = self._services.config
        outage = Outage("Firing schedules", PAUSE_MS, config.retry_cap_ms, logger)
        while True:
            # Cleared before the store is asked: a signal that comes meanwhile must not be lost.
            self._wake.clear()
            try:
                pause = await self._look()
                outage.record_success()
            except Exception as error:  # noqa: BLE001 - logged there, and tried again
                pause = outage.record_failure(error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if pause is None else pause / 1000):
                    await self._wake.wait()

    async def _look(self) -> int | None:
        """Fire what is due; returns how long to wait, None if nothing is planned."""
        now, wake_at = await self._find_next_wake()
        if wake_at is not None and wake_at <= now:
            await self.fire_due()
            now, wake_at = await self._find_next_wake()
        if wake_at is None:
            return None
        # What is still due is leased to another process, or its creator is judged by another.
        return min(max(wake_at - now, PAUSE_MS if wake_at <= now else 1), SLEEP_MS_MAX)

    async def _find_next_wake(self) -> tuple[int, int | None]:
        return await self._store.find_next_wake(is_judge=self._starter.is_judge)

    async def _decide(self, schedule: Schedule, now: int, token: str) -> int:
        """Decide what is due of one schedule; a failure of one does not stop the others."""
        try:
            write = await self._plan_write(schedule, plan_firing(schedule, now), now)
            write = msgspec.structs.replace(write, claim_token=token)
            try:
                is_written = await self._store.write_firing(write)
            except QueueFull as error:
                waits = msgspec.structs.replace(schedule, wake_at=now + error.retry_after_ms)
                write = FiringWrite(schedule=waits, claim_token=token)
                is_written = await self._store.write_firing(write)
            if not is_written:
                # Changed meanwhile, or another process took the lease over: it decides.
                return 0
            await self._announce_dispatch(write)
        except Exception:
            # The lease ends by itself, and the next look decides again.
            logger.exception("Schedule '%s' could not be fired.", schedule.schedule_id)
            return 0
        return sum(it.outcome is not FiringOutcome.SKIPPED for it in write.firings)

    async def _plan_write(self, schedule: Schedule, plan: FiringPlan, now: int) -> FiringWrite:
        before = () if plan.skipped is None else (plan.skipped,)
        for it in before:
            schedule = count_firing(schedule, it)
        if plan.due is None:
            return FiringWrite(schedule=_move_on(schedule, plan.following), firings=before)
        firing = Firing(
            firing_id=name_firing(schedule.schedule_id, plan.due),
            schedule_id=schedule.schedule_id,
            due_at=plan.due,
            outcome=FiringOutcome.FIRED,
        )
        if schedule.spec.overlap is not OverlapPolicy.INTERRUPT and await self._is_running(
            schedule
        ):
            if schedule.spec.overlap is OverlapPolicy.QUEUE:
                waits = msgspec.structs.replace(
                    schedule, next_due=plan.due, wake_at=now + RECHECK_MS
                )
                return FiringWrite(schedule=waits, firings=before)
            firing = _skip_overlap(firing)
            moved = _move_on(count_firing(schedule, firing), plan.following)
            return FiringWrite(schedule=moved, firings=(*before, firing))
        write = await self._build_write(schedule, firing, str(plan.due))
        return msgspec.structs.replace(
            write,
            schedule=_move_on(write.schedule, plan.following),
            firings=(*before, *write.firings),
        )

    async def _build_write(self, schedule: Schedule, firing: Firing, key: str) -> FiringWrite:
        """Build what starts the run of a firing, or records why none may be started."""
        target = schedule.spec.target
        is_interrupting = schedule.spec.overlap is OverlapPolicy.INTERRUPT
        replaced = schedule.last_run_id if is_interrupting else None
        start = await plan_start(
            self._services,
            self._starter,
            WantedStart(
                creator=schedule.creator,
                started_by=StartedBy(kind="schedule", id=schedule.schedule_id, key=key),
                agent_id=target.agent_id,
                make_target=lambda: target,
                replaced_run_id=replaced,
            ),
        )
        if isinstance(start, RunRefusal):
            refused = msgspec.structs.replace(
                firing, outcome=FiringOutcome.REFUSED, reason=start.reason, detail=start.detail
            )
            return FiringWrite(schedule=count_firing(schedule, refused), firings=(refused,))
        if replaced is not None and not start.is_delivered:
            await self._starter.cancel_run(replaced)
        fired = msgspec.structs.replace(
            firing,
            outcome=FiringOutcome.DELIVERED if start.is_delivered else FiringOutcome.FIRED,
            run_id=start.run_id,
            thread_id=start.dispatch.thread_id,
        )
        return FiringWrite(
            schedule=count_firing(schedule, fired), firings=(fired,), dispatch=start.dispatch
        )

    async def _is_running(self, schedule: Schedule) -> bool:
        """Whether the run of the previous due time has not ended; one that waits has not."""
        run_id, store = schedule.last_run_id, self._services.store
        if run_id is None:
            return False
        run = await store.load_run(run_id)
        if run is not None:
            return not run.status.is_terminal
        dispatch = await store.find_dispatch_of_run(run_id)
        return dispatch is not None and not dispatch.status.is_terminal

    async def _announce_dispatch(self, write: FiringWrite) -> None:
        if write.dispatch is not None:
            self._services.announce_queued(write.dispatch)
            self._starter.on_queued()

    def _on_signal(self, signal: Signal) -> None:
        if signal.kind is SignalKind.SCHEDULES_CHANGED:
            self._wake.set()


def _skip_overlap(firing: Firing) -> Firing:
    detail = "The run of the previous due time has not ended."
    return msgspec.structs.replace(
        firing, outcome=FiringOutcome.SKIPPED, reason=OVERLAP, detail=detail
    )


def _move_on(schedule: Schedule, following: int | None) -> Schedule:
    """Return a schedule at its next due time, or ended."""
    count_max = schedule.spec.max_count
    is_over = following is None or (count_max is not None and schedule.fired_count >= count_max)
    if is_over or following is None:
        return msgspec.structs.replace(
            schedule, status=ScheduleStatus.ENDED, next_due=None, wake_at=None
        )
    wake_at = find_wake(schedule, following)
    return msgspec.structs.replace(schedule, next_due=following, wake_at=wake_at)
