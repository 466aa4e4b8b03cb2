"""W8: streamed runs over HTTP, ours and the peers' servers, each alone and in random order.

usage: server_bench.py [MODE ...] [--quick] [--only a,b] [--rounds N] [--seconds S]

throughput  100 clients that ask again at once, 20 deltas a run: runs per second, CPU, first event
paced       the same with a model that waits 50 ms and then 20 ms between deltas, so 0.43 s a run;
            once all clients begin at the same moment, once they are spread over those 0.43 s
hold        1,000 and 5,000 open streams, each of its own run that has said one word: memory
overload    500 clients against 100: runs per second kept, who is sent away, whether it still lives
readers     5,000 streams of one run (ours): memory of each, and that all hear of its end
stuck       clients that never read beside 100 others (ours): what those notice
start       `awaken serve` in an empty folder until it answers (ours)

Without a mode all of them. Prints a page and writes it to $BENCH_ROOT/results/server.md.
--quick: plain and ours only, once and short.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import uvloop

import server_own
from frameworks import RESULTS
from server_modes import Numbers, hold, overload, throughput
from server_processes import NotReady
from server_report import page
from server_rows import SHEDDING, US, Row, select
from suites import Outcome, shuffled
from workers import log, log_skipped

MODES = ("throughput", "paced", "hold", "overload", "readers", "stuck", "start")
QUICK = f"plain,{US},awaken+sqlite"


def run(args: argparse.Namespace, only: str | None) -> Outcome:
    """Measure the servers that are named, or all, in the modes of the arguments."""
    rows, skipped = select(only)
    log_skipped(skipped)
    outcome = Outcome(skipped=skipped)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(measure(args, rows, outcome))
    return outcome


async def measure(args: argparse.Namespace, rows: list[Row], outcome: Outcome) -> None:
    """Every mode that was asked for."""
    modes, seconds = args.modes or MODES, args.seconds
    if "throughput" in modes:
        for _ in range(args.rounds):
            await each(rows, outcome, "throughput", partial(throughput, seconds=seconds))
    if "paced" in modes:
        await each(rows, outcome, "paced", partial(throughput, seconds=seconds, paced=True))
    for count in args.counts if "hold" in modes else ():
        await each(rows, outcome, f"hold {count}", partial(hold, count=count))
    if "overload" in modes:
        await each(rows, outcome, "overload", partial(overload, seconds=seconds))
    own = [row for row in rows if row.name == US]
    if not own:
        return
    if "overload" in modes:
        # Runs that take their time, so that the limit is reached.
        await each([SHEDDING], outcome, "overload", partial(overload, seconds=seconds, paced=True))
    if "readers" in modes:
        await each(own, outcome, "readers", lambda _: server_own.readers(args.counts[-1]))
    if "stuck" in modes:
        await each(own, outcome, "stuck", lambda _: server_own.stuck(seconds))
    if "start" in modes:
        await each(own, outcome, "start", lambda _: server_own.start(args.starts))


async def each(
    rows: list[Row], outcome: Outcome, mode: str, job: Callable[[Row], Awaitable[Numbers]]
) -> None:
    """Measure one server after another."""
    for row in shuffled(rows):
        try:
            found = await job(row)
        except NotReady as reason:
            outcome.skipped[f"{row.name}, {mode}"] = str(reason)
            log(f"{row.name}, {mode}: skipped, {reason}")
            continue
        outcome.numbers.setdefault(row.name, {}).setdefault(mode, []).append(found)
        shown = {
            key: round(value, 4) if isinstance(value, float) else value
            for key, value in found.items()
        }
        log(mode, row.name, shown)


def main() -> None:
    """Measure, save, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modes", nargs="*", metavar="MODE", help=", ".join(MODES))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--counts", type=lambda text: [int(part) for part in text.split(",")])
    args = parser.parse_args()
    if unknown := set(args.modes) - set(MODES):
        parser.error(f"unknown mode {', '.join(unknown)}; known: {', '.join(MODES)}")
    args.rounds = args.rounds or (1 if args.quick else 3)
    args.seconds = args.seconds or (3 if args.quick else 6)
    args.counts = args.counts or ([1000] if args.quick else [1000, 5000])
    outcome = run(args, args.only or (QUICK if args.quick else None))
    outcome.save("server", "http")
    text = page(outcome)
    (RESULTS / "server.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
