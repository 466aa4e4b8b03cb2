"""What a durable turn asks of its store: statements, commits and bytes, counted and not timed.

    python bench/statements.py [--postgres URL] [--turns 40]

One row per agent and store. Each turn continues one thread. SQLite: everything that its connections
execute, from BEGIN to COMMIT, and what reaches the log of the file. Postgres, if a server is named:
every call of the driver is one round trip once its statement is prepared.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from awaken import Agent, AgentRuntime, tool
from awaken.stores.sqlite import connection as sqlite_connection
from awaken.testing import ScriptedModel, ToolCalls

WARM_TURNS = 10
AGENTS = ("plain", "looks", "pays")
_WRITES_NOTHING = ("SELECT", "PRAGMA", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")


@tool(effect="none")
async def look_up(key: str) -> str:
    """Look something up."""
    return key


@tool(effect="once")
async def pay(amount: int) -> str:
    """Pay."""
    return str(amount)


def agents() -> list[Agent]:
    """One without tools, one with a tool without effects, one with a tool that acts once."""
    looks = ToolCalls([("look_up", {"key": "a"})])
    pays = ToolCalls([("pay", {"amount": 1})])
    return [
        Agent("plain", model=ScriptedModel(["Hello."], cycle=True)),
        Agent("looks", model=ScriptedModel([looks, "Done."], cycle=True), tools=[look_up]),
        Agent("pays", model=ScriptedModel([pays, "Done."], cycle=True), tools=[pay]),
    ]


class Spent:
    """What was asked of a database, by kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, text: str, rows: int = 1) -> None:
        """Count one call: `rows` statements in one round trip."""
        word = text.strip().partition(" ")[0].upper()
        self.counts["round trips"] += 1
        self.counts["statements"] += rows
        self.counts["writes"] += 0 if word in _WRITES_NOTHING else rows
        self.counts["commits"] += word == "COMMIT"


@contextmanager
def count_sqlite() -> Iterator[Spent]:
    """Count what connections that are opened inside execute."""
    spent, connect = Spent(), sqlite_connection.sqlite3.connect

    class Counted(sqlite3.Connection):
        def execute(self, text: str, *args: Any) -> sqlite3.Cursor:
            spent.add(text)
            return super().execute(text, *args)

        def executemany(self, text: str, rows: Any) -> sqlite3.Cursor:
            listed = list(rows)
            spent.add(text, len(listed))
            return super().executemany(text, listed)

    def open_counted(*args: Any, **options: Any) -> sqlite3.Connection:
        return connect(*args, factory=Counted, **options)

    with patch.object(sqlite_connection.sqlite3, "connect", open_counted):
        yield spent


@contextmanager
def count_postgres() -> Iterator[Spent]:
    """Count the calls of the driver."""
    import asyncpg

    spent = Spent()

    def counting(name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(asyncpg.Connection, name)

        async def call(self: Any, text: str, *args: Any, **options: Any) -> Any:
            spent.add(text, len(args[0]) if name == "executemany" else 1)
            return await method(self, text, *args, **options)

        return call

    with ExitStack() as stack:
        for name in ("execute", "executemany", "fetch", "fetchrow", "fetchval"):
            stack.enter_context(patch.object(asyncpg.Connection, name, counting(name)))
        yield spent


async def count_turns(agent: str, url: str, spent: Spent, turns: int) -> Counter[str]:
    """Return what the turns cost together, after a few that warm everything up."""
    log = Path(f"{url.removeprefix('sqlite:///')}-wal")
    async with AgentRuntime(agents(), store=url, has_worker=False) as runtime:
        for _ in range(WARM_TURNS):
            await runtime.run(agent, "hello", thread_id=f"thread-{agent}")
        before, size = Counter(spent.counts), _size(log)
        for _ in range(turns):
            await runtime.run(agent, "hello", thread_id=f"thread-{agent}")
        found = spent.counts - before
        found["bytes"] = _size(log) - size
        return found


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def main() -> None:
    """Count and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--postgres", metavar="URL", help="count on this server as well")
    parser.add_argument("--turns", type=int, default=40)
    args = parser.parse_args()
    columns = ("statements", "writes", "commits", "round trips", "bytes")
    print("| store | agent | " + " | ".join(columns) + " |\n|---|---|" + "---|" * len(columns))
    for agent in AGENTS:
        with tempfile.TemporaryDirectory() as folder, count_sqlite() as spent:
            _show("SQLite", agent, columns, f"sqlite:///{folder}/store.db", spent, args.turns)
    for agent in AGENTS if args.postgres else ():
        with count_postgres() as spent:
            _show("Postgres", agent, columns, args.postgres, spent, args.turns)


def _show(
    store: str, agent: str, columns: tuple[str, ...], url: str, spent: Spent, turns: int
) -> None:
    found = asyncio.run(count_turns(agent, url, spent, turns))
    # A call of SQLite stays in the process; what Postgres writes is counted by the server.
    absent = "round trips" if store == "SQLite" else "bytes"
    shown = ("-" if name == absent else f"{found[name] / turns:,.1f}" for name in columns)
    print(f"| {store} | {agent} | " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    main()
