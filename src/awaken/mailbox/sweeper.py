"""The sweeper: work that is due because time has passed, done at the start and periodically.

Several processes may sweep at the same time; where the store knows nodes, one of them takes the
turn. A failing item is logged and never blocks the others.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from awaken.contracts.errors import AlreadyDecided, StorageError
from awaken.contracts.storage.bus import Signal, SignalKind
from awaken.contracts.suspension.tickets import DEADLINE, Ticket, ToolCallResume
from awaken.runtime.primitives.timers import DeadlineWatch
from awaken.runtime.suspension.resume import expiry_id
from awaken.runtime.switches import SwitchBoard

from .decisions import Decider
from .mailbox import Mailbox
from .outages import Outage
from .released_runs import ReleasedRuns

if TYPE_CHECKING:
    # A process that shares no store needs nothing of it.
    from awaken.contracts.storage.nodes import Survey

logger = logging.getLogger(__name__)
runs_logger = logging.getLogger("awaken.runs")

PAGE = 100
PURGE_PAGE = 1000
COUNT_PAGE = 200
LEAST_MS = 50
"""How long to wait for a deadline that has passed by this clock, but not by the store's."""
LOOK_MS = 750
"""How soon to look for deadlines that other processes have written."""


def _is_always_due(_survey: "Survey") -> bool:
    return True


