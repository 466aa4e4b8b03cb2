"""What durability costs at scale: runs per second, flat cost, cold loads, suspended runs.

    python bench/durable.py [--runs 2000] [--concurrent 100] [--suspended 10000] [--store URL]

Prints one table. Everything happens in one process on SQLite with full fsync unless a store is
named; the model answers at once, so that nothing but the runtime and its store is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import shutil
import sqlite3
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from awaken import Agent, AgentRuntime, Message, ToolContext, tool
from awaken.contracts.messages.deltas import TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.messages.message import Role, user
from awaken.contracts.models.inference import InferenceRequest, ModelEvent, Stop, StopReason
from awaken.contracts.storage.store import Commit
from awaken.contracts.suspension.tickets import SuspendTicket

LONG = 2000
FLAT = "flat cost"


class Model:
    """Asks for one tool call when the user spoke last, and answers when a result came."""

    name = "bench"

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Play one turn."""
        if request.messages[-1].role is Role.USER:
            name = "ask" if "ask" in request.messages[-1].text else "look_up"
            yield ToolCallStart(id=f"call_{len(request.messages)}", name=name)
            yield ToolCallDelta(id=f"call_{len(request.messages)}", args_delta='{"key": "alpha"}')
            yield Stop(reason=StopReason.TOOL_USE)
        else:
            yield TextDelta(delta="The answer is 42.")
            yield Stop(reason=StopReason.END_TURN)


@tool(effect="once")
async def look_up(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


@tool
async def ask(key: str, ctx: ToolContext) -> str | SuspendTicket:
    """Ask a person first."""
    return ctx.suspend(f"Use {key}?") if ctx.resume is None else "used"


def runtime(url: str) -> AgentRuntime:
    """A runtime on the store."""
    agent = Agent("agent", model=Model(), instructions="Be brief.", tools=[look_up, ask])
    return AgentRuntime([agent], store=url)


def rss_mb() -> float:
    """Resident memory of this process now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


Found = tuple[str, dict[str, float]]
"""What a line of the table says, and its figures."""


async def throughput(url: str, runs: int, concurrent: int) -> Found:
    """Durable runs with one tool call each, so many at once."""
    async with runtime(url) as on:
        await on.run("agent", "warm up", thread_id="warm")

        async def one(number: int) -> None:
            for turn in range(runs // concurrent):
                await on.run("agent", f"turn {turn}", thread_id=f"thread-{number}")

        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(one(number) for number in range(concurrent)))
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    done = runs // concurrent * concurrent
    figures = {"runs/s": done / wall, "CPU ms": cpu / done * 1e3}
    return f"{done / wall:,.0f} runs/s, {cpu / done * 1e3:.2f} ms CPU a run", figures


async def submitted(url: str, runs: int) -> Found:
    """Runs that go through the mailbox and the worker."""
    async with runtime(url) as on:
        began = time.perf_counter()
        receipts = await asyncio.gather(
            *(on.submit("agent", "go", thread_id=f"queued-{number}") for number in range(runs))
        )
        for receipt in receipts:
            await on.wait(receipt.run_id, timeout_ms=120_000)
        wall = time.perf_counter() - began
    return f"{runs / wall:,.0f} runs/s", {"queued runs/s": runs / wall}


async def cold_load(url: str) -> Found:
    """The first checkout of a long thread in a fresh process's store object."""
    async with runtime(url) as on:
        messages = tuple(
            Message(role=Role.USER, id=f"m{n}", content=user(f"message {n} " + "x" * 200).content)
            for n in range(LONG)
        )
        await on.store.commit(
            Commit(
                commit_id="long:1",
                thread_id="long",
                expected_version=0,
                committed_at=1,
                messages=messages,
            )
        )
    best = 1e9
    for _ in range(5):
        async with runtime(url) as on:
            began = time.perf_counter()
            found = await on.store.checkout("long")
            best = min(best, time.perf_counter() - began)
            assert found is not None
            assert len(found.messages) == LONG
    return f"{best * 1e3:.1f} ms for {LONG:,} messages", {"cold load ms": best * 1e3}


async def flatness(url: str) -> Found:
    """Bytes written and statements run per turn, early and late in a thread."""
    early, late = [], []
    async with runtime(url) as on:
        for turn in range(LONG // 4 + 12):
            statements, written = _Counted.total, _written()
            await on.run("agent", "go", thread_id="flat")
            figures = (_Counted.total - statements, _written() - written)
            if 5 <= turn < 15:
                early.append(figures)
            if turn >= LONG // 4 - 2:
                late.append(figures)
    ratios = [
        sum(row[index] for row in late[:10]) / sum(row[index] for row in early)
        for index in range(2)
    ]
    what = f"message {LONG:,} against message 20"
    figures = {"flat statements": ratios[0], "flat bytes": ratios[1]}
    return f"{what}: {ratios[0]:.2f} x statements, {ratios[1]:.2f} x bytes", figures


async def suspended(url: str, count: int) -> Found:
    """Runs that wait for a decision: what they cost this process, and a restart."""
    async with runtime(url) as on:
        await on.run("agent", "ask", thread_id="warm-asking")
        gc.collect()
        before = rss_mb()
        for start in range(0, count, 100):
            numbers = range(start, min(start + 100, count))
            await asyncio.gather(
                *(on.run("agent", "ask", thread_id=f"asking-{number}") for number in numbers)
            )
        gc.collect()
        grown = rss_mb() - before
    async with runtime(url) as on:
        began = time.perf_counter()
        tickets = await on.tickets("asking-0")
        await on.decide(tickets[0].ticket_id, "resume")
        result = await on.wait(tickets[0].run_id, timeout_ms=30_000)
        assert result.text
        first = time.perf_counter() - began
    after = f"after a restart one went on in {first * 1e3:.0f} ms"
    figures = {"suspended": float(count), "suspended MB": grown, "resumed ms": first * 1e3}
    return f"{count:,} runs grew the process by {grown:.1f} MB; {after}", figures


def _written() -> int:
    with open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("wchar"))


class _Counted(sqlite3.Connection):
    """Counts what is asked of SQLite."""

    total = 0

    def execute(self, *args, **kwargs):
        _Counted.total += 1
        return super().execute(*args, **kwargs)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--concurrent", type=int, default=100)
    parser.add_argument("--suspended", type=int, default=10_000)
    parser.add_argument("--json", action="store_true", help="the figures in one line")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=Path.cwd()))
    plain_connect = sqlite3.connect
    try:
        rows = [
            (
                "foreground runs, one tool call each",
                throughput(_url(folder, "a"), args.runs, args.concurrent),
            ),
            ("queued runs through the worker", submitted(_url(folder, "b"), args.runs)),
            ("cold load", cold_load(_url(folder, "c"))),
            ("suspended runs", suspended(_url(folder, "d"), args.suspended)),
            (FLAT, flatness(_url(folder, "e"))),
        ]
        figures: dict[str, float] = {}
        print("| what | measured |\n|---|---|")
        for name, work in rows:
            if name == FLAT:
                sqlite3.connect = lambda *a, **k: plain_connect(*a, factory=_Counted, **k)
            text, found = asyncio.run(work)
            figures |= found
            print(f"| {name} | {text} |", flush=True)
        if args.json:
            print(json.dumps(figures))
    finally:
        sqlite3.connect = plain_connect
        shutil.rmtree(folder)


def _url(folder: Path, name: str) -> str:
    return f"sqlite:///{folder / name}.db"


if __name__ == "__main__":
    main()
