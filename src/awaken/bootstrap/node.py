"""One process among those that share a store: its mailbox, its leases and its worker."""

import importlib
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import msgspec

from awaken.buses.memory import MemoryBus
from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.storage.bus import Bus
from awaken.contracts.storage.store import Store
from awaken.mailbox.config import MailboxConfig
from awaken.mailbox.heartbeat import Heartbeat
from awaken.mailbox.mailbox import Mailbox
from awaken.mailbox.sweeper import Sweeper
from awaken.mailbox.worker import Worker
from awaken.runtime.engine import RunEngine
from awaken.runtime.journal.leases import LeaseBook

from .process_marks import is_gone, mark_worker

HEARD_MS = 1_000
"""How late a run may hear of a cancel or of input from a process that cannot signal it."""


class Node:
    """Everything durable of a runtime besides its engine.

    Opened, it can send input and control runs wherever they execute. With a worker it also
    executes what is queued, and takes over what others left behind.
    """

    def __init__(
        self, store: Store, clock: Clock, ids: IdSource, config: MailboxConfig, bus: Bus | None
    ) -> None:
        self.store = store
        self.bus = bus or bus_of(store)
        if store.is_shared and isinstance(self.bus, MemoryBus):
            # No signal of another process comes through: what it wants is heard with a beat.
            config = msgspec.structs.replace(config, renew_ms=min(config.renew_ms, HEARD_MS))
        self.mailbox = Mailbox(store, self.bus, clock, ids, config)
        # People look for the process; the rest tells those apart that have the same number.
        name = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(3).hex()}"
        self.worker_id = mark_worker(name) if store.is_shared else name
        self._heartbeat = Heartbeat(store, clock, ids, config, self.worker_id)
        self._sweeper = Sweeper(self.mailbox, is_gone)
        self._worker: Worker | None = None

    @property
    def leases(self) -> LeaseBook | None:
        """Keeps the leases of this process; None when nobody else can see the store."""
        return self._heartbeat if self.store.is_shared else None

    @property
    def worker(self) -> Worker | None:
        """The worker, once it was started."""
        return self._worker

    async def open(self) -> None:
        """Connect to the store and to the other processes."""
        await self.store.open()
        try:
            await self.bus.open()
        except BaseException:
            await self.store.close()
            raise

    def start_worker(self, engine: RunEngine) -> None:
        """Begin to execute what is queued; calling it twice is harmless."""
        if self._worker is None:
            self._worker = Worker(engine, self.mailbox, self._heartbeat, worker_id=self.worker_id)
            self._worker.start()
            self._sweeper.start()

    def stop_claiming(self) -> None:
        """Begin nothing new that is queued; others will."""
        if self._worker is not None:
            self._worker.stop_claiming()

    async def close(self, stop_runs: Callable[[], Awaitable[None]] | None = None) -> None:
        """Stop claiming, drain, give back what is left, then let go of everything."""
        async with AsyncExitStack() as last_first:
            last_first.push_async_callback(self.store.close)
            last_first.push_async_callback(self.bus.close)
            last_first.push_async_callback(self._heartbeat.close)
            if stop_runs is not None:
                last_first.push_async_callback(stop_runs)
            if self._worker is not None:
                worker, self._worker = self._worker, None
                last_first.push_async_callback(worker.stop)
            last_first.push_async_callback(self._sweeper.stop)


def bus_of(store: Store) -> Bus:
    """The bus that reaches whoever shares the store; where there is none, polling has to do."""
    if store.name.startswith("postgresql:"):
        # Imported when it is asked for: most users have no Postgres driver.
        module = importlib.import_module("awaken.buses.postgres")
        bus: Bus = module.PostgresBus(store.url)  # type: ignore[attr-defined]
        return bus
    return MemoryBus()
