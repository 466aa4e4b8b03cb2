"""Processes that share one store: each with an engine, a worker and a sweeper of its own.

Time is virtual. A node reaches the store over a wire, which takes its time, can be cut, and can
fail at what a test chooses.
"""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from awaken import Agent, Clock, IdSource, Limits, MailboxConfig, RunRequest, user
from awaken.bootstrap.registries import registry_set
from awaken.buses.memory import MemoryBus
from awaken.errors import StoreUnavailable
from awaken.mailbox.mailbox import Mailbox
from awaken.mailbox.run_signals import RunSignals
from awaken.mailbox.sweeper import Sweeper
from awaken.mailbox.worker import Worker
from awaken.runtime.engine import RunEngine
from awaken.runtime.journal.leases import Lease, LeaseHolder
from awaken.runtime.limits import ToolSlots
from awaken.runtime.model_health.health import ModelHealth
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.run import Services
from awaken.stores import (
    LIMIT_MAX,
    Bus,
    Claim,
    Commit,
    CommitReceipt,
    DispatchQuery,
    LeaseReport,
    MemoryProfileStore,
    MemoryStore,
    RunDispatch,
    RunRecord,
)
from awaken.testing import LoopClock, SequentialIds

Fault = Callable[[str, tuple[Any, ...]], BaseException | None]
POLL_MS = 250


def no_fault(_method: str, _arguments: tuple[Any, ...]) -> None:
    return None


class TruthStore(MemoryStore):
    """The store itself: remembers every commit that was applied."""

    def __init__(self, clock: Clock | None = None, *, is_shared: bool = True) -> None:
        super().__init__(clock=clock or LoopClock(), is_shared=is_shared)
        self.commits: list[Commit] = []

    async def commit(self, commit: Commit) -> CommitReceipt:
        receipt = await super().commit(commit)
        self.commits.append(commit)
        return receipt


class Wire:
    """A node's own way to the store."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.name = store.name
        self.is_shared = store.is_shared
        self.is_cut = False
        self.fault: Fault = no_fault
        self.asked: list[str] = []
        self.delays: dict[str, float] = {}
        """How long the store takes for a method, in seconds."""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if not inspect.iscoroutinefunction(method):
            return method

        async def asked(*arguments: Any, **options: Any) -> Any:
            self.asked.append(name)
            await asyncio.sleep(self.delays.get(name, 0))
            self._check(name, arguments)
            answer = await method(*arguments, **options)
            await asyncio.sleep(0)
            self._check("reply", (name,))
            return answer

        return asked

    def lease_keeper(self) -> "Wire":
        return self

    def extend(self, tokens: Sequence[str], lease_ms: int) -> tuple[LeaseReport, ...]:
        self._check("extend", (tokens,))
        return self._store.lease_keeper().extend(tokens, lease_ms)

    def _check(self, method: str, arguments: tuple[Any, ...]) -> None:
        if self.is_cut:
            raise StoreUnavailable(store=self.name, problem="the wire is cut")
        problem = self.fault(method, arguments)
        if problem is not None:
            raise problem


class LoopBook:
    """Keeps leases in virtual time; the real heartbeat is a thread, whose time is real."""

    patience_ms = 0

    def __init__(self, wire: Wire, ids: IdSource, config: MailboxConfig, worker_id: str) -> None:
        self._wire = wire
        self._ids = ids
        self._config = config
        self._worker_id = worker_id
        self._held: dict[str, LeaseHolder] = {}

    def open(self, thread_id: str) -> Lease:
        claim = Claim(worker_id=self._worker_id, lease_ms=self._config.lease_ms)
        return Lease(self._ids.new_id(), claim)

    def watch(self, lease: Lease, run: LeaseHolder) -> None:
        if lease.token not in self._held:
            self._later(lease.token)
        self._held[lease.token] = run

    def forget(self, lease: Lease) -> None:
        self._held.pop(lease.token, None)

    def look_at(self, lease: Lease) -> None:
        if lease.token in self._held:
            asyncio.get_running_loop().call_soon(self._beat, lease.token)

    def _later(self, token: str) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(self._config.renew_ms / 1000, self._renew, token)

    def _renew(self, token: str) -> None:
        if token in self._held:
            self._beat(token)
            self._later(token)

    def _beat(self, token: str) -> None:
        holder = self._held.get(token)
        if holder is None:
            return
        try:
            (news,) = self._wire.extend([token], self._config.lease_ms)
        except StoreUnavailable:
            return
        if not news.is_held:
            holder.lease_lost()
        elif news.cancel_cause is not None:
            holder.cancel(news.cancel_cause)
        elif news.has_input:
            holder.notify_input()


class Node:
    """One process."""

    def __init__(
        self,
        truth: MemoryStore,
        agents: Sequence[Agent],
        *,
        name: str = "node",
        bus: Bus | None = None,
        clock: Clock | None = None,
        randomness: Callable[[], float] = lambda: 0.5,
        **config: Any,
    ) -> None:
        clock, ids = clock or LoopClock(), SequentialIds(name)
        self.config = MailboxConfig(**{"poll_ms": POLL_MS, **config})
        self.wire = Wire(truth)
        self.truth = truth
        store: Any = self.wire
        self.mailbox = Mailbox(store, bus or MemoryBus(), clock, ids, self.config)
        self.book: Any = LoopBook(self.wire, ids, self.config, name)
        services = Services(
            clock=clock,
            ids=ids,
            limits=Limits(),
            tool_slots=ToolSlots(),
            profile=MemoryProfileStore(),
            health=ModelHealth(clock),
        )
        registry = RegistryHandle(registry_set(agents, [], [], {}, {}))
        self.engine = RunEngine(store, registry, services, self.book)
        self.worker = Worker(self.engine, self.mailbox, self.book, randomness=randomness)
        self.signals = RunSignals(
            self.engine, self.mailbox.services.bus, self.book, tells=bus is not None
        )
        self.sweeper = Sweeper(self.mailbox)

    async def __aenter__(self) -> "Node":
        self.signals.open()
        self.worker.start()
        self.sweeper.start()
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.sweeper.stop()
        await self.worker.stop()
        self.signals.close()

    async def submit(self, text: str = "hi", thread_id: str | None = "t", **options: Any) -> Any:
        agent_id = options.pop("agent_id", "agent")
        request = RunRequest(thread_id=thread_id, agent_id=agent_id, messages=(user(text),))
        return await self.mailbox.submit(request, **options)


async def settled(truth: MemoryStore, dispatch_id: str) -> RunDispatch:
    """Wait until a delivery is over; the truth needs no wire."""
    while True:
        found = await truth.find_dispatch(dispatch_id)
        assert found is not None
        if found.status.is_terminal:
            return found
        await asyncio.sleep(0.01)


async def run_of(truth: MemoryStore, run_id: str) -> RunRecord:
    found = await truth.load_run(run_id)
    assert found is not None
    return found


async def all_dispatches(truth: MemoryStore, **query: Any) -> list[RunDispatch]:
    found: list[RunDispatch] = []
    while True:
        asked = DispatchQuery(offset=len(found), limit=LIMIT_MAX, **query)
        page = (await truth.list_dispatches(asked)).items
        found += page
        if not page:
            return found
