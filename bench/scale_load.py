"""The rows of `scale.py` that need processes, many runs or a large store."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

import postgres_cost
import two_nodes
from awaken import Agent, AgentRuntime, tool
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.queries import Order, RunQuery
from awaken.mailbox.config import MailboxConfig
from awaken.stores import PostgresStore
from awaken.testing import Chunks, ScriptedModel, ToolCalls
from local_servers import new_schema, server
from scale_cost import measure_idle
from scale_node import make_agents
from statements import count_postgres

HERE = Path(__file__).parent
HELD = 64
SLOTS = 8
ROUNDS = 4
START_S, KILL_S = 60, 90
FAIR_SLOTS, FAIR_MS = 4, 100
FOREIGN_HEADS = 10_000
BASELINE = "d1a9abd"
"""The commit before the work on several nodes."""
COST_ROUNDS = 9
"""A round counts processor time in ticks of 10 ms, and the database has work of its own."""
CHAOS_S = 280


def describe_isolation() -> str:
    """How processes see each other: in one namespace a dead one is noticed without its lease."""
    return "by its lease" if _can_unshare() else "on the same machine"


def _can_unshare() -> bool:
    return os.geteuid() == 0 and shutil.which("unshare") is not None


@contextmanager
def running_node(schema: str, carrier: str, slots: int) -> Iterator[subprocess.Popen[str]]:
    """A worker in a process, and in a namespace, of its own; killed in the end."""
    command = [sys.executable, str(HERE / "scale_node.py"), schema, server().url, carrier]
    alone = ["unshare", "--pid", "--fork", "--kill-child=KILL"] if _can_unshare() else []
    process = subprocess.Popen(
        [*alone, *command, str(slots)], stdout=subprocess.PIPE, text=True, cwd=HERE
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def until_ready(process: subprocess.Popen[str]) -> None:
    """Wait until a node has said that it works."""
    assert process.stdout is not None
    async with asyncio.timeout(START_S):
        line = await asyncio.to_thread(process.stdout.readline)
    if line.strip() != "ready":
        message = "a node did not start"
        raise RuntimeError(message)


def open_caller(schema: str, carrier: str) -> AgentRuntime:
    """A runtime that submits and reads, and executes nothing."""
    return AgentRuntime(
        make_agents(),
        store=PostgresStore(server().url, schema=schema),
        bus=two_nodes.open_bus(carrier, schema),
        has_worker=False,
    )


async def measure_kill(carrier: str) -> tuple[float, bool]:
    """Seconds until a run goes on after kill -9, and whether a reader saw no event twice."""
    schema = new_schema()
    with ExitStack() as stack:
        async with open_caller(schema, carrier) as caller:
            first = stack.enter_context(running_node(schema, carrier, SLOTS))
            await until_ready(first)
            receipt = await caller.submit("long", "go", thread_id="long")
            seen: list[tuple[int, float]] = []
            reading = asyncio.create_task(_follow(caller, receipt.run_id, seen))
            await _until(lambda: len(seen) > 3, START_S)
            second = stack.enter_context(running_node(schema, carrier, SLOTS))
            await until_ready(second)
            before = await caller.store.find_claim_holder("long")
            first.kill()
            killed = time.perf_counter()
            async with asyncio.timeout(KILL_S):
                while await caller.store.find_claim_holder("long") in (None, before):
                    await asyncio.sleep(0.02)
            # Events of the first node may have been on their way: those of the second one count.
            count = len(seen)
            await _until(lambda: len(seen) > count, KILL_S)
            resumed = seen[count][1]
            reading.cancel()
            await asyncio.wait([reading])
            logged = [it.seq for it in await caller.store.list_events("long")]
    shown = [seq for seq, _ in seen]
    is_whole = shown == sorted(set(shown)) and logged == list(range(1, len(logged) + 1))
    return resumed - killed, is_whole


async def _follow(runtime: Any, run_id: str, seen: list[tuple[int, float]]) -> None:
    from awaken.contracts.events import LoggedEvent

    # The run may not have begun: a reader of a run that is not there yet is refused.
    while (await runtime.store.load_run(run_id)) is None:
        await asyncio.sleep(0.02)
    stream = await runtime._parts.streams.stream_run(run_id)
    async for batch in stream.batches():
        seen += [(it.seq, time.perf_counter()) for it in batch if isinstance(it, LoggedEvent)]


async def _until(is_so: Callable[[], bool], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not is_so():
            await asyncio.sleep(0.02)


async def measure_workers(count: int, carrier: str) -> float:
    """Runs a second of some workers with eight slots each, whose model takes a second."""
    schema = new_schema()
    with ExitStack() as stack:
        async with open_caller(schema, carrier) as caller:
            nodes = [
                stack.enter_context(running_node(schema, carrier, SLOTS)) for _ in range(count)
            ]
            await asyncio.gather(*map(until_ready, nodes))
            runs = count * SLOTS * ROUNDS
            began = time.perf_counter()
            for number in range(runs):
                await caller.submit("slow", "go", thread_id=f"thread-{number}")
            async with open_session(schema) as watch:
                text = "SELECT count(*) FROM runs WHERE status = 'done'"
                async with asyncio.timeout(120):
                    while await watch.fetchval(text) < runs:
                        await asyncio.sleep(0.05)
            return runs / (time.perf_counter() - began)


async def measure_fairness(backlog: int) -> float:
    """How many runs' time one run of a tenant waits for its start behind another's backlog.

    By what runs take at that moment, which depends on the load of the machine.
    """
    answer = Chunks(["a", "b"], delay_ms=FAIR_MS)
    agent = Agent("agent", model=ScriptedModel([answer], cycle=True))
    async with AgentRuntime(
        [agent],
        store=PostgresStore(server().url, schema=new_schema()),
        mailbox=MailboxConfig(concurrency=FAIR_SLOTS),
    ) as runtime:
        for number in range(backlog):
            await runtime.submit("agent", "go", thread_id=f"many-{number}", tenant_id="many")
        receipt = await runtime.submit("agent", "go", thread_id="one", tenant_id="one")
        queued_at = await runtime.store.now_ms()
        async with asyncio.timeout(180):
            await runtime.wait(receipt.run_id)
        run = await runtime.store.load_run(receipt.run_id)
        query = RunQuery(order=Order.DESC, limit=50)
        others = (await runtime.store.list_runs(query)).items
        took = [it.finished_at - it.started_at for it in others if it.finished_at is not None]
        return (run.started_at - queued_at) / statistics.median(took)


async def measure_beats(at_most: Callable[..., Any]) -> list[Any]:
    """Statements of a beat that keeps many runs, and of a control signal for one of them."""
    rows = []
    counts: dict[int, float] = {}
    for held in (1, HELD):
        with count_postgres() as spent:
            async with open_holder(new_schema()) as (here, there):
                await asyncio.sleep(2)
                idle = await measure_idle(spent)
                for number in range(held):
                    await here.start("sleeper", "go", thread_id=f"held-{number}")
                await asyncio.sleep(3)
                busy = await measure_idle(spent)
                if held == HELD:
                    what = f"statements of a beat of {HELD} runs"
                    rows.append(at_most(what, 3, max(busy - idle, 0)))
                run = await here.store.load_thread("held-0")
                before, began = spent.counts["statements"], time.perf_counter()
                await there.cancel(run.latest_run_id)
                await asyncio.sleep(1)
                took = time.perf_counter() - began
                counts[held] = spent.counts["statements"] - before - busy * took
    more = max(counts[HELD] - counts[1], 0)
    what = f"statements of one control signal that {HELD} runs add"
    return [*rows, at_most(what, 3, more)]


@asynccontextmanager
async def open_holder(schema: str) -> AsyncIterator[tuple[AgentRuntime, AgentRuntime]]:
    """A node that keeps runs, beating each second, and one that asks it."""

    @tool(effect="idempotent")
    async def wait() -> str:
        """Take long."""
        await asyncio.sleep(600)
        return "waited"

    def make(**options: Any) -> AgentRuntime:
        sleep = ScriptedModel([ToolCalls([("wait", {})])], cycle=True)
        return AgentRuntime(
            [Agent("sleeper", model=sleep, tools=[wait])],
            store=PostgresStore(server().url, schema=schema),
            bus=two_nodes.open_bus("postgres", schema),
            has_worker=False,
            **options,
        )

    config = MailboxConfig(lease_ms=5_000, renew_ms=1_000, drain_ms=0)
    async with make(mailbox=config) as here, make() as there:
        yield here, there


@asynccontextmanager
async def open_session(schema: str) -> AsyncIterator[asyncpg.Connection]:
    """A session of this process beside the store's."""
    connection = await asyncpg.connect(server().url)
    try:
        await connection.execute(f"SET search_path = {schema}")
        yield connection
    finally:
        await connection.close()


