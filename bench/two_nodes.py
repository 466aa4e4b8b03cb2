"""How far a reader in another process is behind: two runtimes on one Postgres, in one event loop.

`python bench/two_nodes.py`: runs with two steps of 300 ms execute on one runtime; each logged
event is timed when a reader there has it, and when a reader of the other runtime has it. Also the
time from a cancel at the other runtime to the end, as that runtime's reader sees it; how far the
text of many streams at 50 deltas a second is behind there; both again without a bus; and what
readers that wait cost the database.
"""

import argparse
import asyncio
import statistics
import time
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

from awaken import Agent, AgentRuntime, tool
from awaken.buses.memory import MemoryBus
from awaken.buses.postgres import PostgresBus
from awaken.contracts.events import LoggedEvent, StepStart, StreamReset, unwrap_event
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.models.inference import InferenceRequest
from awaken.stores import PostgresStore
from awaken.testing import Chunks, ScriptedModel, ToolCalls
from local_servers import new_schema, server

STEP_S = 0.3
DELTAS, DELTA_MS = 150, 20
IDLE_S = 5.0
SHORT_S = 0.02
ATTACH_S = 60
SPEAK = asyncio.Event()
"""Set while the model of the talkers may answer."""


def open_bus(carrier: str, schema: str, url: str | None = None) -> Any:
    """The bus of a carrier: `postgres`, `none`, or a URL, which the runtime understands itself."""
    if carrier == "postgres":
        return PostgresBus(url or server().url, channel=schema)
    # A bus of this runtime alone: everything is found by polling the store.
    return MemoryBus() if carrier == "none" else carrier


