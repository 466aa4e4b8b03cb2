"""Measure frameworks against each other.

usage: bench.py micro|persist|conc [--only a,b] [--mode inproc|http] [--rounds N] ...
Without --only: plain, floor, awaken and every installed peer. See README.md.
"""

from __future__ import annotations

import argparse

import suites
from frameworks import select
from workers import log_skipped


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", choices=["micro", "persist", "conc"])
    parser.add_argument("--only", help="frameworks, comma-separated")
    parser.add_argument("--mode", choices=["inproc", "http"], default="inproc")
    parser.add_argument("--rounds", type=int, default=5, help="micro, conc: times round")
    parser.add_argument("--seconds", type=float, default=0.5, help="micro: per workload and round")
    parser.add_argument("--workloads", default=",".join(suites.ALL_MICRO), help="micro")
    parser.add_argument("--turns", type=int, default=260, help="persist: 4 messages each")
    parser.add_argument("--n", default="1000", help="conc: runs at once, comma-separated")
    parser.add_argument("--port", type=int, default=8398, help="of the fake server in http mode")
    parser.add_argument("--out", help="result file (default $BENCH_ROOT/results/SUITE_MODE.json)")
    return parser.parse_args()


def main() -> None:
    """Run one suite and write its result file."""
    args = arguments()
    group = "http" if args.mode == "http" else args.suite
    frameworks, skipped = select(group, args.only)
    log_skipped(skipped)
    with suites.model_server(args.mode, args.port) as base_url:
        where = {"mode": args.mode, "base_url": base_url}
        if args.suite == "micro":
            workloads = args.workloads.split(",")
            outcome = suites.micro(
                frameworks, workloads=workloads, rounds=args.rounds, seconds=args.seconds, **where
            )
        elif args.suite == "persist":
            outcome = suites.persist(frameworks, turns=args.turns, **where)
        else:
            counts = [int(count) for count in args.n.split(",")]
            outcome = suites.conc(frameworks, counts=counts, rounds=args.rounds, **where)
    outcome.skipped = {**skipped, **outcome.skipped}
    outcome.save(args.suite, args.mode, args.out)


if __name__ == "__main__":
    main()
