"""What a turn costs, in units that do not depend on the machine: calls, statements, bytes.

The figures in `turn_cost.toml` only fall. A change that needs more says why in its commit, and a
change that needs less writes the new figure down.
"""

import asyncio
import cProfile
import pstats
import tomllib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import pytest
from tests.server.in_process import Request

from awaken import Agent, AgentRuntime, tool
from awaken.stores.sqlite.connection import SqliteSession
from awaken.testing import ScriptedModel, ToolCalls

ALLOWED: dict[str, dict[str, float]] = tomllib.loads(
    Path(__file__).with_name("turn_cost.toml").read_text(encoding="utf-8")
)
TURNS = 20
WARM_TURNS = 5
ROUNDING = 0.005
"""Ids differ in length from turn to turn."""
SLACK = 2
"""The median of one measurement may differ from that of another by a call."""


@tool(effect="none")
async def look_up(key: str) -> str:
    """Look something up."""
    return key


@tool(effect="once")
async def pay(amount: int) -> str:
    """Pay."""
    return str(amount)


def agents() -> list[Agent]:
    looks = ToolCalls([("look_up", {"key": "a"})])
    pays = ToolCalls([("pay", {"amount": 1})])
    return [
        Agent("plain", model=ScriptedModel(["Hello."], cycle=True)),
        Agent("looks", model=ScriptedModel([looks, "Done."], cycle=True), tools=[look_up]),
        Agent("pays", model=ScriptedModel([pays, "Done."], cycle=True), tools=[pay]),
    ]


async def count_usual(play: Callable[[], Awaitable[object]]) -> float:
    """The median of the turns: a timer or the garbage collector falls into few of them."""
    for _ in range(WARM_TURNS):
        await play()
    found = []
    for _ in range(TURNS):
        profile = cProfile.Profile()
        profile.enable()
        await play()
        profile.disable()
        found.append(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]
    return median(found)


def count_calls(agent: str) -> float:
    """Functions called in a turn on the memory store, Python's and C's."""

    async def measure() -> float:
        async with AgentRuntime(agents()) as runtime:
            return await count_usual(lambda: runtime.run(agent, "hello"))

    return asyncio.run(measure())


def count_served_calls() -> float:
    """Functions called for `POST /v1/runs`, from the ASGI call to the last byte of its stream."""

    async def measure() -> float:
        runtime = AgentRuntime(agents())
        app = runtime.asgi()
        async with runtime:
            body = {"agent_id": "plain", "messages": [{"role": "user", "content": "hello"}]}
            return await count_usual(lambda: Request(app, "POST", "/v1/runs", body=body).task)

    return asyncio.run(measure())


class Spent:
    """Statements and bytes that went to the database."""

    def __init__(self) -> None:
        self.statements = 0
        self.bytes = 0

    def add(self, args: tuple[Any, ...]) -> None:
        self.statements += 1
        self.bytes += sum(len(it) for it in args if isinstance(it, bytes | str))


@contextmanager
def count_statements() -> Iterator[Spent]:
    spent = Spent()

    run_many = SqliteSession.run_many

    def counting(method: Any) -> Any:
        async def count(self: SqliteSession, statement: str, *args: Any) -> Any:
            spent.add(args)
            return await method(self, statement, *args)

        return count

    async def count_many(self: SqliteSession, statement: str, rows: Iterable[Any]) -> None:
        listed = list(rows)
        for row in listed:
            spent.add(tuple(row))
        await run_many(self, statement, listed)

    with ExitStack() as stack:
        for name in ("all", "one", "run"):
            counted = counting(getattr(SqliteSession, name))
            stack.enter_context(patch.object(SqliteSession, name, counted))
        stack.enter_context(patch.object(SqliteSession, "run_many", count_many))
        yield spent


def count_written(agent: str, folder: Path) -> tuple[float, float]:
    """Statements and bytes of a turn on SQLite; the process has no worker beside it."""

    async def measure() -> tuple[float, float]:
        url = f"sqlite:///{folder / 'store.db'}"
        async with AgentRuntime(agents(), store=url, has_worker=False) as runtime:
            for _ in range(WARM_TURNS):
                await runtime.run(agent, "hello")
            with count_statements() as spent:
                for _ in range(TURNS):
                    await runtime.run(agent, "hello")
            return spent.statements / TURNS, spent.bytes / TURNS

    return asyncio.run(measure())


@pytest.mark.parametrize("agent", ["plain", "looks", "pays"])
def test_a_turn_calls_no_more_functions(agent: str) -> None:
    assert count_calls(agent) <= ALLOWED["function_calls"][agent] + SLACK


@pytest.mark.parametrize("agent", ["plain", "looks", "pays"])
def test_a_durable_turn_writes_no_more(agent: str, tmp_path: Path) -> None:
    statements, written = count_written(agent, tmp_path)
    assert round(statements) <= ALLOWED["statements"][agent]
    assert written <= ALLOWED["bytes"][agent] * (1 + ROUNDING)


def test_a_served_turn_calls_no_more_functions() -> None:
    assert count_served_calls() <= ALLOWED["function_calls"]["served"] + SLACK
