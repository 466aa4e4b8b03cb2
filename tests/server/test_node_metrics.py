"""Nodes on one Postgres: each metric of what they do together gets a value that is known.

Polls, sweeps and renewals are hours apart, so that nothing is counted but what a test asks for.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest
from tests.postgres.server import new_schema, server

from awaken import Agent, AgentRuntime, MailboxConfig, tool
from awaken.buses.postgres import PostgresBus
from awaken.contracts.clock import SystemClock
from awaken.contracts.events import unwrap_event
from awaken.contracts.storage.bus import Signal, SignalKind
from awaken.events import TextDelta
from awaken.services import live_frames
from awaken.stores import PostgresStore
from awaken.stores.postgres.pool import Pool
from awaken.testing import Chunks, ScriptedModel, ToolCalls

from .in_process import ask

HOUR_MS = 3_600_000
WAIT_S = 60
WORDS = [f"w{number} " for number in range(30)]
GATES = (10, 20)
"""After so many words the model waits until it may go on."""


class AheadClock(SystemClock):
    """An hour ahead of the clock of the store, which says when input was queued."""

    def now_ms(self) -> int:
        return super().now_ms() + HOUR_MS


class LossyBus(PostgresBus):
    """Loses packets on the way while it is told to."""

    is_losing = False
    lost = 0

    def send(self, to: str, payload: bytes) -> bool:
        if self.is_losing:
            self.lost += 1
            return True
        return super().send(to, payload)


class GatedModel(ScriptedModel):
    """Streams words, and waits at its gates."""

    def __init__(self) -> None:
        super().__init__([Chunks(WORDS)], cycle=True)
        self.gates = {place: asyncio.Event() for place in GATES}

    async def stream(self, request: Any) -> Any:
        shown = 0
        async for event in super().stream(request):
            yield event
            shown += isinstance(event, TextDelta)
            if shown in self.gates:
                await self.gates[shown].wait()


class Cluster:
    """Runtimes with servers and connections of their own."""

    def __init__(self) -> None:
        self.schema = new_schema()
        self.entered: asyncio.Queue[str] = asyncio.Queue()
        self.let_go = asyncio.Event()
        self.model = GatedModel()

    def open(self, name: str, *, slots: int = 4, pool: int = 8, **options: Any) -> AgentRuntime:
        @tool(effect="idempotent")
        async def work() -> str:
            """Take a while."""
            self.entered.put_nowait(name)
            await self.let_go.wait()
            return "worked"

        script = [ToolCalls([("work", {})]), "done"] * 9
        config = MailboxConfig(
            poll_ms=HOUR_MS,
            sweep_ms=HOUR_MS,
            renew_ms=HOUR_MS,
            lease_ms=3 * HOUR_MS,
            drain_ms=20_000,
            concurrency=slots,
            frame_ms=5,
        )
        return AgentRuntime(
            [
                Agent("worker", model=ScriptedModel(script), tools=[work]),
                Agent("talker", model=self.model),
            ],
            store=PostgresStore(server().url, schema=self.schema, pool_size=pool),
            bus=LossyBus(server().url, channel=self.schema),
            mailbox=config,
            **options,
        )

    async def lapse(self, runtime: AgentRuntime) -> None:
        """Let the lease of a runtime's node run out, as if its machine stood still."""
        node_id = runtime._node._heartbeat.worker_id
        text = f"UPDATE {self.schema}.nodes SET lease_until = 0 WHERE node_id = $1"
        await server().sql(text, node_id)


class Metrics:
    """The metrics that a runtime's server tells."""

    def __init__(self, runtime: AgentRuntime) -> None:
        self.app = runtime.asgi()

    async def read(self) -> dict[str, float]:
        text = (await ask(self.app, "GET", "/metrics")).body.decode()
        lines = [it for it in text.splitlines() if it and not it.startswith("#")]
        return {name: float(value) for name, _, value in (it.rpartition(" ") for it in lines)}

    def count_statements(self) -> dict[str, float]:
        """What the server was asked; without a request, which would ask for more."""
        series = self.app.context.observations.node.statements.series
        return {op: count for (op,), count in series.items()}