async def measure_large_store(threads: int) -> dict[str, float]:
    """Milliseconds of the slowest statement of each kind of work, beside idle threads."""
    schema = new_schema()
    store = PostgresStore(server().url, schema=schema)
    await store.open()
    try:
        await _fill(store, schema, threads)
        now = await store.now_ms()
        work: dict[str, Callable[[int], Awaitable[object]]] = {
            "submission": lambda it: store.enqueue(_make_dispatch(f"d-{it}", "mine")),
            "claim": lambda it: store.claim("worker", f"token-{it}", 60_000, agents=("mine",)),
            "sweep": lambda _: store.reclaim(),
            "purge": lambda _: store.purge(now - 7 * 86_400_000),
            "count": lambda _: store.count_queued(),
        }
        return {name: await _time_slowest(job) for name, job in work.items()}
    finally:
        await store.close()


async def _fill(store: PostgresStore, schema: str, threads: int) -> None:
    """Queue work of an agent that is elsewhere, then copy its threads and many idle ones."""
    await store.enqueue(_make_dispatch("d-foreign", "foreign"))
    async with open_session(schema) as session:
        await session.execute("SET statement_timeout = 0")
        names = await session.fetch(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'threads'::regclass AND attnum > 0"
            " AND NOT attisdropped AND attname NOT IN ('no', 'id')"
        )
        columns = ", ".join(row[0] for row in names)
        await session.execute(
            f"INSERT INTO threads (id, {columns}) SELECT 'foreign-' || n, {columns} FROM threads,"
            f" generate_series(1, {FOREIGN_HEADS}) AS n WHERE id = 'thread-d-foreign'"
        )
        await session.execute(
            "INSERT INTO threads (id, head, version)"
            f" SELECT 'idle-' || n, '', 1 FROM generate_series(1, {threads}) AS n",
            timeout=600,
        )
        await session.execute("ANALYZE threads")


