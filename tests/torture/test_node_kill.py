"""A node of another machine is killed, or stands still: another goes on, and readers stay.

Processes of one machine see by a mark that another one is gone. Here they have no marks, as those
of different machines know nothing of each other: only leases tell.
"""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.postgres.server import new_schema, server
from tests.sampling import long

from awaken import Agent, AgentRuntime, MailboxConfig, NaturalEnd, tool
from awaken.bootstrap import process_marks
from awaken.buses.postgres import PostgresBus
from awaken.contracts.events import LoggedEvent, StreamReset
from awaken.contracts.messages.message import Role
from awaken.stores import PostgresStore
from awaken.testing import Chunks, ScriptedModel, ToolCalls

from .cluster_chaos import Followed, join_texts
from .control_node import show_event

pytestmark = pytest.mark.timeout(180)
THREAD = "thread"
GOES_ON_MS = 15_000
"""The lease of the dead node (10 s), the next turn of the sweep (3 s), and the longest pause of a
worker that misses its signal (1.5 s)."""
SHORT = MailboxConfig(lease_ms=3_000, renew_ms=500, sweep_ms=300)
WAIT_S = 60
WORDS = 300
_FORKS = multiprocessing.get_context("forkserver")


def hide_marks() -> None:
    """Let this process be one that the others know nothing of, as if on a machine of its own."""
    process_marks._own_mark = lambda proc: None  # type: ignore[assignment]


def open_runtime(url: str, schema: str, ledger: Path, times: MailboxConfig | None) -> AgentRuntime:
    """A runtime as every process has it; what its agent says names the process that said it."""

    @tool(effect="idempotent")
    async def work() -> str:
        """Return at once."""
        return "worked"

    def answer(request: Any) -> Any:
        if request.messages[-1].role is not Role.TOOL:
            return ToolCalls([("work", {})], text="begun")
        with ledger.open("a") as file:
            file.write(f"{os.getpid()}\n")
        # The first one is stopped in its answer; the next one is quick.
        is_first = len(ledger.read_text().split()) == 1
        words = [f"{number} of {os.getpid()} " for number in range(WORDS)]
        return Chunks(words, delay_ms=100 if is_first else 1)

    return AgentRuntime(
        [Agent("agent", model=ScriptedModel([answer], cycle=True), tools=[work])],
        store=PostgresStore(url, schema=schema),
        bus=PostgresBus(url, channel=schema),
        mailbox=times,
        has_worker=False,
    )


def run_node(url: str, schema: str, ledger: Path, times: MailboxConfig | None, ready: Path) -> None:
    """Work until the process is killed."""
    hide_marks()

    async def serve() -> None:
        async with open_runtime(url, schema, ledger, times) as runtime:
            runtime._node.start_worker(runtime._engine)
            ready.touch()
            await asyncio.Event().wait()

    asyncio.run(serve())


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not is_so():
            await asyncio.sleep(0.02)


