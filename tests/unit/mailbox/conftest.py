"""A mailbox with a relay over a real store, whose calls can be held up and can fail."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from awaken.buses.memory import MemoryBus
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.bus import Signal
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.outbox import AbortRemote, OutboxCommand, entry_of
from awaken.contracts.storage.queries import LIMIT_MAX, DispatchQuery
from awaken.contracts.storage.store import OutboxEntry, Store
from awaken.mailbox.config import MailboxConfig
from awaken.mailbox.mailbox import Mailbox
from awaken.mailbox.outbox_handlers import OutboxHandlers
from awaken.mailbox.relay import Relay
from awaken.stores.memory import MemoryStore
from awaken.stores.sql.session import Moment
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FakeClock, SequentialIds
from awaken.testing.store_conformance.writing import Writer

Hook = Callable[..., Awaitable[Any]]


class Wire:
    """A store as one process reaches it; a hook gets a method's call instead of the store."""

    def __init__(self, truth: Store) -> None:
        self.truth = truth
        self.hooks: dict[str, Hook] = {}

    def __getattr__(self, name: str) -> Any:
        return self.hooks.get(name) or getattr(self.truth, name)


class Node:
    """One process with a relay; notes what its handlers asked for."""

    def __init__(self, world: "World") -> None:
        self.wire = Wire(world.store)
        self.bus = MemoryBus()
        self.mailbox = Mailbox(self.wire, self.bus, world.clock, SequentialIds(), world.config)
        self.aborted: list[AbortRemote] = []
        self.queued: list[str] = []
        self.heard: list[Signal] = []
        self.changed = asyncio.Event()
        self.abort: Callable[[AbortRemote], Awaitable[None]] = self.note_abort
        self.handlers = OutboxHandlers(
            self.mailbox, lambda order: self.abort(order), on_queued=self._note_queued
        )
        self.relay = Relay(self.mailbox, self.handlers)
        self.bus.subscribe(self.heard.append)

    async def note_abort(self, order: AbortRemote) -> None:
        self.aborted.append(order)
        self.changed.set()

    def _note_queued(self, thread_id: str) -> None:
        self.queued.append(thread_id)
        self.changed.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until what the handlers noted is so."""
        async with asyncio.timeout(10):
            while not is_so():
                self.changed.clear()
                await self.changed.wait()


class World:
    """A store with an owner thread that gives orders, and nodes that relay them."""

    def __init__(self, store: Store, clock: FakeClock, config: MailboxConfig) -> None:
        self.store = store
        self.clock = clock
        self.config = config
        self.owner = Writer(store, "owner")
        self._given = 0

    def node(self) -> Node:
        return Node(self)

    async def give(self, *orders: OutboxCommand) -> list[str]:
        """Commit orders; returns the ids of their entries."""
        entries = []
        for order in orders:
            self._given += 1
            entries.append(entry_of(order, f"order-{self._given:04d}"))
        await self.owner.commit(outbox=tuple(entries))
        return [entry.entry_id for entry in entries]

    async def due(self) -> list[str]:
        return [entry.entry_id for entry in await self.store.list_outbox(limit=10_000)]

    async def dead(self) -> list[OutboxEntry]:
        return list(await self.store.list_dead_outbox(limit=10_000))

    async def the_failed(self, pause_ms: int) -> OutboxEntry:
        """The only order, which is due again exactly after this pause and not before."""
        self.clock.advance(pause_ms - 1)
        assert await self.due() == []
        self.clock.advance(1)
        (entry,) = await self.store.list_outbox()
        return entry

    async def dispatches(self, thread_id: str | None = None) -> list[RunDispatch]:
        query = DispatchQuery(thread_id=thread_id, limit=LIMIT_MAX)
        return list((await self.store.list_dispatches(query)).items)

    async def run(self, run_id: str) -> RunRecord:
        found = await self.store.load_run(run_id)
        assert found is not None
        return found


Worlds = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture(params=["memory", "sqlite"])
def worlds(request: pytest.FixtureRequest, tmp_path: Path) -> Worlds:
    """Opens a world on a store of this kind; its config can be changed by name."""

    @asynccontextmanager
    async def opened(**config: int) -> AsyncIterator[World]:
        clock = FakeClock()

        def now() -> Moment:
            return Moment(wall_ms=clock.now_ms(), lease_ms=clock.now_ms())

        is_memory = request.param == "memory"
        store = MemoryStore(clock=clock) if is_memory else SqliteStore(tmp_path / "a.db", now)
        await store.open()
        try:
            async with asyncio.timeout(30):
                yield World(store, clock, MailboxConfig(**config))
        finally:
            await store.close()

    return opened
