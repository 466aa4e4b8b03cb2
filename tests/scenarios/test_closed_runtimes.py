"""A runtime that was closed has ended everything that it began in the event loop."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.nats_servers.cluster import nats_server
from tests.postgres.server import new_schema, server

import awaken
from awaken import Agent, AgentRuntime
from awaken.buses.nats import NatsBus
from awaken.buses.postgres import PostgresBus
from awaken.stores import PostgresStore, SqliteStore
from awaken.testing import ScriptedModel


def in_memory(folder: Path) -> dict[str, object]:
    return {}


def on_sqlite(folder: Path) -> dict[str, object]:
    return {"store": SqliteStore(folder / "awaken.db")}


def on_postgres(folder: Path) -> dict[str, object]:
    schema = new_schema()
    return {
        "store": PostgresStore(server().url, schema=schema),
        "bus": PostgresBus(server().url, channel=schema),
    }


def with_nats(folder: Path) -> dict[str, object]:
    schema = new_schema()
    return {
        "store": PostgresStore(server().url, schema=schema),
        "bus": NatsBus(f"{nats_server().url}/?namespace={schema}"),
    }


class LingeringTask(asyncio.Task[Any]):
    """A task that does not end when it is cancelled, until another one waits for its end."""

    def __init__(self, work: Any, **options: Any) -> None:
        self._is_cancelled = False
        self._is_awaited = asyncio.Event()
        super().__init__(self._end_when_awaited(work), **options)

    def cancel(self, *args: Any, **options: Any) -> bool:
        self._is_cancelled = True
        return super().cancel(*args, **options)

    def add_done_callback(self, *args: Any, **options: Any) -> None:
        super().add_done_callback(*args, **options)
        if self._is_cancelled:
            self._is_awaited.set()

    async def _end_when_awaited(self, work: Any) -> Any:
        try:
            return await work
        except asyncio.CancelledError:
            await self._is_awaited.wait()
            raise


def make_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    """Make tasks of the package linger; a client of NATS does not wait for its own."""
    is_own = Path(awaken.__file__).parent in Path(work.cr_code.co_filename).parents
    return (LingeringTask if is_own else asyncio.Task)(work, loop=loop, **options)


@pytest.mark.parametrize("make", [in_memory, on_sqlite, on_postgres, with_nats])
def test_no_task_outlives_its_runtime(
    make: Callable[[Path], dict[str, object]], tmp_path: Path
) -> None:
    async def check() -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(make_task)
        agent = Agent("a", model=ScriptedModel(["one", "two"]))
        before = asyncio.all_tasks()
        async with AgentRuntime(agents=[agent], **make(tmp_path)) as runtime:
            await runtime.run("a", "hello")
            receipt = await runtime.submit("a", "hello again")
            await runtime.wait(receipt.run_id)
        assert {it.get_name() for it in asyncio.all_tasks() - before} == set()

    asyncio.run(check())
