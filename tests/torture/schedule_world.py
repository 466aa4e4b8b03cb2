"""Processes on one store in virtual time: they freeze, die, and have clocks of their own.

A frozen process does nothing: its calls of the store wait, and nobody extends its leases. What it
had asked for goes on when it thaws. A killed one never thaws.
"""

import asyncio
import contextlib
import inspect
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.scenarios.nodes import LoopBook

from awaken.bootstrap.registries import registry_set
from awaken.buses.memory import MemoryBus
from awaken.contracts.errors import StoreUnavailable
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.messages.message import user
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.storage.bus import Signal
from awaken.contracts.storage.dispatch import DispatchStatus, InputMode, LeaseReport, RunDispatch
from awaken.contracts.storage.queries import DispatchQuery, RunQuery
from awaken.contracts.storage.store import Commit, CommitReceipt
from awaken.contracts.tools.context import ToolContext
from awaken.mailbox.config import MailboxConfig
from awaken.mailbox.mailbox import Mailbox
from awaken.mailbox.receipts import SubmitReceipt
from awaken.mailbox.run_signals import RunSignals
from awaken.mailbox.sweeper import Sweeper
from awaken.mailbox.worker import Worker
from awaken.runtime.engine import RunEngine
from awaken.runtime.limits import Limits, ToolSlots
from awaken.runtime.model_health.health import ModelHealth
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.run import Services
from awaken.stores.memory import MemoryStore
from awaken.stores.memory.profiles import MemoryProfileStore
from awaken.testing import LoopClock, SequentialIds
from awaken.testing.trial_checks import final_problems, prefix_problems

from .chaos_agent import AGENT, obeying_agent

LEASE_MS, RENEW_MS, SWEEP_MS, POLL_MS = 2000, 600, 1000, 500
CONFIG = MailboxConfig(
    lease_ms=LEASE_MS,
    renew_ms=RENEW_MS,
    sweep_ms=SWEEP_MS,
    poll_ms=POLL_MS,
    retention_ms=None,
    drain_ms=0,
    retry_base_ms=10,
    retry_cap_ms=100,
)
LIMIT_S = 120.0
"""Virtual time after which a world counts as stuck."""


class WrongStore(AssertionError):
    """The store itself did what it never may."""


class Truth(MemoryStore):
    """The store, which remembers every commit and watches its own claims."""

    def __init__(self) -> None:
        super().__init__("truth", clock=LoopClock(), is_shared=True)
        self.commits: list[Commit] = []
        self.claims: list[RunDispatch] = []

    async def commit(self, commit: Commit) -> CommitReceipt:
        receipt = await super().commit(commit)
        self.commits.append(commit)
        return receipt

    async def claim(self, *args: Any, **options: Any) -> tuple[RunDispatch, ...]:
        claimed = await super().claim(*args, **options)
        for dispatch in claimed:
            query = DispatchQuery(thread_id=dispatch.thread_id, status=DispatchStatus.CLAIMED)
            if (await self.list_dispatches(query)).total > 1:
                raise WrongStore(f"thread {dispatch.thread_id} has two claims")
        self.claims += claimed
        return claimed


class SkewedClock(LoopClock):
    """A process's own clock: its wall time is wrong, by so much."""

    def __init__(self, skew_ms: int) -> None:
        super().__init__()
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._skew_ms


class FreezingWire:
    """A process's way to the store."""

    def __init__(self, truth: Truth, process: "Process") -> None:
        self._truth = truth
        self._process = process
        self.name = truth.name
        self.is_shared = True

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._truth, name)
        if not inspect.iscoroutinefunction(method):
            return method

        async def asked(*args: Any, **options: Any) -> Any:
            await self._process.awake()
            answer = await method(*args, **options)
            await self._process.awake()
            return answer

        return asked

    def lease_keeper(self) -> "FreezingWire":
        return self

    def extend(self, tokens: Sequence[str], lease_ms: int) -> tuple[LeaseReport, ...]:
        if self._process.is_frozen:
            raise StoreUnavailable(store=self.name, problem="the process is frozen")
        return self._truth.lease_keeper().extend(tokens, lease_ms)


class Process:
    """An engine, a worker and a sweeper, on one store with others."""

    def __init__(self, world: "World", name: str, skew_ms: int) -> None:
        self.name = name
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._world = world
        self.wire = FreezingWire(world.truth, self)
        store: Any = self.wire
        clock, ids = SkewedClock(skew_ms), SequentialIds(name)
        self.mailbox = Mailbox(store, world.bus, clock, ids, CONFIG)
        book: Any = LoopBook(store, ids, CONFIG, name)
        services = Services(
            clock=clock,
            ids=ids,
            limits=Limits(),
            tool_slots=ToolSlots(),
            profile=MemoryProfileStore(),
            health=ModelHealth(clock),
        )
        agent = obeying_agent(self._note, self._step, self._work, deadline=world.deadline)
        registry = world.registry or RegistryHandle(registry_set([agent], [], [], {}, {}))
        self.engine = RunEngine(store, registry, services, book)
        self.worker = Worker(self.engine, self.mailbox, book, randomness=lambda: 0.5)
        self.signals = RunSignals(self.engine, world.bus, book, tells=False)
        self.sweeper = Sweeper(self.mailbox)

    @property
    def is_frozen(self) -> bool:
        return not self._thawed.is_set()

    def freeze(self) -> None:
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    async def awake(self) -> None:
        """Take a step, or wait until the process thaws."""
        await asyncio.sleep(0)
        if not self._thawed.is_set():
            await self._thawed.wait()

    async def submit(
        self, text: str, thread_id: str = "t", mode: InputMode = InputMode.QUEUE, **options: Any
    ) -> SubmitReceipt:
        """Send a message to a thread, and remember that it was sent."""
        request = RunRequest(thread_id=thread_id, agent_id=AGENT, messages=(user(text),))
        receipt = await self.mailbox.submit(request, mode=mode, **options)
        self._world.receipts.append(receipt)
        return receipt

    async def _step(self) -> None:
        await asyncio.sleep(self._world.pace())
        await self.awake()

    async def _work(self) -> None:
        await asyncio.sleep(self._world.tool_s())
        await self.awake()

    def _note(self, context: ToolContext, what: str) -> None:
        self._world.effects[context.idempotency_key].append((self.name, what))


