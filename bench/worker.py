"""The process that runs one adapter: workloads, clocks, memory, bytes written, checks.

usage: worker.py ADAPTER MODE BASE_URL
Reads JSON commands on stdin, one a line, and answers on the real stdout, one line each.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.metadata
import json
import os
import platform
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from common import SCRIPT, Adapter, Script, neutral_history
from frameworks import FRAMEWORKS

THREAD = "thread-1"
MAX_WARMUP = 0.5  # seconds
ANSWER_START = "The answer"
BATCH_SECONDS = 200e-6  # shorter runs are timed in batches, else the clock is what we time

# workload -> (kind, script, extra); extra: tools or not for "run", history length for "on"
WORKLOADS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "W1": ("run", {}, False),
    "W2": ("run", {"rounds": 10}, True),
    "W3": ("run", {"rounds": 1, "fanout": 20, "tool": "echo"}, True),
    "W3s": ("run", {"rounds": 1, "fanout": 20, "tool": "nap"}, True),
    "W4h0": ("on", {}, 0),
    "W4h200": ("on", {}, 200),
    "W4h1000": ("on", {}, 1000),
    "W4r1000": ("on", {"rounds": 10}, 1000),
    "W6": ("stream", {"deltas": 2000}, None),
    "W6s": ("stream", {"deltas": 200}, None),
}


def load_adapter(name: str) -> type[Adapter]:
    """The adapter of that module in adapters/, or of a module on PYTHONPATH."""
    for framework in FRAMEWORKS.values():
        if framework.adapter == name:
            os.environ.update(framework.env)
    warnings.simplefilter("ignore")
    try:
        module = importlib.import_module(f"adapters.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"adapters.{name}":
            raise
        module = importlib.import_module(name)
    return module.ADAPTER


# ---- what the kernel knows about this process ----


def proc_field(file: str, key: str) -> int:
    """A number from /proc/self/FILE."""
    with open(f"/proc/self/{file}") as lines:
        for line in lines:
            if line.startswith(key + ":"):
                return int(line.split()[1])
    raise KeyError(key)


def rss() -> int:
    """Resident bytes now."""
    return proc_field("status", "VmRSS") * 1024


def peak_rss() -> int:
    """Most resident bytes since `reset_peak`."""
    return proc_field("status", "VmHWM") * 1024


def reset_peak() -> None:
    """Start `peak_rss` anew (does nothing where the kernel refuses)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def bytes_under(prefix: str) -> int:
    """Size of all files whose path starts with `prefix`."""
    total = 0
    for folder, _, files in os.walk(os.path.dirname(prefix)):
        for file in files:
            path = os.path.join(folder, file)
            if path.startswith(prefix):
                try:
                    total += os.path.getsize(path)
                except FileNotFoundError:  # a journal that has just gone
                    continue
    return total


def quantile(sorted_values: list[float], share: float) -> float | None:
    """The value at that share of a sorted list."""
    if not sorted_values:
        return None
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


class Stopwatch:
    """CPU of all threads and wall time of a block."""

    cpu = wall = 0.0

    def __enter__(self) -> Stopwatch:
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self.cpu = time.process_time() - self._cpu
        self.wall = time.perf_counter() - self._wall


class LagProbe:
    """How late a task that sleeps 5 ms wakes up while others work in the same loop."""

    PERIOD = 0.005

    def __init__(self) -> None:
        self.lags: list[float] = []

    async def __aenter__(self) -> LagProbe:
        self._task = asyncio.create_task(self._watch())
        await asyncio.sleep(0.05)
        self.lags.clear()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.sleep(0.01)  # the probe wakes once more, or the last lag would be lost
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.lags.sort()

    async def _watch(self) -> None:
        while True:
            start = time.perf_counter()
            await asyncio.sleep(self.PERIOD)
            self.lags.append(time.perf_counter() - start - self.PERIOD)