class SweepStage(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of work that is due because time has passed."""

    run: Callable[[], Awaitable[object]]
    what: str
    """What it does, for the log."""
    is_due: "Callable[[Survey], bool]" = _is_always_due
    """Whether a survey has found something to do; a store that makes none is always asked."""
    is_shared: bool = False
    """Whether one process does it for all."""
    least_ms: int | None = None
    """How often it is done whatever surveys find; None: never."""


class SweeperChores(msgspec.Struct, kw_only=True):
    """What a sweeper does for services above the mailbox."""

    stages: list[SweepStage] = []
    """Further work of every sweep."""
    find_kept: Callable[[], Awaitable[Mapping[str, str]]] | None = None
    """Returns the runs that a purge must leave, with their threads."""


class Sweeper:
    """Takes back claims, decides expired tickets, continues released runs, removes old records.

    Where the store knows nodes, a sweep begins with a survey: one statement that finds what there
    is to do. Only that is done.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        is_gone: Callable[[str], bool] | None = None,
        board: SwitchBoard | None = None,
        chores: SweeperChores | None = None,
        deadlines: DeadlineWatch | None = None,
        *,
        hears_others: bool = True,
    ) -> None:
        self._hears_others = hears_others
        """Whether the bus tells of deadlines that other processes write; else they are polled."""
        self._is_gone = is_gone
        """Returns True if a worker has certainly ended; without it only leases decide."""
        self._chores = chores or SweeperChores()
        self._board = board or SwitchBoard()
        """Tells of agents that are released."""
        self._unwatch: Callable[[], None] | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._deadlines = deadlines or DeadlineWatch()
        """Tells of deadlines that this process has written since the latest look."""
        self._due_ms: int | None = None
        """The next known deadline, by the clock of this process."""
        self._least_ms = 0
        """How long to wait at least for the next deadline."""
        self._nudge = asyncio.Event()
        """Set with `_wake`, and when an earlier deadline becomes known."""
        self._released = ReleasedRuns(mailbox.services, self._board)
        self._wake = asyncio.Event()
        services = mailbox.services
        config = services.config
        self._services = services
        self._store = services.store
        self._config = config
        self._decider = Decider(services)
        self._sweeping: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self._purged_at: int | None = None
        self._stages = (*self._list_stages(), *self._chores.stages)
        self._outages = {
            stage.run: Outage(stage.what, config.sweep_ms, config.sweep_ms, logger)
            for stage in self._stages
        }
        self._done_at: dict[Callable[[], Awaitable[object]], int] = {}
        """When a stage that is done now and then was last done, by the monotonic clock."""

    def _list_stages(self) -> tuple[SweepStage, ...]:
        # Deadlines are not shared: a process that knows the next one meets it also if the process
        # whose turn it was is gone by then.
        return (
            SweepStage(
                run=self.reclaim,
                what="Taking back claims",
                is_due=self._has_lost_claims,
                is_shared=True,
                # Claims of processes that are no nodes, and a clock that was set back.
                least_ms=self._config.purge_ms,
            ),
            SweepStage(
                run=self.expire_tickets,
                what="Deciding at deadlines",
                is_due=lambda it: it.deadline_ms is not None and it.deadline_ms < 0,
            ),
            SweepStage(run=self._released.continue_if_released, what="Continuing released runs"),
            SweepStage(
                run=self.fill_columns,
                what="Filling the columns of runs",
                is_due=lambda it: it.has_unfilled_runs,
                is_shared=True,
            ),
            SweepStage(
                run=self.count_usage,
                what="Counting usage",
                is_due=lambda it: it.has_uncounted_runs,
                is_shared=True,
            ),
            # Last: a run is counted before it is removed.
            SweepStage(run=self._purge_if_due, what="Removing old records", is_shared=True),
        )

    def start(self) -> None:
        """Sweep now and then every `sweep_ms`; calling it twice is harmless."""
        if self._sweeping is None:
            self._stopped.clear()
            self._unwatch = self._board.watch(self._wake_up)
            self._deadlines.watchers.append(self._note_deadline)
            self._unsubscribe = self._services.bus.subscribe(self._hear)
            self._sweeping = asyncio.create_task(self._sweep_until_stopped(), name="sweeper")

    async def stop(self) -> None:
        """Stop sweeping; the next sweep finds again what was not finished."""
        if self._sweeping is None:
            return
        self._stopped.set()
        if self._unwatch is not None:
            self._unwatch()
        if self._unsubscribe is not None:
            self._unsubscribe()
        if self._note_deadline in self._deadlines.watchers:
            self._deadlines.watchers.remove(self._note_deadline)
        sweeping, self._sweeping = self._sweeping, None
        sweeping.cancel()
        await asyncio.wait([sweeping])

    async def sweep(self) -> None:
        """Run every stage once; a stage that fails does not stop the next one.

        If it is another node's turn, only what no other process can do for this one.
        """
        survey = await self._survey()
        for stage in self._stages:
            if survey is None or self._is_due(stage, survey):
                self._done_at[stage.run] = self._services.clock.monotonic_ms()
                await _run_stage(stage.run, self._outages[stage.run])

    async def _survey(self) -> "Survey | None":
        """Find what there is to do; None if every stage has to look for itself."""
        nodes = self._services.nodes
        if nodes is None:
            return None
        config = self._config
        try:
            survey = await nodes.survey(config.sweep_ms, config.relay_cap_ms)
        except StorageError:
            # Each stage finds the same trouble, and notes it.
            return None
        self._expect(survey.deadline_ms)
        return survey

    def _is_due(self, stage: SweepStage, survey: "Survey") -> bool:
        if stage.is_shared and not survey.is_turn:
            return False
        if stage.is_due(survey):
            return True
        if stage.least_ms is None:
            return False
        done_at = self._done_at.get(stage.run)
        return done_at is None or self._services.clock.monotonic_ms() - done_at >= stage.least_ms

    def _has_lost_claims(self, survey: "Survey") -> bool:
        is_gone = self._is_gone
        return survey.has_lost_claims or (
            is_gone is not None and any(is_gone(it) for it in survey.living)
        )

    async def reclaim(self) -> int:
        """Queue again the dispatches of workers that are gone or whose lease has run out."""
        count = 0
        while True:
            queued = await self._store.reclaim(PAGE, self._is_gone)
            count += len(queued)
            for dispatch in queued:
                runs_logger.info(
                    "Run '%s' is taken over: its worker is gone (dispatch '%s', attempt %d).",
                    dispatch.run_id,
                    dispatch.dispatch_id,
                    dispatch.attempt_count,
                )
                self._services.wake_workers(dispatch)
            if queued:
                for watcher in self._services.watchers:
                    watcher.on_recovery(len(queued))
            if len(queued) < PAGE:
                return count

    async def expire_tickets(self) -> int:
        """Decide tickets whose deadline has passed by their own rule; returns how many."""
        decided, seen = 0, set[str]()
        left_ms = await self._store.find_next_deadline()
        self._expect(left_ms)
        # A deadline has passed when its millisecond is over. More of them pass meanwhile.
        while left_ms is not None and left_ms < 0:
            page = await self._store.list_expired_tickets(PAGE + len(seen))
            unseen = [ticket for ticket in page if ticket.ticket_id not in seen]
            if not unseen:
                # Only tickets are left that could not be decided.
                break
            for tickets in _group_by_workflow(unseen):
                decided += await self._expire(tickets)
            # Tickets that are still open come first again: skip them.
            seen = {ticket.ticket_id for ticket in page}
            left_ms = await self._store.find_next_deadline()
        self._expect(left_ms)
        return decided

    def _expect(self, left_ms: int | None) -> None:
        """Keep when the next deadline is; one that could not be met waits for the next sweep."""
        now = self._services.clock.now_ms()
        self._due_ms = None if left_ms is None or left_ms < 0 else now + left_ms

    def _note_deadline(self, due_ms: int) -> None:
        if self._due_ms is None or due_ms < self._due_ms:
            self._due_ms = due_ms
            self._nudge.set()

    def _hear(self, signal: Signal) -> None:
        if signal.kind is SignalKind.DEADLINE_SET:
            # Soon, not at once: many deadlines are one look.
            self._note_deadline(self._services.clock.now_ms() + LOOK_MS)

    def _wake_up(self) -> None:
        self._wake.set()
        self._nudge.set()

    async def fill_columns(self) -> None:
        """Make runs that an earlier version wrote known to all filters of lists, in slices."""
        while await self._store.fill_run_columns(COUNT_PAGE) == COUNT_PAGE:
            pass

    async def count_usage(self) -> None:
        """Add the runs that have ended to the usage of their days, in slices."""
        while await self._store.count_usage(COUNT_PAGE) == COUNT_PAGE:
            pass

    async def purge(self) -> None:
        """Remove records that ended or were given up before the retention period."""
        if self._config.retention_ms is None:
            return
        before = await self._store.now_ms() - self._config.retention_ms
        kept = {} if self._chores.find_kept is None else await self._chores.find_kept()
        # A store that knows nothing of kept runs is asked as before.
        options = {"kept": kept} if kept else {}
        while not (await self._store.purge(before, PURGE_PAGE, **options)).is_empty:
            pass

    async def _sweep_until_stopped(self) -> None:
        while not self._stopped.is_set():
            self._wake.clear()
            await self.sweep()
            end = asyncio.get_running_loop().time() + self._config.sweep_ms / 1000
            # A released agent's runs go on at once; `stop` cancels this task.
            while not self._wake.is_set() and await self._meet_deadline(end):
                pass

    async def _meet_deadline(self, end: float) -> bool:
        """Wait for the next deadline and meet it; False when it is time for a whole sweep."""
        loop, due_ms = asyncio.get_running_loop(), self._due_ms
        until = end
        if due_ms is not None:
            left_ms = due_ms + 1 - self._services.clock.now_ms()
            until = min(end, loop.time() + max(self._least_ms, left_ms) / 1000)
        if not (self._hears_others and self._services.bus.is_up):
            # A process that has written the next deadline may be gone by then.
            until = min(until, loop.time() + LOOK_MS / 1000)
        self._nudge.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._nudge.wait()
                return True
        if until == end:
            # By the moment, not by the time: a loop may fire slightly early.
            return False
        before, self._due_ms = self._due_ms, None
        await _run_stage(self.expire_tickets, self._outages[self.expire_tickets])
        # The store's clock may be behind this one: it is not asked again and again.
        self._least_ms = LEAST_MS if self._due_ms == before else 0
        return True

    async def _expire(self, tickets: Sequence[Ticket]) -> int:
        """Decide tickets of one run, in one write if that is possible; returns how many."""
        now = self._services.clock.now_ms()
        try:
            await self._decider.decide(
                [(it.ticket_id, _decision_at_deadline(it, now)) for it in tickets]
            )
        except Exception as error:
            if len(tickets) > 1:
                # One of them must not hold the others up.
                return sum([await self._expire((it,)) for it in tickets])
            # Unless a person or another node was faster.
            if not isinstance(error, AlreadyDecided):
                logger.exception("Ticket '%s' could not be decided.", tickets[0].ticket_id)
            return 0
        return len(tickets)

    async def _purge_if_due(self) -> None:
        now = self._services.clock.monotonic_ms()
        if self._purged_at is None or now - self._purged_at >= self._config.purge_ms:
            await self.purge()
            self._purged_at = now


async def _run_stage(stage: Callable[[], Awaitable[object]], outage: Outage) -> None:
    try:
        await stage()
    except Exception as error:  # noqa: BLE001 - logged there, and tried again
        outage.record_failure(error)
    else:
        outage.record_success()


def _group_by_workflow(tickets: Sequence[Ticket]) -> list[list[Ticket]]:
    """Return tickets in groups that are decided together: timers of one run of a workflow.

    The run is entered once for all of them, and not once for each.
    """
    groups: dict[str, list[Ticket]] = {}
    for ticket in tickets:
        is_step = ticket.suspension.action.startswith("workflow:")
        groups.setdefault(ticket.run_id if is_step else ticket.ticket_id, []).append(ticket)
    return list(groups.values())


def _decision_at_deadline(ticket: Ticket, now_ms: int) -> ToolCallResume:
    """Return the decision that a ticket prescribes for a missed deadline."""
    return ToolCallResume(
        decision_id=expiry_id(ticket.ticket_id),
        action=ticket.on_expiry,
        reason="The deadline passed.",
        decided_by=DEADLINE,
        updated_at=now_ms,
    )
