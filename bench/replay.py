"""What recordings cost: history in every durable turn, and recording and replaying of a long run.

    python bench/replay.py [--turns 200] [--steps 1000] [--rounds 5]

Prints one table beside the goals, and exits with 1 if a figure misses its goal. Bytes are those
that SQLite writes to its log, page by page, and are the same in every round. CPU time is that of
this process, so that other programs change it little; turns with and without history take turns in
one run, and the median of the ratios counts.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import logging
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, median_low
from typing import Any
from unittest.mock import patch

import msgspec

from awaken import Agent, AgentRuntime, StateKey, ToolContext, tool
from awaken.bootstrap.replays import build_recorder, build_replays
from awaken.contracts.events import InferenceComplete, ToolCallDone
from awaken.contracts.storage.store import Commit
from awaken.evals.recording_files import encode_recording
from awaken.plugins import StateScope
from awaken.runtime.inference import inference_session
from awaken.stores.sql.store import SqlStore
from awaken.testing import ScriptedModel, ToolCalls

BYTES_RATIO = 1.08
CPU_RATIO = 1.03
STEPS_PER_S = 200
RECORD_S = 2.0
PACKED_BYTES = 20 * 1024 * 1024
WARM_TURNS = 20
WRITTEN_TURNS = 40
COUNT: StateKey[int, int] = StateKey("bench_count", default=0, scope=StateScope.THREAD)


@tool(effect="none")
async def count(n: int, ctx: ToolContext) -> str:
    """Count, and keep the number."""
    ctx.state.set(COUNT, n)
    return f"line {n}: " + "some text of a result " * 10


@dataclass(frozen=True)
class Growth:
    """What a turn on a thread costs."""

    bytes: int
    """What is written to the disk in the log of SQLite; the median."""
    longest: int
    """The same of the turn that writes most: it does not grow with the thread."""
    cpu_s: float


def strip_commit(commit: Commit) -> Commit:
    """Return a commit without what its events keep for recordings."""
    events: list[Any] = []
    for event in commit.events:
        if isinstance(event, InferenceComplete):
            event = msgspec.structs.replace(
                event, started_at=None, first_token_ms=None, attempts=1, request_digest=None
            )
        elif isinstance(event, ToolCallDone):
            event = msgspec.structs.replace(event, started_at=None, duration_ms=0, attempts=1)
        events.append(event)
    return msgspec.structs.replace(commit, events=tuple(events))


@contextmanager
def without_history() -> Iterator[None]:
    """Let turns write neither digests nor times."""
    write = SqlStore.commit

    async def commit_stripped(store: SqlStore, commit: Commit) -> Any:
        return await write(store, strip_commit(commit))

    with (
        patch.object(inference_session, "digest_request", lambda *_: None),
        patch.object(SqlStore, "commit", commit_stripped),
    ):
        yield


def measure_growth(turns: int, *, is_full: bool) -> Growth:
    """Take turns on threads of ten turns each, with history or without, and measure one."""
    if not is_full:
        with without_history():
            return asyncio.run(_grow(turns, "lean"))
    return asyncio.run(_grow(turns, "full"))


async def _grow(turns: int, history: Any) -> Growth:
    script = [ToolCalls([("count", {"n": 7})]), "The number is kept."]
    agent = Agent("a", model=ScriptedModel(script, cycle=True), tools=[count])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.db"
        store = f"sqlite:///{file}"
        async with AgentRuntime([agent], store=store, history=history) as runtime:
            for n in range(WARM_TURNS):
                await runtime.run("a", "count", thread_id=f"w{n // 10}")
            began = time.process_time()
            for n in range(turns):
                await runtime.run("a", "count", thread_id=f"t{n // 10}")
            spent = time.process_time() - began
            written = []
            for n in range(WRITTEN_TURNS):
                _empty_log(file)
                await runtime.run("a", "count", thread_id=f"b{n // 10}")
                written.append(file.with_name("a.db-wal").stat().st_size)
    return Growth(bytes=median_low(written), longest=max(written), cpu_s=spent / turns)


def _empty_log(file: Path) -> None:
    """Move all that was written into the database, so that the next turn's writes can be seen."""
    connection = sqlite3.connect(file)
    try:
        (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.close()
    if is_busy:
        sys.exit("the log of the database is in use")


@dataclass(frozen=True)
class LongRun:
    """What it takes to record a long run and to replay it."""

    record_s: float
    packed: int
    steps_per_s: float


def measure_long_run(steps: int) -> LongRun:
    """Record a run of so many steps on SQLite, and verify it."""
    script: list[Any] = [ToolCalls([("count", {"n": n})]) for n in range(steps - 1)]
    agent = Agent("a", model=ScriptedModel([*script, "done"]), tools=[count], max_rounds=steps + 1)

    async def main() -> LongRun:
        with tempfile.TemporaryDirectory() as folder:
            async with AgentRuntime([agent], store=f"sqlite:///{folder}/a.db") as runtime:
                run = await runtime.run("a", "go")
                engine = runtime.view("bench").engine
                began = time.process_time()
                recording = await build_recorder(engine).record(run.run_id)
                record_s = time.process_time() - began
                began = time.process_time()
                result = await build_replays(engine).replay(recording)
                replay_s = time.process_time() - began
        if not result.is_same:
            sys.exit(f"the replay diverged: {result.divergences[0]}")
        packed = len(gzip.compress(encode_recording(recording)))
        return LongRun(record_s=record_s, packed=packed, steps_per_s=steps / replay_s)

    return asyncio.run(main())


def main() -> None:
    """Measure, print, and exit with 1 if a goal is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    rounds = [
        (measure_growth(args.turns, is_full=False), measure_growth(args.turns, is_full=True))
        for _ in range(args.rounds)
    ]
    without, full = rounds[0]
    cpu = median(two.cpu_s / one.cpu_s for one, two in rounds)
    long_run = measure_long_run(args.steps)
    rows = (
        # Why a turn writes that much is in ADR 46.
        ("written bytes of a turn with history", full.bytes, "", 0),
        ("the same of the turn that writes most", full.longest, "", 0),
        ("bytes: with history / without", full.bytes / without.bytes, "<=", BYTES_RATIO),
        ("CPU: with history / without", cpu, "<=", CPU_RATIO),
        (f"recording {args.steps} steps, s of CPU", long_run.record_s, "<=", RECORD_S),
        (f"recording of {args.steps} steps, packed bytes", long_run.packed, "<=", PACKED_BYTES),
        ("replayed steps in a second of CPU", long_run.steps_per_s, ">=", STEPS_PER_S),
    )
    is_met = True
    for name, value, sign, goal in rows:
        is_good = not sign or (value <= goal if sign == "<=" else value >= goal)
        is_met = is_met and is_good
        shown = f"{value:.3f}" if isinstance(value, float) and value < 100 else f"{value:,.0f}"
        wanted = f"   goal {sign} {goal:,}" if sign else ""
        print(f"{name:45} {shown:>12}{wanted}{'' if is_good else '   MISSED'}")
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