class Worker:
    """One method per command."""

    def __init__(self, adapter: str, mode: str, base_url: str) -> None:
        start = time.process_time()
        self.adapter = load_adapter(adapter)(mode, base_url)
        self.import_cpu = time.process_time() - start
        self.scripted = mode == "inproc"
        self.histories: dict[int, Any] = {}
        self.seen = 0
        self.turns_done = 0

    async def hello(self) -> dict[str, Any]:
        """Set up; say who we are."""
        await self.adapter.setup()
        versions = {}
        for package in self.adapter.packages:
            try:
                versions[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                versions[package] = "?"
        return {
            "name": self.adapter.name,
            "versions": versions,
            "python": platform.python_version(),
            "modes": self.adapter.modes,
            "store": self.adapter.store,
            "note": self.adapter.note,
            "import_cpu": self.import_cpu,
            "rss": rss(),
        }

    # ---- micro: W1-W4, W6 ----

    async def bench(
        self, workload: str, seconds: float, min_runs: int = 3, warmup: int = 2
    ) -> dict[str, Any]:
        """Time one workload again and again."""
        self.prepare(workload)
        cpu = 1.0
        start = time.perf_counter()
        for _ in range(warmup):
            cpu, _ = await self.batch(workload)
            if time.perf_counter() - start > MAX_WARMUP:
                break
        size = max(1, int(BATCH_SECONDS / max(cpu, 1e-7)))
        gc.collect()
        reset_peak()
        cpus, walls = [], []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(cpus) < min_runs:
            cpu, wall = await self.batch(workload, size)
            cpus.append(cpu)
            walls.append(wall)
        return {
            "batch": size,
            "seen": self.seen,
            "cpu": cpus,
            "wall": walls,
            "rss": rss(),
            "peak": peak_rss(),
        }

    def prepare(self, workload: str) -> None:
        """Convert the history this workload starts from."""
        kind, _, length = WORKLOADS[workload]
        if kind == "on" and length not in self.histories:
            self.histories[length] = self.adapter.history(neutral_history(length))

    async def batch(self, workload: str, size: int = 1) -> tuple[float, float]:
        """(CPU, wall) per run of a batch of runs. Preparation and checks are not timed."""
        kind, settings, extra = WORKLOADS[workload]
        scripts = [Script(**settings) for _ in range(size)]
        prompt = scripts[0].prompt()
        handles: list[Any] = scripts
        if kind == "on":
            handles = [await self.adapter.fresh(self.histories[extra]) for _ in scripts]
        run, run_on, stream = self.adapter.run, self.adapter.run_on, self.adapter.stream
        results: list[Any] = []
        with Stopwatch() as watch:
            for script, handle in zip(scripts, handles, strict=True):
                SCRIPT.set(script)
                if kind == "run":
                    results.append(await run(prompt, extra))
                elif kind == "on":
                    results.append(await run_on(handle, prompt))
                else:
                    results.append(await stream(prompt))
        for script, result in zip(scripts, results, strict=True):
            self.check(workload, script, result)
        self.seen = scripts[-1].seen
        return watch.cpu / size, watch.wall / size

    def check(self, workload: str, script: Script, result: Any) -> None:
        """The right answer, from the right number of model calls, on the whole history."""
        kind, _, length = WORKLOADS[workload]
        if kind == "stream":
            assert result[0] == script.deltas, f"{workload}: {result} deltas"
        else:
            correct = isinstance(result, str) and result.startswith(ANSWER_START)
            assert correct, f"{workload}: {result!r:.300}"
        if not self.scripted:
            return
        assert script.step == script.rounds + 1, f"{workload}: {script.step} model calls"
        if kind == "on":
            assert script.seen > length, f"{workload}: the model saw {script.seen} messages"

    # ---- conc: W5 ----

    async def concurrent(
        self, count: int, rounds: int, delay: float, batches: int = 1, probe: bool = True
    ) -> dict[str, Any]:
        """`count` runs at once in this loop. CPU is the mean of the batches.

        The probe wakes every 5 ms, which is most of the CPU when the runs are few:
        leave it out when CPU per run is the question.
        """
        durations: list[float] = []

        async def job() -> None:
            script = Script(rounds=rounds, delay=delay)
            SCRIPT.set(script)
            start = time.perf_counter()
            result = await self.adapter.run(script.prompt(), True)
            durations.append(time.perf_counter() - start)
            assert result.startswith(ANSWER_START), result
            assert not self.scripted or script.step == rounds + 1, f"{script.step} model calls"

        async def crowd() -> list[BaseException]:
            jobs = (asyncio.create_task(job()) for _ in range(count))
            ended = await asyncio.gather(*jobs, return_exceptions=True)
            return [error for error in ended if isinstance(error, BaseException)]

        for _ in range(3):
            await asyncio.create_task(job())
        durations.clear()
        gc.collect()
        rss_before = rss()
        reset_peak()
        failures, lags, watch = [], [], Stopwatch()
        if probe:
            async with LagProbe() as lag_probe:
                with watch:
                    failures = await crowd()
            lags = lag_probe.lags
        else:
            with watch:
                for _ in range(batches):
                    failures += await crowd()
        durations.sort()
        return {
            "n": count,
            "cpu": watch.cpu / (1 if probe else batches),
            "wall": watch.wall / (1 if probe else batches),
            "errors": len(failures),
            "error": repr(failures[0])[:300] if failures else None,
            "rss_before": rss_before,
            "peak": peak_rss(),
            "lag_p50": quantile(lags, 0.5),
            "lag_p99": quantile(lags, 0.99),
            "lag_max": lags[-1] if lags else None,
            "run_p50": quantile(durations, 0.5),
            "run_p99": quantile(durations, 0.99),
        }

    # ---- persist: W4p ----

    async def open_store(self, path: str) -> dict[str, Any]:
        """Open the adapter's store at a path."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.path = path
        await self.adapter.open_store(path)
        return {}

    async def turns(self, count: int) -> dict[str, Any]:
        """Stored turns on one thread, a tool round (= 4 messages) each, each measured."""
        measured = []
        stored = 0
        for _ in range(count):
            script = Script(rounds=1)
            SCRIPT.set(script)
            written_before, stored_before = await self.store_bytes()
            with Stopwatch() as watch:
                result = await self.adapter.stored_turn(THREAD, script.prompt())
            assert result.startswith(ANSWER_START), result
            whole = 4 * self.turns_done + 3
            if self.scripted:
                assert script.seen >= whole, f"the model saw {script.seen} of {whole} messages"
            self.turns_done += 1
            await asyncio.sleep(0)
            written, stored = await self.store_bytes()
            measured.append(
                {
                    "cpu": watch.cpu,
                    "wall": watch.wall,
                    "written": written - written_before,
                    "grown": stored - stored_before,
                }
            )
        return {"turns": measured, "disk": stored}

    async def store_bytes(self) -> tuple[int, int]:
        """(written by this process so far, now in the store)."""
        remote = await self.adapter.store_io()
        return remote or (proc_field("io", "wchar"), bytes_under(self.path))

    async def close_store(self) -> dict[str, Any]:
        """Close; how much is on disk in the end."""
        await self.adapter.close_store()
        return {"disk": bytes_under(self.path)}


async def serve(worker: Worker, answers: Any) -> None:
    """Obey commands until `quit` or the end of input."""
    while line := sys.stdin.readline():
        message = json.loads(line)
        command = message.pop("cmd")
        if command == "quit":
            break
        try:
            answer = await getattr(worker, command)(**message)
        except NotImplementedError:
            answer = {"error": "not supported by this adapter", "unsupported": True}
        except BaseException as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


async def main(adapter: str, mode: str, base_url: str) -> None:
    """Serve on the real stdout; whatever a framework prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if os.environ.get("BENCH_GC") == "off":  # experiment: how much of W5 is the cyclic collector
        gc.disable()
    await serve(Worker(adapter, mode, base_url), answers)
    answers.close()
    os._exit(0)  # some frameworks leave threads behind that would keep the process


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
