"""One process of a simulation: engine, worker, sweeper and outbox relay on a virtual event loop.

Unlike a real node it renews its leases with timers of the loop, because an operating-system thread
would run in real time.
"""

import asyncio
from collections.abc import Callable, Sequence

from awaken.buses.memory import MemoryBus
from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.errors import StoreUnavailable
from awaken.contracts.storage.bus import Bus
from awaken.contracts.storage.store import Store
from awaken.mailbox.config import MailboxConfig
from awaken.mailbox.heartbeat import Heartbeat
from awaken.mailbox.mailbox import Mailbox
from awaken.mailbox.run_signals import RunSignals
from awaken.mailbox.sweeper import Sweeper
from awaken.mailbox.worker import Worker
from awaken.runtime.engine import RunEngine
from awaken.runtime.journal.leases import Lease, LeaseHolder
from awaken.runtime.limits import Limits, ToolSlots
from awaken.runtime.model_health.health import ModelHealth
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.run import Services
from awaken.services.control import RunControl
from awaken.stores.memory.profiles import MemoryProfileStore
from awaken.stores.memory.store import MemoryStore

from .composition import DeferredWorlds
from .outbox_wiring import EngineMailbox, OutboxWiring

CONFIG = MailboxConfig(poll_ms=10_000, relay_ms=10_000, retention_ms=None, drain_ms=0)


def build_simulated_store(clock: Clock) -> Store:
    """Make a store that outlives the processes of a simulation."""
    return MemoryStore("simulated", clock=clock, is_shared=True)


def build_virtual_store(clock: Clock) -> Store:
    """Make a store of one process, in memory, by a clock of the test."""
    return MemoryStore("virtual", clock=clock)


def build_simulated_bus() -> Bus:
    """Make the bus between the processes of a simulation."""
    return MemoryBus()


def build_simulated_mailbox(store: Store, bus: Bus, clock: Clock, ids: IdSource) -> Mailbox:
    """Make a client of the simulated processes that is in none of them."""
    return Mailbox(store, bus, clock, ids, CONFIG)


class SimulatedNode:
    """Executes queued work, as a worker process does."""

    def __init__(
        self, store: Store, bus: Bus, registry: RegistryHandle, clock: Clock, ids: IdSource
    ) -> None:
        mailbox = build_simulated_mailbox(store, bus, clock, ids)
        services = Services(
            clock=clock,
            ids=ids,
            limits=Limits(),
            tool_slots=ToolSlots(),
            profile=MemoryProfileStore(),
            health=ModelHealth(clock),
        )
        worker_id = ids.new_id()
        self._heartbeat = LoopHeartbeat(store, clock, ids, CONFIG, worker_id)
        mail = EngineMailbox(lambda: self._outbox)
        worlds = DeferredWorlds(store)
        self._engine = RunEngine(store, registry, services, self._heartbeat, mail, worlds)
        self._worker = Worker(
            self._engine,
            mailbox,
            self._heartbeat,
            randomness=lambda: 0.5,
        )
        self._signals = RunSignals(self._engine, bus, self._heartbeat, tells=False)
        self._sweeper = Sweeper(mailbox, deadlines=services.deadlines)
        # What is queued wakes the worker through the bus.
        control = RunControl(self._engine, mailbox, lambda: None)
        self._outbox = OutboxWiring(self._engine, control, mailbox)

    def start(self) -> None:
        """Begin to work."""
        self._signals.open()
        self._worker.start()
        self._sweeper.start()
        self._outbox.open()

    async def stop(self) -> None:
        """Stop as a process does after SIGTERM."""
        await self._sweeper.stop()
        await self._worker.stop()
        await self._engine.close()
        await self._outbox.close()
        self._signals.close()
        await self._heartbeat.close()


class LoopHeartbeat(Heartbeat):
    """Renews leases with timers of the running loop."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: IdSource,
        config: MailboxConfig,
        worker_id: str,
    ) -> None:
        super().__init__(store, clock, ids, config, worker_id)
        self._keeper = store.lease_keeper()
        self._config = config
        self._holders: dict[str, LeaseHolder] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, lease: Lease, run: LeaseHolder) -> None:
        """Renew a lease until it is forgotten."""
        self._holders[lease.token] = run
        if self._timer is None:
            self._beat_in(self._config.renew_ms / 1000)

    def forget(self, lease: Lease) -> None:
        """Stop renewing a lease."""
        self._holders.pop(lease.token, None)
        if not self._holders:
            self.forget_all()

    def look_at(self, lease: Lease) -> None:
        """Renew at once, because a signal says that there may be a cancel or input."""
        if lease.token in self._holders:
            self._beat_in(0)

    async def close(self) -> None:
        """Stop renewing."""
        self.forget_all()

    def forget_all(self) -> None:
        """Stop renewing every lease."""
        self._holders.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._beat_now)

    def _beat_now(self) -> None:
        self._timer = None
        for act in self._collect_actions(tuple(self._holders)):
            act()
        if self._holders:
            self._beat_in(self._config.renew_ms / 1000)

    def _collect_actions(self, tokens: Sequence[str]) -> list[Callable[[], object]]:
        try:
            extensions = self._keeper.extend(tokens, self._config.lease_ms)
        except StoreUnavailable:
            return []
        acts: list[Callable[[], object]] = []
        for item in extensions:
            holder = self._holders.get(item.claim_token)
            if holder is None:
                continue
            if not item.is_held:
                acts.append(holder.lease_lost)
            elif item.cancel_cause is not None:
                acts.append(_make_cancel(holder, item.cancel_cause))
            elif item.has_input:
                acts.append(holder.notify_input)
        return acts


def _make_cancel(holder: LeaseHolder, cause: str) -> Callable[[], object]:
    return lambda: holder.cancel(cause)
