"""Fires schedules: waits for the next due time, decides it, and queues its run, once.

Every process that executes runs may fire. One look costs one small read; the process sleeps until
the first schedule is due, and looks again when another process changes one, or at each sweep.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial

import msgspec

from awaken.contracts.errors import AwakenError, QueueFull
from awaken.contracts.identity import RunMode
from awaken.contracts.storage.bus import Signal, SignalKind, Unsubscribe
from awaken.contracts.storage.schedules import (
    Creator,
    Firing,
    FiringOutcome,
    FiringWrite,
    OverlapPolicy,
    Schedule,
    ScheduleStore,
)
from awaken.mailbox.config import limit_outage_pause
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
from .rights import NEVER_QUEUED, RunRefusal, RunStarter
from .run_requests import StartedBy
from .starts import WantedStart, find_thread, plan_start

logger = logging.getLogger(__name__)

LEASE_MS = 30_000
RECHECK_MS = 5_000
"""How often to look whether the previous run of a waiting due time has ended."""
PAUSE_MS = 1_000
"""The pause before the next look at a schedule that is due and leased to another process."""
CLAIMED_MAX = 50
LINKS_MAX = 1_000
"""How many runs that continued as a new one a look follows; the next look goes on from there."""
CANCELS_MAX = 20
"""How often a run is cancelled that goes on as another one meanwhile."""
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

    async def check_thread(self, creator: Creator, thread_id: str) -> None:
        """Refuse a thread on which no run can start in the name of a creator.

        Raises:
            UnknownThread: It belongs to another tenant.
        """
        await find_thread(self._services, creator, thread_id)

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

        The last run that it may start ends it. Returns None if the schedule was changed meanwhile.

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
        schedule, is_running = await self._follow_last_run(schedule)
        write = None
        if not (is_running and schedule.spec.overlap is OverlapPolicy.SKIP):
            write = await self._build_write(schedule, firing, key)
        if write is None:
            firing = _skip_overlap(firing)
            write = FiringWrite(schedule=count_firing(schedule, firing), firings=(firing,))
        if write.schedule.fires_left == 0:
            write = msgspec.structs.replace(write, schedule=write.schedule.end())
        written = await self._write(schedule, write, lambda it: it)
        if written is None:
            return None
        await self._announce_dispatch(written)
        return written.firings[-1]

    async def _fire_until_stopped(self) -> None:
        config = self._services.config
        cap_ms = limit_outage_pause(config, has_nodes=self._services.nodes is not None)
        outage = Outage("Firing schedules", PAUSE_MS, cap_ms, logger)
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
            plan = plan_firing(schedule, now)
            write = await self._plan_write(schedule, plan, now)
            write = msgspec.structs.replace(write, claim_token=token)
            move_on = partial(_move_on, following=plan.following)
            try:
                written = await self._write(schedule, write, move_on)
            except QueueFull as error:
                waits = msgspec.structs.replace(schedule, wake_at=now + error.retry_after_ms)
                write = FiringWrite(schedule=waits, claim_token=token)
                written = await self._write(schedule, write, move_on)
            if written is None:
                # Changed meanwhile, or another process took the lease over: it decides.
                return 0
            write = written
            await self._announce_dispatch(write)
        except Exception:
            # The lease ends by itself, and the next look decides again.
            logger.exception("Schedule '%s' could not be fired.", schedule.schedule_id)
            return 0
        return sum(it.outcome is not FiringOutcome.SKIPPED for it in write.firings)

    async def _write(
        self, schedule: Schedule, write: FiringWrite, move_on: Callable[[Schedule], Schedule]
    ) -> FiringWrite | None:
        """Write a firing; one whose run can never be queued is refused, and not tried for ever.

        Returns what was written; None if the schedule was changed meanwhile.
        """
        try:
            return write if await self._store.write_firing(write) else None
        except NEVER_QUEUED as error:
            if write.dispatch is None:
                raise
            refused = _refuse_last(schedule, write, error)
            refused = msgspec.structs.replace(refused, schedule=move_on(refused.schedule))
            return refused if await self._store.write_firing(refused) else None

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
        schedule, is_running = await self._follow_last_run(schedule)
        overlap = schedule.spec.overlap
        if is_running and overlap is OverlapPolicy.SKIP:
            firing = _skip_overlap(firing)
            moved = _move_on(count_firing(schedule, firing), plan.following)
            return FiringWrite(schedule=moved, firings=(*before, firing))
        write = None
        if not (is_running and overlap is OverlapPolicy.QUEUE):
            write = await self._build_write(schedule, firing, str(plan.due))
        if write is None:
            waits = msgspec.structs.replace(schedule, next_due=plan.due, wake_at=now + RECHECK_MS)
            return FiringWrite(schedule=waits, firings=before)
        return msgspec.structs.replace(
            write,
            schedule=_move_on(write.schedule, plan.following),
            firings=(*before, *write.firings),
        )

    async def _build_write(
        self, schedule: Schedule, firing: Firing, key: str
    ) -> FiringWrite | None:
        """Build what starts the run of a firing, or records why none may be started.

        None if the run that it interrupts cannot be cancelled now.
        """
        target = schedule.spec.target
        is_interrupting = schedule.spec.overlap is OverlapPolicy.INTERRUPT
        replaced = schedule.last_run_id if is_interrupting else None
        start = await plan_start(
            self._services,
            self._starter,
            WantedStart(
                creator=schedule.creator,
                started_by=StartedBy(
                    kind="schedule",
                    id=schedule.schedule_id,
                    created_at=schedule.created_at,
                    key=key,
                ),
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
        if replaced is not None and not start.is_delivered and not await self._cancel(replaced):
            return None
        fired = msgspec.structs.replace(
            firing,
            outcome=FiringOutcome.DELIVERED if start.is_delivered else FiringOutcome.FIRED,
            run_id=start.run_id,
            thread_id=start.dispatch.thread_id,
        )
        return FiringWrite(
            schedule=count_firing(schedule, fired), firings=(fired,), dispatch=start.dispatch
        )

    async def _follow_last_run(self, schedule: Schedule) -> tuple[Schedule, bool]:
        """Find what the run of the previous due time is by now, and whether it has not ended.

        Returns the schedule with that run; a run that waits has not ended.
        """
        if schedule.last_run_id is None:
            return schedule, False
        run_id, is_running = await self._find_newest(schedule.last_run_id)
        return msgspec.structs.replace(schedule, last_run_id=run_id), is_running

    async def _find_newest(self, run_id: str) -> tuple[str, bool]:
        """Return the run that a run has continued as by now, and whether it has not ended."""
        store = self._services.store
        for _ in range(LINKS_MAX):
            run = await store.load_run(run_id)
            if run is not None:
                if not run.status.is_terminal or run.continued_as is None:
                    return run_id, not run.status.is_terminal
                run_id = run.continued_as
                continue
            dispatch = await store.find_dispatch_of_run(run_id)
            if dispatch is None or not dispatch.status.is_terminal:
                return run_id, dispatch is not None
            taker = dispatch.taken_by and await store.load_run(dispatch.taken_by)
            # A run of a person that has read the input is not the schedule's to wait for.
            if not taker or taker.run_mode is not RunMode.SCHEDULED:
                return run_id, False
            run_id = taker.run_id
        return run_id, True

    async def _cancel(self, run_id: str) -> bool:
        """Cancel a run, and what it continues as meanwhile; False if it goes on all the same."""
        run_id, is_running = await self._find_newest(run_id)
        for _ in range(CANCELS_MAX):
            if not is_running:
                return True
            is_cancelled = await self._starter.cancel_run(run_id)
            newest, is_running = await self._find_newest(run_id)
            if is_cancelled and newest == run_id:
                return True
            run_id = newest
        return not is_running

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


def _refuse_last(schedule: Schedule, write: FiringWrite, error: AwakenError) -> FiringWrite:
    """Return a write whose last firing is refused, on the schedule as it was before."""
    *before, fired = write.firings
    refused = msgspec.structs.replace(
        fired,
        outcome=FiringOutcome.REFUSED,
        reason=error.code,
        detail=str(error),
        run_id=None,
        thread_id=None,
    )
    for it in (*before, refused):
        schedule = count_firing(schedule, it)
    return FiringWrite(schedule=schedule, claim_token=write.claim_token, firings=(*before, refused))


def _move_on(schedule: Schedule, following: int | None) -> Schedule:
    """Return a schedule at its next due time, or ended."""
    if following is None or schedule.fires_left == 0:
        return schedule.end()
    wake_at = find_wake(schedule, following)
    return msgspec.structs.replace(schedule, next_due=following, wake_at=wake_at)
