"""What a queued run costs, by counts: statements, log of the database, CPU, bytes that stay.

Used by `scale.py` and `capacity.py`. The runtime, its worker and the caller are one process.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from awaken import Agent, AgentRuntime, tool
from awaken.stores import PostgresStore
from awaken.testing import ScriptedModel, ToolCalls
from local_servers import new_schema, server
from statements import Spent, count_postgres

IDLE_S = 4.0
_TICKS = os.sysconf("SC_CLK_TCK")
# As they are before anything is counted: what looks for the end of a run is no part of it.
_UNCOUNTED = asyncpg.Connection.fetchval
_UNCOUNTED_ROW = asyncpg.Connection.fetchrow


@dataclass(frozen=True, slots=True)
class RunCost:
    """What one run with its submission costs, beside an idle node."""

    statements: float
    wal_bytes: float
    """Without images of whole pages."""
    postgres_ms: float
    node_ms: float
    kept_bytes: float


@tool(effect="none")
async def look_up(key: str) -> str:
    """Look something up."""
    return key


def make_agents() -> list[Agent]:
    """Agents whose runs have one and two steps."""
    call = ToolCalls([("look_up", {"key": "a"})])
    return [
        Agent("one", model=ScriptedModel(["Hello."], cycle=True)),
        Agent("two", model=ScriptedModel([call, "Done."], cycle=True), tools=[look_up]),
    ]


async def measure_idle(spent: Spent, seconds: float = IDLE_S) -> float:
    """Statements a second of what runs now."""
    before = spent.counts["statements"]
    await asyncio.sleep(seconds)
    return (spent.counts["statements"] - before) / seconds


async def _measure_rest(spent: Spent, watch: Any, schema: str) -> tuple[float, float]:
    """Statements and bytes of the log a second of a node that executes nothing."""
    before = await _read_meters(spent, watch, schema)
    await asyncio.sleep(IDLE_S)
    after = await _read_meters(spent, watch, schema)
    return (after[0] - before[0]) / IDLE_S, (after[1] - before[1]) / IDLE_S


async def measure_run(agent: str, runs: int) -> RunCost:
    """The mean of some queued runs, each on a thread of its own, one after another."""
    schema = new_schema()
    watch = await asyncpg.connect(server().url)
    with count_postgres() as spent:
        store = PostgresStore(server().url, schema=schema)
        async with AgentRuntime(make_agents(), store=store) as runtime:
            for number in range(5):
                await _finish(runtime, agent, f"warm-{number}", watch, schema)
            statements, logged = await _measure_rest(spent, watch, schema)
            before, began = await _read_meters(spent, watch, schema), time.perf_counter()
            for number in range(runs):
                await _finish(runtime, agent, f"thread-{number}", watch, schema)
            took = time.perf_counter() - began
            after = await _read_meters(spent, watch, schema)
        images = await _measure_images(watch, before[1], after[1])
    await watch.close()
    differences = [later - earlier for earlier, later in zip(before, after, strict=True)]
    differences[0] -= statements * took
    differences[1] -= logged * took + images
    return RunCost(*(it / runs for it in differences))


async def _measure_images(watch: Any, start: float, end: float) -> float:
    """Bytes of whole pages in a part of the log: what a checkpoint costs, not a run."""
    await watch.execute("CREATE EXTENSION IF NOT EXISTS pg_walinspect WITH SCHEMA public")
    found = await _UNCOUNTED(
        watch,
        "SELECT sum(fpi_size) FROM public.pg_get_wal_stats("
        "'0/0'::pg_lsn + $1::numeric, '0/0'::pg_lsn + $2::numeric)",
        int(start),
        int(end),
    )
    return float(found)


async def _finish(runtime: Any, agent: str, thread_id: str, watch: Any, schema: str) -> None:
    """Submit input and look for the end of its run; the looks are not counted."""
    receipt = await runtime.submit(agent, "go", thread_id=thread_id)
    text = f"SELECT 1 FROM {schema}.runs WHERE run_id = $1 AND status = 'done'"
    async with asyncio.timeout(60):
        while await _UNCOUNTED(watch, text, receipt.run_id) is None:
            await asyncio.sleep(0.02)


async def _read_meters(spent: Spent, watch: Any, schema: str) -> list[float]:
    statements = spent.counts["statements"]
    wal, kept = await _UNCOUNTED_ROW(
        watch,
        "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn, (SELECT sum(pg_total_relation_size("
        "c.oid)) FROM pg_class c WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'r')",
        schema,
    )
    own_ms = time.process_time() * 1000
    return [statements, float(wal), read_postgres_ms(), own_ms, float(kept)]


def read_postgres_ms() -> float:
    """CPU of the server, of sessions that ended as well."""
    data = Path(server()._server.pgdata)
    postmaster = int((data / "postmaster.pid").read_text().split()[0])
    ticks = sum(_ticks(postmaster)[:4])
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                own = _ticks(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
            if own[4] == postmaster:
                ticks += own[0] + own[1]
    return ticks * 1000 / _TICKS


def _ticks(pid: int) -> tuple[int, int, int, int, int]:
    """User and system time of a process, the same of its ended children, and its parent."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, ended_user, ended_system = map(int, fields[11:15])
    return user, system, ended_user, ended_system, int(fields[1])
