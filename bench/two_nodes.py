"""How far a reader in another process is behind: two runtimes on one Postgres, in one event loop.

`python bench/two_nodes.py`: runs with two steps of 300 ms execute on one runtime; each logged
event is timed when a reader there has it, and when a reader of the other runtime has it. Also the
time from a cancel at the other runtime to the end, as that runtime's reader sees it.
"""

import argparse
import asyncio
import statistics
import time
from typing import Any

from tests.postgres.server import new_schema, server

from awaken import Agent, AgentRuntime, tool
from awaken.buses.postgres import PostgresBus
from awaken.contracts.events import LoggedEvent
from awaken.stores import PostgresStore
from awaken.testing import ScriptedModel, ToolCalls

STEP_S = 0.3


def open_runtime(schema: str) -> AgentRuntime:
    @tool(effect="idempotent")
    async def wait(seconds: float) -> str:
        """Take a while."""
        await asyncio.sleep(seconds)
        return "waited"

    script = [ToolCalls([("wait", {"seconds": STEP_S})]), "done"]
    agent = Agent("agent", model=ScriptedModel(script, cycle=True), tools=[wait])
    return AgentRuntime(
        [agent],
        store=PostgresStore(server().url, schema=schema),
        bus=PostgresBus(server().url, channel=schema),
        has_worker=False,
    )


async def read(runtime: AgentRuntime, run_id: str) -> dict[int, float]:
    stream = await runtime._parts.streams.stream_run(run_id)
    seen: dict[int, float] = {}
    async for batch in stream.batches():
        for item in batch:
            if isinstance(item, LoggedEvent):
                seen[item.seq] = time.perf_counter()
    return seen


async def measure_lag(here: Any, there: Any, runs: int) -> list[float]:
    lags: list[float] = []
    for number in range(runs):
        handle = await here.start("agent", "go", thread_id=f"lag-{number}")
        near, far = await asyncio.gather(read(here, handle.run_id), read(there, handle.run_id))
        lags += [(far[seq] - near[seq]) * 1000 for seq in near if seq in far]
    return lags


async def measure_cancels(here: Any, there: Any, runs: int) -> list[float]:
    took: list[float] = []
    for number in range(runs):
        handle = await here.start("agent", "go", thread_id=f"cancel-{number}")
        reading = asyncio.create_task(read(there, handle.run_id))
        await asyncio.sleep(STEP_S / 2)
        began = time.perf_counter()
        await there.cancel(handle.run_id)
        await reading
        took.append((time.perf_counter() - began) * 1000)
    return took


def show(what: str, figures: list[float]) -> None:
    figures = sorted(figures)
    p99 = figures[min(len(figures) - 1, round(len(figures) * 0.99))]
    print(
        f"{what}: p50 {statistics.median(figures):.1f} ms, p99 {p99:.1f} ms, {len(figures)} times"
    )


async def main(runs: int) -> None:
    schema = new_schema()
    async with open_runtime(schema) as here, open_runtime(schema) as there:
        show("logged event on the other runtime", await measure_lag(here, there, runs))
        show("cancel there, end seen there", await measure_cancels(here, there, runs))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    asyncio.run(main(parser.parse_args().runs))
