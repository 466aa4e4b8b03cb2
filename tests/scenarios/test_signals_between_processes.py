"""Processes on one Postgres tell each other what changes, so that no one waits for a poll.

Polls are an hour apart here: what happens within a test happened because of a signal.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.postgres.server import new_schema, server

from awaken import Agent, AgentRuntime, Cancelled, MailboxConfig, RunStatus, tool
from awaken.buses.postgres import PostgresBus
from awaken.contracts.events import RunFinish, unwrap_event
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.bus import Signal, SignalKind
from awaken.stores import PostgresStore
from awaken.testing import ScriptedModel, ToolCalls

HOUR_MS = 3_600_000
DEAF = MailboxConfig(
    poll_ms=HOUR_MS, sweep_ms=HOUR_MS, renew_ms=HOUR_MS, lease_ms=3 * HOUR_MS, drain_ms=20_000
)
SOON_S = 20
"""Far longer than a signal takes, and far shorter than any poll."""


class CountingStore(PostgresStore):
    """Counts the reads of run records."""

    loaded = 0

    async def load_run(self, run_id: str) -> RunRecord | None:
        self.loaded += 1
        return await super().load_run(run_id)


class Processes:
    """Runtimes that share a database, each with connections of its own."""

    def __init__(self) -> None:
        self.schema = new_schema()
        self.inside, self.let_go = asyncio.Event(), asyncio.Event()

    def open(self, *, has_worker: bool) -> AgentRuntime:
        @tool(effect="once")
        async def work() -> str:
            """Take a while."""
            self.inside.set()
            await self.let_go.wait()
            return "worked"

        agent = Agent("agent", model=ScriptedModel([ToolCalls([("work", {})]), "d"]), tools=[work])
        return AgentRuntime(
            [agent],
            store=CountingStore(server().url, schema=self.schema),
            bus=PostgresBus(server().url, channel=self.schema),
            mailbox=DEAF,
            has_worker=has_worker,
        )


def play(scenario: Callable[[Processes], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(2 * SOON_S):
            await scenario(Processes())

    asyncio.run(bounded())


def test_a_reader_in_another_process_sees_each_commit_when_it_is_made() -> None:
    async def scenario(processes: Processes) -> None:
        here, there = processes.open(has_worker=False), processes.open(has_worker=False)
        async with here, there:
            handle = await here.start("agent", "go", thread_id="t")
            stream = await there._parts.streams.stream_run(handle.run_id)
            seen: list[str] = []
            async with asyncio.timeout(SOON_S):
                async for batch in stream.batches():
                    seen += [type(unwrap_event(it)).__name__ for it in batch]
                    if "ToolCallReady" in seen and not processes.let_go.is_set():
                        # The tool is still executing: its intent was committed and told.
                        assert processes.inside.is_set()
                        assert "ToolCallDone" not in seen
                        processes.let_go.set()
            assert seen[-1] == RunFinish.__name__
            assert (await handle.result()).text == "d"

    play(scenario)


@pytest.mark.parametrize("has_worker", [True, False])
def test_a_cancel_reaches_a_run_of_another_process_with_or_without_a_worker(
    has_worker: bool,
) -> None:
    async def scenario(processes: Processes) -> None:
        here, there = processes.open(has_worker=has_worker), processes.open(has_worker=False)
        async with here, there:
            handle = await here.start("agent", "go", thread_id="t")
            await processes.inside.wait()
            assert await there.cancel(handle.run_id)
            async with asyncio.timeout(SOON_S):
                waited = await there.wait(handle.run_id)
                assert isinstance((await handle.result()).termination, Cancelled)
            assert waited.status is RunStatus.DONE

    play(scenario)


def test_a_cancel_reaches_a_process_that_drains() -> None:
    async def scenario(processes: Processes) -> None:
        here, there = processes.open(has_worker=True), processes.open(has_worker=False)
        leave = asyncio.Event()

        async def live() -> None:
            async with here:
                await leave.wait()

        async with there:
            living = asyncio.create_task(live())
            receipt = await there.submit("agent", "go", thread_id="t")
            await processes.inside.wait()
            leave.set()
            await asyncio.sleep(0.1)
            assert await there.cancel(receipt.run_id)
            async with asyncio.timeout(SOON_S / 2):
                await living
            record = await there.get_run(receipt.run_id)
            assert isinstance(record.termination, Cancelled)

    play(scenario)


def test_who_waits_for_a_run_reads_nothing_because_of_other_threads() -> None:
    async def scenario(processes: Processes) -> None:
        here, there = processes.open(has_worker=True), processes.open(has_worker=False)
        async with here, there:
            store: Any = there.store
            receipt = await there.submit("agent", "go", thread_id="t")
            await processes.inside.wait()
            other = PostgresBus(server().url, channel=processes.schema)
            await other.open()
            heard: list[str] = []
            bus = there._parts.node.bus
            bus.subscribe(lambda signal: heard.append(signal.thread_id))
            bus.follow("t")
            bus.follow(None)
            kind = SignalKind.RUN_CHANGED
            others = [*(f"other-{number}" for number in range(50)), "last"]
            while not {*others} <= {*heard}:
                # Until the channels of all these threads are listened to.
                for name in others:
                    other.tell(Signal(kind=kind, thread_id=name))
                await asyncio.sleep(0.05)
            heard.clear()
            before = store.loaded
            waiting = asyncio.create_task(there.wait(receipt.run_id))
            while store.loaded < before + 2:
                # It looks for the thread, and whether the run rests already.
                await asyncio.sleep(0.01)
            other.tell(Signal(kind=kind, thread_id="t"))
            for name in others:
                other.tell(Signal(kind=kind, thread_id=name, is_resting=True, run_id="r"))
            while "last" not in heard:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            assert store.loaded == before + 2
            processes.let_go.set()
            async with asyncio.timeout(SOON_S):
                assert (await waiting).text == "d"
            await other.close()

    play(scenario)
