"""What is done to our server only: many readers of one run, readers that never read, the start."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import time
from statistics import median
from typing import Any, NamedTuple

from frameworks import SCRATCH
from server_clients import WORD, Exchange, ask, crowd, exchange, got, posted
from server_modes import AT_ONCE, CLIENTS, OPENING, Numbers
from server_processes import NotReady, Server, free_port, serving
from server_rows import ROWS, US

SLOW = "120,1,0"  # a delta a second for two minutes
END = b'"run_finish"'
FLOOD = {"agent_id": "flood", "messages": [{"role": "user", "content": "go"}]}
FLOODED = 10_000_000  # bytes
PATIENCE = 60.0


async def readers(count: int) -> Numbers:
    """So many streams of one run; then it is cancelled, and all of them have to hear of it."""
    async with serving(ROWS[US], SLOW) as server:
        run = await _run_of(await exchange(server.port, server.request()))
        await asyncio.sleep(1)
        before, began = server.usage(), time.perf_counter()
        streams = await _attached(server, run, count)
        took = time.perf_counter() - began
        await asyncio.sleep(3)
        after = server.usage()
        began = time.perf_counter()
        await ask(server.port, posted(server.port, f"/v1/runs/{run}/cancel", {}))
        ends = asyncio.gather(*(asyncio.shield(it.ended) for it in streams))
        await asyncio.wait({ends}, timeout=PATIENCE)
        heard = time.perf_counter() - began
    told = sum(END in it.received and it.is_whole for it in streams)
    return {
        "count": count,
        "attached": sum(len(it.seen) > 0 for it in streams),
        "took": took,
        "kb": (after.rss - before.rss) / 1024 / count,
        "cpu": (after.cpu - before.cpu) / count,
        "told": told,
        "told_share": told / count,
        "heard": heard,
    }


async def _attached(server: Server, run: str, count: int) -> list[Exchange]:
    ramp = asyncio.Semaphore(OPENING)

    async def one() -> Exchange:
        async with ramp:
            request = got(server.port, f"/v1/runs/{run}/events/stream")
            found = await exchange(server.port, request, (WORD,))
            async with asyncio.timeout(PATIENCE):
                await asyncio.shield(found.reached)
            return found

    return list(await asyncio.gather(*(one() for _ in range(count))))


async def _run_of(found: Exchange) -> str:
    """The id of the run that an exchange has begun."""
    if not await found.reached:
        raise NotReady(found.head())
    return found.header("x-run-id") or ""


async def stuck(seconds: float, rounds: int = 4) -> Numbers:
    """A crowd's runs per second, with and without readers that never read.

    Both times two runs say 4 MB a second, to a reader each that reads; the crowd comes when they
    have said more than a connection can hold for one that does not.
    """
    found: dict[bool, list[Beside]] = {False: [], True: []}
    async with serving(ROWS[US], AT_ONCE[1]) as server:
        await _beside_floods(server, seconds, is_stuck=False)  # memory is taken and kept
        for _ in range(rounds):
            for is_stuck in (False, True):
                found[is_stuck].append(await _beside_floods(server, seconds, is_stuck))
    without, beside = (list(zip(*found[is_stuck], strict=True)) for is_stuck in (False, True))
    return {
        "without_s": median(without[0]),
        "with_s": median(beside[0]),
        "share": median(beside[0]) / median(without[0]),
        "cpu_share": median(beside[1]) / median(without[1]),
        "growth": median(beside[2]) - median(without[2]),
        "dropped": sum(beside[3]),
        "of": 2 * rounds,
        "phases": found,
    }


class Beside(NamedTuple):
    """What a crowd and its server did beside runs that say much."""

    runs_s: float
    cpu: float  # seconds a run
    grown: int  # bytes
    dropped: int  # readers that the server serves no more


async def _beside_floods(server: Server, seconds: float, is_stuck: bool) -> Beside:
    request = posted(server.port, "/v1/runs", dict(FLOOD))
    began = server.usage()
    floods = [await exchange(server.port, request, (b"data:",)) for _ in range(2)]
    runs = [await _run_of(flood) for flood in floods]
    silent = [_never_reading(server, run) for run in runs if is_stuck]
    async with asyncio.timeout(PATIENCE):
        while min(len(flood.received) for flood in floods) < FLOODED:
            await asyncio.sleep(0.1)
    before = server.usage()
    answers, took = await crowd(server, CLIENTS, seconds, deltas=AT_ONCE[0])
    after = server.usage()
    dropped = len(floods) + len(silent) - await _streams(server)
    for run in runs:
        await ask(server.port, posted(server.port, f"/v1/runs/{run}/cancel", {}))
    await asyncio.gather(*(flood.ended for flood in floods))
    for connection in silent:
        connection.close()
    done = len(answers.done)
    return Beside(done / took, (after.cpu - before.cpu) / done, after.rss - began.rss, dropped)


async def _streams(server: Server) -> int:
    """How many streams the server says that it has."""
    found = await ask(server.port, got(server.port, "/metrics"))
    told = re.search(rb"^awaken_sse_connections (\d+)", found.received, re.MULTILINE)
    if told is None:
        raise NotReady(found.head())
    return int(told[1])


def _never_reading(server: Server, run: str) -> socket.socket:
    """A connection that has asked for a run's stream and does not read."""
    silent = socket.socket()
    silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    silent.connect(("127.0.0.1", server.port))
    silent.sendall(got(server.port, f"/v1/runs/{run}/events/stream"))
    return silent


async def start(repeats: int) -> Numbers:
    """Seconds from `awaken serve` in an empty folder to its first answer, of fresh processes."""
    await _started()  # it compiles
    times = [await _started() for _ in range(repeats)]
    return {"seconds": median(times), "longest": max(times)}


async def _started() -> float:
    framework, port = ROWS[US].framework, free_port()
    folder = SCRATCH / f"start-{os.getpid()}-{port}"
    folder.mkdir(parents=True)
    environment: dict[str, Any] = framework.environment()
    began = time.perf_counter()
    process = subprocess.Popen(
        [framework.python, "-m", "awaken", "serve", "--port", str(port)],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while time.perf_counter() - began < PATIENCE:
            try:
                found = await ask(port, got(port, "/health/live"))
            except OSError:
                await asyncio.sleep(0.002)
                continue
            if found.status == 200:
                return time.perf_counter() - began
        raise NotReady("awaken serve did not answer")
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
