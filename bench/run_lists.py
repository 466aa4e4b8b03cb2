"""Pages of a list of many runs in a SQLite file: every filter, both directions, any place.

    python bench/run_lists.py                 1,000,000 runs
    python bench/run_lists.py --runs 100000

The goal is 30 ms for 95 of 100 pages.
"""

import argparse
import asyncio
import json
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import quantiles
from typing import Any

from awaken.contracts.lifecycle import Failed, NaturalEnd, RunStatus
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.runs.records import RunKind, RunRecord, Waiting, WaitingReason
from awaken.contracts.storage.queries import Order, RunQuery
from awaken.stores.sql import rows
from awaken.stores.sqlite import SqliteStore

GOAL_MS = 30
THREADS_OF = 10
"""How many runs a thread has."""
STEP_MS = 40
ADD = """INSERT INTO runs (place, run_id, thread_no, status, created_at, finished_at, first_version,
    record, agent_id, kind, publication, tenant_id, ended, tokens, cost_nanos)
VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?)"""
FILTERS: dict[str, dict[str, Any]] = {
    "all": {},
    "chats and tasks": {"kinds": (RunKind.CHAT, RunKind.TASK)},
    "waiting": {"status": RunStatus.WAITING},
    "done": {"status": RunStatus.DONE},
    "an agent": {"agent_id": "agent-3"},
    "a rare agent": {"agent_id": "rare"},
    "errors": {"ended": "error"},
    "natural ends": {"ended": "natural_end"},
    "evals": {"kinds": (RunKind.EVAL,)},
    "a publication": {"publication": 7},
    "a tenant": {"tenant_id": "tenant-1"},
    "a tenant's errors": {"tenant_id": "tenant-1", "ended": "error"},
    "a tenant's agent": {"tenant_id": "tenant-1", "agent_id": "rare"},
    "an agent's errors": {"agent_id": "agent-3", "ended": "error"},
    "an agent on a publication": {"agent_id": "rare", "publication": 7},
    "two kinds of an agent": {"agent_id": "agent-3", "kinds": (RunKind.EVAL, RunKind.TASK)},
    "a thread": {"thread_id": "thread-77"},
    "an id": {"q": "run-00001234"},
    "a common prefix": {"q": "run-0"},
}


def make_rows(count: int) -> Iterator[tuple[Any, ...]]:
    """Runs of 20 agents and 4 tenants; 1 in 50 fails, 1 in 2,000 waits, 1 in 20 is an eval."""
    for n in range(count):
        is_waiting, thread = n % 2000 == 1999, n // THREADS_OF + 1
        kind = RunKind.EVAL if n % 20 == 7 else RunKind.CHAT
        ended = None if is_waiting else Failed(message="no") if n % 50 == 3 else NaturalEnd()
        created_at = n * STEP_MS
        record = RunRecord(
            run_id=f"run-{n:08}",
            thread_id=f"thread-{thread}",
            agent_id="rare" if n % 100_000 == 5 else f"agent-{n % 20}",
            status=RunStatus.WAITING if is_waiting else RunStatus.DONE,
            purpose=kind,
            publication=n * 50 // count,
            waiting=Waiting(reason=WaitingReason.USER_INPUT) if is_waiting else None,
            termination=ended,
            final_output="The order is on its way and arrives tomorrow.",
            usage=TokenUsage(prompt_tokens=800, completion_tokens=60, total_tokens=860),
            created_at=created_at,
        )
        yield (
            rows.place(thread, n % THREADS_OF + 1),
            record.run_id,
            thread,
            record.status.value,
            created_at,
            None if is_waiting else created_at + 900,
            rows.pack(record),
            record.agent_id,
            None if kind is RunKind.CHAT else kind.value,
            record.publication,
            f"tenant-{thread % 4}",
            "error" if isinstance(ended, Failed) else None,
            860,
            412_000,
        )


def fill(path: Path, count: int) -> None:
    """Write the runs and their threads; the indexes are made afterwards, which is much faster."""
    with closing(sqlite3.connect(path)) as file:
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -400000"):
            file.execute(f"PRAGMA {pragma}")
        indexes = file.execute(
            "SELECT name, sql FROM sqlite_master"
            " WHERE tbl_name = 'runs' AND type = 'index' AND sql IS NOT NULL"
        ).fetchall()
        for name, _ in indexes:
            file.execute(f"DROP INDEX {name}")
        threads = ((n, f"thread-{n}", f"tenant-{n % 4}") for n in range(1, count // THREADS_OF + 2))
        file.executemany(
            "INSERT INTO threads (no, id, tenant_id, head) VALUES (?, ?, ?, x'00')", threads
        )
        file.executemany(ADD, make_rows(count))
        for _, statement in indexes:
            file.execute(statement)
        file.commit()


async def measure(store: SqliteStore, count: int, samples: int) -> dict[str, list[float]]:
    """The milliseconds of pages by filter; half of them newest first."""
    chance, found = random.Random(1), dict[str, list[float]]()
    for name, filters in FILTERS.items():
        taken = found.setdefault(name, [])
        for n in range(samples):
            order = (Order.DESC, Order.ASC)[n % 2]
            place = None if n < 4 else (chance.randrange(count) * STEP_MS, "")
            query = RunQuery(limit=50, order=order, after=place, **filters)
            began = time.perf_counter()
            await store.list_runs(query)
            taken.append((time.perf_counter() - began) * 1000)
    return found


def summarize(found: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """The median, the 95th percentile and the longest of each."""
    every = {**found, "every page": [it for taken in found.values() for it in taken]}
    shown = {}
    for name, taken in every.items():
        cuts = quantiles(taken, n=20, method="inclusive")
        shown[name] = {
            "p50": round(cuts[9], 2),
            "p95": round(cuts[18], 2),
            "max": round(max(taken), 2),
        }
    return shown


async def run_bench(path: Path, count: int, samples: int) -> dict[str, dict[str, float]]:
    """Fill a file and measure."""
    store = SqliteStore(path)
    await store.open()
    await store.close()
    fill(path, count)
    await store.open()
    try:
        return summarize(await measure(store, count, samples))
    finally:
        await store.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        shown = asyncio.run(run_bench(Path(folder) / "runs.db", given.runs, given.samples))
    if given.json:
        print(json.dumps(shown))
    else:
        for name, figures in shown.items():
            print(
                f"{name:28}"
                + "".join(f"{key} {value:8.2f} ms   " for key, value in figures.items())
            )
    return int(shown["every page"]["p95"] > GOAL_MS)


if __name__ == "__main__":
    sys.exit(main())
