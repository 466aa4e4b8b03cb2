"""Runtimes that share a Postgres: one lease each, signals to those that can use them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.postgres.server import new_schema, server

from awaken import Agent, AgentRuntime, Cancelled, MailboxConfig, RunStatus, tool
from awaken.buses.postgres import PostgresBus
from awaken.contracts.clock import SystemClock
from awaken.contracts.storage.bus import Signal, SignalKind
from awaken.stores import PostgresStore
from awaken.testing import ScriptedModel, ToolCalls

HOUR_MS = 3_600_000
DEAF = MailboxConfig(
    poll_ms=HOUR_MS, sweep_ms=HOUR_MS, renew_ms=HOUR_MS, lease_ms=3 * HOUR_MS, drain_ms=20_000
)
WAIT_S = 30


class HeardBus(PostgresBus):
    """Notes every signal that reaches this process."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.heard: list[Signal] = []
        self.is_deaf = False
        self.subscribe(self.heard.append)

    def _on_notify(self, *args: Any) -> None:
        # One that is deaf claims nothing before it knows that it was declared over.
        if not self.is_deaf:
            super()._on_notify(*args)

    def kinds(self) -> list[SignalKind]:
        return [it.kind for it in self.heard]


class JumpingClock(SystemClock):
    """The clock of a machine that somebody sets."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


class Cluster:
    """Runtimes with connections of their own; polls, sweeps and renewals are hours apart."""

    def __init__(self) -> None:
        self.schema = new_schema()
        self.entered: asyncio.Queue[str] = asyncio.Queue()
        self.let_go = asyncio.Event()

    def open(
        self,
        name: str,
        *,
        has_worker: bool = True,
        agents: tuple[str, ...] = ("x",),
        clock: SystemClock | None = None,
    ) -> Any:
        @tool(effect="idempotent")
        async def work() -> str:
            """Take a while."""
            self.entered.put_nowait(name)
            await self.let_go.wait()
            return "worked"

        def make(agent: str) -> Agent[Any]:
            script = [ToolCalls([("work", {})]), "done"] * 9
            return Agent(agent, model=ScriptedModel(script), tools=[work])

        return AgentRuntime(
            [make(agent) for agent in agents],
            store=PostgresStore(server().url, schema=self.schema),
            bus=HeardBus(server().url, channel=self.schema),
            mailbox=DEAF,
            clock=clock,
            has_worker=has_worker,
        )

    async def lapse(self, runtime: AgentRuntime) -> None:
        """Let the lease of a runtime's node run out, as if its machine stood still."""
        runtime._node.bus.is_deaf = True  # type: ignore[attr-defined]
        node_id = runtime._node._heartbeat.worker_id
        await server().sql(
            f"UPDATE {self.schema}.nodes SET lease_until = 0 WHERE node_id = $1", node_id
        )


