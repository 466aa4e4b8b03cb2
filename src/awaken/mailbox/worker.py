"""A worker: claims dispatches and lets the engine execute them.

It decides when to claim, and what happens to a dispatch that could not be executed. The engine
executes the run and commits its end together with the end of its dispatch.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.contracts.errors import LeaseLost, ThreadBusy
from awaken.contracts.lifecycle import Cancelled
from awaken.contracts.storage.bus import Signal, SignalKind
from awaken.contracts.storage.dispatch import InputMode, RunDispatch
from awaken.runtime.admission.active_runs import ActiveRun
from awaken.runtime.engine import RunEngine
from awaken.runtime.journal.leases import Lease, RunHandedOver
from awaken.runtime.suspension.dispatch_plan import is_own
from awaken.runtime.switches import NO_SWITCHES, CompiledSwitches

from .config import limit_outage_pause
from .failures import Failures
from .heartbeat import Heartbeat
from .held_runs import RefuseRun, refuse_alone
from .mailbox import INTERRUPT, Mailbox
from .outages import Outage

if TYPE_CHECKING:
    # A process that shares no store needs nothing of it.
    from awaken.contracts.storage.nodes import Survey

    from .claim_pressure import ClaimPressure

logger = logging.getLogger(__name__)

_SETTLE_MS = 5_000
"""How long a stopping worker waits for the tasks of runs that were given back."""
_ROUNDS = 3
"""How often it closes the engine: a dispatch may enter the engine while it is closed."""


_SWEEPS_BETWEEN = 5
_QUIET_LOOKS = 3
"""After so many looks in vain a node looks half as often, while the bus works and wakes it."""


class Worker:
    """Executes queued dispatches, at most `concurrency` runs at once.

    A signal starts work; without one the worker looks every `poll_ms`. It waits for a store that
    is unavailable. If it cannot finish a dispatch, the lease runs out and another worker takes
    over.
    """

    def __init__(
        self,
        engine: RunEngine,
        mailbox: Mailbox,
        heartbeat: Heartbeat,
        *,
        randomness: Callable[[], float] = random.random,
        refuse: RefuseRun = refuse_alone,
    ) -> None:
        self._engine = engine
        self._services = mailbox.services
        self._config = mailbox.services.config
        self._heartbeat = heartbeat
        self._randomness = randomness
        self.served: tuple[str, ...] | None = None
        """The agents that it claimed for lately; None: any."""
        self._failures = Failures(engine, mailbox.services, randomness, refuse)
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._claiming: asyncio.Task[None] | None = None
        self._stops: list[Callable[[], object]] = []
        """Each ends something that the worker listens to."""
        self._is_stopping = False
        self._all_agents_at: int | None = None
        """When the worker last claimed for all agents, not only for its own."""
        self._stopping = asyncio.Lock()
        self._quiet_looks = 0
        """How many looks in a row were not asked for and found nothing."""
        self._due_at: int | None = None
        """When input is due that waits for a time, by the monotonic clock; None: unknown."""
        self._pressure: ClaimPressure | None = None
        """Whether this process can take on more; None unless it is a node."""
        self._watching: asyncio.Task[None] | None = None
        """Measures the pressure, from the start until the worker stops."""

    @property
    def is_stopping(self) -> bool:
        """Whether it claims nothing any more."""
        return self._is_stopping

    @property
    def slots(self) -> int:
        """How many dispatches it executes at once: half of `concurrency` under pressure."""
        slots = self._config.concurrency
        return slots if self._pressure is None else self._pressure.limit_slots(slots)

    @property
    def in_flight(self) -> int:
        """The number of dispatches that are being executed."""
        return len(self._tasks)

    async def run(self) -> None:
        """Work until `stop` is called or this is cancelled; all dispatches are then given back."""
        self.start()
        assert self._claiming is not None
        try:
            await asyncio.shield(self._claiming)
        finally:
            await self.stop()

    def start(self) -> None:
        """Begin to work; calling it twice is harmless."""
        if self._claiming is None:
            self._is_stopping = False
            self._stops += [
                self._services.bus.subscribe(self._handle_signal),
                self._engine.services.switches.watch(self._wake.set),
            ]
            if self._services.nodes is not None:
                watchers = self._services.nodes.watchers
                watchers.append(self._take_survey)
                self._stops.append(partial(watchers.remove, self._take_survey))
                self._watch_pressure()
            # A run belongs to the trace of its request, not to the trace that started the worker.
            self._claiming = asyncio.create_task(
                self._claim_until_stopped(), name="claim loop", context=Context()
            )

    def look_soon(self) -> None:
        """Look for work now, not only when it is time."""
        self._wake.set()

    def stop_claiming(self) -> None:
        """Claim nothing new; executing runs continue until `stop`."""
        self._is_stopping = True
        self._wake.set()

    async def stop(self) -> None:
        """Stop claiming, wait `drain_ms` for runs to end, then give back the rest uncharged.

        Call it before the store is closed.
        """
        self.stop_claiming()
        async with self._stopping:
            if self._claiming is not None:
                await self._drain(self._claiming)
                self._claiming = None

    async def _drain(self, claiming: asyncio.Task[None]) -> None:
        stops, self._stops = self._stops, []
        for stop in stops:
            stop()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})
        clock = self._services.clock
        ends_at = clock.monotonic_ms() + self._config.drain_ms
        # Wait for a claim in progress: otherwise its dispatches would not be given back.
        await _wait_for({claiming}, max(self._config.drain_ms, _SETTLE_MS))
        claiming.cancel()
        # One that hangs in the store must not make the drain twice as long.
        await _wait_for(self._tasks, max(0, ends_at - clock.monotonic_ms()))
        for _ in range(_ROUNDS):
            await self._engine.close()
            await _wait_for(self._tasks, _SETTLE_MS // _ROUNDS)
        for task in self._tasks:
            task.cancel()
        await _wait_for({claiming, *self._tasks}, _SETTLE_MS)

    def _watch_pressure(self) -> None:
        from awaken.contracts.storage.inspection import WatchedStore  # noqa: PLC0415

        from .claim_pressure import ClaimPressure  # noqa: PLC0415

        pressure = self._pressure = ClaimPressure(self._services.clock, self._wake.set)
        self._watching = asyncio.create_task(pressure.watch(), name="claim pressure")
        if isinstance(self._services.store, WatchedStore):
            watchers = self._services.store.watchers
            watchers.append(pressure)
            self._stops.append(partial(watchers.remove, pressure))

    def _handle_signal(self, signal: Signal) -> None:
        if signal.kind is SignalKind.DISPATCH_QUEUED:
            self._wake.set()

    async def _claim_until_stopped(self) -> None:
        config = self._config
        cap_ms = limit_outage_pause(config, has_nodes=self._services.nodes is not None)
        outage = Outage("Claiming work", min(config.poll_ms, cap_ms), cap_ms, logger)
        while not self._is_stopping:
            pause = self._choose_pause()
            try:
                is_more_likely = await self._claim()
                outage.record_success()
            except Exception as error:  # noqa: BLE001 - logged there, and tried again
                is_more_likely, pause = False, outage.record_failure(error)
            if not is_more_likely:
                await self._sleep(pause)

    async def _claim(self) -> bool:
        """Claim as many dispatches as there is room for; returns whether to claim again at once."""
        # Cleared before the store is asked: a signal that comes meanwhile must not be lost.
        self._quiet_looks = 0 if self._wake.is_set() else self._quiet_looks + 1
        self._wake.clear()
        room = self.slots - len(self._tasks)
        if room <= 0 or self._switched.is_all_paused:
            return False
        if self._pressure is not None and self._pressure.is_pool_exhausted:
            # Runs that execute need the connections; the worker is woken when they have them.
            return False
        if self._services.nodes is not None:
            # Half of it: other nodes have room as well, and the rest is claimed right after.
            room = (room + 1) // 2
        # Its terms are those of a run that is started here: by whom, and for how long.
        lease = self._heartbeat.open("")
        assert lease.claim is not None
        by, lease_ms = lease.claim.worker_id, lease.claim.lease_ms
        store, engine = self._services.store, self._engine
        with self._services.time_operation("claim"):
            claimed = await store.claim(
                by,
                lease.token,
                lease_ms,
                limit=room,
                agents=self._agents(),
                tenants=self._config.tenants,
            )
        is_begun = False
        for dispatch in map(self._limit_attempts, claimed):
            if not store.is_shared and engine.active.of_thread(dispatch.thread_id) is not None:
                # A run that was started in this process holds no claim in an unshared store.
                await self._failures.give_back(dispatch)
                continue
            name = f"dispatch {dispatch.dispatch_id}"
            is_begun = True
            task = asyncio.create_task(self._execute(dispatch), name=name)
            self._tasks.add(task)
            task.add_done_callback(partial(self._finish_task, dispatch.thread_id))
        # A dispatch that was given back is due again: claiming at once would find it for ever.
        return is_begun and len(claimed) == room

    def _limit_attempts(self, dispatch: RunDispatch) -> RunDispatch:
        """Return a dispatch with its limit of attempts; one that the store made has none yet."""
        if not dispatch.is_recovery:
            return dispatch
        return msgspec.structs.replace(dispatch, max_attempts=self._config.max_attempts)

    def _agents(self) -> tuple[str, ...] | None:
        """Return the agents to claim for: those registered here, or None for all.

        Every `sweep_ms` it is all agents, so that a dispatch whose agent no worker serves does not
        wait for ever. With a resolver it is always all: only the resolver knows its agents.
        Dispatches of paused agents stay where they are.
        """
        if self._engine.registry.host is not None:
            return None
        now, pause = self._services.clock.monotonic_ms(), self._config.sweep_ms
        if self._services.nodes is not None:
            # Nodes sweep often, and others may serve the agents that this one does not have.
            pause *= _SWEEPS_BETWEEN
        self.served = self._list_served()
        if self._all_agents_at is None or now - self._all_agents_at >= pause:
            self._all_agents_at = now
            return None
        return self.served

    def _list_served(self) -> tuple[str, ...]:
        registry, switched = self._engine.registry, self._switched
        # Drafts are tried before anything is published: their publications have agents as well.
        is_managed = registry.publications is not None or registry.snapshot().layer is not None
        known = registry.snapshot().registries.agents
        served = registry.served_agents() if is_managed else tuple(known)
        if switched is NO_SWITCHES:
            return served
        return tuple(it for it in served if not switched.is_paused(it))

    def _choose_pause(self) -> int:
        """Return how long to wait for a signal; nodes do not look at the same moment."""
        poll_ms, nodes = self._config.poll_ms, self._services.nodes
        if nodes is None:
            return poll_ms
        if self._quiet_looks >= _QUIET_LOOKS and nodes.hears_others():
            # Signals bring input, and surveys what waits for a time: looks are for lost signals.
            pause_ms = int(2 * poll_ms * (0.75 + self._randomness() / 2))
        else:
            pause_ms = int(poll_ms * (0.5 + self._randomness()))
        left_ms = pause_ms
        if self._due_at is not None:
            left_ms = self._due_at - self._services.clock.monotonic_ms()
        if left_ms <= 0:
            # The look that follows finds it, unless it is for others.
            self._due_at = None
            return pause_ms
        return min(pause_ms, left_ms)

    def _take_survey(self, survey: "Survey") -> None:
        """Look when input is due that waits for a time; regular looks find what is overdue."""
        due_ms = survey.due_ms
        if due_ms is not None and 0 < due_ms <= self._config.sweep_ms:
            self._due_at = self._services.clock.monotonic_ms() + due_ms
            self._wake.set()

    @property
    def _switched(self) -> CompiledSwitches:
        return self._engine.services.switches.current

    async def _sleep(self, pause_ms: int) -> None:
        if self._is_stopping:
            return
        try:
            async with asyncio.timeout(pause_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _execute(self, dispatch: RunDispatch) -> None:
        clock, outcome, nodes = self._services.clock, "acked", self._services.nodes
        started = clock.now_ms()
        if nodes is not None:
            nodes.told_rests[dispatch.thread_id] = False
        try:
            await self._deliver(dispatch)
        except (LeaseLost, RunHandedOver) as error:
            # Another worker has the thread, or will have it. Nothing is left to do here.
            outcome = "left"
            logger.info("Dispatch '%s' continues elsewhere: %s", dispatch.dispatch_id, error)
        except BaseException as error:  # logged there, and must not end the worker
            if is_interruption(error):
                raise
            outcome = "failed"
            await self._failures.settle(dispatch, error, is_stopping=self._is_stopping)
        for watcher in self._services.watchers:
            watcher.on_delivery(dispatch, outcome, started, clock.now_ms())
        is_told = nodes is not None and nodes.told_rests.pop(dispatch.thread_id, False)
        if not is_told or outcome != "acked":
            self._services.send_signal(SignalKind.RUN_CHANGED, dispatch.thread_id, dispatch.run_id)

    async def _deliver(self, dispatch: RunDispatch) -> None:
        if self._is_stopping:
            await self._failures.give_back(dispatch)
            return
        assert dispatch.claim_token is not None
        for watcher in self._services.watchers:
            watcher.on_start(dispatch, self._services.clock.now_ms())
        lease = Lease(dispatch.claim_token, dispatch_id=dispatch.dispatch_id)
        # Watched from now on, not only once the engine has started the run.
        self._heartbeat.watch(lease, _Executing(self._engine, dispatch))
        try:
            if dispatch.mode is InputMode.INTERRUPT:
                await self._make_way(dispatch)
            await self._engine.execute(dispatch)
        except ThreadBusy:
            # A run was just started in this process; its first commit finds the thread claimed.
            await self._failures.give_back(dispatch, self._config.poll_ms)
        finally:
            self._heartbeat.forget(lease)

    async def _make_way(self, dispatch: RunDispatch) -> None:
        """End the run that an interrupt found on its thread, if it is still open.

        A workflow that began since then takes the input as an event.
        """
        run = await self._services.load_open_run(dispatch.thread_id)
        if run is not None and not (run.is_workflow or is_own(run, dispatch)):
            await self._engine.endings.end(
                dispatch.thread_id, Cancelled(cause=INTERRUPT), token=dispatch.claim_token
            )

    def _finish_task(self, thread_id: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("A dispatch ended with an unexpected error.", exc_info=error)
        is_full = len(self._tasks) + 1 >= self.slots
        if is_full or self._services.may_have_next(thread_id):
            # There is room now, and the thread or its tenant may have more dispatches.
            self._wake.set()


class _Executing:
    """The lease holder for a dispatch of this worker, from its claim on."""

    def __init__(self, engine: RunEngine, dispatch: RunDispatch) -> None:
        self._engine = engine
        self._dispatch = dispatch

    def lease_lost(self) -> None:
        """Stop the run if it has started; otherwise its first commit is refused."""
        if (active := self._run()) is not None:
            active.lease_lost()

    def cancel(self, cause: str) -> None:
        """Cancel the run if it has started; otherwise the next heartbeat tries again."""
        if (active := self._run()) is not None:
            active.cancel(cause)

    def notify_input(self) -> None:
        """Let the run take in input, if it has started."""
        if (active := self._run()) is not None:
            active.notify_input()

    def _run(self) -> ActiveRun | None:
        active = self._engine.active.of_thread(self._dispatch.thread_id)
        if active is None or active.lease is None:
            return None
        return active if active.lease.token == self._dispatch.claim_token else None


async def _wait_for(tasks: set[asyncio.Task[None]], timeout_ms: int) -> None:
    if tasks:
        await asyncio.wait(tasks, timeout=timeout_ms / 1000)
