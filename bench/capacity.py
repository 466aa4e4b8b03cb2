"""How many cores, statements and bytes a fleet needs: a model, calculated and not measured.

    python bench/capacity.py [--runs 60] [--measured FILE] [--save FILE]

What one run costs is counted here first, on a Postgres of its own (`scale_cost.py`): statements
and bytes are counts, CPU depends on the machine and its load. Everything else is assumed, and the
assumptions are printed. `--save` writes the counts, and `--measured` calculates from such a file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from scale_cost import RunCost, measure_run

RATES = (10, 100, 1_000, 10_000)
DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What the model takes for given."""

    steps: int = 3
    run_s: float = 20.0
    step_content_bytes: int = 4_096
    content_copies: float = 2.0
    """A step's content is written as a message and as events of the log."""
    streaming_share: float = 0.5
    deltas_per_s: float = 50.0
    remote_share: float = 0.3
    frames_per_s: float = 25.0
    utilisation: float = 0.6
    retention_days: int = 7
    node_core_hour: float = 0.045
    postgres_core_hour: float = 0.10


@dataclass(frozen=True, slots=True)
class Demand:
    """What some runs a second need."""

    at_once: float
    node_cores: float
    postgres_cores: float
    statements: float
    wal_mb: float
    log_tb: float
    remote_deltas: float
    packets: float
    dollars: float
    """For a million runs."""


def extend_cost(one: RunCost, two: RunCost, steps: int) -> RunCost:
    """The cost of a run with some steps: each further one costs what the second one did."""
    before, after = asdict(one), asdict(two)
    return RunCost(
        **{name: before[name] + (steps - 1) * (after[name] - before[name]) for name in before}
    )


def calculate(rate: float, cost: RunCost, given: Assumptions) -> Demand:
    """What a rate of runs needs, if nothing else is the limit."""
    content = given.steps * given.step_content_bytes * given.content_copies
    at_once = rate * given.run_s
    node_cores = rate * cost.node_ms / 1000 / given.utilisation
    postgres_cores = rate * cost.postgres_ms / 1000 / given.utilisation
    streams = at_once * given.streaming_share
    remote = streams * given.remote_share
    nodes = max(2, math.ceil(node_cores))
    hour = node_cores * given.node_core_hour + postgres_cores * given.postgres_core_hour
    return Demand(
        at_once=at_once,
        node_cores=node_cores,
        postgres_cores=postgres_cores,
        statements=rate * cost.statements,
        wal_mb=rate * (cost.wal_bytes + content) / 1e6,
        log_tb=rate * DAY_S * given.retention_days * (cost.kept_bytes + content) / 1e12,
        remote_deltas=remote * given.deltas_per_s,
        # All streams from one node to another share a packet.
        packets=min(remote, nodes * (nodes - 1)) * given.frames_per_s,
        dollars=hour / 3600 / rate * 1e6,
    )


def show(cost: RunCost, given: Assumptions) -> None:
    """Print the assumptions, the counts and the table."""
    print("Assumed:", ", ".join(f"{name} {value:g}" for name, value in asdict(given).items()))
    print("Of one run:", ", ".join(f"{name} {it:,.1f}" for name, it in asdict(cost).items()))
    print(
        "\n| runs/s | at once | node cores | Postgres cores | SQL/s | WAL MB/s | log TB |", end=""
    )
    print(" remote deltas/s | packets/s | $ a million runs |\n|" + "---|" * 10)
    for rate in RATES:
        it = calculate(rate, cost, given)
        print(
            f"| {rate:,} | {it.at_once:,.0f} | {it.node_cores:,.1f} | {it.postgres_cores:,.1f}"
            f" | {it.statements:,.0f} | {it.wal_mb:,.1f} | {it.log_tb:,.2f}"
            f" | {it.remote_deltas:,.0f} | {it.packets:,.0f} | {it.dollars:,.2f} |"
        )


async def measure_both(runs: int) -> dict[str, dict[str, float]]:
    """What runs of one and of two steps cost."""
    return {agent: asdict(await measure_run(agent, runs)) for agent in ("one", "two")}


def main() -> None:
    """Count, or read counts, and calculate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=60, help="how many runs are counted")
    parser.add_argument("--measured", type=Path, metavar="FILE", help="counts of an earlier call")
    parser.add_argument("--save", type=Path, metavar="FILE", help="where the counts are written")
    asked = parser.parse_args()
    if asked.measured is None:
        counts = asyncio.run(measure_both(asked.runs))
        print(f"Counted beside a load of {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")
    else:
        counts = json.loads(asked.measured.read_text("utf-8"))
    if asked.save is not None:
        asked.save.write_text(json.dumps(counts, indent=1), "utf-8")
    given = Assumptions()
    show(extend_cost(RunCost(**counts["one"]), RunCost(**counts["two"]), given.steps), given)


if __name__ == "__main__":
    main()
