"""The whole in-process comparison in some minutes, and one page about it.

usage: all.py [--quick] [--only a,b] [--persist]
Prints the page and writes it to $BENCH_ROOT/results/summary.md. --quick: plain and awaken only.
Stored turns (W4p) are measured for our own rows; with --persist for the peers too.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import suites
import summary
from coldstart import coldstart
from frameworks import BASELINES, RESULTS, Framework, select
from suites import Outcome
from workers import log, log_skipped

WORKLOADS = ("W1", "W2", "W3", "W4h0", "W4h1000", "W4r1000", "W6")
CROWDS = (10, 100, 1000)
ROUNDS = 3
SECONDS = 0.15  # per micro workload, round and framework
PATIENCE = 3.5  # W5 is repeated while a framework has taken less than this, in seconds
REPEATS = 3  # fresh processes per import


def measure(frameworks: list[Framework], stored: list[Framework]) -> dict[str, Outcome]:
    """Every suite, one after another; `stored` take part in persist."""
    return {
        "micro": suites.micro(frameworks, workloads=WORKLOADS, rounds=ROUNDS, seconds=SECONDS),
        "conc": suites.conc(frameworks, counts=CROWDS, rounds=ROUNDS, patience=PATIENCE),
        "persist": suites.persist(stored),
        "coldstart": coldstart(frameworks, repeats=REPEATS),
    }


def main() -> None:
    """Measure, save, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="plain and awaken only, < 40 s")
    parser.add_argument("--only", help="frameworks, comma-separated")
    parser.add_argument("--persist", action="store_true", help="W4p for peers too, +1.5 minutes")
    args = parser.parse_args()
    only = args.only or ("plain,awaken" if args.quick else None)
    frameworks, skipped = select("micro", only)
    log_skipped(skipped)
    stored = [
        framework
        for framework in frameworks
        if "persist" in framework.suites
        and (args.persist or framework.name in (*BASELINES, summary.US))
    ]
    start = time.monotonic()
    outcomes = measure(frameworks, stored)
    results: dict[str, dict[str, Any]] = {}
    for suite, outcome in outcomes.items():
        outcome.skipped = {**skipped, **outcome.skipped}
        outcome.save(suite)
        results[suite] = {
            "hello": outcome.hello,
            "skipped": outcome.skipped,
            "numbers": outcome.numbers,
        }
    page = summary.write(results)
    log(f"took {time.monotonic() - start:.0f} s, wrote {RESULTS / 'summary.md'}")
    print(page)


if __name__ == "__main__":
    main()
