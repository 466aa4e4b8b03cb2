"""What is done to every server: a crowd of clients, streams that stay open, too many clients."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from frameworks import HERE
from server_clients import Answers, Exchange, ask, crowd, exchange
from server_processes import NotReady, Server, serving
from server_rows import Row
from stats import median, quantile

CLIENTS, TOO_MANY = 100, 500
AT_ONCE = 20, "20,0,0"  # deltas of a run, and the same as a script: no pauses
PACED = 20, "20,0.02,0.05"  # 50 ms, then 20 ms between deltas
RUN = 0.43  # seconds that a paced run takes at least
SILENT = "10,600,0"  # one delta, then nothing for ten minutes
HOLD_PATIENCE = 12.0  # seconds without a new stream after which no more are waited for
WARM_UP, ALONE = 15, 2.5  # runs that do not count, and how many seconds one client is alone
OPENING = 100  # how many streams are opened at once

Numbers = dict[str, Any]


async def throughput(row: Row, seconds: float, *, paced: bool = False) -> Numbers:
    """A hundred clients without a pause; before that a few runs without other clients."""
    deltas, script = PACED if paced else AT_ONCE
    async with serving(row, script) as server:
        alone = Answers()
        began = time.perf_counter()
        for number in range(45):
            found = await ask(server.port, server.request())
            if number >= WARM_UP or time.perf_counter() - began > ALONE:
                alone.take(found, deltas)
            if time.perf_counter() - began > ALONE:
                break
        before = server.usage()
        answers, took = await crowd(server, CLIENTS, seconds, deltas=deltas)
        after = server.usage()
        _check(answers)
        calm = answers
        if paced:
            calm, _ = await crowd(server, CLIENTS, seconds, deltas=deltas, spread=RUN)
    runs = len(answers.done)
    return {
        "runs_s": runs / took,
        "cpu": (after.cpu - before.cpu) / runs,
        "first_p50": median(answers.first),
        "first_p99": quantile(answers.first, 0.99),
        "calm_p50": median(calm.first),
        "calm_p99": quantile(calm.first, 0.99),
        "done_p50": median(answers.done),
        "alone_first": median(alone.first),
        "alone_word": median(alone.word),
        "rss": after.rss,
        "size": answers.size,
        "errors": answers.errors[:3],
        "errors_count": len(answers.errors),
    }


async def hold(row: Row, count: int) -> Numbers:
    """Streams that stay open, each of a run of its own that has said one word."""
    server = Server(row, SILENT)
    held: list[Exchange] = []
    try:
        held.append(await server.ready())
        await asyncio.sleep(1)
        before, began = server.usage(), time.perf_counter()
        await _open(server, count, held)
        took = time.perf_counter() - began
        await asyncio.sleep(1)
        after = server.usage()
        lost = sum(it.ended.done() for it in held)
    finally:
        for it in held:
            it.close()
        server.end()
    kept = len(held) - lost
    return {
        "count": count,
        "held": kept,
        "took": took,
        "kb": (after.rss - before.rss) / 1024 / max(1, kept - 1),
        "cpu": (after.cpu - before.cpu) / max(1, kept - 1),
    }


async def _open(server: Server, count: int, held: list[Exchange]) -> None:
    """Open streams until there are so many, or no more come."""
    ramp = asyncio.Semaphore(OPENING)

    async def one() -> None:
        async with ramp:
            found = await exchange(server.port, server.request())
            if await found.reached:
                held.append(found)

    opening = [asyncio.create_task(one()) for _ in range(count - len(held))]
    known, since = len(held), time.perf_counter()
    while len(held) < count and time.perf_counter() - since < HOLD_PATIENCE:
        await asyncio.wait(opening, timeout=0.1)
        if len(held) > known:
            known, since = len(held), time.perf_counter()
    for task in opening:
        task.cancel()
    await asyncio.gather(*opening, return_exceptions=True)


async def overload(row: Row, seconds: float, *, paced: bool = False) -> Numbers:
    """Five times as many clients as it was measured with, against a hundred just before."""
    deltas, script = PACED if paced else AT_ONCE
    async with serving(row, script) as server:
        usual, took = await crowd(server, CLIENTS, seconds, deltas=deltas)
        _check(usual)
        usual_s, before = len(usual.done) / took, server.usage()
        with probing(server) as live:
            answers, took = await crowd(server, TOO_MANY, seconds, deltas=deltas)
        after = server.usage()
    goodput = len(answers.done) / took
    return {
        "usual_s": usual_s,
        "goodput_s": goodput,
        "share": goodput / usual_s,
        "usual_p99": quantile(usual.done, 0.99),
        "done_p99": quantile(answers.done, 0.99),
        "shed": len(answers.shed),
        "shed_statuses": sorted(set(answers.shed)),
        "live_p50": median(found for found in live if found),
        "live_p99": quantile((found for found in live if found), 0.99),
        "live_failed": sum(found is None for found in live),
        "rss_share": after.rss / before.rss,
        "errors": answers.errors[:3],
        "errors_count": len(answers.errors),
    }


@contextmanager
def probing(server: Server) -> Iterator[list[float | None]]:
    """How long the server takes to say that it lives, filled in at the end; None: it did not."""
    times: list[float | None] = []
    if server.row.live is None:
        yield times
        return
    command = [sys.executable, HERE / "server_probe.py", str(server.port), server.row.live]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield times
        times += json.loads(process.communicate(timeout=15)[0])
    finally:
        process.kill()
        process.wait()


def _check(answers: Answers) -> None:
    if not answers.done:
        raise NotReady(answers.errors[0] if answers.errors else "no run was whole")
