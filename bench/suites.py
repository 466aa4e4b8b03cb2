"""The three suites. All frameworks are measured interleaved, in random order, in one run."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from frameworks import HERE, RESULTS, SCRATCH, Framework
from stats import median, millis
from workers import Team, WorkerProcess, log, started

ALL_MICRO = ("W1", "W2", "W3", "W3s", "W4h0", "W4h200", "W4h1000", "W4r1000", "W6s", "W6")
W5_ROUNDS, W5_DELAY = 3, 0.05
CHUNK = 20  # stored turns a framework makes before the next one's go
SMALL_CROWD = 1000  # below this W5 is repeated, without the lag probe, to get a CPU figure


@dataclass(slots=True)
class Outcome:
    """What a suite found: who took part, who did not, and numbers by framework."""

    hello: dict[str, Any] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)

    def save(self, suite: str, mode: str = "inproc", path: str | None = None) -> None:
        """Write results/SUITE_MODE.json."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        target = path or RESULTS / f"{suite}_{mode}.json"
        document = {
            "suite": suite,
            "mode": mode,
            "when": time.strftime("%F %T"),
            "load": os.getloadavg(),
            "hello": self.hello,
            "skipped": self.skipped,
            "numbers": self.numbers,
        }
        with open(target, "w") as file:
            json.dump(document, file)
        log("wrote", target)


@contextmanager
def model_server(mode: str, port: int) -> Iterator[str]:
    """The base URL of the model; in http mode the fake OpenAI server runs meanwhile."""
    base_url = f"http://127.0.0.1:{port}/v1"
    if mode != "http":
        yield base_url
        return
    command = [sys.executable, HERE / "fake_openai.py", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=HERE)
    try:
        assert server.stdout
        if not server.stdout.readline():
            raise SystemExit(f"the fake server did not start on port {port}")
        yield base_url
    finally:
        server.kill()
        server.wait()


def shuffled(items: Sequence[Any]) -> list[Any]:
    """A random order."""
    return random.sample(items, len(items))


# ---- micro: W1-W4, W6 ----


def micro(
    frameworks: Sequence[Framework],
    *,
    workloads: Sequence[str] = ALL_MICRO,
    rounds: int = 5,
    seconds: float = 0.5,
    min_runs: int = 3,
    mode: str = "inproc",
    base_url: str = "",
) -> Outcome:
    """All workers alive at once; each workload goes round them several times."""
    with started(frameworks, mode, base_url) as team:
        numbers: dict[str, dict[str, Any]] = {worker.name: {} for worker in team.workers}
        for workload in workloads:
            for index in range(rounds):
                for worker in shuffled(team.workers):
                    budget = {"seconds": seconds, "min_runs": min_runs}
                    _micro_round(worker, workload, numbers[worker.name], budget, first=not index)
            shown = [
                f"{name} {millis(median(by_workload[workload]['cpu']))}"
                for name, by_workload in numbers.items()
                if by_workload[workload]["cpu"]
            ]
            log(workload, "CPU ms:", ", ".join(shown))
    return Outcome(team.hello, team.skipped, numbers)


def _micro_round(
    worker: WorkerProcess,
    workload: str,
    by_workload: dict[str, Any],
    budget: dict[str, float],
    *,
    first: bool,
) -> None:
    total = by_workload.setdefault(workload, {"cpu": [], "rounds": [], "wall": [], "peak": 0})
    if "error" in total:
        return
    answer = worker.ask("bench", workload=workload, warmup=5 if first else 2, **budget)
    if "error" in answer:
        total["error"] = answer["error"]
        log(f"{workload} {worker.name}: {answer['error']}")
        return
    total["cpu"] += answer["cpu"]
    total["rounds"].append(median(answer["cpu"]))
    total["wall"] += answer["wall"]
    total["peak"] = max(total["peak"], answer["peak"])


# ---- persist: W4p ----


