"""A file that others keep locked: it is said at once, and by whom."""

import asyncio
import logging
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from awaken.contracts.errors import StoreUnavailable
from awaken.stores.sqlite import connection, locks, writer
from awaken.stores.sqlite.store import SqliteStore

HOLD = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute(sys.argv[2])
held.execute("BEGIN " + sys.argv[3])
held.execute("CREATE TABLE IF NOT EXISTS other (x)")
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def held(path: Path, mode: str = "IMMEDIATE", pragma: str = "PRAGMA user_version") -> Iterator[int]:
    """Another process that keeps the file locked."""
    command = [sys.executable, "-c", HOLD, str(path), pragma, mode]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process.pid
        finally:
            process.communicate("\n", timeout=20)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "NOTICE_MS", 20)
    monkeypatch.setattr(writer, "BUSY_MS", 60)
    monkeypatch.setattr(connection, "SWITCH_PAUSE_MS", 5)


async def opened(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.close()


async def nothing(_: object) -> None:
    """To begin is what is tried."""


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [it.getMessage() for it in caplog.records if it.name == "awaken.store"]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("mode", "pragma"),
    [
        ("IMMEDIATE", "PRAGMA journal_mode = WAL"),
        ("EXCLUSIVE", "PRAGMA journal_mode = WAL"),
        ("EXCLUSIVE", "PRAGMA journal_mode = DELETE"),
    ],
)
def test_a_locked_file_is_told_at_once_with_who_holds_it(
    mode: str, pragma: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.db"
    with held(path, mode, pragma) as pid:
        with caplog.at_level(logging.WARNING), pytest.raises(StoreUnavailable) as refused:
            asyncio.run(opened(path))
        (line,) = told(caplog)
        assert "is locked by" in line
        if sys.platform == "linux":
            assert f"process {pid} (" in line
            assert f"process {pid} (" in str(refused.value)
    asyncio.run(opened(path))


def test_what_is_locked_while_it_is_used_is_told_and_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "NOTICE_MS", 20)
    path = tmp_path / "store.db"

    async def scenario() -> None:
        store = SqliteStore(path)
        await store.open()
        heard = asyncio.Event()
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(
            writer,
            "log_locked",
            lambda *args: (locks.log_locked(*args), loop.call_soon_threadsafe(heard.set)),
        )
        holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        holder.execute("BEGIN IMMEDIATE")
        writing = asyncio.ensure_future(store._database.write(nothing))
        await asyncio.wait_for(heard.wait(), 20)
        assert not writing.done()
        holder.execute("ROLLBACK")
        holder.close()
        await asyncio.wait_for(writing, 20)
        await store.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    (line,) = told(caplog)
    assert "waiting for up to 30 s" in line


def test_an_open_file_that_nobody_locks_has_no_holder(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    asyncio.run(opened(path))
    assert locks.describe_holders(path) == "another process"
