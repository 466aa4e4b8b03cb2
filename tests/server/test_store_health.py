"""A store that cannot be written to is noticed by `/health`, which recovers when the store does."""

import asyncio
import contextlib
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
from tests.postgres.server import new_schema, server

from awaken import Agent, AgentRuntime
from awaken.stores import PostgresStore, SqliteStore, Store, Thread
from awaken.stores.sql import store as sql_store
from awaken.stores.sqlite import connection
from awaken.testing import FakeClock, ScriptedModel

from .in_process import Request, ask

REFUSED = "attempt to write a readonly database"


class Served:
    """A server whose health is asked for a second later each time."""

    def __init__(self, app: Any, store: Store, clock: FakeClock) -> None:
        self.app, self.store, self.clock = app, store, clock

    async def health(self) -> tuple[int, str]:
        self.clock.advance(1000)
        answer = await ask(self.app, "GET", "/health")
        return answer.status, answer.json["components"]["store"]


def served(store: Store, scenario: Callable[[Served], Any]) -> None:
    async def main() -> None:
        clock = FakeClock()
        agent = Agent("a", model=ScriptedModel(["hi"], cycle=True))
        async with asyncio.timeout(60), AgentRuntime([agent], store=store, clock=clock) as runtime:
            await scenario(Served(runtime.asgi(), store, clock))

    asyncio.run(main())


@pytest.fixture(autouse=True)
def _no_recent_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_store, "RECENT_MS", 0)


class Moody(sqlite3.Connection):
    """A connection to a file that may not be written to for a while."""

    is_read_only = False
    written = 0

    def execute(self, *args: Any) -> sqlite3.Cursor:
        if args[0].startswith(("INSERT", "UPDATE", "DELETE")):
            if Moody.is_read_only:
                raise sqlite3.OperationalError(REFUSED)
            Moody.written += "INTO facts" in args[0]
        return super().execute(*args)


@pytest.fixture
def moody(monkeypatch: pytest.MonkeyPatch) -> type[Moody]:
    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        return Moody(*args, **options)

    monkeypatch.setattr(
        connection, "sqlite3", SimpleNamespace(**(vars(sqlite3) | {"connect": connect}))
    )
    Moody.is_read_only, Moody.written = False, 0
    return Moody


def test_a_read_only_file_is_unhealthy_until_it_is_writable(
    tmp_path: Path, moody: type[Moody]
) -> None:
    async def scenario(it: Served) -> None:
        assert await it.health() == (200, "ok")
        for _ in range(2):
            moody.is_read_only = True
            assert await it.health() == (503, "error")
            assert await it.health() == (503, "error")
            moody.is_read_only = False
            assert await it.health() == (200, "ok")
        # Not only its health: what came meanwhile can be written.
        await it.store.save_thread(Thread(id="t"))

    served(SqliteStore(tmp_path / "store.db"), scenario)


def test_the_store_is_written_to_once_a_second_and_not_after_a_commit(
    tmp_path: Path, moody: type[Moody], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(it: Served) -> None:
        before = moody.written
        requests = [Request(it.app, "GET", "/health") for _ in range(50)]
        assert {(await request.leave()).status for request in requests} == {200}
        assert moody.written == before + 1
        monkeypatch.setattr(sql_store, "RECENT_MS", 60_000)
        await it.store.save_thread(Thread(id="t"))
        before = moody.written
        assert await it.health() == (200, "ok")
        assert moody.written == before

    served(SqliteStore(tmp_path / "store.db"), scenario)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few hundred kilobytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_unhealthy_until_there_is_space(tiny_disk: Path) -> None:
    filler = tiny_disk / "filler"

    def fill() -> None:
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(512)) == 512:
                pass

    async def scenario(it: Served) -> None:
        assert await it.health() == (200, "ok")
        fill()
        states = [await it.health() for _ in range(20)]
        assert states[-1] == (503, "error")
        filler.unlink()
        assert await it.health() == (200, "ok")
        await it.store.save_thread(Thread(id="t"))

    served(SqliteStore(tiny_disk / "store.db"), scenario)


def test_a_disk_that_is_mounted_read_only_is_unhealthy_until_it_is_not(tiny_disk: Path) -> None:
    def remount(mode: str) -> bool:
        command = ["mount", "-o", f"remount,{mode}", str(tiny_disk)]
        return subprocess.run(command, capture_output=True).returncode == 0

    async def scenario(it: Served) -> None:
        assert await it.health() == (200, "ok")
        await it.store.close()
        if not remount("ro"):
            pytest.skip("this machine does not let a disk be mounted read-only")
        assert (await it.health())[0] == 503
        assert remount("rw")
        await it.store.open()
        assert await it.health() == (200, "ok")

    served(SqliteStore(tiny_disk / "store.db"), scenario)


def test_a_postgres_server_that_became_read_only_is_unhealthy_until_it_is_not() -> None:
    store = PostgresStore(server().url, schema=new_schema())

    async def set_read_only(value: str) -> None:
        admin = await asyncpg.connect(server().url)
        database = await admin.fetchval("SELECT current_database()")
        await admin.execute("SET default_transaction_read_only = off")
        await admin.execute(
            f'ALTER DATABASE "{database}" SET default_transaction_read_only = {value}'
        )
        await admin.close()

    async def scenario(it: Served) -> None:
        async def ask_new_connections(wanted: tuple[int, str]) -> None:
            """Wait for an answer by new connections: background tasks give older ones back."""
            async with asyncio.timeout(30):
                while True:
                    it.store.database._pool.discard_idle()  # type: ignore[attr-defined]
                    if await it.health() == wanted:
                        return

        assert await it.health() == (200, "ok")
        try:
            await set_read_only("on")
            # New connections are read-only, as those to a standby are.
            await ask_new_connections((503, "error"))
            await ask_new_connections((503, "error"))
        finally:
            await set_read_only("off")
        await ask_new_connections((200, "ok"))
        it.store.database._pool.discard_idle()  # type: ignore[attr-defined]
        await it.store.save_thread(Thread(id="t"))

    served(store, scenario)