def play(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(2 * WAIT_S):
            await scenario(Cluster())

    asyncio.run(bounded())


async def settle(*runtimes: AgentRuntime) -> None:
    """Let every node know all others: each beats once with all of them there."""
    for runtime in runtimes:
        node = runtime._node._node
        assert node is not None
        node.directory.live = ()
        node.beat_soon()
    while not all(len(it._node._node.directory.live) for it in runtimes):  # type: ignore[union-attr]
        await asyncio.sleep(0.005)


def test_a_node_that_lapsed_gives_up_its_runs_and_goes_on_as_another() -> None:
    async def scenario(cluster: Cluster) -> None:
        frozen, other = cluster.open("frozen"), cluster.open("other")
        async with frozen:
            receipt = await frozen.submit("x", "go", thread_id="t")
            assert await cluster.entered.get() == "frozen"
            before = frozen._node._heartbeat.worker_id
            async with other:
                # It may have beaten before it had slots: then it would not wake itself.
                await settle(other)
                await cluster.lapse(frozen)
                assert await other._node._sweeper.reclaim() == 1
                assert await cluster.entered.get() == "other"
                frozen._node._beat_soon()
                while frozen._node._heartbeat.worker_id == before:
                    await asyncio.sleep(0.005)
                cluster.let_go.set()
                result = await other.wait(receipt.run_id)
                assert result.text == "done"
                # The node that was declared over works again, under its new id.
                again = await frozen.run("x", "go", thread_id="u")
                assert again.text == "done"
                shown = (await other.store.read_nodes()).nodes
                assert [it.is_over for it in shown if it.node_id == before] == [True]
                assert sum(not it.is_over for it in shown) == 2
        figures = None
        async with cluster.open("last") as last:
            figures = await last.store.read_nodes()
        ended = [it for it in figures.nodes if it.is_over]
        assert len(ended) == 3, "a node that stops says so"

    play(scenario)


@pytest.mark.parametrize("jump_ms", [600_000, -600_000])
def test_a_node_whose_clock_jumps_keeps_its_runs_delays_and_records(jump_ms: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        clock = JumpingClock()
        here, other = cluster.open("here", clock=clock), cluster.open("other")
        async with here:
            first = await here.submit("x", "go", thread_id="t")
            assert await cluster.entered.get() == "here"
            async with other:
                clock.ahead_ms = jump_ms
                await settle(here)
                # Neither takes a run from the other: the server's clock judges.
                assert await other._node._sweeper.reclaim() == 0
                assert await here._node._sweeper.reclaim() == 0
                later = await here.submit("x", "go", thread_id="u", delay_ms=60_000)
                now = await other.store.now_ms()
                queued = await other.store.find_dispatch(later.dispatch_id)
                # Processes estimate the server's time, each on its own, by some milliseconds.
                assert 0 < queued.available_at - now < 60_000 + abs(jump_ms) // 2
                cluster.let_go.set()
                assert (await other.wait(first.run_id)).text == "done"
                await here._node._sweeper.purge()
                assert await other.store.load_run(first.run_id) is not None
                assert (await other.store.list_events("t"))[0].seq == 1
        assert cluster.entered.empty()

    play(scenario)


def test_a_cancel_reaches_the_node_that_holds_the_thread_and_no_other() -> None:
    async def scenario(cluster: Cluster) -> None:
        holder = cluster.open("holder", has_worker=False)
        asking, third = (cluster.open(it, has_worker=False) for it in ("asking", "third"))
        async with holder, asking, third:
            handle = await holder.start("x", "go", thread_id="t")
            await cluster.entered.get()
            assert await asking.cancel(handle.run_id)
            record = await asking.wait(handle.run_id)
            assert isinstance(record.termination, Cancelled)
            assert record.status is RunStatus.DONE
            assert SignalKind.CONTROL in holder._node.bus.kinds()
            assert SignalKind.CONTROL not in third._node.bus.kinds()

    play(scenario)


def test_queued_input_wakes_a_node_that_serves_its_agent_and_leaves_the_others_alone() -> None:
    async def scenario(cluster: Cluster) -> None:
        x, y = cluster.open("x", agents=("x",)), cluster.open("y", agents=("x", "y"))
        sender = cluster.open("sender", has_worker=False, agents=("x", "y"))
        async with x, y:
            # Both have claimed for their own agents once, and told so.
            for runtime in (x, y):
                while runtime._node.worker.served is None:
                    await asyncio.sleep(0.005)
                await settle(runtime)
            async with sender:
                await settle(sender)
                cluster.let_go.set()
                receipt = await sender.submit("y", "go", thread_id="t")
                assert (await sender.wait(receipt.run_id)).text == "done"
                assert await cluster.entered.get() == "y"
                assert SignalKind.DISPATCH_QUEUED in y._node.bus.kinds()
                assert SignalKind.DISPATCH_QUEUED not in x._node.bus.kinds()

    play(scenario)
