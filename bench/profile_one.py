"""cProfile of one adapter on one workload: calls, time by package, own time, cumulative time.

usage: PEER_PYTHON profile_one.py ADAPTER WORKLOAD [RUNS]
Run it with the framework's own Python ($BENCH_ROOT/venvs/.../bin/python). WORKLOAD W5: RUNS at
once. CUM=40 prints 40 rows of cumulative time.
"""

from __future__ import annotations

import asyncio
import collections
import cProfile
import os
import pstats
import re
import sys
import time
from typing import Any

import suites
from frameworks import HERE
from worker import Worker

SPLIT = ("google", "opentelemetry", "langgraph", "langchain_core")  # shown with their subpackage
Entry = tuple[tuple[str, int, str], tuple[int, int, float, float, dict[Any, Any]]]


def package_of(path: str) -> str:
    """Which package a file belongs to."""
    found = re.search(r"site-packages/([^/]+)(?:/([^/]+))?", path)
    if found:
        return f"{found[1]}/{found[2] or ''}" if found[1] in SPLIT else found[1]
    if found := re.search(r"/src/(awaken/[^/]+)", path):
        return found[1]
    if path.startswith(str(HERE)):
        return "(harness)"
    if path == "~":
        return "(builtins)"
    folder, file = os.path.split(path)
    return f"(stdlib) {os.path.basename(folder)}/{file}"


def by_package(entries: list[Entry]) -> collections.Counter[str]:
    """Own time by package; a builtin's time goes to the packages of its callers."""
    total: collections.Counter[str] = collections.Counter()
    for (path, _, _), (_, _, own, _, callers) in entries:
        if path != "~":
            total[package_of(path)] += own
            continue
        for (caller, _, _), numbers in callers.items():
            total[package_of(caller)] += numbers[2]
    return total


def show_rows(title: str, entries: list[Entry], column: int, count: int, runs: int) -> None:
    """The entries with the most in a column."""
    print(f"  {title}:")
    ordered = sorted(entries, key=lambda entry: -entry[1][column])
    for (path, line, function), (_, calls, own, cumulative, _) in ordered[:count]:
        place = re.sub(".*site-packages/", "", path)
        print(
            f"    {own / runs * 1e3:8.3f} own {cumulative / runs * 1e3:8.3f} cum"
            f" {calls / runs:8.1f} calls  {place}:{line} {function}"
        )


async def profiled(worker: Worker, workload: str, runs: int) -> cProfile.Profile:
    """Profile some runs of a workload."""
    await worker.hello()
    if workload == "W5":
        profile = cProfile.Profile(time.process_time)  # CPU time: the runs mostly sleep
        with profile:
            await worker.concurrent(runs, suites.W5_ROUNDS, suites.W5_DELAY, probe=False)
        return profile
    profile = cProfile.Profile()
    worker.prepare(workload)
    for _ in range(5):
        await worker.batch(workload)
    with profile:
        for _ in range(runs):
            await worker.batch(workload)
    return profile


async def main(adapter: str, workload: str, runs: int = 50) -> None:
    """Profile and print."""
    profile = await profiled(Worker(adapter, "inproc", ""), workload, runs)
    entries: list[Entry] = list(pstats.Stats(profile).stats.items())
    packages = by_package(entries)
    total = packages.total()
    calls = sum(numbers[1] for _, numbers in entries)
    print(
        f"== {adapter} {workload}: {calls / runs:.0f} calls/run, "
        f"{total / runs * 1e3:.3f} ms/run under profile"
    )
    shares = (f"{name} {own / total:.0%}" for name, own in packages.most_common(14))
    print("  by package:", ", ".join(shares))
    show_rows("own time", entries, 2, 12, runs)
    show_rows("cumulative", entries, 3, int(os.environ.get("CUM", "28")), runs)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3], *map(int, sys.argv[3:4])))
