"""Play what processes do to each other under seeded schedules, in virtual time.

`python -m tests.torture.schedule_sweep --schedules 20000` deals the seeds to the scenarios and
to two processes. A failure names the command that plays its schedule again.
"""

import argparse
import logging
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

from awaken.contracts.record import Record
from awaken.testing.simulation import RandomOrder, SimulatedLoop, run

from . import schedule_claims, schedule_control, schedule_scenarios
from .lanes import spread
from .report import finish
from .schedule_scenarios import Scenario
from .schedule_world import World

SCENARIOS: dict[str, tuple[Scenario, int]] = {
    "two_workers": (schedule_scenarios.two_workers, 6),
    "paused_worker": (schedule_scenarios.paused_worker, 8),
    "killed_worker": (schedule_scenarios.killed_worker, 8),
    "skewed_clocks": (schedule_scenarios.skewed_clocks, 4),
    "interrupts": (schedule_scenarios.interrupts, 8),
    "same_decision": (schedule_scenarios.same_decision, 1),
    "two_decisions": (schedule_scenarios.two_decisions, 8),
    "cancel_or_completion": (schedule_scenarios.cancel_or_completion, 8),
    "steer_or_end": (schedule_scenarios.steer_or_end, 8),
    "attaching_reader": (schedule_scenarios.attaching_reader, 6),
    "lost_signals": (schedule_scenarios.lost_signals, 4),
    "two_sweepers": (schedule_scenarios.two_sweepers, 4),
    "dedupe_race": (schedule_scenarios.dedupe_race, 6),
    "deadline_or_decision": (schedule_scenarios.deadline_or_decision, 8),
    "purge_or_reader": (schedule_scenarios.purge_or_reader, 6),
    "late_commit": (schedule_claims.late_commit, 10),
    "late_end": (schedule_claims.late_end, 10),
    "two_claimers": (schedule_claims.two_claimers, 10),
    "control_acts": (schedule_control.control_acts, 8),
}
"""Each with its share of the schedules; the dear ones get few."""

FAILURES_MAX = 10
MAX_STEPS = 200_000


class Outcome(Record, frozen=True, kw_only=True):
    """What one lane did."""

    schedules: dict[str, int]
    seconds: dict[str, float]
    interleavings: int
    steps: int
    failures: tuple[str, ...]


def main() -> None:
    """Play, and exit with 1 when a schedule broke a promise."""
    parser = argparse.ArgumentParser(prog="schedule_sweep")
    parser.add_argument("--schedules", type=int, default=20_000)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--lanes", type=int, default=2)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    dealt = _dealt(args.scenarios.split(","), args.seed, args.schedules)
    found = spread(partial(_lane), dealt, args.lanes)
    schedules = sum((Counter(it.schedules) for it in found), Counter())
    seconds = sum((Counter(it.seconds) for it in found), Counter())
    failures = [failure for it in found for failure in it.failures]
    counts: dict[str, object] = {
        name: f"{count} schedules, {1000 * seconds[name] / count:.1f} ms each"
        for name, count in schedules.items()
    }
    counts["scenarios"] = len(schedules)
    counts["interleavings"] = sum(it.interleavings for it in found)
    counts["steps"] = sum(it.steps for it in found)
    finish("schedule_sweep", args.seed, counts, schedules.total() - len(failures), failures)


def _dealt(names: Sequence[str], seed: int, count: int) -> list[tuple[str, int]]:
    """Which scenario is played under which seed; the same for every number of lanes."""
    shares = [name for name in names for _ in range(SCENARIOS[name][1])]
    # Spread out, so that a small sweep and every lane gets some of each.
    order = [shares[place * 7919 % len(shares)] for place in range(len(shares))]
    if len(set(order)) < len(names):
        order = shares
    return [(order[number % len(order)], seed + number) for number in range(count)]


def _lane(share: Sequence[tuple[str, int]]) -> Outcome:
    schedules: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    interleavings: set[int] = set()
    failures: list[str] = []
    steps = 0
    for name, seed in share:
        begin = time.perf_counter()
        loop = SimulatedLoop(RandomOrder(seed), max_steps=MAX_STEPS)
        problems = _problems(loop, name, seed)
        schedules[name] += 1
        seconds[name] += time.perf_counter() - begin
        interleavings.add(loop.schedule_hash)
        steps += loop.steps
        if problems:
            again = f"--scenarios {name} --seed {seed} --schedules 1 --lanes 1"
            told = "; ".join(problems[:3])
            failures.append(f"{told}\n    python -m tests.torture.schedule_sweep {again}")
        if len(failures) >= FAILURES_MAX:
            break
    return Outcome(
        schedules=dict(schedules),
        seconds=dict(seconds),
        interleavings=len(interleavings),
        steps=steps,
        failures=tuple(failures),
    )


def _problems(loop: SimulatedLoop, name: str, seed: int) -> list[str]:
    """What one schedule of a scenario broke; sentences that name the scenario."""

    async def played() -> list[str]:
        world = World(seed)
        await SCENARIOS[name][0](world)
        return await world.problems()

    try:
        found = run(loop, played)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what was looked for
        found = [f"{type(error).__name__}: {error}"]
    return [f"{name}, seed {seed}: {problem}" for problem in found]


if __name__ == "__main__":
    main()
