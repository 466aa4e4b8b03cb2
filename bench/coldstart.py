"""Import time, and cold start to the first answer, in fresh processes, interleaved.

usage: coldstart.py [--only a,b] [--repeats N] [--no-answer]
CPU and memory are those of the whole process, interpreter included.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from frameworks import BASE, HERE, Framework, select
from stats import median
from suites import Outcome, shuffled
from workers import log, log_skipped

REPORT = (
    "; import sys, resource; r = resource.getrusage(resource.RUSAGE_SELF); "
    "print('@@', r.ru_utime + r.ru_stime, r.ru_maxrss, len(sys.modules))"
)
FIRST_ANSWER = (
    '{"cmd": "hello"}\n'
    '{"cmd": "bench", "workload": "W1", "seconds": 0, "warmup": 0, "min_runs": 1}\n'
    '{"cmd": "quit"}\n'
)
BARE = Framework("python", "plain", BASE, (), "pass")  # what any process costs


def run(framework: Framework, *arguments: object, stdin: str = "") -> tuple[Any, float, float]:
    """(finished process, CPU, wall) of its Python."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [framework.python, *map(str, arguments)],
        capture_output=True,
        text=True,
        input=stdin,
        cwd=HERE,
        env=framework.environment(),
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done, cpu, wall


def measure_import(framework: Framework, numbers: dict[str, Any]) -> None:
    """One `import` in a fresh process."""
    done, _, wall = run(framework, "-c", f"{framework.import_line}{REPORT}")
    found = re.search(r"@@ ([\d.]+) (\d+) (\d+)", done.stdout)
    if not found:
        numbers["error"] = (done.stderr.strip().splitlines() or ["no output"])[-1]
        log(f"import {framework.name}: {numbers['error']}")
        return
    numbers["cpu"].append(float(found[1]))
    numbers["wall"].append(wall)
    numbers["rss"].append(int(found[2]) * 1024)
    numbers["modules"] = int(found[3])


def measure_answer(framework: Framework, numbers: dict[str, Any]) -> None:
    """Adapter import, setup and one W1 run in a fresh process."""
    worker = (HERE / "worker.py", framework.adapter, "inproc", "")
    done, cpu, wall = run(framework, *worker, stdin=FIRST_ANSWER)
    if done.returncode or '"error"' in done.stdout:
        log(f"first answer {framework.name}: failed")
        return
    numbers["answer_cpu"].append(cpu)
    numbers["answer_wall"].append(wall)


def coldstart(frameworks: Sequence[Framework], *, repeats: int = 7, answer: bool = True) -> Outcome:
    """Go round the frameworks `repeats` times, each time in another order."""
    rows = [BARE, *(framework for framework in frameworks if framework.import_line)]
    numbers: dict[str, dict[str, Any]] = {
        row.name: {key: [] for key in ("cpu", "wall", "rss", "answer_cpu", "answer_wall")}
        for row in rows
    }
    for _ in range(repeats):
        for framework in shuffled(rows):
            mine = numbers[framework.name]
            if "error" in mine:
                continue
            measure_import(framework, mine)
            if answer and framework is not BARE and "error" not in mine:
                measure_answer(framework, mine)
    shown = [f"{name} {median(mine['cpu']):.3f}" for name, mine in numbers.items() if mine["cpu"]]
    log("import CPU s:", ", ".join(shown))
    return Outcome(numbers=numbers)


def main() -> None:
    """Measure and write results/coldstart_inproc.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="frameworks, comma-separated")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--no-answer", action="store_true", help="imports only")
    args = parser.parse_args()
    frameworks, skipped = select("micro", args.only)
    log_skipped(skipped)
    outcome = coldstart(frameworks, repeats=args.repeats, answer=not args.no_answer)
    outcome.skipped = skipped
    outcome.save("coldstart")


if __name__ == "__main__":
    main()
