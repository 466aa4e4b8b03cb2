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
from awaken.contracts.errors import InvalidInput
from awaken.contracts.storage.bus import Bus, Unsubscribe
from awaken.contracts.storage.store import Store
from awaken.mailbox.config import MailboxConfig, choose_times
from awaken.mailbox.heartbeat import Heartbeat
from awaken.mailbox.mailbox import Mailbox
from awaken.runtime.engine import RunEngine
from awaken.runtime.journal.leases import LeaseBook

if TYPE_CHECKING:
    from awaken.contracts.storage.nodes import NodeStore
    from awaken.mailbox.node_heartbeat import NodeHeartbeat
    from awaken.mailbox.run_signals import RunSignals
    from awaken.mailbox.sweeper import Sweeper, SweeperChores
    from awaken.mailbox.worker import Worker
    from awaken.services.remote_runs import FrameExchange

NO_BUS = "none"
"""As a URL: no signals between processes, which then find everything by polling the store."""
KNOWN_BUSES = (
    "known: nats://user:password@one:4222,two:4222 (tls://… to insist on TLS), "
    f"{NO_BUS} (processes poll), or no bus at all: that of the store"
)
HEARD_MS = 1_000
"""The longest delay of a cancel or of input from a process that cannot signal this one."""


class Node:
    """The durable parts of a runtime besides its engine.

    When it is open, it can send input and control runs of every process. With a worker it also
    executes queued work, and takes over runs whose process died.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: IdSource,
        config: MailboxConfig,
        bus: Bus | str | None,
    ) -> None:
        self.store = store
        self.bus = resolve_bus(bus, store)
        nodes = _find_nodes(store)
        config = choose_times(config, has_nodes=nodes is not None)
        if store.is_shared and isinstance(self.bus, MemoryBus):
            # No signal of another process arrives: its commands are found at a lease renewal.
            config = msgspec.structs.replace(config, renew_ms=min(config.renew_ms, HEARD_MS))
        self.address = os.urandom(6).hex()
        """Where other processes reach this one; its claims name it (`find_address`)."""
        self.kind = "runtime"
        """What this process is for operators; set before it is opened."""
        self.worker_id = self._make_id(1)
        """Whom the first claims name; a node that was declared over gets another."""
        self._worker: Worker | None = None
        self._heartbeat: Heartbeat
        self._node: NodeHeartbeat | None = None
        if nodes is not None:
            self._heartbeat = self._node = self._make_node(nodes, clock, ids, config)
        else:
            self._heartbeat = Heartbeat(store, clock, ids, config, self.worker_id)
        directory = None if self._node is None else self._node.directory
        if directory is not None:
            # A bus in memory reaches no other process.
            directory.hears_others = lambda: self.bus.is_up and not isinstance(self.bus, MemoryBus)
        self.mailbox = Mailbox(store, self.bus, clock, ids, config, directory)
        self.make_chores: Callable[[], SweeperChores] | None = None
        """Makes what the sweeper does besides; set before a worker starts."""
        self.refuse_run: Callable[[str], Awaitable[bool]] | None = None
        """Notes that this process cannot continue a run; None: it is the only process."""
        self._is_bus_own = bus is not self.bus and isinstance(self.bus, MemoryBus)
        self._clock = clock
        self._signals: RunSignals | None = None
        self.frames: FrameExchange | None = None
        """The live events between processes; None if there is no way to others."""
        self._sweeper: Sweeper | None = None
        self._stop_receiving: Unsubscribe | None = None

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
            nodes = self.mailbox.services.nodes
            self._signals = RunSignals(
                engine,
                self.bus,
                self._heartbeat,
                tells=tells,
                address=self.address,
                told_rests=None if nodes is None else nodes.told_rests,
                on_rest=None if nodes is None else self._fill_place,
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
        if self._node is not None:
            # Signals to this node arrive, with or without live events.
            self._stop_receiving = self.bus.receive(self.address, _ignore_packet)
        try:
            await self.bus.open()
            if self._node is not None:
                await self._node.begin()
        except BaseException:
            await self.bus.close()
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
                hears_others=not (self.store.is_shared and self._is_bus_own),
            )
            self._worker = Worker(
                engine,
                self.mailbox,
                self._heartbeat,
                refuse=self.refuse_run or refuse_alone,
            )
            if self._signals is None:
                from awaken.mailbox.run_signals import RunSignals  # noqa: PLC0415

                # In memory too: runs that execute hear what the sweeper decides.
                self._signals = RunSignals(engine, self.bus, self._heartbeat, tells=False)
                self._signals.open()
            self._worker.start()
            self._sweeper.start()
            self._beat_soon()

    def _fill_place(self, thread_id: str) -> None:
        """Have claimed what may have waited for the run of a caller that rests now."""
        services = self.mailbox.services
        if not services.may_have_next(thread_id):
            return
        if self._worker is None or self._worker.is_stopping:
            services.wake_any(thread_id)
        else:
            self._worker.look_soon()

    def stop_claiming(self) -> None:
        """Claim no more queued work; other workers will."""
        if self._worker is not None:
            self._worker.stop_claiming()
            self._beat_soon()

    def _beat_soon(self) -> None:
        if self._node is not None:
            self._node.beat_soon()

    async def close(self, stop_runs: Callable[[], Awaitable[None]] | None = None) -> None:
        """Stop claiming, drain, release what is left, then close everything."""
        async with AsyncExitStack() as last_first:
            last_first.push_async_callback(self.store.close)
            last_first.push_async_callback(self.bus.close)
            last_first.push_async_callback(self._heartbeat.close)
            if self._stop_receiving is not None:
                last_first.callback(self._stop_receiving)
            if self.frames is not None:
                last_first.push_async_callback(self.frames.close)
            if self._signals is not None:
                # Heard until the last run has stopped: a cancel reaches what is still draining.
                last_first.callback(self._signals.close)
            if self._node is not None:
                last_first.callback(self._pass_on)
            if stop_runs is not None:
                last_first.push_async_callback(stop_runs)
            if self._worker is not None:
                worker, self._worker = self._worker, None
                last_first.push_async_callback(worker.stop)
            if self._sweeper is not None:
                last_first.push_async_callback(self._sweeper.stop)

    def _pass_on(self) -> None:
        """Have others claim the runs that did not end here in time."""
        # Told also without any: few processes stop, and those that stop look at no store for it.
        self.mailbox.services.wake_any()

    def _make_node(
        self, nodes: "NodeStore", clock: Clock, ids: IdSource, config: MailboxConfig
    ) -> "NodeHeartbeat":
        from awaken import __version__  # noqa: PLC0415
        from awaken.mailbox.node_heartbeat import (  # noqa: PLC0415
            NodeHeartbeat,
            NodeIdentity,
            NodeLoad,
        )

        identity = NodeIdentity(
            make_id=self._make_id,
            find_kind=lambda: self.kind,
            version=__version__,
            host=socket.gethostname(),
            pid=os.getpid(),
        )

        def measure_load() -> NodeLoad:
            worker = self._worker
            if worker is None:
                return NodeLoad()
            return NodeLoad(
                slots=worker.slots,
                busy=worker.in_flight,
                agents=worker.served,
                is_draining=worker.is_stopping,
            )

        return NodeHeartbeat(self.store, nodes, clock, ids, config, identity, measure_load)

    def _make_id(self, life: int) -> str:
        """Make the worker id of a life of this process."""
        # Host and pid are for people; the address distinguishes processes with equal pids.
        again = "" if life == 1 else f".{life}"
        name = f"{socket.gethostname()}:{os.getpid()}{again}:{self.address}"
        if not self.store.is_shared:
            return name
        # Imported on demand, as the worker above: a runtime in memory may need none of it.
        from .process_marks import mark_worker  # noqa: PLC0415

        return mark_worker(name)


def _find_nodes(store: Store) -> "NodeStore | None":
    """Return the store as one that keeps a lease for each process, or None."""
    if not store.is_shared:
        return None
    from awaken.contracts.storage.nodes import NodeStore  # noqa: PLC0415

    return store if isinstance(store, NodeStore) else None


def _ignore_packet(_packet: bytes) -> None:
    """Take a packet: live events are taken by `FrameExchange`, if there are any."""


def resolve_bus(bus: Bus | str | None, store: Store) -> Bus:
    """Return the bus itself, or the one that a URL names; None: the one that fits the store.

    Raises:
        InvalidInput: No bus is known under that URL, its client is not installed, or no other
            process can see the store.
    """
    if bus is not None and not isinstance(bus, str):
        return bus
    if bus == NO_BUS:
        return MemoryBus()
    if bus is not None and bus.startswith(("nats://", "tls://")):
        if not store.is_shared:
            problem = (
                f"no other process can see what is in the store '{store.name}', so there is nobody"
                " to tell; leave out --bus and AWAKEN_BUS, or name a store that processes share"
            )
            raise InvalidInput(what="A bus between processes", problem=problem)
        return _import_bus("awaken.buses.nats", "NatsBus")(bus)
    if bus is not None:
        scheme = bus.partition(":")[0]
        raise InvalidInput(what=f"bus '{scheme}:…'", problem=f"no such bus; {KNOWN_BUSES}")
    if store.name.startswith("postgresql:"):
        make = _import_bus("awaken.buses.postgres", "PostgresBus")
        # Installations in other schemas of the same database are not told, and tell nothing here.
        return make(store.url, channel=store.bus_channel)  # type: ignore[attr-defined]
    return MemoryBus()


def _import_bus(module: str, name: str) -> Callable[..., Bus]:
    """Import a bus on demand: most users need one kind or none, and have no client for others."""
    try:
        made: Callable[..., Bus] = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise InvalidInput(what=f"A {name}", problem=str(error)) from error
    return made
