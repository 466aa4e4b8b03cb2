"""Starve real worker processes on a real file: blocked loops, stopped processes, wrong clocks.

`python -m tests.torture.starvation` plays every case in real time, several at once. A lease is
kept as long as its process lives, lost when it does not, and judged by no process's wall clock.
"""

import argparse
import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from .lanes import scratch
from .report import finish
from .starvation_case import FORKS, Case, faketime
from .starvation_worker import LEASE_MS

LEASE_S = LEASE_MS / 1000
STRANDED_S = 12 * LEASE_S
"""Longer than anything takes on a busy machine, and far shorter than a clock is wrong."""
SKEW_MS = 600_000
AT_ONCE = 5


async def blocked(case: Case, tool: str, work: str) -> list[str]:
    """A tool blocks the loop for three leases: the lease stays, nobody else executes it."""
    busy = {"work": work, "work_ms": 3 * LEASE_MS}
    await case.born(**busy)
    await case.submit(f"use {tool}")
    await case.started()
    await case.born(**busy)
    (delivery,) = await case.ended()
    found = await case.problems(tool)
    if delivery.attempt_count != 1 or len(case.starts) != 1:
        found.append(f"{delivery.attempt_count} attempts, {len(case.starts)} executions")
    return found


async def blocked_in_front(case: Case, tool: str, work: str) -> list[str]:
    """The same for a run that a process executes for itself."""
    await case.born(text=f"use {tool}", work=work, work_ms=3 * LEASE_MS, has_worker=False)
    await case.started()
    await case.born()
    deliveries = await case.ended()
    found = await case.problems(tool)
    if deliveries or len(case.starts) != 1:
        found.append(f"{len(deliveries)} took over, {len(case.starts)} executions")
    return found


async def stopped(case: Case, tool: str, *, is_thinking: bool, is_front: bool) -> list[str]:
    """A process is stopped for two leases: another one takes over, and it writes no more."""
    slow = {"think_ms": LEASE_MS} if is_thinking else {"work": "sleep", "work_ms": 3 * LEASE_MS}
    if is_front:
        first = await case.born(text=f"use {tool}", has_worker=False, **slow)
    else:
        first = await case.born(**slow)
        await case.submit(f"use {tool}")
    await (case.begun() if is_thinking else case.started())
    await case.stop(first)
    await case.born()
    await asyncio.sleep(2 * LEASE_S)
    deliveries = await case.ended()
    version = await case.version()
    os.kill(first, signal.SIGCONT)
    await asyncio.sleep(LEASE_S / 2)
    found = await case.problems(tool)
    if await case.version() != version:
        found.append("the stopped process wrote again")
    if not deliveries or max(it.attempt_count for it in deliveries) < 2:
        found.append(f"nobody took over: {deliveries}")
    keys = {(it.run_id, it.call_id) for it in case.starts}
    if len(keys) > 1:
        found.append(f"another call was executed: {keys}")
    return found


async def skewed_sweeper(case: Case, skew_ms: int) -> list[str]:
    """A process whose clock is wrong does not steal a lease that lives."""
    await case.born(work="sleep", work_ms=2 * LEASE_MS)
    await case.submit("use once")
    await case.started()
    await case.born_skewed(skew_ms)
    (delivery,) = await case.ended()
    found = await case.problems("once")
    if delivery.attempt_count != 1:
        found.append("a live lease was stolen")
    return found


async def skewed_holder(case: Case, skew_ms: int) -> list[str]:
    """The lease of a process whose clock is wrong lives as long as it, and no longer."""
    holder = await case.born_skewed(skew_ms, work="sleep", work_ms=2 * LEASE_MS)
    await case.submit("use idempotent")
    await case.started()
    await case.born()
    await asyncio.sleep(1.5 * LEASE_S)
    found = [] if len(case.starts) == 1 else ["a live lease was stolen"]
    os.kill(holder, signal.SIGKILL)
    begin = time.perf_counter()
    await case.ended()
    if time.perf_counter() - begin > STRANDED_S:
        found.append("the work of a dead process was stranded")
    return found + await case.problems("idempotent")


async def skewed_sender(case: Case, skew_ms: int) -> list[str]:
    """What a process sends whose clock is wrong is executed at once by others."""
    await case.born_skewed(skew_ms, submits="use once", has_worker=False)
    await case.born()
    begin = time.perf_counter()
    await case.ended()
    found = [] if time.perf_counter() - begin < STRANDED_S else ["it was stranded"]
    return found + await case.problems("once")


def cases() -> dict[str, Callable[[Case], Any]]:
    """Every case by its name."""
    found: dict[str, Callable[[Case], Any]] = {}
    for tool in ("once", "idempotent"):
        for work in ("block", "spin"):
            found[f"blocked {tool} {work}"] = lambda c, t=tool, w=work: blocked(c, t, w)
    for work in ("block", "spin"):
        found[f"blocked in front {work}"] = lambda c, w=work: blocked_in_front(c, "once", w)
    for tool in ("none", "idempotent", "once"):
        for thinking in (False, True):
            name = f"stopped {tool} {'thinking' if thinking else 'acting'}"
            found[name] = lambda c, t=tool, k=thinking: stopped(c, t, is_thinking=k, is_front=False)
    for tool in ("idempotent", "once"):
        found[f"stopped in front {tool}"] = lambda c, t=tool: stopped(
            c, t, is_thinking=False, is_front=True
        )
    for skew_ms in (SKEW_MS, -SKEW_MS):
        for case in (skewed_sweeper, skewed_holder, skewed_sender):
            name = f"{case.__name__} {skew_ms // 60_000:+d} min".replace("_", " ")
            found[name] = lambda c, s=skew_ms, play=case: play(c, s)
    return found


def main() -> None:
    """Starve, and exit with 1 when a case broke a promise."""
    parser = argparse.ArgumentParser(prog="starvation")
    parser.add_argument("--only", default="", help="a part of the names")
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    FORKS.set_forkserver_preload(["tests.torture.starvation_worker"])
    chosen = {name: case for name, case in cases().items() if args.only in name}
    begin = time.perf_counter()
    failures = asyncio.run(_play_all(chosen, args.at_once))
    how = "a patched clock" if faketime() is None else "faketime"
    counts = {
        "cases": len(chosen),
        "clocks are skewed by": how,
        "seconds": round(time.perf_counter() - begin, 1),
    }
    finish("starvation", 0, counts, len(chosen) - len(failures), failures)


async def _play_all(chosen: dict[str, Callable[[Case], Any]], at_once: int) -> list[str]:
    room = asyncio.Semaphore(at_once)

    async def play(name: str, case: Callable[[Case], Any]) -> Sequence[str]:
        async with room:
            return [f"{name}: {problem}" for problem in await _play(case)]

    played = await asyncio.gather(*(play(name, case) for name, case in chosen.items()))
    return [found[0] for found in played if found]


async def _play(play: Callable[[Case], Any]) -> list[str]:
    async with AsyncExitStack() as stack:
        case = Case(stack.enter_context(scratch()))
        await case.store.open()
        stack.push_async_callback(case.store.close)
        stack.callback(case.end)
        try:
            return list(await play(case))
        except TimeoutError as error:
            return [f"it took too long: {error}"]


if __name__ == "__main__":
    main()