class Cluster:
    """Workers on machines of their own, and a server that reads the one run."""

    def __init__(self, folder: Path, times: MailboxConfig | None) -> None:
        self.ledger = folder / "ledger"
        self.schema = new_schema()
        self.shown: list[tuple[int, str, str]] = []
        """What the reader was shown over its one connection: ids, kinds and texts."""
        self._folder = folder
        self._times = times
        self._nodes: list[Any] = []

    def open_reader(self) -> AgentRuntime:
        return open_runtime(server().url, self.schema, self.ledger, self._times)

    async def start_node(self, name: str) -> int:
        ready = self._folder / name
        given = (server().url, self.schema, self.ledger, self._times, ready)
        process = _FORKS.Process(target=run_node, args=given, daemon=True)
        self._nodes.append(process)
        process.start()
        await until(ready.exists)
        assert process.pid is not None
        return process.pid

    async def follow(self, runtime: AgentRuntime, run_id: str) -> None:
        while await runtime.store.load_run(run_id) is None:
            await asyncio.sleep(0.02)
        stream = await runtime._parts.streams.stream_run(run_id)
        async for batch in stream.batches():
            for item in batch:
                number = item.seq if type(item) is LoggedEvent else 0
                self.shown.append((number, *show_event(item)))
            if stream.is_over:
                # Transports send nothing after the batch of which this is said.
                return

    def has_shown(self, pid: int) -> bool:
        """Whether the reader has seen a part of an answer of this process, and not its end."""
        return any(f"3 of {pid} " in text for _, _, text in self.shown)

    async def check_reader(self, runtime: AgentRuntime, run_id: str, pid: int) -> None:
        """The reader has what the log has, each once, and the log has one process's answer.

        A step that was shown live has one id, that of its commit: whether the reader finds the
        second process before its answer has ended is a matter of time.
        """
        logged = [it for it in await runtime.store.list_events(THREAD) if it.run_id == run_id]
        kept = Followed(THREAD, run_id)
        kept.take(self.shown)
        assert kept.ids == sorted({*kept.ids})
        assert kept.ids[-1] == logged[-1].seq
        assert join_texts(kept.events) == join_texts(map(show_event, logged))
        assert (StreamReset.__name__, "step") in [it[1:] for it in self.shown]
        (answer,) = [
            it.message.text
            for it in await runtime.messages(THREAD)
            if it.message.role is Role.ASSISTANT and "of" in it.message.text
        ]
        assert answer == "".join(f"{number} of {pid} " for number in range(WORDS))

    def end(self) -> None:
        for process in self._nodes:
            process.kill()
            process.join()


def play(tmp_path: Path, times: MailboxConfig | None, scenario: Any) -> None:
    cluster = Cluster(tmp_path, times)
    server()

    async def bounded() -> None:
        async with asyncio.timeout(150), cluster.open_reader() as reader:
            first = await cluster.start_node("first")
            receipt = await reader.submit("agent", "work", thread_id=THREAD)
            reading = asyncio.create_task(cluster.follow(reader, receipt.run_id))
            await until(lambda: cluster.has_shown(first))
            second = await cluster.start_node("second")
            await scenario(cluster, reader, first)
            await until(lambda: cluster.has_shown(second))
            async with asyncio.timeout(WAIT_S):
                result = await reader.wait(receipt.run_id)
                await reading
            assert result.termination == NaturalEnd()
            await cluster.check_reader(reader, receipt.run_id, second)
            assert cluster.ledger.read_text().split() == [str(first), str(second)]

    try:
        asyncio.run(bounded())
    finally:
        cluster.end()


@long
def test_a_run_goes_on_within_15_seconds_after_its_node_on_another_machine_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_marks, "_own_mark", lambda proc: None)

    async def kill(cluster: Cluster, reader: AgentRuntime, first: int) -> None:
        killed_at = await reader.store.now_ms()
        os.kill(first, signal.SIGKILL)
        await until(lambda: len(cluster.ledger.read_text().split()) == 2)
        assert await reader.store.now_ms() - killed_at <= GOES_ON_MS

    play(tmp_path, None, kill)


@long
def test_a_node_that_stood_still_for_two_leases_writes_and_shows_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_marks, "_own_mark", lambda proc: None)

    async def freeze(cluster: Cluster, reader: AgentRuntime, first: int) -> None:
        os.kill(first, signal.SIGSTOP)
        frozen_at = await reader.store.now_ms()
        await until(lambda: len(cluster.ledger.read_text().split()) == 2)
        while await reader.store.now_ms() - frozen_at < 2 * SHORT.lease_ms:
            await asyncio.sleep(0.05)
        os.kill(first, signal.SIGCONT)
        # It has heard that it is over, and works again under another id.
        async with asyncio.timeout(WAIT_S):
            while await count_lives(reader, first) < 2:
                await asyncio.sleep(0.05)

    play(tmp_path, SHORT, freeze)


async def count_lives(runtime: AgentRuntime, pid: int) -> int:
    figures = await runtime.store.read_nodes()  # type: ignore[attr-defined]
    return sum(it.pid == pid for it in figures.nodes)
