"""Full disks, failing disks, damaged files: an error that names the store, and nothing lost."""

import asyncio
import os
import random
import re
import shutil
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.sampling import choose_size, sampled

from awaken.contracts.errors import (
    AwakenError,
    CorruptRecord,
    InvalidInput,
    StorageError,
    StoreCorrupt,
    StoreFull,
    StoreTooNew,
    StoreUnavailable,
)
from awaken.contracts.storage.queries import MessageQuery
from awaken.stores.sqlite import SqliteStore, connection

from . import building as make
from . import tracing
from .clients import Client
from .damage import Reading, damaged, flipped, sample_store, samples
from .history import Log
from .store_file import problems_of

FLIPS, CUTS = choose_size(400, 2000), choose_size(30, 150)
TEXT = random.Random(1).randbytes(2000).hex()
"""Nothing that could be packed."""


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few hundred kilobytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_on_a_full_disk_nothing_is_acknowledged_and_work_goes_on_when_there_is_space(
    tiny_disk: Path,
) -> None:
    path, filler = tiny_disk / "store.db", tiny_disk / "filler"
    filler.write_bytes(bytes(150_000))

    async def main() -> None:
        store = SqliteStore(path)
        await store.open()
        written = await _fill(store)
        assert written > 3
        checkout = await store.checkout("thread")
        assert checkout is not None
        assert [it.id for it in checkout.messages] == [f"m{n}" for n in range(written)]
        filler.unlink()
        await store.commit(_append(written))
        again = await store.checkout("thread")
        assert again is not None
        assert again.thread.version == written + 1
        await store.close()

    asyncio.run(main())


def test_a_store_that_may_not_grow_says_that_it_is_full_and_names_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = [200]
    _use(monkeypatch, lambda: _Limited.at(limit[0]))

    async def main() -> None:
        store = SqliteStore(tmp_path / "store.db")
        await store.open()
        written = await _fill(store)
        limit[0] = 1 << 20
        await store.commit(_append(written))
        checkout = await store.checkout("thread")
        assert checkout is not None
        assert len(checkout.messages) == written + 1
        await store.close()

    asyncio.run(main())


async def _fill(store: SqliteStore) -> int:
    """Append until the store is full; return how many commits were acknowledged."""
    acknowledged: list[int] = []

    async def append() -> None:
        while len(acknowledged) < 200:
            await store.commit(_append(len(acknowledged)))
            acknowledged.append(1)

    with pytest.raises(StoreFull, match=re.escape(store.name)):
        await append()
    return len(acknowledged)


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "INSERT INTO messages", "COMMIT"])
def test_an_io_error_is_named_and_its_connection_is_never_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    made: list[_Failing] = []

    def connect() -> type[_Failing]:
        return partial(_made, made)  # type: ignore[return-value]

    _use(monkeypatch, connect)

    async def main() -> None:
        store = SqliteStore(tmp_path / "store.db")
        await store.open()
        await store.commit(_append(0))
        broken = made[-1]
        broken.fails_at = statement
        with pytest.raises(StoreUnavailable) as caught:
            await store.commit(_append(1))
        assert store.name in str(caught.value)
        used = broken.count
        await store.commit(_append(1))
        assert broken.count == used
        assert made[-1] is not broken
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("syscall", "error", "code"),
    [
        ("pwrite64", "ENOSPC", "store_full"),
        ("pwrite64", "EIO", "store_unavailable"),
        ("fdatasync", "EIO", "store_unavailable"),
    ],
)
def test_what_was_acknowledged_around_a_failing_disk_is_durable(
    tmp_path: Path, syscall: str, error: str, code: str
) -> None:
    if not tracing.is_usable():
        pytest.skip("strace is not here or may not attach")
    path = tmp_path / "store.db"
    asyncio.run(_opened_and_closed(path))
    first = 40 if syscall == "pwrite64" else 4
    ended = tracing.failing_at(partial(_append_all, path), syscall, error, f"{first}..{first + 2}")
    assert ended.is_done
    told = [it.told.error if it.told else None for it in ended.history.operations]
    assert code in told
    assert set(told) <= {None, code}
    assert told[-1] is None
    assert ended.history.counts["ok"] >= 8
    assert problems_of(path, ended.history) == []


def _append_all(path: Path, fd: int) -> None:
    """Append to a thread; after an error look what is there and go on."""

    async def main() -> None:
        store = SqliteStore(path)
        await store.open()
        client = Client(store, Log(fd), "client")
        for number in range(12):
            thread = await store.load_thread("thread")
            version = 0 if thread is None else thread.version
            await client.commit(_append(version, f"c{number}"))
        await store.close()

    asyncio.run(main())


