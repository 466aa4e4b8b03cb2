"""Text of many streams on the node that does not execute them, each node in a process of its own.

    python bench/scale_text.py SCHEMA URL CARRIER STREAMS

is the executing node. It starts the streams, reads them itself, says `attached` and waits for a
line; then its models answer, and it prints when its readers had how much text. `measure_rounds` is
the other node: the process that calls it. Both clocks are the machine's monotonic one.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import two_nodes
from local_servers import new_schema, server

ROUNDS = 5
START_S = 90
ROUND_S = 60


class Talker:
    """The executing node; one line of its output answers each line of its input."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, line: str, seconds: float) -> Any:
        """Send a line, and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line.encode() + b"\n")
        async with asyncio.timeout(seconds):
            return json.loads(await self._process.stdout.readline())


@asynccontextmanager
async def running_talker(schema: str, carrier: str, streams: int) -> AsyncIterator[Talker]:
    """Start the executing node, and kill it in the end."""
    command = [sys.executable, __file__, schema, server().url, carrier, str(streams)]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent,
        limit=2**26,
    )
    try:
        yield Talker(process)
    finally:
        process.kill()
        await process.wait()


async def measure_rounds(carrier: str, streams: int) -> tuple[list[two_nodes.TextLag], list[float]]:
    """How far text here is behind in each round, and how long readers wait that join together."""
    schema = new_schema()
    async with (
        running_talker(schema, carrier, streams) as talker,
        two_nodes.open_runtime(schema, carrier) as here,
    ):
        await talker.ask("open", START_S)
        rounds = [await _measure_lag(talker, here) for _ in range(ROUNDS)]
        joins = await _measure_joins(talker, here)
    return rounds, joins


async def _measure_lag(talker: Talker, here: Any) -> two_nodes.TextLag:
    run_ids = await talker.ask("start", START_S)
    attached = [asyncio.Event() for _ in run_ids]
    pairs = zip(run_ids, attached, strict=True)
    readings = [asyncio.create_task(two_nodes.read_text(here, *it)) for it in pairs]
    async with asyncio.timeout(two_nodes.ATTACH_S):
        await asyncio.gather(*(it.wait() for it in attached))
    near = await talker.ask("speak", ROUND_S)
    far = await asyncio.gather(*readings)
    return two_nodes.compare_texts(near, far)


async def _measure_joins(talker: Talker, here: Any) -> list[float]:
    """Milliseconds until readers that come together, to runs that stream, have text."""
    run_ids = await talker.ask("stream", START_S)
    began = time.perf_counter()
    readings = [two_nodes.read_text(here, it, asyncio.Event()) for it in run_ids]
    found = [(times[0] - began) * 1000 for _, times, _, _ in await asyncio.gather(*readings)]
    await talker.ask("rest", ROUND_S)
    return found


async def talk(schema: str, url: str, carrier: str, streams: int) -> None:
    """Be the executing node until the input ends."""
    lines = await _open_input()
    readings: list[asyncio.Task[Any]] = []
    numbers = iter(range(10**9))
    async with two_nodes.open_runtime(schema, carrier, url=url) as here:
        while line := (await lines.readline()).decode().strip():
            answer: Any = []
            if line in ("start", "stream"):
                two_nodes.SPEAK.clear()
                names = [f"text-{next(numbers)}" for _ in range(streams)]
                handles = [await here.start("talker", "go", thread_id=it) for it in names]
                attached = [asyncio.Event() for _ in handles]
                pairs = zip(handles, attached, strict=True)
                readings = [
                    asyncio.create_task(two_nodes.read_text(here, it.run_id, event))
                    for it, event in pairs
                ]
                await asyncio.gather(*(it.wait() for it in attached))
                if line == "stream":
                    two_nodes.SPEAK.set()
                answer = [it.run_id for it in handles]
            elif line in ("speak", "rest"):
                two_nodes.SPEAK.set()
                answer = await asyncio.gather(*readings)
            print(json.dumps(answer), flush=True)


async def _open_input() -> asyncio.StreamReader:
    reader, loop = asyncio.StreamReader(), asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


if __name__ == "__main__":
    asyncio.run(talk(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
