"""Measures what a turn costs in units that do not depend on the machine, and records the figures.

    python -m tests.architecture.turn_cost                what is measured beside what is recorded
    python -m tests.architecture.turn_cost --json         what is measured, in one line
    python -m tests.architecture.turn_cost --record       write lower figures into turn_cost.toml
    python -m tests.architecture.turn_cost --record --raise 24    also higher ones; ADR 24 says why

Calls are counted with `sys.setprofile`: Python functions, each time one is entered or a coroutine
goes on, and C functions. They are counted for each minor version of Python, whose interpreters do
not make the same calls. Statements, commits and bytes are those that SQLite is given.
"""

import argparse
import asyncio
import gc
import json
import re
import sqlite3
import sys
import tempfile
import threading
import tomllib
from asyncio import TimerHandle
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median_low
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

from tests.server.in_process import Request

from awaken import Agent, AgentRuntime, tool
from awaken.runtime.primitives.system import Uuid7Source
from awaken.testing import Chunks, ScriptedModel, ToolCalls

FILE = Path(__file__).with_name("turn_cost.toml")
ADRS = Path(__file__).parents[2] / "docs" / "adr"
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
TURNS = 21
WARM_TURNS = 6
PIECES = 20
"""Of the streamed answer, as in the benchmark of servers."""

CLOCK_DEPENDENT: frozenset[CodeType] = frozenset(
    {
        # How often timers are compared depends on when they end.
        TimerHandle.__lt__.__code__,
        # Called by the first id of a millisecond.
        Uuid7Source._begin.__code__,
    }
)
"""Functions that are not counted, nor what they call."""

Play = Callable[[], Awaitable[object]]
Figures = dict[str, dict[str, int]]
"""Section, then name of the figure."""


@tool(effect="none")
async def look_up(key: str) -> str:
    """Look something up."""
    return key


@tool(effect="once")
async def pay(amount: int) -> str:
    """Pay."""
    return str(amount)


def build_agents() -> list[Agent]:
    """One agent for each kind of turn."""
    call = ("look_up", {"key": "a"})
    looks = ToolCalls([call])
    scripts: dict[str, list[Any]] = {
        "plain": ["Hello."],
        "looks": [looks, "Done."],
        "pays": [ToolCalls([("pay", {"amount": 1})]), "Done."],
        "rounds": [*[looks] * 10, "Done."],
        "parallel": [ToolCalls([call] * 20), "Done."],
        "streamed": [Chunks(["word "] * PIECES)],
    }
    tools: dict[str, list[Any]] = {"plain": [], "streamed": [], "pays": [pay]}
    return [
        Agent(name, model=ScriptedModel(script, cycle=True), tools=tools.get(name, [look_up]))
        for name, script in scripts.items()
    ]


# ---- calls ----


@dataclass
class CallCounter:
    """A profile function that counts calls by thread while `is_on`."""

    by_thread: Counter[int] = field(default_factory=Counter)
    is_on: bool = False

    def see(self, frame: FrameType, event: str, _arg: Any) -> None:
        """Count a call; of a C function the frame is its caller's."""
        if (
            self.is_on
            and (event == "call" or event == "c_call")
            and frame.f_code not in CLOCK_DEPENDENT
        ):
            self.by_thread[threading.get_ident()] += 1


@contextmanager
def count_in_all_threads() -> Iterator[CallCounter]:
    """Count in this thread and in those that start meanwhile: SQLite's writer and readers."""
    counter = CallCounter()
    threading.setprofile(counter.see)
    # A collection would run the callbacks of weak references in the middle of a turn.
    gc.collect()
    gc.disable()
    try:
        yield counter
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        gc.enable()


@dataclass(frozen=True)
class Calls:
    """Calls of a usual turn: in the thread of the event loop, and in all others together."""

    loop: int
    others: int


