"""What a queued run of two steps asks of Postgres: round trips, bytes of its log, CPU time.

    python bench/postgres_cost.py [--runs 200] [--before OTHER_TREE] [--rounds 3]

The runs are submitted to one worker, a few at a time, each on a thread of its own. With `--before`
another checkout does the same on the same server, in turns, and a line has the ratios. A round trip
is a call of the driver; the CPU time is that of all processes of the server. Each round is a new
process with a new schema, and its first runs are not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WARM_RUNS = 200
AT_ONCE = 4
FIGURES = ("round trips", "log bytes", "CPU ms")
ROUND_S = 600
_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


async def execute_runs(url: str, schema: str, runs: int) -> dict[str, float]:
    """Submit runs to a worker of this process; returns what each of them cost."""
    import asyncpg

    from awaken import Agent, AgentRuntime, tool
    from awaken.buses.postgres import PostgresBus

    # By the module that older checkouts have as well.
    from awaken.stores.postgres import PostgresStore
    from awaken.testing import ScriptedModel, ToolCalls
    from statements import count_postgres

    class EndingStore(PostgresStore):
        """Tells which threads were released by the end of their run."""

        ends: dict[str, asyncio.Event]

        async def commit(self, commit: Any) -> Any:
            receipt = await super().commit(commit)
            if commit.release is not None:
                self.ends[commit.thread_id].set()
            return receipt

    @tool(effect="once")
    async def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([ToolCalls([("pay", {})]), "done"], cycle=True)
    agent = Agent("agent", model=model, tools=[pay])
    store, bus = EndingStore(url, schema=schema), PostgresBus(url, channel=schema)
    store.ends = {}

    async def run_some(runtime: AgentRuntime, first: int, count: int) -> None:
        for start in range(first, first + count, AT_ONCE):
            names = [f"thread-{start + place}" for place in range(AT_ONCE)]
            store.ends = {name: asyncio.Event() for name in names}
            await asyncio.gather(*(runtime.submit("agent", "hi", thread_id=name) for name in names))
            await asyncio.gather(*(end.wait() for end in store.ends.values()))

    watcher = await asyncpg.connect(url)
    server = int(_read_stat(await watcher.fetchval("SELECT pg_backend_pid()"))[1])
    with count_postgres() as spent:
        async with AgentRuntime([agent], store=store, bus=bus) as runtime:
            await run_some(runtime, 0, WARM_RUNS)
            place = await watcher.fetchval("SELECT pg_current_wal_insert_lsn()::text")
            trips, ticks = spent.counts["round trips"], _count_ticks(server)
            await run_some(runtime, WARM_RUNS, runs)
            trips, ticks = spent.counts["round trips"] - trips, _count_ticks(server) - ticks
            size = "SELECT pg_current_wal_insert_lsn() - $1::text::pg_lsn"
            written = int(await watcher.fetchval(size, place))
    await watcher.close()
    return dict(zip(FIGURES, (trips / runs, written / runs, ticks * _TICK_MS / runs), strict=True))


def _read_stat(process: int) -> list[str]:
    """The fields of a process behind its name: state, parent, …"""
    text = Path(f"/proc/{process}/stat").read_text("utf-8")
    return text.rpartition(")")[2].split()


def _count_ticks(server: int) -> int:
    """CPU time of a server, of its processes, and of those that have ended."""
    total = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            stat = _read_stat(int(folder.name))
        except OSError:
            continue
        if int(folder.name) == server:
            total += sum(map(int, stat[11:15]))
        elif int(stat[1]) == server:
            total += sum(map(int, stat[11:13]))
    return total


def measure(tree: Path, url: str, schema: str, runs: int) -> dict[str, float]:
    """Execute the runs with the package of a checkout."""
    done = subprocess.run(
        [sys.executable, __file__, "--inside", url, schema, "--runs", str(runs)],
        env={**os.environ, "PYTHONPATH": f"{tree / 'src'}"},
        check=True,
        timeout=ROUND_S,
        stdout=subprocess.PIPE,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", type=Path, metavar="OTHER_TREE")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        print(json.dumps(asyncio.run(execute_runs(*args.inside, args.runs))))
        return
    sys.path.insert(0, str(ROOT))
    from tests.postgres.server import new_schema, server

    trees = {"here": ROOT} | ({"before": args.before.resolve()} if args.before else {})
    found: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    for _ in range(args.rounds):
        for name, tree in trees.items():
            found[name].append(measure(tree, server().url, new_schema(), args.runs))
    medians = {
        name: [median(it[figure] for it in rounds) for figure in FIGURES]
        for name, rounds in found.items()
    }
    print("| tree | " + " | ".join(FIGURES) + " |\n|---|" + "---|" * len(FIGURES))
    for name, figures in medians.items():
        print(f"| {name} | " + " | ".join(f"{it:,.1f}" for it in figures) + " |")
    if args.before:
        pairs = zip(medians["here"], medians["before"], strict=True)
        print("| here / before | " + " | ".join(f"{a / b:.2f}" for a, b in pairs) + " |")


if __name__ == "__main__":
    main()