async def _opened_and_closed(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.close()


@sampled
def test_a_flipped_bit_is_found_or_harmless(tmp_path: Path) -> None:
    content = sample_store(tmp_path / "store.db")
    reading = Reading(tmp_path / "store.db")
    bits = samples(content, FLIPS, seed=1)
    verdicts = _verdicts(reading, (flipped(content, bit) for bit in bits))
    assert sum(verdicts.values()) == FLIPS
    assert set(verdicts) == {"found", "harmless"}


@sampled
def test_a_file_that_lost_its_end_is_found_or_harmless(tmp_path: Path) -> None:
    content = sample_store(tmp_path / "store.db")
    reading = Reading(tmp_path / "store.db")
    step = len(content) // CUTS
    ends = range(1, len(content) - 1, step)
    verdicts = _verdicts(reading, (content[:end] for end in ends))
    assert set(verdicts) == {"found"}


def test_a_message_that_is_missing_is_found(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    sample_store(path)
    raw = sqlite3.connect(path)
    with raw:
        raw.execute("DELETE FROM messages WHERE place % 4294967296 = 2")
    raw.close()

    async def main() -> None:
        store = SqliteStore(path)
        await store.open()
        with pytest.raises(CorruptRecord, match="of 4 messages"):
            await store.checkout("turns")
        with pytest.raises(CorruptRecord, match="of 4 messages"):
            await store.list_messages("turns", MessageQuery())
        await store.close()

    asyncio.run(main())


def _verdicts(reading: Reading, changes: Iterator[bytes]) -> Counter[str]:
    return Counter(reading.verdict(path) for path in damaged(changes))


@pytest.mark.parametrize(
    ("content", "error"),
    [(b"This is a letter, not a database. " * 100, StoreCorrupt), (b"SQLite", StoreCorrupt)],
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(
    tmp_path: Path, content: bytes, error: type[StorageError]
) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(content)
    raised = _refusal(path, error)
    assert str(path) in str(raised)
    assert path.read_bytes() == content


def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    asyncio.run(_opened_and_closed(path))
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA user_version = 999")
        raw.execute("UPDATE facts SET value = '999' WHERE name = 'readable_from'")
    raw.close()
    before = path.read_bytes()
    raised = _refusal(path, StoreTooNew)
    assert (raised.found, str(path) in raised.store) == (999, True)
    assert path.read_bytes() == before


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "name a file, not a folder" in str(_refusal(tmp_path, InvalidInput))


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "store.db"
    assert str(path) in str(_refusal(path, StoreUnavailable))


def test_a_file_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    asyncio.run(_opened_and_closed(path))
    os.chmod(path, 0o400)
    if os.access(path, os.W_OK):
        # The superuser may write anything; a read-only mount stops even them.
        command = ["mount", "--bind", "-o", "ro", str(tmp_path), str(tmp_path)]
        if subprocess.run(command, capture_output=True).returncode:
            pytest.skip("this user may write everything")
    try:
        assert str(path) in str(_refusal(path, StoreUnavailable))
    finally:
        subprocess.run(["umount", str(tmp_path)], capture_output=True, check=False)


def _refusal(path: Path, error: type[AwakenError]) -> Any:
    async def main() -> Any:
        with pytest.raises(error) as caught:
            await SqliteStore(path).open()
        return caught.value

    return asyncio.run(main())


def _append(after: int, name: str | None = None) -> Any:
    commit_id = name or f"c{after}"
    text = make.said(f"m{commit_id[1:]}", TEXT)
    return make.commit("thread", after, commit_id=commit_id, messages=(text,))


class _Failing(sqlite3.Connection):
    """A connection that can be told to fail."""

    fails_at = ""
    count = 0

    def execute(self, *args: Any) -> sqlite3.Cursor:
        self._look(args[0])
        return super().execute(*args)

    def executemany(self, *args: Any) -> sqlite3.Cursor:
        self._look(args[0])
        return super().executemany(*args)

    def _look(self, sql: str) -> None:
        self.count += 1
        if self.fails_at and sql.startswith(self.fails_at):
            raise sqlite3.OperationalError("disk I/O error")


def _made(made: list[_Failing], *args: Any, **options: Any) -> _Failing:
    found = _Failing(*args, **options)
    made.append(found)
    return found


class _Limited(sqlite3.Connection):
    """A connection whose file may have so many pages."""

    @classmethod
    def at(cls, pages: int) -> Any:
        def connect(*args: Any, **options: Any) -> sqlite3.Connection:
            made = cls(*args, **options)
            made.execute(f"PRAGMA page_size = {connection.PAGE_BYTES}")
            made.execute(f"PRAGMA max_page_count = {pages}")
            return made

        return connect


def _use(monkeypatch: pytest.MonkeyPatch, factory: Any) -> None:
    """Let the store open its connections with a class of ours."""

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        return factory()(*args, **options)

    ours = SimpleNamespace(**(vars(sqlite3) | {"connect": connect}))
    monkeypatch.setattr(connection, "sqlite3", ours)