async def count_turns(counter: CallCounter, play: Play) -> Calls:
    """Play turns one after another and take the median of each thread.

    The median, because a timer or the heartbeat falls into few turns, and because the writer
    thread may still be on its way back to its queue when the turn that it served has ended.
    """
    here = threading.get_ident()
    loop, others = [], []
    for number in range(WARM_TURNS + TURNS):
        if number == WARM_TURNS:
            sys.setprofile(counter.see)
        counter.by_thread.clear()
        counter.is_on = True
        await play()
        counter.is_on = False
        loop.append(counter.by_thread[here])
        others.append(sum(counter.by_thread.values()) - counter.by_thread[here])
    sys.setprofile(None)
    return Calls(median_low(loop[WARM_TURNS:]), median_low(others[WARM_TURNS:]))


@asynccontextmanager
async def open_durable(agents: Iterable[Agent], **options: Any) -> AsyncIterator[AgentRuntime]:
    """A runtime on a file of SQLite, without a worker beside it."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'store.db'}"
        async with AgentRuntime(agents, store=store, has_worker=False, **options) as runtime:
            yield runtime


def count_calls(agent: str, thread_id: str | None = None) -> Calls:
    """Calls of a turn on the memory store."""

    async def measure() -> Calls:
        with count_in_all_threads() as counter:
            async with AgentRuntime(build_agents()) as runtime:
                return await count_turns(
                    counter, partial(runtime.run, agent, "hello", thread_id=thread_id)
                )

    return asyncio.run(measure())


def count_durable_calls(agent: str, thread_id: str | None = None) -> Calls:
    """Calls of a turn on SQLite."""

    async def measure() -> Calls:
        with count_in_all_threads() as counter:
            async with open_durable(build_agents()) as runtime:
                return await count_turns(
                    counter, partial(runtime.run, agent, "hello", thread_id=thread_id)
                )

    return asyncio.run(measure())


def count_served_calls(agent: str) -> Calls:
    """Calls of `POST /v1/runs`, from the ASGI call to the last byte of its stream."""
    body = {"agent_id": agent, "messages": [{"role": "user", "content": "hello"}]}

    async def measure() -> Calls:
        runtime = AgentRuntime(build_agents())
        app = runtime.asgi()

        async def play() -> None:
            request = Request(app, "POST", "/v1/runs", body=body)
            await request.task
            assert request.answer.status == 200, request.answer
            assert b'"run_finish"' in request.answer.body, request.answer

        with count_in_all_threads() as counter:
            async with runtime:
                return await count_turns(counter, play)

    return asyncio.run(measure())


# ---- statements ----


@dataclass
class Spent:
    """What SQLite was asked to do."""

    statements: int = 0
    commits: int = 0
    """Transactions that changed something: each waits for the disk."""
    bytes: int = 0
    """Texts and blobs that were passed as arguments."""


SPENT = Spent()
TRANSACTION = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")


class CountingCursor(sqlite3.Cursor):
    """Counts in `SPENT`; a statement that is run for many rows counts for each."""

    def execute(self, sql: str, parameters: Any = ()) -> "CountingCursor":
        self._count(sql, [parameters])
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any]) -> "CountingCursor":
        rows = list(parameters)
        self._count(sql, rows)
        return super().executemany(sql, rows)

    def _count(self, sql: str, rows: list[Any]) -> None:
        connection: Any = self.connection
        if sql.startswith("BEGIN"):
            connection.changes_before = connection.total_changes
        if sql.startswith("COMMIT"):
            SPENT.commits += connection.total_changes > connection.changes_before
        if not sql.startswith(TRANSACTION):
            SPENT.statements += len(rows)
            SPENT.bytes += sum(
                len(value) for row in rows for value in row if isinstance(value, bytes | str)
            )


class CountingConnection(sqlite3.Connection):
    """Counts what is run on any of its cursors."""

    changes_before = 0

    def cursor(self, factory: Any = CountingCursor) -> Any:
        return super().cursor(factory)

    def execute(self, *args: Any) -> Any:
        return self.cursor().execute(*args)

    def executemany(self, *args: Any) -> Any:
        return self.cursor().executemany(*args)


async def prepare_nothing(_runtime: AgentRuntime) -> None:
    """Leave a runtime as it is."""


def count_written(
    agent: str,
    prepare: Callable[[AgentRuntime], Awaitable[object]] = prepare_nothing,
    **options: Any,
) -> Spent:
    """The median of each figure over turns on SQLite, of a runtime with these options."""

    async def measure() -> Spent:
        found: dict[str, list[int]] = {name: [] for name in vars(SPENT)}
        async with open_durable(build_agents(), **options) as runtime:
            await prepare(runtime)
            for _ in range(WARM_TURNS):
                await runtime.run(agent, "hello")
            for _ in range(TURNS):
                before = dict(vars(SPENT))
                await runtime.run(agent, "hello")
                for name, value in vars(SPENT).items():
                    found[name].append(value - before[name])
        return Spent(**{name: median_low(values) for name, values in found.items()})

    with patch.object(sqlite3, "connect", partial(sqlite3.connect, factory=CountingConnection)):
        return asyncio.run(measure())


# ---- figures ----

CALLS: dict[str, Callable[[], Calls]] = {
    "plain": partial(count_calls, "plain"),
    "looks": partial(count_calls, "looks"),
    "pays": partial(count_calls, "pays"),
    "rounds": partial(count_calls, "rounds"),
    "parallel": partial(count_calls, "parallel"),
    "durable_plain": partial(count_durable_calls, "plain"),
    "durable_looks": partial(count_durable_calls, "looks"),
    "durable_pays": partial(count_durable_calls, "pays"),
    # On one thread that grows, as in W4 and W4p; the others begin a thread with each turn.
    "again": partial(count_calls, "plain", "t"),
    "durable_again": partial(count_durable_calls, "looks", "t"),
    "served": partial(count_served_calls, "plain"),
    "streamed": partial(count_served_calls, "streamed"),
}
DURABLE = ("plain", "looks", "pays")
WRITTEN = ("statements", "commits", "bytes")


def measure_calls(name: str) -> dict[str, int]:
    """The figures of one kind of turn; other threads have one where there are any."""
    found = CALLS[name]()
    return {name: found.loop} | ({f"{name}_threads": found.others} if found.others else {})


def measure_all() -> Figures:
    """Every figure, by section."""
    figures: Figures = {f"calls.{PYTHON}": {}, **{name: {} for name in WRITTEN}}
    for name in CALLS:
        figures[f"calls.{PYTHON}"] |= measure_calls(name)
    for agent in DURABLE:
        for name, value in vars(count_written(agent)).items():
            figures[name][agent] = value
    return figures


@dataclass(frozen=True)
class Budget:
    """The recorded figures, and the ADR that allows a figure that was raised."""

    figures: Figures
    raised: dict[str, int]

    @classmethod
    def read(cls, path: Path = FILE) -> "Budget":
        """Read `turn_cost.toml`."""
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        calls = document.pop("calls")
        raised = document.pop("raised", {})
        by_version = {f"calls.{version}": figures for version, figures in calls.items()}
        return cls({**by_version, **document}, raised)

    def calls_of(self, version: str = PYTHON) -> tuple[dict[str, int], bool]:
        """The figures of a minor version, or of the nearest one; and whether they are its own."""
        known = {
            section.removeprefix("calls."): figures
            for section, figures in self.figures.items()
            if section.startswith("calls.")
        }
        if version in known:
            return known[version], True
        wanted = read_version(version)
        nearest = min(known, key=lambda it: abs(read_version(it) - wanted))
        return known[nearest], False

    def record(self, measured: Figures, adr: int | None = None) -> "tuple[Budget, list[str]]":
        """The budget with the lower figures, and which measured ones it refuses to raise.

        With the number of an ADR nothing is refused, and the file names the ADR beside the figure.
        """
        figures = {section: dict(values) for section, values in self.figures.items()}
        raised, refused = dict(self.raised), []
        for section, values in measured.items():
            for name, exact in values.items():
                key, value = f"{section}.{name}", exact
                if section == "bytes":
                    value = -(-exact // ROUND_BYTES) * ROUND_BYTES
                known = figures.setdefault(section, {}).get(name)
                if known is None or value < known:
                    figures[section][name] = value
                    raised.pop(key, None)
                elif exact > known + allowance(section, known) and adr is None:
                    refused.append(f"{key}: {known} is recorded, {exact} measured")
                elif value > known and adr is not None:
                    figures[section][name] = value
                    raised[key] = adr
        return Budget(figures, raised), refused

    def write(self, path: Path = FILE) -> None:
        """Write `turn_cost.toml`."""
        lines = HEAD.splitlines()
        for section, values in sorted(self.figures.items(), key=lambda it: "." not in it[0]):
            title = re.sub(r"^calls\.(.*)$", r'calls."\1"', section)
            lines += ["", f"[{title}]", *(f"{name} = {value}" for name, value in values.items())]
        if self.raised:
            lines += ["", "[raised]", *(f'"{key}" = {adr}' for key, adr in self.raised.items())]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


HEAD = """\
# The most that a turn may cost: the median of 21 turns after 6. Only lowered, with
# `python -m tests.architecture.turn_cost --record`, or raised by an ADR, with `--raise NUMBER`.
# A figure with `_threads` is of all threads besides the event loop's.
"""


def read_version(text: str) -> int:
    """3.11 as a number that orders minor versions."""
    major, minor = text.split(".")
    return int(major) * 1000 + int(minor)


def allowance(section: str, figure: int) -> int:
    """How far above a figure a measured one may be without being a finding."""
    if section == "bytes":
        return figure // 100  # ids and times differ in length from turn to turn
    return SLACK if section.startswith("calls.") else 0


ROUND_BYTES = 20
SLACK = 0
"""Calls are counted exactly."""
LOWER_BY = 5
"""A figure that is more than this, or a fiftieth of it, too high has to be lowered."""


def judge(section: str, name: str, figure: int, value: int) -> str | None:
    """What is wrong with a measured value, or None."""
    if value > figure + allowance(section, figure):
        return (
            f"{section}.{name}: a turn costs {value}, the budget is {figure}. If every run needs "
            "the difference, an ADR says how much and why, and raises the figure."
        )
    margin = LOWER_BY if section.startswith("calls.") else 0
    if section == "bytes" or figure > LOWER_BY * 50:
        margin = max(margin, figure // 50)
    if value < figure - margin:
        return (
            f"{section}.{name}: a turn costs {value}, less than its budget of {figure}. Lower the "
            f"figure to {value}: python -m tests.architecture.turn_cost --record"
        )
    return None


def flatten(figures: Figures) -> dict[str, int]:
    """The figures by names without a version, for the benchmark page."""
    return {
        f"{section.partition('.')[0]} {name}": value
        for section, values in figures.items()
        for name, value in values.items()
    }


def main() -> None:
    """Print the figures, and record them when asked."""
    parser = argparse.ArgumentParser(prog="turn_cost", description=__doc__)
    parser.add_argument("--record", action="store_true", help="lower the recorded figures")
    parser.add_argument("--raise", dest="adr", type=int, help="the ADR that allows higher ones")
    parser.add_argument("--json", action="store_true", help="only print what is measured")
    args = parser.parse_args()
    if args.json:
        print(json.dumps(flatten(measure_all())))
        return
    if args.adr is not None and not list(ADRS.glob(f"{args.adr:04}-*.md")):
        parser.error(f"there is no ADR {args.adr} in {ADRS}")
    budget, measured = Budget.read(), measure_all()
    for section, values in measured.items():
        print(section)
        for name, value in values.items():
            print(f"  {name:<24}{budget.figures.get(section, {}).get(name, '-'):>8}{value:>8}")
    if args.record:
        changed, refused = budget.record(measured, args.adr)
        changed.write()
        if refused:
            raise SystemExit("\n".join(["not raised without an ADR (--raise NUMBER):", *refused]))


if __name__ == "__main__":
    main()