def play(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(WAIT_S):
            await scenario(Cluster())

    asyncio.run(bounded())


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.002)


def test_input_that_waits_for_a_slot_is_counted_when_it_starts() -> None:
    async def scenario(cluster: Cluster) -> None:
        async with cluster.open("one", slots=1, clock=AheadClock()) as runtime:
            metrics = Metrics(runtime)
            first = await metrics.read()
            assert "awaken_start_wait_seconds_count" not in first
            receipts = [
                await runtime.submit("worker", "go", thread_id=thread) for thread in ("t", "u")
            ]
            await cluster.entered.get()
            held = await metrics.read()
            # Told while the first one still executes; the second one has no slot.
            assert held["awaken_start_wait_seconds_count"] == 1
            assert 3_600 <= held["awaken_start_wait_seconds_sum"] < 3_600 + WAIT_S
            cluster.let_go.set()
            for receipt in receipts:
                assert (await runtime.wait(receipt.run_id)).text == "done"
            found = await metrics.read()
            assert found["awaken_start_wait_seconds_count"] == 2
            assert 7_200 <= found["awaken_start_wait_seconds_sum"] < 7_200 + 2 * WAIT_S
            claims = 'awaken_mailbox_operations_total{operation="claim",result="ok"}'
            assert found["awaken_claim_seconds_count"] == found[claims] >= 2

    play(scenario)


def test_a_lost_lease_and_a_recovered_run_are_counted_where_they_happen() -> None:
    async def scenario(cluster: Cluster) -> None:
        # Without room for another run: it cannot take its own one again.
        frozen, other = cluster.open("frozen", slots=1), cluster.open("other")
        async with frozen:
            here = Metrics(frozen)
            await here.read()
            receipt = await frozen.submit("worker", "go", thread_id="t")
            assert await cluster.entered.get() == "frozen"
            before = frozen._node._heartbeat.worker_id
            async with other:
                there = Metrics(other)
                await there.read()
                await cluster.lapse(frozen)
                assert other._node._sweeper is not None
                assert await other._node._sweeper.reclaim() == 1
                # It may not have been known as a worker when the run was taken back.
                wake = Signal(kind=SignalKind.DISPATCH_QUEUED, thread_id="t")
                other._node.bus.tell(wake, other._node.address)
                assert await cluster.entered.get() == "other"
                frozen._node._beat_soon()
                await until(lambda: frozen._node._heartbeat.worker_id != before)
                assert frozen._node.worker is not None
                await until(lambda: frozen._node.worker.in_flight == 0)  # type: ignore[union-attr]
                cluster.let_go.set()
                assert (await other.wait(receipt.run_id)).text == "done"
                names = ("awaken_leases_lost_total", "awaken_runs_recovered_total")
                found = [await it.read() for it in (here, there)]
                assert [[it[name] for name in names] for it in found] == [[1, 0], [0, 1]]

    play(scenario)


def test_a_commit_that_is_refused_is_a_lost_lease_too() -> None:
    async def scenario(cluster: Cluster) -> None:
        frozen, other = (cluster.open(it, has_worker=False) for it in ("frozen", "other"))
        async with frozen, other:
            metrics = Metrics(frozen)
            await metrics.read()
            handle = await frozen.start("worker", "go", thread_id="t")
            await cluster.entered.get()
            await cluster.lapse(frozen)
            (queued,) = await other.store.reclaim(10, None)
            assert queued.run_id == handle.run_id
            # It has not beaten since: its next commit tells it.
            cluster.let_go.set()
            await until(lambda: not list(frozen._parts.engine.active))
            assert (await metrics.read())["awaken_leases_lost_total"] == 1

    play(scenario)


