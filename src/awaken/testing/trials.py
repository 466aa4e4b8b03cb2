"""One trial of an agent: a store, a client, and processes that execute what the client sends.

At most one process lives at a time. When it is killed the next one starts at once on the same
store, and takes over when the lease of the dead one has run out. Time is virtual.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from awaken.bootstrap.simulated_node import (
    SimulatedNode,
    build_simulated_bus,
    build_simulated_mailbox,
    build_simulated_store,
)
from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.errors import AlreadyDecided
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.models.inference import ModelClient
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.dispatch import DispatchStatus
from awaken.contracts.storage.queries import DispatchQuery, RunQuery
from awaken.contracts.storage.store import Commit, CommitReceipt, OutboxEntry, Store
from awaken.contracts.suspension.tickets import Asks, Ticket, ToolCallResume
from awaken.contracts.tools.tool import Reconcilable, Tool
from awaken.mailbox.mailbox import Mailbox
from awaken.runtime.resolution.registries import RegistrySet

from .crash_points import Crashes, Fate, Lifeline
from .fakes import LoopClock, SequentialIds
from .trial_checks import final_problems, prefix_problems
from .turn_model import Questions, repeatable_model
from .watched_tools import EffectLog, ReconcilingWatchedTool, WatchedRegistry, WatchedTool

VIRTUAL_LIMIT_S = 100_000.0
_LOOK_S = 1.0
_BURIALS_MAX = 50

Story = Callable[[Mailbox], Awaitable[object]]
Decide = Callable[[Ticket], ToolCallResume | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is tried: agents, what a client does, and how it decides."""

    registries: RegistrySet
    story: Story
    decide: Decide
    has_real_tools: bool = True
    """Whether the tools' own code is executed."""
    judge: Callable[[RunRecord], str | None] | None = None
    """Says what is wrong with the last record of a run; None if nothing is."""
    make_store: Callable[[Clock], Store] = build_simulated_store
    """Makes the store of a trial."""


@dataclass(slots=True)
class TrialVerdict:
    """What a trial showed."""

    commits: int
    tools: int
    problems: list[str] = field(default_factory=list)


async def run_trial(subject: Subject, crashes: Crashes = ()) -> TrialVerdict:
    """Try a subject once, killing its processes at these moments, and judge it."""
    return await _Trial(subject, crashes).play()