def _make_dispatch(name: str, agent: str) -> RunDispatch:
    from awaken.testing.store_conformance.writing import dispatch

    made = dispatch(name, thread_id=f"thread-{name}")
    return msgspec.structs.replace(
        made, request=msgspec.structs.replace(made.request, agent_id=agent)
    )


async def _time_slowest(job: Callable[[int], Awaitable[object]]) -> float:
    """The middle of five looks at the slowest statement of a job, after one that warms it up."""
    slowest: list[float] = []
    fetches = {name: getattr(asyncpg.Connection, name) for name in ("execute", "fetch", "fetchrow")}

    def add_timing(method: Any) -> Any:
        async def call(*args: Any, **options: Any) -> Any:
            began = time.perf_counter()
            result = await method(*args, **options)
            slowest[-1] = max(slowest[-1], (time.perf_counter() - began) * 1000)
            return result

        return call

    try:
        for name, method in fetches.items():
            setattr(asyncpg.Connection, name, add_timing(method))
        for number in range(6):
            slowest.append(0.0)
            await job(number)
    finally:
        for name, method in fetches.items():
            setattr(asyncpg.Connection, name, method)
    return sorted(slowest[1:])[2]


def compare_cost(runs: int) -> tuple[float, str]:
    """CPU of Postgres for a queued run here and at `BASELINE`, in turns: ratio and both."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "src.tar"
        root = postgres_cost.ROOT
        asked = ["git", "-C", str(root), "archive", "--output", str(archive), BASELINE, "src"]
        subprocess.run(asked, check=True)
        shutil.unpack_archive(archive, folder)
        found: dict[Path, list[float]] = {root: [], Path(folder): []}
        for _ in range(COST_ROUNDS):
            for tree, spent in found.items():
                cost = postgres_cost.measure(tree, server().url, new_schema(), runs)
                spent.append(cost["CPU ms"])
    here, before = map(statistics.median, found.values())
    return here / before, f"{here:.1f} and {before:.1f} ms"


def play_chaos(faults: int) -> tuple[int, int]:
    """Play faults over all carriers: how many promises were broken, how many streams read."""
    command = [sys.executable, "-m", "tests.torture.cluster_chaos", "--faults", str(faults)]
    done = subprocess.run(
        command, check=False, timeout=CHAOS_S, cwd=HERE.parent, capture_output=True, text=True
    )
    streams = re.search(r"streams read: (\d+)", done.stdout)
    failed = re.search(r"passed, (\d+) failed", done.stdout)
    if streams is None or failed is None:
        raise RuntimeError(done.stdout[-500:] + done.stderr[-500:])
    return int(failed[1]), int(streams[1])
