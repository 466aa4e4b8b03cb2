"""Who may read the files of a store."""

import asyncio
import os
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from awaken.contracts.errors import StorageError
from awaken.contracts.runs.threads import Thread
from awaken.stores.sqlite.connection import connect
from awaken.stores.sqlite.store import SqliteStore


def modes_of(folder: Path) -> dict[str, int]:
    return {it.name: stat.S_IMODE(it.stat().st_mode) for it in sorted(folder.iterdir())}


@pytest.fixture
def no_umask() -> object:
    old = os.umask(0)
    yield
    os.umask(old)


@pytest.mark.usefixtures("no_umask")
@pytest.mark.parametrize("before", [None, 0o644, 0o666, 0o600])
def test_only_the_owner_may_read_the_file_and_its_log(tmp_path: Path, before: int | None) -> None:
    async def scenario() -> None:
        path = tmp_path / "s.db"
        if before is not None:
            first = SqliteStore(path)
            await first.open()
            await first.save_thread(Thread(id="t"))
            await first.close()
            path.chmod(before)
        store = SqliteStore(path)
        await store.open()
        await store.save_thread(Thread(id="u"))
        assert modes_of(tmp_path) == {"s.db": 0o600, "s.db-shm": 0o600, "s.db-wal": 0o600}
        await store.close()
        assert set(modes_of(tmp_path).values()) == {0o600}

    asyncio.run(scenario())


@pytest.mark.usefixtures("no_umask")
def test_rights_are_taken_and_never_given(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "s.db"
        store = SqliteStore(path)
        await store.open()
        await store.close()
        path.chmod(0o444)
        again = SqliteStore(path)
        with suppress(StorageError):  # Only root can open it now.
            await again.open()
        await again.close()
        assert modes_of(tmp_path)["s.db"] == 0o400

    asyncio.run(scenario())


LOOK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM threads").fetchone()[0])
connection.close()
"""


def test_a_process_that_comes_and_goes_never_takes_the_log_away(tmp_path: Path) -> None:
    """A second connection of ours must not end the locks of the first one."""

    async def scenario() -> None:
        path = tmp_path / "s.db"
        store = SqliteStore(path)
        await store.open()
        await store.save_thread(Thread(id="t1"))
        second = connect(path, "the store", is_writer=True)
        for count in (1, 2, 3):
            look = [sys.executable, "-c", LOOK, str(path)]
            found = subprocess.run(look, capture_output=True, text=True, check=True).stdout
            assert found.strip() == str(count)
            await store.save_thread(Thread(id=f"t{count + 1}"))
        second.close()
        await store.close()

    asyncio.run(scenario())


def test_a_closed_store_is_one_file(tmp_path: Path) -> None:
    """Sixty times, because two readers that close at the same moment seldom meet."""

    async def scenario() -> None:
        for number in range(60):
            store = SqliteStore(tmp_path / f"{number}.db")
            await store.open()
            await store.save_thread(Thread(id="t"))
            # As many at a time as there are readers, so that each of them has a connection.
            await asyncio.gather(*(store.load_thread("t") for _ in range(8)))
            await store.close()
        assert {it.suffix for it in tmp_path.iterdir()} == {".db"}

    asyncio.run(scenario())
