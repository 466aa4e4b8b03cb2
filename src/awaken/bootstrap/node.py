"""One process among those that share a store: its mailbox, its leases and its worker."""

import importlib
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import msgspec

from awaken.buses.memory import MemoryBus
from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.storage.bus import Bus
from awaken.contracts.storage.store import Store
from awaken.mailbox.config import MailboxConfig
from awaken.mailbox.heartbeat import Heartbeat
from awaken.mailbox.mailbox import Mailbox
from awaken.runtime.engine import RunEngine
from awaken.runtime.journal.leases import LeaseBook

if TYPE_CHECKING:
    from awaken.mailbox.run_signals import RunSignals
    from awaken.mailbox.sweeper import Sweeper, SweeperChores
    from awaken.mailbox.worker import Worker
    from awaken.services.remote_runs import FrameExchange

HEARD_MS = 1_000
"""The longest delay of a cancel or of input from a process that cannot signal this one."""


class Node:
    """The durable parts of a runtime besides its engine.

    When it is open, it can send input and control runs of every process. With a worker it also
    executes queued work, and takes over runs whose process died.
    """

    def __init__(
        self, store: Store, clock: Clock, ids: IdSource, config: MailboxConfig, bus: Bus | None
    ) -> None:
        self.store = store
        self.bus = bus or bus_of(store)
        if store.is_shared and isinstance(self.bus, MemoryBus):
            # No signal of another process arrives: its commands are found at a lease renewal.
            config = msgspec.structs.replace(config, renew_ms=min(config.renew_ms, HEARD_MS))
        self.mailbox = Mailbox(store, self.bus, clock, ids, config)
        self.address = os.urandom(6).hex()
        """Where other processes reach this one; its claims name it (`find_address`)."""
        # Host and pid are for people; the address distinguishes processes with equal pids.
        self.worker_id = name = f"{socket.gethostname()}:{os.getpid()}:{self.address}"
        if store.is_shared:
            # Imported on demand, as the worker below: a runtime in memory may need none of it.
            from .process_marks import mark_worker  # noqa: PLC0415

            self.worker_id = mark_worker(name)
        self._heartbeat = Heartbeat(store, clock, ids, config, self.worker_id)
        self.make_chores: Callable[[], SweeperChores] | None = None
        """Makes what the sweeper does besides; set before a worker starts."""
        self.refuse_run: Callable[[str], Awaitable[bool]] | None = None
        """Notes that this process cannot continue a run; None: it is the only process."""
        self._is_bus_own = bus is None and isinstance(self.bus, MemoryBus)
        self._clock = clock
        self._signals: RunSignals | None = None
        self.frames: FrameExchange | None = None
        """The live events between processes; None if there is no way to others."""
        self._sweeper: Sweeper | None = None
        self._worker: Worker | None = None

    @property
    def leases(self) -> LeaseBook | None:
        """Renews the leases of this process; None when no other process can see the store."""
        return self._heartbeat if self.store.is_shared else None

    @property
    def worker(self) -> "Worker | None":
        """The worker, if it was started."""
        return self._worker

    def connect_runs(self, engine: RunEngine) -> None:
        """Connect the runs of an engine with the processes that share the store, once opened."""
        if self.store.is_shared:
            from awaken.mailbox.run_signals import RunSignals  # noqa: PLC0415

            # A bus in memory that nobody else has reaches no other process.
            tells = not self._is_bus_own
            self._signals = RunSignals(
                engine, self.bus, self._heartbeat, tells=tells, address=self.address
            )
            frame_ms = self.mailbox.services.config.frame_ms
            if tells and frame_ms:
                from awaken.services.remote_runs import FrameExchange  # noqa: PLC0415

                self.frames = FrameExchange(
                    engine, self.bus, self.store, self._clock, self.address, frame_ms
                )

    async def open(self) -> None:
        """Connect to the store and to the other processes."""
        await self.store.open()
        if self.frames is not None:
            # First: the bus then listens to the address of this node from the start.
            self.frames.open()
        try:
            await self.bus.open()
        except BaseException:
            await self.store.close()
            raise
        if self._signals is not None:
            self._signals.open()

    def start_worker(self, engine: RunEngine) -> None:
        """Start to execute queued work; idempotent."""
        if self._worker is None:
            from awaken.mailbox.held_runs import refuse_alone  # noqa: PLC0415
            from awaken.mailbox.sweeper import Sweeper  # noqa: PLC0415
            from awaken.mailbox.worker import Worker  # noqa: PLC0415

            from .process_marks import is_gone  # noqa: PLC0415

            chores = None if self.make_chores is None else self.make_chores()
            self._sweeper = self._sweeper or Sweeper(
                self.mailbox,
                is_gone,
                engine.services.switches,
                chores,
                engine.services.deadlines,
            )
            self._worker = Worker(
                engine,
                self.mailbox,
                self._heartbeat,
                worker_id=self.worker_id,
                refuse=self.refuse_run or refuse_alone,
            )
            if self._signals is None:
                from awaken.mailbox.run_signals import RunSignals  # noqa: PLC0415

                # In memory too: runs that execute hear what the sweeper decides.
                self._signals = RunSignals(engine, self.bus, self._heartbeat, tells=False)
                self._signals.open()
            self._worker.start()
            self._sweeper.start()

    def stop_claiming(self) -> None:
        """Claim no more queued work; other workers will."""
        if self._worker is not None:
            self._worker.stop_claiming()

    async def close(self, stop_runs: Callable[[], Awaitable[None]] | None = None) -> None:
        """Stop claiming, drain, release what is left, then close everything."""
        async with AsyncExitStack() as last_first:
            last_first.push_async_callback(self.store.close)
            last_first.push_async_callback(self.bus.close)
            last_first.push_async_callback(self._heartbeat.close)
            if self.frames is not None:
                last_first.push_async_callback(self.frames.close)
            if self._signals is not None:
                # Heard until the last run has stopped: a cancel reaches what is still draining.
                last_first.callback(self._signals.close)
            if stop_runs is not None:
                last_first.push_async_callback(stop_runs)
            if self._worker is not None:
                worker, self._worker = self._worker, None
                last_first.push_async_callback(worker.stop)
            if self._sweeper is not None:
                last_first.push_async_callback(self._sweeper.stop)


def bus_of(store: Store) -> Bus:
    """Make the bus between the processes of a store; without one, processes poll the store."""
    if store.name.startswith("postgresql:"):
        # Imported on demand: most users have no Postgres driver.
        module = importlib.import_module("awaken.buses.postgres")
        bus: Bus = module.PostgresBus(store.url)  # type: ignore[attr-defined]
        return bus
    return MemoryBus()