def test_signals_are_counted_by_kind_where_they_are_sent_heard_and_dropped() -> None:
    async def scenario(cluster: Cluster) -> None:
        here, there = (cluster.open(it, has_worker=False) for it in ("here", "there"))
        async with here, there:
            near, far = Metrics(here), Metrics(there)
            first = [await it.read() for it in (near, far)]
            for number in range(3):
                signal = Signal(kind=SignalKind.DISPATCH_QUEUED, thread_id=f"t-{number}")
                here._node.bus.tell(signal, there._node.address)
            sent, heard, dropped = (
                f'awaken_signals_total{{kind="dispatch_queued",result="{it}"}}'
                for it in ("sent", "heard", "dropped")
            )
            assert not {sent, heard, dropped} & {*first[0], *first[1]}
            while (await near.read()).get(sent) != 3 or (await far.read()).get(heard) != 3:
                await asyncio.sleep(0.01)
            await here._node.bus.close()
            here._node.bus.tell(Signal(kind=SignalKind.DISPATCH_QUEUED, thread_id="t"))
            found = [await it.read() for it in (near, far)]
            assert found[0][dropped] == 1
            assert heard not in found[0], "an addressed signal is not heard by its sender"
            assert sent not in found[1]

    play(scenario)


async def read_text(runtime: AgentRuntime, run_id: str, shown: list[str]) -> None:
    stream = await runtime._parts.streams.stream_run(run_id)
    async for batch in stream.batches():
        for item in batch:
            event = unwrap_event(item)
            if isinstance(event, TextDelta):
                shown.append(event.delta)


def frames(found: dict[str, float], way: str, result: str) -> float:
    return found[f'awaken_frames_total{{way="{way}",result="{result}"}}']


def count_bytes(found: dict[str, float], way: str) -> float:
    return found[f'awaken_frame_bytes_total{{way="{way}"}}']


def test_what_one_node_sends_of_live_text_is_what_the_other_takes() -> None:
    async def scenario(cluster: Cluster) -> None:
        here, there = (cluster.open(it, has_worker=False) for it in ("here", "there"))
        async with here, there:
            near, far = Metrics(here), Metrics(there)
            assert frames(await near.read(), "out", "sent") == 0
            assert (await far.read())["awaken_frame_resyncs_total"] == 0
            handle = await here.start("talker", "go", thread_id="t")
            shown = list[str]()
            reading = asyncio.create_task(read_text(there, handle.run_id, shown))
            await until(lambda: "".join(shown) == "".join(WORDS[: GATES[0]]))
            for gate in cluster.model.gates.values():
                gate.set()
            await reading
            assert "".join(shown) == "".join(WORDS)
            # What was sent last may still be on its way.
            while True:
                sent, taken = await near.read(), await far.read()
                if count_bytes(sent, "out") == count_bytes(taken, "in") and count_bytes(
                    sent, "in"
                ) == count_bytes(taken, "out"):
                    break
                await asyncio.sleep(0.01)
            assert frames(taken, "in", "taken") > 1
            arrived = frames(taken, "in", "taken") + frames(taken, "in", "ignored")
            assert frames(sent, "out", "sent") == arrived
            assert frames(sent, "out", "dropped") == 0
            assert taken["awaken_frame_resyncs_total"] == 0
            assert taken["awaken_remote_lag_seconds_count"] == frames(taken, "in", "taken")
            assert 0 <= taken["awaken_remote_lag_seconds_sum"] < WAIT_S
            assert min(count_bytes(sent, way) for way in ("in", "out")) > 0

    play(scenario)