class _Trial:
    def __init__(self, subject: Subject, crashes: Crashes) -> None:
        self._subject = subject
        self._fate = Fate(crashes)
        self._clock = LoopClock()
        self._truth = _Truth(subject.make_store(self._clock))
        self._bus = build_simulated_bus()
        self._log = EffectLog()
        self._questions = Questions()
        self._outside: set[asyncio.Task[Any] | None] = {asyncio.current_task()}
        self._lives = 0

    async def play(self) -> TrialVerdict:
        await self._truth.store.open()
        try:
            return await self._play()
        finally:
            await self._truth.store.close()

    async def _play(self) -> TrialVerdict:
        stuck = await self._live()
        truth = self._truth
        # Not earlier: looking for claims asks their holders to cancel.
        problems = stuck or await final_problems(truth.store)
        problems += prefix_problems(truth.commits)
        problems += self._log.problems(truth.commits)
        problems += await self._judge_runs()
        counts = self._fate.counts
        return TrialVerdict(counts["commit"], counts["tool"], problems)

    async def _judge_runs(self) -> list[str]:
        judge = self._subject.judge
        if judge is None:
            return []
        runs = (await self._truth.store.list_runs(RunQuery())).items
        return [f"run '{it.run_id}': {found}" for it in runs if (found := judge(it)) is not None]

    async def _live(self) -> list[str]:
        """Let processes live and die until nothing is left to do; returns why that failed."""
        ids = SequentialIds("client")
        client = asyncio.create_task(self._client(ids), name="client")
        self._outside.add(client)
        process = self._born()
        try:
            while not client.done():
                awaited: set[asyncio.Future[Any]] = {client, process.life.death}
                await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                if process.life.is_dead:
                    await self._end_tasks()
                    process = self._born()
            await process.node.stop()
        finally:
            client.cancel()
            await asyncio.wait({client})
        left = [task.get_name() for task in self._tasks_of_processes()]
        await self._end_tasks()
        return client.result() + [f"task '{name}' outlived its process" for name in left]

    async def _client(self, ids: IdSource) -> list[str]:
        mailbox = build_simulated_mailbox(cast(Store, self._truth), self._bus, self._clock, ids)
        try:
            async with asyncio.timeout(VIRTUAL_LIMIT_S):
                await self._subject.story(mailbox)
                while True:
                    if not await self._decide_all(mailbox) and not await self._stuck():
                        # A run that sleeps, or waits for an event in vain, goes on by itself.
                        left_ms = await self._truth.store.find_next_deadline()
                        if left_ms is None:
                            return []
                        await asyncio.sleep(max(0, left_ms) / 1000)
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            return [f"not done after {VIRTUAL_LIMIT_S:.0f} virtual seconds", *await self._stuck()]

    async def _decide_all(self, mailbox: Mailbox) -> bool:
        """Decide what the client wants to decide; returns whether there was anything."""
        has_decided = False
        for ticket in await self._truth.store.list_tickets():
            if ticket.question_kind is Asks.EVENT:
                continue
            decision = self._subject.decide(ticket)
            if decision is not None:
                has_decided = True
                with contextlib.suppress(AlreadyDecided):
                    await mailbox.decide([(ticket.ticket_id, decision)])
        return has_decided

    async def _stuck(self) -> list[str]:
        """What is neither over nor waits for a decision."""
        store, found = self._truth.store, []
        for status in (DispatchStatus.QUEUED, DispatchStatus.CLAIMED):
            dispatches = await store.list_dispatches(DispatchQuery(status=status))
            found += [f"dispatch '{it.dispatch_id}' is {status}" for it in dispatches.items]
        for run_status in (RunStatus.CREATED, RunStatus.RUNNING):
            runs = await store.list_runs(RunQuery(status=run_status))
            found += [f"run '{it.run_id}' is {run_status}" for it in runs.items]
        waiting = await store.list_runs(RunQuery(status=RunStatus.WAITING))
        found += [f"run '{it.run_id}' waits for tasks" for it in waiting.items if it.awaits_tasks]
        return found + [f"order '{it}' is not carried out" for it in sorted(self._truth.orders)]

    def _born(self) -> "_Process":
        self._lives += 1
        life = Lifeline(cast(Store, self._truth), self._fate, self._stop_tasks)
        registry = WatchedRegistry(
            self._subject.registries, partial(self._watch_tool, life), self._repeatable
        )
        ids = SequentialIds(f"process-{self._lives}")
        node = SimulatedNode(cast(Store, life), self._bus, registry, self._clock, ids)
        node.start()
        return _Process(life, node)

    def _watch_tool(self, life: Lifeline, tool: Tool) -> Tool:
        kind = ReconcilingWatchedTool if isinstance(tool, Reconcilable) else WatchedTool
        commits = self._truth.commits
        return kind(tool, life, self._log, commits.__len__, is_real=self._subject.has_real_tools)

    def _repeatable(self, agent_id: str, client: ModelClient) -> ModelClient:
        has_others = len(self._subject.registries.agents) > 1
        return repeatable_model(agent_id, client, self._questions if has_others else None)

    def _stop_tasks(self) -> None:
        for task in self._tasks_of_processes():
            task.cancel()

    async def _end_tasks(self) -> None:
        """Wait until nothing is left of a process that is dead or has stopped."""
        for _ in range(_BURIALS_MAX):
            tasks = self._tasks_of_processes()
            if not tasks:
                return
            self._stop_tasks()
            await asyncio.wait(tasks, timeout=1)
            for task in tasks:
                if task.done() and not task.cancelled():
                    task.exception()  # Whatever it died of, it was killed.

    def _tasks_of_processes(self) -> list[asyncio.Task[Any]]:
        return sorted(asyncio.all_tasks() - self._outside, key=lambda task: task.get_name())


@dataclass(slots=True)
class _Process:
    life: Lifeline
    node: SimulatedNode


class _Truth:
    """The store itself; remembers every commit that was applied, and what is still to be sent."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.name = store.name
        self.is_shared = store.is_shared
        self.commits: list[Commit] = []
        self.orders: set[str] = set()

    async def commit(self, commit: Commit) -> CommitReceipt:
        receipt = await self.store.commit(commit)
        self.commits.append(commit)
        self.orders.update(entry.entry_id for entry in commit.outbox)
        return receipt

    async def save_outbox(self, entry: OutboxEntry) -> bool:
        is_kept = await self.store.save_outbox(entry)
        if is_kept and not entry.is_dead:
            self.orders.add(entry.entry_id)
        else:
            self.orders.discard(entry.entry_id)
        return is_kept

    async def delete_outbox(self, entry_ids: Sequence[str]) -> None:
        await self.store.delete_outbox(entry_ids)
        self.orders.difference_update(entry_ids)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)
