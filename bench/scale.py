"""Every figure that several nodes on one Postgres must hold, printed by one command.

    python bench/scale.py [--bus URL] [--rows NAME,NAME] [--threads N] [--quick]

One row for each figure: what it is, its bound, what was measured, and whether it is met. Every row
of a carrier is measured over Postgres, over three NATS servers that the command starts itself
(`--bus` names others), and with the carrier off. A time is the median of five rounds. `events`,
`control` and `starts` use two runtimes in one event loop (`two_nodes.py`), the others processes.
Times depend on the load of the machine, which is printed; counts do not. `cost` compares with the
commit before the work on several nodes, and needs a clone that has it. `chaos` is a short round of
`python -m tests.torture cluster_chaos`, which has the long ones.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import scale_load
import scale_text
import two_nodes
from awaken.contracts.lifecycle import RunStatus
from local_servers import nats_cluster, new_schema, server
from scale_cost import measure_idle, measure_run
from statements import count_postgres

CARRIER_OFF = "none"
CONTROLS = tuple((kind, has) for kind in ("cancel", "steer", "decide") for has in (False, True))
"""What is asked of another node, and whether the nodes have workers."""
DRAINED = ("cancel", "steer", "decide")
FRAME_MS = 40
IDLE_S = 1.0
ROUNDS = 5
ROW_S = 300
"""How long one part of the table may take."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: what was measured, against its bound."""

    what: str
    bound: str
    found: str
    is_met: bool | None
    """None if it has no bound."""

    def show(self) -> None:
        """Print it as a row of a table."""
        verdict = {None: "-", True: "met", False: "**missed**"}[self.is_met]
        print(f"| {self.what} | {self.bound} | {self.found} | {verdict} |", flush=True)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the caller of this command wants."""

    carriers: tuple[str, ...]
    repeats: int
    streams: int
    threads: int


Measure = Callable[[Asked], Awaitable[list[Figure]]]


def at_most(what: str, limit: float, found: float, unit: str = "") -> Figure:
    """A figure that must not be above a limit."""
    return Figure(what, f"≤ {limit:g}{unit}", f"{found:,.1f}{unit}", found <= limit)


def judge_times(what: str, rounds: list[list[float]], p50: float | None, p99: float) -> Figure:
    """Times in milliseconds: the middle, if it has a bound, and the slowest hundredth.

    Each is the median of what the rounds have.
    """
    middle = statistics.median(map(statistics.median, rounds))
    slow = statistics.median(map(two_nodes.find_p99, rounds))
    bound = f"≤ {p99:g} ms" if p50 is None else f"≤ {p50:g} / {p99:g} ms"
    is_met = slow <= p99 and (p50 is None or middle <= p50)
    count = sum(map(len, rounds))
    return Figure(what, bound, f"{middle:.1f} / {slow:.1f} ms ({count})", is_met)


def show_times(what: str, found: list[float]) -> Figure:
    """Times in milliseconds that no bound was set for."""
    return replace(judge_times(what, [found], None, 0), bound="-", is_met=None)


def split_rounds(found: list[float]) -> list[list[float]]:
    """Deal times to rounds, in the order in which they were measured."""
    size = -(-len(found) // ROUNDS)
    return [found[start : start + size] for start in range(0, len(found), size)]


def name_carrier(carrier: str) -> str:
    """What a row says of its carrier, without the address of a server."""
    return {"postgres": "Postgres", CARRIER_OFF: "carrier off"}.get(carrier, "NATS")


async def measure_events(asked: Asked) -> list[Figure]:
    """Logged events on the node that does not execute."""
    rows = []
    for carrier in asked.carriers:
        schema, name = new_schema(), name_carrier(carrier)
        async with (
            two_nodes.open_runtime(schema, carrier) as here,
            two_nodes.open_runtime(schema, carrier) as there,
        ):
            is_off = carrier == CARRIER_OFF
            bounds = (None, 3_000) if is_off else (20, 100) if name == "Postgres" else (15, 60)
            lags = await two_nodes.measure_lag(here, there, 5 if is_off else asked.repeats)
        what = f"logged event on another node, {name}"
        rows.append(judge_times(what, split_rounds(lags), *bounds))
    return rows


async def measure_text(asked: Asked) -> list[Figure]:
    """Text of many streams on the node that does not execute them."""
    rows = []
    for carrier in asked.carriers:
        if carrier == CARRIER_OFF:
            # Text is then shown with the step that has it: a logged event.
            continue
        name = name_carrier(carrier)
        rounds, joins = await scale_text.measure_rounds(carrier, asked.streams)
        what = f"delta of {asked.streams} streams x {1000 // two_nodes.DELTA_MS}/s elsewhere"
        lags = [it.lags for it in rounds]
        rows.append(judge_times(f"{what}, {name}", lags, FRAME_MS + 15, 150))
        here, there = (sum(it[place] for it in rounds) for place in (1, 2))
        equal, streams = sum(it.equal for it in rounds), asked.streams * len(rounds)
        found = f"{100 * there / max(here, 1):.0f} %, {equal} of {streams} texts equal"
        is_whole = equal == streams and there >= here
        rows.append(Figure(f"deltas there / here, {name}", "100 %, all", found, is_whole))
        rows.append(show_times(f"text of {asked.streams} streams joined at once, {name}", joins))
    return rows


async def _begin(runtime: Any, agent: str, thread_id: str) -> str:
    handle = await runtime.start(agent, "go", thread_id=thread_id)
    return str(handle.run_id)


async def _control_once(here: Any, there: Any, kind: str, name: str) -> tuple[float, float]:
    """Ask there for a change of a run here; when it takes effect here, and is seen there."""
    agent = {"cancel": "sleeper", "decide": "asker", "steer": "stepper"}[kind]
    run_id = await _begin(here, agent, name)
    if kind == "decide":
        await here.wait(run_id)
        (ticket,) = await there.store.list_run_tickets(name, run_id)
    else:
        await asyncio.sleep(0.15)
    began = time.perf_counter()
    reading = [asyncio.create_task(_see_end(it, run_id)) for it in (here, there)]
    match kind:
        case "cancel":
            await there.cancel(run_id)
        case "steer":
            await there.steer(run_id, "steer")
        case _:
            await there.decide(ticket.ticket_id)
    async with asyncio.timeout(30):
        near, far = await asyncio.gather(*reading)
    return (near - began) * 1000, (far - began) * 1000


async def _see_end(runtime: Any, run_id: str) -> float:
    """When a reader of this node has seen the last event; a suspended run is read again."""
    while True:
        seen = await two_nodes.read(runtime, run_id)
        run = await runtime.store.load_run(run_id)
        if run.status is RunStatus.DONE:
            return max(seen.values())
        await asyncio.sleep(0.005)


async def measure_control(asked: Asked) -> list[Figure]:
    """Cancel, decide and steer from another node."""
    rows = []
    for carrier in asked.carriers:
        name = name_carrier(carrier)
        effect_ms, seen_ms = (3_000, 3_000) if carrier == CARRIER_OFF else (250, 300)
        for kind, has_worker in CONTROLS:
            schema = new_schema()
            async with (
                two_nodes.open_runtime(schema, carrier, has_worker=has_worker) as here,
                two_nodes.open_runtime(schema, carrier, has_worker=has_worker) as there,
            ):
                count = ROUNDS if carrier == CARRIER_OFF else asked.repeats
                found = [
                    await _control_once(here, there, kind, f"{kind}-{number}")
                    for number in range(count)
                ]
            what = f"{kind}, {'with' if has_worker else 'without'} a worker, {name}"
            effect, seen = (split_rounds(list(it)) for it in zip(*found, strict=True))
            rows.append(judge_times(f"{what}: effect", effect, None, effect_ms))
            rows.append(judge_times(f"{what}: seen", seen, None, seen_ms))
        for kind in DRAINED:
            took = [[await _control_during_drain(carrier, kind)] for _ in range(ROUNDS)]
            rows.append(judge_times(f"{kind} while it drains, {name}", took, None, effect_ms))
    return rows


async def _control_during_drain(carrier: str, kind: str) -> float:
    """Milliseconds until a node that drains has done what another one asks of its run.

    A run that is decided goes on elsewhere: who drains begins nothing.
    """
    schema = new_schema()
    async with (
        two_nodes.open_runtime(schema, carrier, has_worker=True) as here,
        two_nodes.open_runtime(schema, carrier, has_worker=kind == "decide") as there,
    ):
        if kind == "decide":
            run_id = await _begin(here, "asker", "drained")
            await here.wait(run_id)
            (ticket,) = await there.store.list_run_tickets("drained", run_id)
            # It drains as long as another run is under way.
            busy = await _begin(here, "sleeper", "busy")
            reading = asyncio.create_task(_see_end(there, run_id))
        else:
            run_id = busy = await _begin(
                here, "sleeper" if kind == "cancel" else "stepper", "drained"
            )
            reading = asyncio.create_task(_see_end(here, run_id))
        draining = asyncio.create_task(here.drain(10_000))
        await asyncio.sleep(0.3)
        began = time.perf_counter()
        match kind:
            case "cancel":
                await there.cancel(run_id)
            case "steer":
                await there.steer(run_id, "steer")
            case _:
                await there.decide(ticket.ticket_id)
        seen = await reading
        if busy != run_id:
            await there.cancel(busy)
        await draining
        return (seen - began) * 1000


async def measure_starts(asked: Asked) -> list[Figure]:
    """How long input waits that one node queues and a worker of another one takes."""
    rows = []
    for carrier in asked.carriers:
        schema, took = new_schema(), list[float]()
        async with (
            two_nodes.open_runtime(schema, carrier, has_worker=True),
            two_nodes.open_runtime(schema, carrier) as there,
        ):
            for number in range(asked.repeats):
                # The worker has been idle for some looks, as it is between two users.
                await asyncio.sleep(IDLE_S)
                took.append(await _start_once(there, f"start-{number}"))
        what, rounds = f"queued input starts elsewhere, {name_carrier(carrier)}", split_rounds(took)
        # Who hears of nothing looks at the latest after 1.5 s, and needs a moment for it.
        is_off = carrier == CARRIER_OFF
        rows.append(judge_times(what, rounds, None, 3_000) if is_off else show_times(what, took))
    return rows


async def _start_once(there: Any, name: str) -> float:
    """Milliseconds from a submission to its claim."""
    began = time.perf_counter()
    receipt = await there.submit("agent", "go", thread_id=name)
    async with asyncio.timeout(30):
        while (await there.store.find_dispatch(receipt.dispatch_id)).status == "queued":
            await asyncio.sleep(0.005)
    return (time.perf_counter() - began) * 1000


async def measure_statements(asked: Asked) -> list[Figure]:
    """What the database is asked, counted at the driver."""
    rows = []
    with count_postgres() as spent:
        async with two_nodes.open_runtime(schema := new_schema(), has_worker=True) as here:
            await asyncio.sleep(2)
            idle = await measure_idle(spent)
            rows.append(at_most("SQL of an idle node with a worker", 3, idle, "/s"))
            async with two_nodes.open_runtime(schema) as there:
                run_id = await _begin(here, "sleeper", "waited-for")
                await asyncio.sleep(2)
                base = await measure_idle(spent)
                for what, follow in (
                    ("reader", two_nodes.read(there, run_id)),
                    ("waiter", there.wait(run_id)),
                ):
                    following = asyncio.create_task(follow)
                    await asyncio.sleep(3)
                    each = await measure_idle(spent) - base
                    rows.append(at_most(f"SQL of an idle remote {what}", 0.6, max(each, 0), "/s"))
                    following.cancel()
                    await asyncio.wait([following])
                await here.cancel(run_id)
    rows += await scale_load.measure_beats(at_most)
    cost = await measure_run("two", 20 if asked.repeats < 10 else 60)
    rows.append(at_most("SQL of a queued two-step run", 20, cost.statements))
    rows.append(at_most("WAL of it, without images of pages", 8, cost.wal_bytes / 1000, " KB"))
    return rows


async def measure_cost(asked: Asked) -> list[Figure]:
    """What Postgres spends on a run, against the commit before this work, in turns."""
    runs = 60 if asked.repeats < 10 else 200
    ratio, found = await asyncio.to_thread(scale_load.compare_cost, runs)
    what = f"Postgres CPU of a run / at {scale_load.BASELINE}"
    return [Figure(what, "≤ 0.55", f"{ratio:.2f} ({found})", ratio <= 0.55)]


async def measure_kill(asked: Asked) -> list[Figure]:
    """How long a run stands still after its node was killed, and whether its log is whole."""
    rows = []
    for carrier in asked.carriers:
        took, is_whole = await scale_load.measure_kill(carrier)
        name = name_carrier(carrier)
        what = f"run goes on after its node was killed ({scale_load.describe_isolation()}), {name}"
        rows.append(at_most(what, 15, took, " s"))
        found = "yes" if is_whole else "no"
        what = f"its stream elsewhere: ids rise, the log has no gap, {name}"
        rows.append(Figure(what, "yes", found, is_whole))
    return rows


async def measure_workers(asked: Asked) -> list[Figure]:
    """What four workers do in the time of one."""
    rows = []
    for carrier in asked.carriers:
        one, four = [await scale_load.measure_workers(it, carrier) for it in (1, 4)]
        found = f"{four / one:.2f} ({one:.1f} and {four:.1f} runs/s)"
        what = f"4 workers / 1 worker, model 1 s, {name_carrier(carrier)}"
        rows.append(Figure(what, "≥ 3.5", found, four / one >= 3.5))
    return rows


async def measure_chaos(asked: Asked) -> list[Figure]:
    """Losses, doubled work, runs that are stuck and gaps of streams under faults."""
    faults = 4 if asked.repeats < 10 else 16
    failures, streams = await asyncio.to_thread(scale_load.play_chaos, faults)
    what = f"lost, doubled, stuck, gaps: {faults} faults over all carriers"
    return [Figure(what, "0", f"{failures} ({streams} streams read)", failures == 0)]


async def measure_fairness(asked: Asked) -> list[Figure]:
    """How long one run of a tenant waits behind many of another."""
    waited = await scale_load.measure_fairness(200 if asked.repeats < 10 else 1_000)
    return [at_most("a tenant's one run behind many of another", 2, waited, " runs' time")]


async def measure_large(asked: Asked) -> list[Figure]:
    """The slowest statement of claims, submissions, sweeps and purges in a large store."""
    slowest = await scale_load.measure_large_store(asked.threads)
    return [
        at_most(f"slowest statement of a {name}, {asked.threads:,} threads", 20, ms, " ms")
        for name, ms in slowest.items()
    ]


ROWS: dict[str, Measure] = {
    "events": measure_events,
    "text": measure_text,
    "control": measure_control,
    "starts": measure_starts,
    "statements": measure_statements,
    "cost": measure_cost,
    "kill": measure_kill,
    "workers": measure_workers,
    "fairness": measure_fairness,
    "large": measure_large,
    "chaos": measure_chaos,
}


async def main(asked: Asked, names: list[str]) -> int:
    """Print the table; returns how many rows are missed."""
    load, missed, began = os.getloadavg()[0], 0, time.perf_counter()
    print(f"Load {load:.1f} on {os.cpu_count()} cores; bounds hold for 2 idle cores on loopback.\n")
    print("| what | bound | p50 / p99 or count | |\n|---|---|---|---|")
    for name in names:
        try:
            async with asyncio.timeout(ROW_S):
                found = await ROWS[name](asked)
        except (Exception, asyncio.CancelledError) as error:
            found = [Figure(name, "-", f"not measured: {error!r}"[:160], is_met=False)]
        for figure in found:
            figure.show()
            missed += figure.is_met is False
    took = time.perf_counter() - began
    print(f"\n{missed} missed, in {took:.0f} s. Load afterwards: {os.getloadavg()[0]:.1f}.")
    return missed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bus", metavar="URL", help="NATS servers that are there already")
    parser.add_argument("--rows", default=",".join(ROWS), help="which rows, by their names")
    parser.add_argument("--threads", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    given = parser.parse_args()
    server()
    with nullcontext() if given.bus else nats_cluster(3) as cluster:
        wanted = Asked(
            carriers=("postgres", given.bus or cluster.url, CARRIER_OFF),
            repeats=5 if given.quick else 20,
            streams=10 if given.quick else 50,
            threads=given.threads,
        )
        missed = asyncio.run(main(wanted, given.rows.split(",")))
    sys.exit(1 if missed else 0)