class World:
    """One schedule's store, processes and evidence. `chance` follows from the schedule's seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.truth = Truth()
        self.bus = MemoryBus()
        self.receipts: list[SubmitReceipt] = []
        self.effects: dict[str, list[tuple[str, str]]] = defaultdict(list)
        """By idempotency key: which process did what."""
        self.processes: list[Process] = []
        self.registry: RegistryHandle | None = None
        """What every process has instead of the obeying agent."""
        self.pace_s = self.work_s = 0.0
        self.deadline: Callable[[], int | None] = lambda: None
        self.is_purged = False
        """Whether events may be missing at the beginning of a log."""

    def pace(self) -> float:
        """How long a model takes for half an answer."""
        return self.chance.uniform(0, self.pace_s)

    def tool_s(self) -> float:
        """How long a tool takes."""
        return self.chance.uniform(0, self.work_s)

    @asynccontextmanager
    async def living(
        self, *names: str, skew_ms: Sequence[int] = (), is_heard: bool = True
    ) -> AsyncIterator[list[Process]]:
        """Let processes work inside of the block; then everything must come to an end."""
        if is_heard:
            await self.bus.open()
        skews = [*skew_ms, *(0 for _ in names)]
        made = [Process(self, name, skew) for name, skew in zip(names, skews, strict=False)]
        self.processes += made
        for process in made:
            process.signals.open()
            process.worker.start()
            process.sweeper.start()
        try:
            yield made
            await self.settled()
        finally:
            for process in made:
                process.thaw()
            for process in made:
                await process.sweeper.stop()
                await process.worker.stop()
                process.signals.close()
                await process.engine.close()

    async def settled(self) -> None:
        """Wait until nothing is left to do; tickets may be open."""
        try:
            async with asyncio.timeout(LIMIT_S):
                while await self._left():
                    await asyncio.sleep(0.25)
        except TimeoutError:
            raise AssertionError(f"stuck: {await self._left()}") from None

    async def _left(self) -> list[str]:
        found = []
        for status in (DispatchStatus.QUEUED, DispatchStatus.CLAIMED):
            page = await self.truth.list_dispatches(DispatchQuery(status=status))
            found += [f"dispatch {it.dispatch_id} is {status}" for it in page.items]
        for run_status in (RunStatus.CREATED, RunStatus.RUNNING):
            runs = await self.truth.list_runs(RunQuery(status=run_status))
            found += [f"run {it.run_id} is {run_status}" for it in runs.items]
        return found

    async def run_of(self, receipt: SubmitReceipt) -> RunRecord:
        run = await self.truth.load_run(receipt.run_id)
        assert run is not None, f"run {receipt.run_id} never was"
        return run

    async def open_ticket(self, thread_id: str = "t", *, is_waiting: bool = True) -> str:
        """Wait for the ticket of a thread, and as a rule until its run has come to wait."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                for ticket in await self.truth.list_tickets(thread_id):
                    run = await self.truth.load_run(ticket.run_id)
                    if not is_waiting or (run and run.status is RunStatus.WAITING):
                        return ticket.ticket_id
                await asyncio.sleep(0.01)

    async def problems(self) -> list[str]:
        """What must be true of every world when it has come to rest."""
        found = prefix_problems(self.truth.commits) + _writer_problems(self.truth.commits)
        if not self.is_purged:
            found += await final_problems(self.truth)
        for key, effects in self.effects.items():
            starts = sum(what == "start" for _, what in effects)
            tells = sum(what.startswith("told") for _, what in effects)
            if tells > 1 or (starts > 1 and await self._is_once(key)):
                found.append(f"call {key} was executed {starts + tells} times: {effects}")
        return found

    async def _is_once(self, key: str) -> bool:
        run_id, _, call_id = key.split(":", 2)
        records = await self.truth.list_tool_records(run_id)
        return any(it.call_id == call_id and it.tool_name == "once" for it in records)


def _writer_problems(commits: Sequence[Commit]) -> list[str]:
    """The commits of a thread come in blocks of one claim token each."""
    blocks: dict[str, list[str]] = {}
    problems = []
    for commit in commits:
        tokens = blocks.setdefault(commit.thread_id, [])
        token = commit.fencing_token
        if token is not None and (not tokens or tokens[-1] != token):
            if token in tokens:
                problems.append(f"claim {token} was lost and writes again")
            tokens.append(token)
    return problems


class Deaf(MemoryBus):
    """A bus that drops everything."""

    def tell(self, signal: Signal) -> None:
        """Drop it."""


async def at(seconds: float, work: Callable[[], Any]) -> Any:
    """Do something later."""
    await asyncio.sleep(seconds)
    result = work()
    return await result if inspect.isawaitable(result) else result


@contextlib.contextmanager
def expected(*kinds: type[BaseException], into: list[BaseException]) -> Any:
    """Collect refusals that may come."""
    try:
        yield
    except kinds as error:
        into.append(error)
