"""A worker: claims dispatches and lets the engine execute them.

It decides when to claim, and what happens to a dispatch that could not be executed. The engine
executes the run and commits its end together with the end of its dispatch.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from contextvars import Context

import msgspec

from awaken.authoring.functions import is_interruption
from awaken.contracts.errors import LeaseLost, ThreadBusy
from awaken.contracts.lifecycle import Cancelled
from awaken.contracts.storage.bus import Signal, SignalKind, Unsubscribe
from awaken.contracts.storage.dispatch import InputMode, RunDispatch
from awaken.runtime.admission.active_runs import ActiveRun
from awaken.runtime.engine import RunEngine
from awaken.runtime.journal.leases import Lease, RunHandedOver
from awaken.runtime.suspension.dispatch_plan import is_own
from awaken.runtime.switches import NO_SWITCHES, CompiledSwitches

from .failures import Failures
from .heartbeat import Heartbeat
from .held_runs import RefuseRun, refuse_alone
from .mailbox import INTERRUPT, Mailbox
from .outages import Outage

logger = logging.getLogger(__name__)

_SETTLE_MS = 5_000
"""How long a stopping worker waits for the tasks of runs that were given back."""
_ROUNDS = 3
"""How often it closes the engine: a dispatch may enter the engine while it is closed."""


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
        worker_id: str,
        randomness: Callable[[], float] = random.random,
        refuse: RefuseRun = refuse_alone,
    ) -> None:
        self._engine = engine
        self._services = mailbox.services
        self._config = mailbox.services.config
        self._heartbeat = heartbeat
        self._worker_id = worker_id
        self._failures = Failures(engine, mailbox.services, randomness, refuse)
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._claiming: asyncio.Task[None] | None = None
        self._unsubscribe: Unsubscribe | None = None
        self._unwatch: Callable[[], None] | None = None
        self._is_stopping = False
        self._all_agents_at: int | None = None
        """When the worker last claimed for all agents, not only for its own."""
        self._stopping = asyncio.Lock()

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
            self._unsubscribe = self._services.bus.subscribe(self._handle_signal)
            self._unwatch = self._engine.services.switches.watch(self._wake.set)
            # A run belongs to the trace of its request, not to the trace that started the worker.
            self._claiming = asyncio.create_task(
                self._claim_until_stopped(), name="claim loop", context=Context()
            )

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
        if self._unsubscribe is not None:
            self._unsubscribe()
        if self._unwatch is not None:
            self._unwatch()
        # Wait for a claim in progress: otherwise its dispatches would not be given back.
        await _wait_for({claiming}, max(self._config.drain_ms, _SETTLE_MS))
        claiming.cancel()
        await _wait_for(self._tasks, self._config.drain_ms)
        for _ in range(_ROUNDS):
            await self._engine.close()
            await _wait_for(self._tasks, _SETTLE_MS // _ROUNDS)
        for task in self._tasks:
            task.cancel()
        await _wait_for({claiming, *self._tasks}, _SETTLE_MS)

    def _handle_signal(self, signal: Signal) -> None:
        if signal.kind is SignalKind.DISPATCH_QUEUED:
            self._wake.set()

    async def _claim_until_stopped(self) -> None:
        config = self._config
        outage = Outage("Claiming work", config.poll_ms, config.retry_cap_ms, logger)
        while not self._is_stopping:
            pause = config.poll_ms
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
        self._wake.clear()
        room = self._config.concurrency - len(self._tasks)
        if room <= 0 or self._switched.is_all_paused:
            return False
        token = self._services.ids.new_id()
        store, engine = self._services.store, self._engine
        with self._services.time_operation("claim"):
            claimed = await store.claim(
                self._worker_id, token, self._config.lease_ms, limit=room, agents=self._agents()
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
            task.add_done_callback(self._finish_task)
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
        now = self._services.clock.monotonic_ms()
        if self._all_agents_at is None or now - self._all_agents_at >= self._config.sweep_ms:
            self._all_agents_at = now
            return None
        snapshot, switched = self._engine.registry.snapshot(), self._switched
        known = snapshot.registries.agents
        served = tuple(known) if snapshot.layer is None else self._engine.registry.served_agents()
        if switched is NO_SWITCHES:
            return served
        return tuple(it for it in served if not switched.is_paused(it))

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
        clock, outcome = self._services.clock, "acked"
        started = clock.now_ms()
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
        self._services.send_signal(SignalKind.RUN_CHANGED, dispatch.thread_id, dispatch.run_id)

    async def _deliver(self, dispatch: RunDispatch) -> None:
        if self._is_stopping:
            await self._failures.give_back(dispatch)
            return
        assert dispatch.claim_token is not None
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

    def _finish_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("A dispatch ended with an unexpected error.", exc_info=error)
        # There is room now, and the thread may have more dispatches.
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
