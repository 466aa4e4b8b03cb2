"""What a turn costs in this tree and in another one, in CPU time, measured in one run.

usage: python bench/compare.py OTHER_TREE [--rounds 7]

Each round starts one fresh process for each tree, in turn, so that whatever else the machine does
falls on both. A difference counts when it is larger than the spread between the rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve()
TURNS = {
    "W1": 1_500, "W2": 150, "W3": 150, "W4h1000": 500, "W4p": 300, "W5": 4, "W6": 30,
    "served": 800,
}  # fmt: skip
"""How often each workload is measured: those of the benchmark page, and a run over HTTP."""
WORKLOADS = tuple(TURNS)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="compare")
    parser.add_argument("other", type=Path, help="a checkout of the version to compare with")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    trees = {"other": args.other.resolve(), "this": HERE.parents[1]}
    found: dict[str, dict[str, list[float]]] = {
        name: {workload: [] for workload in WORKLOADS} for name in trees
    }
    for number in range(args.rounds):
        order = list(trees.items())
        for name, tree in order if number % 2 else reversed(order):
            for workload, value in measure(tree).items():
                found[name][workload].append(value)
    titles = ("other ms", "this ms", "ratio", "spread")
    print(f"{'turn':<10}" + "".join(f"{it:>10}" for it in titles) + f"  ({args.rounds} rounds)")
    for workload in WORKLOADS:
        other, this = (statistics.median(found[name][workload]) for name in trees)
        spread = max(
            (max(it[workload]) - min(it[workload])) / statistics.median(it[workload])
            for it in found.values()
        )
        print(f"{workload:<10}{other:>10.4f}{this:>10.4f}{this / other:>10.3f}{spread:>10.3f}")


def measure(tree: Path) -> dict[str, float]:
    """CPU milliseconds of a turn of each workload, in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(HERE.with_name("compare_worker.py")), json.dumps(TURNS)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(tree / "src"), str(tree)))},
        cwd=tree,
        check=True,
        capture_output=True,
        text=True,
    )
    return {name: float(value) for name, value in json.loads(done.stdout).items()}


if __name__ == "__main__":
    main()