def open_runtime(
    schema: str, carrier: str = "postgres", url: str | None = None, **options: Any
) -> AgentRuntime:
    """A runtime with agents for every row, on the server of this process or the given one."""

    @tool(effect="idempotent")
    async def wait(seconds: float) -> str:
        """Take a while."""
        await asyncio.sleep(seconds)
        return "waited"

    script = [ToolCalls([("wait", {"seconds": STEP_S})]), "done"]
    agent = Agent("agent", model=ScriptedModel(script, cycle=True), tools=[wait])

    async def talk(_: InferenceRequest) -> Chunks:
        await SPEAK.wait()
        return Chunks(["word "] * DELTAS, delay_ms=DELTA_MS)

    talker = Agent("talker", model=ScriptedModel([talk], cycle=True))
    sleep = ToolCalls([("wait", {"seconds": 10 * IDLE_S})])
    sleeper = Agent("sleeper", model=ScriptedModel([sleep], cycle=True), tools=[wait])

    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    def ask_once(request: InferenceRequest) -> Any:
        # By what the model reads: the run may go on in another process.
        return "done" if request.messages[-1].role == "tool" else ToolCalls([("pay", {})])

    def step_until_steered(request: InferenceRequest) -> Any:
        is_steered = any(it.text.startswith("steer") for it in request.messages)
        return "done" if is_steered else ToolCalls([("wait", {"seconds": SHORT_S})])

    asker = Agent("asker", model=ScriptedModel([ask_once], cycle=True), tools=[pay])
    stepper = Agent("stepper", model=ScriptedModel([step_until_steered], cycle=True), tools=[wait])
    return AgentRuntime(
        [agent, talker, sleeper, asker, stepper],
        store=PostgresStore(url or server().url, schema=schema),
        bus=open_bus(carrier, schema, url),
        **({"has_worker": False} | options),
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


async def read_text(
    runtime: AgentRuntime, run_id: str, attached: asyncio.Event
) -> tuple[list[int], list[float], str, int]:
    """Read a run; returns how long the text was at which time, the text, and the deltas.

    `attached` is set with the first event that the log does not have yet, so that comes live.
    """
    stream = await runtime._parts.streams.stream_run(run_id)
    sizes, times, text, deltas = list[int](), list[float](), "", 0
    async for batch in stream.batches():
        for item in batch:
            match unwrap_event(item):
                case StepStart():
                    attached.set()
                    continue
                case TextDelta(delta=delta):
                    text, deltas = text + delta, deltas + 1
                case StreamReset(scope="step"):
                    text = ""
                    sizes.clear()
                    times.clear()
                case _:
                    continue
            sizes.append(len(text))
            times.append(time.perf_counter())
    return sizes, times, text, deltas


class TextLag(NamedTuple):
    """How far the text of streams was behind, and whether all of it came."""

    lags: list[float]
    deltas_here: int
    deltas_there: int
    equal: int


async def measure_text(here: Any, there: Any, streams: int) -> TextLag:
    """Compare the text of both runtimes, whose readers are there before it begins.

    A reader that comes later gets what was streamed before as one delta, wherever it reads.
    """
    SPEAK.clear()
    handles = [await here.start("talker", "go", thread_id=f"text-{it}") for it in range(streams)]
    readings, attached = list[Any](), list[asyncio.Event]()
    for runtime in (here, there):
        for handle in handles:
            attached.append(asyncio.Event())
            reading = read_text(runtime, handle.run_id, attached[-1])
            readings.append(asyncio.create_task(reading))
    async with asyncio.timeout(ATTACH_S):
        await asyncio.gather(*(it.wait() for it in attached))
    SPEAK.set()
    read = await asyncio.gather(*readings)
    return compare_texts(read[:streams], read[streams:])


def compare_texts(near: Sequence[Any], far: Sequence[Any]) -> TextLag:
    """Compare what readers of both nodes had at which time: see `read_text`."""
    lags, equal, counts = list[float](), 0, [0, 0]
    for one, other in zip(near, far, strict=True):
        equal += one[2] == other[2] == "word " * DELTAS
        counts[0] += one[3]
        counts[1] += other[3]
        for size, at in zip(one[0], one[1], strict=True):
            place = bisect_left(other[0], size)
            if place < len(other[0]):
                lags.append((other[1][place] - at) * 1000)
    return TextLag(lags, *counts, equal)


async def measure_joins(here: Any, there: Any, streams: int) -> list[float]:
    """Milliseconds until readers there that come together, to runs that stream, have text."""
    SPEAK.set()
    handles = [await here.start("talker", "go", thread_id=f"join-{it}") for it in range(streams)]
    began = time.perf_counter()
    readings = [read_text(there, it.run_id, asyncio.Event()) for it in handles]
    return [(times[0] - began) * 1000 for _, times, _, _ in await asyncio.gather(*readings)]


async def measure_waiting(here: Any, there: Any, readers: int) -> None:
    """How often readers ask the store whose run waits for a tool at the other runtime."""
    reads, database = 0, there.store._database
    read_once = database.read

    async def count_read(work: Any) -> Any:
        nonlocal reads
        reads += 1
        return await read_once(work)

    database.read = count_read
    handle = await here.start("sleeper", "go", thread_id="sleeps")
    await asyncio.sleep(1)
    reading = [asyncio.create_task(read(there, handle.run_id)) for _ in range(readers)]
    await asyncio.sleep(2)
    before, reads = reads, 0
    await asyncio.sleep(IDLE_S)
    each, alone = reads / readers / IDLE_S, before / readers
    await here.cancel(handle.run_id)
    await asyncio.gather(*reading)
    print(f"reads of a waiting reader: {alone:.1f} to attach, then {each:.2f}/s, {readers} readers")


def find_p99(figures: list[float]) -> float:
    return sorted(figures)[min(len(figures) - 1, round(len(figures) * 0.99))]


def show(what: str, figures: list[float]) -> None:
    middle, p99 = statistics.median(figures), find_p99(figures)
    print(f"{what}: p50 {middle:.1f} ms, p99 {p99:.1f} ms, {len(figures)} times")


async def main(runs: int, streams: int) -> None:
    schema = new_schema()
    async with open_runtime(schema) as here, open_runtime(schema) as there:
        show("logged event on the other runtime", await measure_lag(here, there, runs))
        show("cancel there, end seen there", await measure_cancels(here, there, runs))
        text = await measure_text(here, there, streams)
        show(f"text on the other runtime, {streams} streams x {1000 // DELTA_MS}/s", text.lags)
        print(
            f"deltas there / here: {text.deltas_there} / {text.deltas_here};"
            f" text equal: {text.equal} of {streams}"
        )
        show("text of streams that are joined at once", await measure_joins(here, there, streams))
        await measure_waiting(here, there, 10)
    schema = new_schema()
    async with (
        open_runtime(schema, "none") as here,
        open_runtime(schema, "none") as there,
    ):
        print("without a bus:")
        show("logged event on the other runtime", await measure_lag(here, there, 3))
        show("cancel there, end seen there", await measure_cancels(here, there, 3))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--streams", type=int, default=50)
    asked = parser.parse_args()
    asyncio.run(main(asked.runs, asked.streams))
