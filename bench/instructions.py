"""Instructions that a turn retires, counted by valgrind: a busy machine does not change them.

usage: python bench/instructions.py [WORKLOAD ...] [--before OTHER_TREE] [--functions 25]

Each workload is played in a process of its own under callgrind, after some turns that are not
counted: user space only, all threads. With another checkout of awaken the table has both and their
ratio. With `--functions` it lists the libraries and the C functions that retire the most by
themselves. Two counts of the same tree differ by less than 1 %; those of W4p by up to 5 %, because
its threads take turns as they like.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import trees

HERE = Path(__file__).resolve()
TURNS = {"W1": 200, "W2": 20, "W3": 20, "W4h1000": 100, "W4p": 30, "W5": 200}
"""How many turns are counted. W4p: on a thread that has as many already; W5: all at once."""
IMPORT = "from awaken import Agent, AgentRuntime, tool"
MARK = "getppid"
"""The C function before which callgrind writes what it has counted: nothing else calls it."""
Place = tuple[str, str]
"""A library and a function in it."""


async def play(workload: str) -> None:
    """Play a workload in this process, between two marks."""
    from common import SCRIPT, Script
    from suites import W5_DELAY, W5_ROUNDS
    from worker import THREAD, Worker

    worker, turns = Worker("awaken_adapter", "inproc", ""), TURNS[workload]
    await worker.hello()
    with tempfile.TemporaryDirectory() as folder:
        if workload == "W4p":
            await worker.open_store(str(Path(folder, "store")))
            await worker.turns(turns)
            scripts = [Script(rounds=1) for _ in range(turns)]
            gc.collect()
            os.getppid()
            for script in scripts:
                SCRIPT.set(script)
                await worker.adapter.stored_turn(THREAD, script.prompt())
        elif workload == "W5":
            await worker.concurrent(8, W5_ROUNDS, 0.001, probe=False)
            gc.collect()
            os.getppid()
            await worker.concurrent(turns, W5_ROUNDS, W5_DELAY, probe=False)
        else:
            worker.prepare(workload)
            await worker.batch(workload, max(5, turns // 4))
            # The worker reads its clock just before the first turn and just after the last one.
            gc.collect()
            clock, time.perf_counter = time.perf_counter, os.getppid
            await worker.batch(workload, turns)
            time.perf_counter = clock
        os.getppid()
    os._exit(0)


def count(tree: Path, workload: str) -> Counter[Place]:
    """Instructions of one turn of a workload of a tree, by C function."""
    script: tuple[str, ...] = (str(HERE), "--play", workload)
    if workload == "import":
        script = ("-c", f"import os; os.getppid(); {IMPORT}; os.getppid(); os._exit(0)")
    variables = os.environ | {"PYTHONPATH": trees.path_of(tree), "PYTHONHASHSEED": "0"}
    variables |= {"PYTHONDONTWRITEBYTECODE": ""}
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
            f"--dump-before={MARK}", "--dump-line=no", sys.executable, *script,
        ]  # fmt: skip
        if workload == "import":
            # Its byte code has to be there before.
            subprocess.run([sys.executable, *script], env=variables, cwd=HERE.parent, check=True)
        subprocess.run(command, env=variables, cwd=HERE.parent, check=True, capture_output=True)
        # The first part ends where the turns begin.
        found = read_functions(Path(folder, "out.2"))
    turns = TURNS.get(workload, 1)
    return Counter({place: number // turns for place, number in found.items()})


def read_functions(file: Path) -> Counter[Place]:
    """The instructions of each function by itself, from a file of callgrind."""
    found: Counter[Place] = Counter()
    names: dict[str, str] = {}
    library, function, is_call = "?", "?", False
    for line in file.read_text().splitlines():
        if match := re.match(r"(c?(?:ob|fn))=\((\d+)\)(?: (.*))?", line):
            kind, number, name = match.groups()
            known = names.setdefault(kind[-2:] + number, name or "?")
            if kind == "ob":
                library = Path(known).name
            elif kind == "fn":
                function = known
        elif line.startswith("calls="):
            is_call = True
        elif match := re.match(r"[-+*]?\d* (\d+)$", line):
            if not is_call:
                found[library, function] += int(match[1])
            is_call = False
    return found


def show(this: Counter[Place], functions: int) -> None:
    """Print where the instructions are."""
    total = this.total()
    libraries: Counter[str] = Counter()
    for (library, _), number in this.items():
        libraries[library] += number
    shares = (f"{name} {number / total:.1%}" for name, number in libraries.most_common(8))
    print("    " + ", ".join(shares))
    for (library, name), number in this.most_common(functions):
        print(f"    {number / total:6.1%} {number:>12,}  {name}  ({library})")


def main() -> None:
    """Count and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", help=f"of {', '.join((*TURNS, 'import'))}")
    parser.add_argument("--before", type=Path, help="another checkout to compare with")
    parser.add_argument("--functions", type=int, default=0, help="how many C functions to list")
    parser.add_argument("--play", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.play:
        asyncio.run(play(args.play))
    if not shutil.which("valgrind"):
        raise SystemExit("valgrind is not installed.")
    print(f"{'turn':<10}" + "".join(f"{it:>16}" for it in ("before", "this", "ratio")))
    for workload in args.workloads or (*TURNS, "import"):
        this = count(trees.ROOT, workload)
        total, before, ratio = this.total(), "-", "-"
        if args.before:
            other = count(args.before.resolve(), workload).total()
            before, ratio = f"{other:,}", f"{total / other:.3f}"
        print(f"{workload:<10}{before:>16}{total:>16,}{ratio:>16}", flush=True)
        if args.functions:
            show(this, args.functions)


if __name__ == "__main__":
    main()
