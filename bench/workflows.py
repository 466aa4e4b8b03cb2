"""What workflows cost: sleeping ones in memory, a long one that resumes, and a step.

    python bench/workflows.py [--sleeping 10000] [--steps 1000]

Prints one line for each figure. The store is SQLite in a temporary folder.
"""

import argparse
import asyncio
import gc
import resource
import tempfile
import time
from pathlib import Path

from awaken import Agent, AgentRuntime, RunStatus, WorkflowContext, tool, workflow
from awaken.stores import SqliteStore
from awaken.testing import ScriptedModel, ToolCalls


@tool(effect="none")
async def look(x: int) -> int:
    """Look something up."""
    return x


@workflow(tools=[look])
async def nap(ctx: WorkflowContext) -> str:
    await ctx.sleep(days=3)
    return "awake"


@workflow(tools=[look])
async def long(ctx: WorkflowContext, steps: int) -> int:
    total = 0
    for number in range(steps):
        total += await ctx.call(look, number)
    await ctx.wait_for("go")
    return total


def memory_kb() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def sleeping(folder: Path, count: int) -> None:
    path = folder / "sleeping.db"
    async with AgentRuntime([nap], store=SqliteStore(path), has_worker=False) as runtime:
        # The caches of SQLite and of the allocator are full first: they do not grow with runs.
        for _ in range(20):
            await asyncio.gather(*(runtime.run("nap", {}) for _ in range(100)))
        gc.collect()
        before = memory_kb()
        began = time.perf_counter()
        for start in range(0, count, 100):
            await asyncio.gather(*(runtime.run("nap", {}) for _ in range(min(100, count - start))))
        took = time.perf_counter() - began
        gc.collect()
        held = (memory_kb() - before) / 1024
    print(f"{count} sleeping workflows hold {held:.1f} MB, started in {took:.1f} s")
    began = time.perf_counter()
    async with AgentRuntime([nap], store=SqliteStore(path)) as runtime:
        waiting = (await runtime.store.count_open_runs())["waiting"]
        gc.collect()
    took = time.perf_counter() - began
    print(f"after a restart {waiting} sleep; the process opened and closed in {took:.2f} s")


async def resuming(folder: Path, steps: int) -> None:
    store = folder / "long.db"
    async with AgentRuntime([long], store=SqliteStore(store)) as runtime:
        began = time.perf_counter()
        run = await runtime.run("long", {"steps": steps})
        took = time.perf_counter() - began
        print(f"{steps} steps took {took:.2f} s, {1e3 * took / steps:.2f} ms each")
    async with AgentRuntime([long], store=SqliteStore(store)) as runtime:
        began = time.perf_counter()
        await runtime.send_event(run.run_id, "go")
        while (await runtime.get_run(run.run_id)).status is not RunStatus.DONE:
            await asyncio.sleep(0.002)
        print(
            f"a workflow of {steps} steps resumes and ends in {time.perf_counter() - began:.3f} s"
        )


async def compared(folder: Path, calls: int) -> None:
    script = [ToolCalls([("look", {"x": it})]) for it in range(calls)]
    agent = Agent("agent", model=ScriptedModel([*script, "Done."]), tools=[look], max_rounds=0)
    async with AgentRuntime([agent, long], store=SqliteStore(folder / "both.db")) as runtime:
        for name, given in (("agent", "Go."), ("long", {"steps": calls})):
            began = time.perf_counter()
            run = await runtime.run(name, given)
            took = time.perf_counter() - began
            version = (await runtime.store.load_thread(run.thread_id)).version
            print(f"{name}: {1e3 * took / calls:.2f} ms and {version / calls:.2f} commits a call")


async def main(sleepers: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        await resuming(Path(folder), steps)
        await compared(Path(folder), min(steps, 300))
        await sleeping(Path(folder), sleepers)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sleeping", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=1_000)
    given = parser.parse_args()
    asyncio.run(main(given.sleeping, given.steps))