def persist(
    frameworks: Sequence[Framework],
    *,
    turns: int = 260,
    mode: str = "inproc",
    base_url: str = "",
) -> Outcome:
    """Each framework grows one stored thread by 4 messages a turn, in interleaved chunks."""
    folder = SCRATCH / f"persist-{os.getpid()}"
    try:
        with started(frameworks, mode, base_url) as team:
            for worker in list(team.workers):
                _open_store(team, worker, f"{folder}/{worker.name}/s")
            numbers: dict[str, dict[str, Any]] = {
                worker.name: {"turns": []} for worker in team.workers
            }
            _grow(team.workers, numbers, turns)
            for worker in team.workers:
                numbers[worker.name]["disk_closed"] = worker.ask("close_store").get("disk")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Outcome(team.hello, team.skipped, numbers)


def _open_store(team: Team, worker: WorkerProcess, path: str) -> None:
    answer = {"error": "has no store"}
    if team.hello[worker.name]["store"]:
        answer = worker.ask("open_store", path=path)
    if "error" in answer:
        team.workers.remove(worker)
        team.skipped[worker.name] = answer["error"]
        log(f"{worker.name}: skipped, {answer['error']}")


def _grow(workers: Sequence[WorkerProcess], numbers: dict[str, Any], turns: int) -> None:
    done = 0
    while done < turns:
        count = min(CHUNK, turns - done)
        for worker in shuffled(workers):
            total = numbers[worker.name]
            if "error" in total:
                continue
            answer = worker.ask("turns", count=count)
            if "error" in answer:
                total["error"] = answer["error"]
                log(f"persist {worker.name}: {answer['error']}")
                continue
            total["turns"] += answer["turns"]
            total["disk"] = answer["disk"]
        done += count
        shown = [
            f"{name} {millis(total['turns'][-1]['cpu'])}"
            for name, total in numbers.items()
            if total["turns"]
        ]
        log(f"turn {done} CPU ms:", ", ".join(shown))


# ---- conc: W5 ----


def conc(
    frameworks: Sequence[Framework],
    *,
    counts: Sequence[int] = (1000,),
    rounds: int = 3,
    patience: float = 60.0,
    mode: str = "inproc",
    base_url: str = "",
) -> Outcome:
    """W5, in a fresh process each time so that the peak memory is this workload's.

    The small crowds, of which only CPU is asked, share a process. A framework that has used up
    `patience` seconds is not repeated.
    """
    outcome = Outcome()
    small = tuple(count for count in counts if count < SMALL_CROWD)
    sessions = [small] * bool(small) + [(count,) for count in counts if count >= SMALL_CROWD]
    spent: dict[Any, float] = {}
    for _ in range(rounds):
        for framework, session in shuffled([(f, s) for f in frameworks for s in sessions]):
            key = (framework.name, session)
            if framework.name in outcome.skipped or spent.get(key, 0.0) > patience:
                continue
            start = time.perf_counter()
            with started([framework], mode, base_url) as team:
                outcome.hello |= team.hello
                outcome.skipped |= team.skipped
                for worker in team.workers:
                    for count in session:
                        _crowd(worker, count, outcome.numbers.setdefault(worker.name, {}))
            spent[key] = spent.get(key, 0.0) + time.perf_counter() - start
    return outcome


def _crowd(worker: WorkerProcess, count: int, by_count: dict[str, list[Any]]) -> None:
    small = count < SMALL_CROWD
    answer = worker.ask(
        "concurrent",
        timeout=300,
        count=count,
        rounds=W5_ROUNDS,
        delay=W5_DELAY,
        batches=max(1, min(5, 200 // count)) if small else 1,
        probe=not small,
    )
    if "cpu" not in answer or answer["errors"]:
        log(f"W5 n={count} {worker.name}: {answer['error']}")
    else:
        by_count.setdefault(str(count), []).append(answer)
        cpu, wall = answer["cpu"], answer["wall"]
        log(f"W5 n={count} {worker.name}: CPU {cpu:.3f} s, wall {wall:.2f} s")