def test_a_lost_packet_is_one_resync_and_a_full_carrier_drops_frames(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_frames, "ASK_MS", 10)

    async def scenario(cluster: Cluster) -> None:
        here, there = (cluster.open(it, has_worker=False) for it in ("here", "there"))
        async with here, there:
            near, far = Metrics(here), Metrics(there)
            await near.read()
            await far.read()
            bus = here._node.bus
            assert isinstance(bus, LossyBus)
            handle = await here.start("talker", "go", thread_id="t")
            shown = list[str]()
            reading = asyncio.create_task(read_text(there, handle.run_id, shown))
            await until(lambda: "".join(shown) == "".join(WORDS[: GATES[0]]))
            bus.is_losing = True
            cluster.model.gates[GATES[0]].set()
            await until(lambda: bus.lost > 0)
            bus.is_losing = False
            cluster.model.gates[GATES[1]].set()
            await reading
            found = await far.read()
            assert found["awaken_frame_resyncs_total"] == 1
            sent = frames(await near.read(), "out", "sent")
            assert frames(found, "in", "taken") < sent
            # Without a connection nothing can be sent: what a watched run shows is dropped.
            for gate in cluster.model.gates.values():
                gate.clear()
            watched = here._parts.node.frames.watched
            again = await here.start("talker", "go", thread_id="u")
            reading = asyncio.create_task(read_text(there, again.run_id, []))
            await until(lambda: watched.count == 1)
            await bus.close()
            for gate in cluster.model.gates.values():
                gate.set()
            await again.result()
            # The first packet that is dropped may have a snapshot and no frame.
            counted = near.app.context.observations.node.frames.series
            await until(lambda: counted["out", "dropped"] > 0)
            assert frames(await near.read(), "out", "dropped") >= 1
            reading.cancel()
            await asyncio.wait([reading])

    play(scenario)


def test_every_round_trip_to_the_server_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()

    def count_calls(name: str) -> Any:
        method = getattr(asyncpg.Connection, name)

        async def call(self: Any, text: str, *args: Any, **options: Any) -> Any:
            # Signals have a connection of their own, and their own counts.
            if "pg_notify" not in text:
                asked.append(text)
            return await method(self, text, *args, **options)

        return call

    async def scenario(cluster: Cluster) -> None:
        async with cluster.open("one", has_worker=False) as runtime:
            metrics, node = Metrics(runtime), runtime._node._node
            assert node is not None
            await metrics.read()
            node.beat_soon()
            await until(lambda: metrics.count_statements()["lease"] == 1)
            cluster.let_go.set()
            await runtime.run("worker", "warm up", thread_id="t")
            for name in ("execute", "executemany", "fetch", "fetchrow", "fetchval"):
                monkeypatch.setattr(asyncpg.Connection, name, count_calls(name))
            before = metrics.count_statements()

            def count_since() -> dict[str, float]:
                now = metrics.count_statements()
                return {op: now[op] - before[op] for op in now if now[op] != before[op]}

            await runtime.store.load_thread("nothing")
            # Deliveries of A2A look into the store at any moment: their statements count too.
            assert count_since() == {"read": len(asked)} != {"read": 0}
            await runtime.run("worker", "go", thread_id="t")
            await runtime.run("worker", "go", thread_id="new")
            found = count_since()
            assert sum(found.values()) == len(asked) > 5
            assert found["write"] >= 2
            assert found["begin"] == found.get("commit", 0) + found.get("rollback", 0)
            node.beat_soon()
            await until(lambda: count_since().get("lease") == 1)
            assert sum(count_since().values()) == len(asked)

    play(scenario)


def test_a_wait_for_a_connection_is_counted_with_its_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited, time_wait = list[None](), Pool._time_wait

    async def count_waits(pool: Pool) -> None:
        await time_wait(pool)
        waited.append(None)

    # Deliveries of A2A begin with the first request, and look into the store at any moment.
    monkeypatch.setattr(Pool, "_time_wait", count_waits)

    async def scenario(cluster: Cluster) -> None:
        async with cluster.open("one", has_worker=False, pool=1) as runtime:
            metrics, store, now = Metrics(runtime), runtime.store, asyncio.get_running_loop().time
            await metrics.read()
            waits = metrics.app.context.observations.node.pool_waits.series[()]
            before, known = list(waits), len(waited)
            async with store.database._lend_connection():
                waiting = asyncio.create_task(store.load_thread("t"))
                await until(lambda: bool(store.database._pool._slots._waiters))
                since = now()
                await until(lambda: now() > since + 0.05)
                held_s = now() - since
            await waiting
            assert sum(waits[:-1]) == sum(before[:-1]) + len(waited) - known
            assert len(waited) >= known + 2
            assert waits[-1] >= before[-1] + held_s
            # A scrape asks the store too, and its own waits are short.
            assert (await metrics.read())["awaken_pool_wait_seconds_sum"] >= held_s

    play(scenario)
