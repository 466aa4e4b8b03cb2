"""Postgres is away for shorter and for longer than a lease: all runs go on soon after that."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.postgres.server import TestServer, new_schema, server

from awaken import Agent, AgentRuntime, MailboxConfig, NaturalEnd, RunStatus, tool
from awaken.contracts.storage.nodes import CLAIM_LEASES
from awaken.stores import PostgresStore
from awaken.testing import ScriptedModel, ToolCalls

LEASE_MS = 4_000
QUEUED, ASKED_FOR = 5, 2
RUNS = QUEUED + ASKED_FOR


class Cluster:
    """Two processes on one server, with runs that stand in a tool."""

    def __init__(self, lease_ms: int) -> None:
        self.times = MailboxConfig(lease_ms=lease_ms, renew_ms=800, sweep_ms=500, poll_ms=200)
        self.schema = new_schema()
        self.server = server()
        self.calls: Counter[str] = Counter()
        self.let_go = asyncio.Event()
        self.first, self.second = self._open(), self._open()

    def _open(self) -> AgentRuntime:
        @tool(effect="idempotent")
        async def work(name: str) -> str:
            """Take until the test lets it go."""
            self.calls[name] += 1
            await self.let_go.wait()
            return f"{name} worked"

        def answer(request: Any) -> Any:
            asked = next(it.text for it in request.messages if it.text.startswith("run "))
            is_done = "worked" in request.messages[-1].text
            return "done" if is_done else ToolCalls([("work", {"name": asked})])

        return AgentRuntime(
            [Agent("agent", model=ScriptedModel([answer], cycle=True), tools=[work])],
            store=PostgresStore(self.server.url, schema=self.schema),
            mailbox=self.times,
        )

    async def begin(self) -> list[str]:
        """Let runs come to their tools, queued ones and such of callers; returns their ids."""
        run_ids = []
        for number in range(RUNS):
            send = self.first.submit if number < QUEUED else self.first.start
            sent = await send("agent", f"run {number}", thread_id=f"t{number}")
            run_ids.append(sent.run_id)
        await until(lambda: len(self.calls) == RUNS)
        return run_ids

    async def count_lives(self) -> int:
        figures = await self.first.store.read_nodes()  # type: ignore[attr-defined]
        return len(figures.nodes)

    async def check_ended(self, run_ids: list[str], *, within_s: float) -> None:
        """Every run ends as ever."""
        async with asyncio.timeout(within_s):
            for run_id in run_ids:
                result = await self.second.wait(run_id)
                assert (result.status, result.termination) == (RunStatus.DONE, NaturalEnd())
        for number in range(RUNS):
            said = [it.message.text for it in await self.second.messages(f"t{number}")]
            assert said == [f"run {number}", "", f"run {number} worked", "done"]


async def until(is_so: Callable[[], object]) -> None:
    while not is_so():
        await asyncio.sleep(0.01)


def play(scenario: Callable[[Cluster], Awaitable[None]], lease_ms: int) -> None:
    async def bounded() -> None:
        cluster = Cluster(lease_ms)
        async with asyncio.timeout(120), cluster.first, cluster.second:
            await scenario(cluster)

    asyncio.run(bounded())


@pytest.mark.parametrize("leave", [TestServer.away, TestServer.frozen])
def test_after_an_outage_longer_than_a_lease_all_runs_go_on_long_before_their_claims_run_out(
    leave: Callable[[TestServer], Any],
) -> None:
    async def scenario(cluster: Cluster) -> None:
        run_ids = await cluster.begin()
        beats = [it._node._node for it in (cluster.first, cluster.second)]
        with leave(cluster.server):
            # Both know that they could not renew their leases in time.
            await until(lambda: all(it is not None and it._is_lapsed for it in beats))
        cluster.let_go.set()
        await cluster.check_ended(run_ids, within_s=CLAIM_LEASES * LEASE_MS / 1000)
        assert min(cluster.calls.values()) >= 2
        assert await cluster.count_lives() >= 4

    play(scenario, LEASE_MS)


@pytest.mark.parametrize("leave", [TestServer.away, TestServer.frozen])
def test_in_an_outage_shorter_than_a_lease_commits_wait_and_no_run_begins_again(
    leave: Callable[[TestServer], Any],
) -> None:
    async def scenario(cluster: Cluster) -> None:
        run_ids = await cluster.begin()
        with leave(cluster.server):
            # The results of all tools are there, and no commit can write them.
            cluster.let_go.set()
            await asyncio.sleep(0.3)
        await cluster.check_ended(run_ids, within_s=60)
        assert set(cluster.calls.values()) == {1}
        for run_id in run_ids[:QUEUED]:
            dispatch = await cluster.first.store.find_dispatch_of_run(run_id)
            assert dispatch is not None
            assert dispatch.attempt_count == 1

    play(scenario, 60_000)
