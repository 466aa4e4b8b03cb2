"""Outboxes of older files are kept, dead entries cost no reader time, and damage has a name."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from awaken.contracts.errors import CorruptRecord
from awaken.contracts.storage.store import OutboxEntry
from awaken.stores.sql import rows
from awaken.stores.sql.migrations import migrations
from awaken.stores.sqlite import SqliteStore
from awaken.stores.sqlite.connection import STATEMENTS
from awaken.testing.store_conformance.writing import Writer

BEFORE_ATTEMPTS = 2
"""The last schema whose outbox knew nothing of attempts."""


def mail(entry_id: str, **fields: object) -> OutboxEntry:
    return OutboxEntry(entry_id=entry_id, kind="mail", payload={"to": "ü"}, **fields)


def on(path: Path, work: Callable[[SqliteStore], Awaitable[object]]) -> None:
    async def run() -> None:
        store = SqliteStore(path)
        await store.open()
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(run())


def old_file(path: Path, *entry_ids: str) -> Path:
    """A file as the schema before left it, with entries that nobody had sent."""
    with closing(sqlite3.connect(path)) as file:
        for script in migrations("awaken.stores.sqlite")[:BEFORE_ATTEMPTS]:
            file.executescript(script)
        add = "INSERT INTO outbox (entry_id, thread_no, record) VALUES (?, 1, ?)"
        file.executemany(add, [(name, rows.pack(mail(name))) for name in entry_ids])
        file.execute(f"PRAGMA user_version = {BEFORE_ATTEMPTS}")
        file.commit()
    return path


def test_what_an_older_file_has_not_sent_is_due_at_once(tmp_path: Path) -> None:
    async def work(store: SqliteStore) -> None:
        assert await store.list_outbox() == (mail("b"), mail("a"))
        assert await store.list_dead_outbox() == ()
        assert await store.save_outbox(mail("b", attempts=5, is_dead=True))
        await Writer(store).commit(outbox=(mail("a", error="again"), mail("c")))
        assert await store.list_outbox() == (mail("a"), mail("c"))
        assert await store.list_dead_outbox() == (mail("b", attempts=5, is_dead=True),)

    path = old_file(tmp_path / "store.db", "b", "a")
    on(path, work)
    versions = asyncio.run(SqliteStore(path).schema_versions())
    assert (versions.found, versions.known) == (12, 12)
    assert asyncio.run(SqliteStore(path).check()).problems == ()


@pytest.mark.parametrize("statement", ["list_due_outbox", "list_dead_outbox"])
def test_the_living_and_the_dead_are_read_in_order_without_each_other(
    statement: str, tmp_path: Path
) -> None:
    on(tmp_path / "store.db", SqliteStore.now_ms)
    with closing(sqlite3.connect(tmp_path / "store.db")) as file:
        given = (None, 10, None)[: 3 if statement == "list_due_outbox" else 2]
        plan = file.execute(f"EXPLAIN QUERY PLAN {STATEMENTS[statement]}", given).fetchall()
    steps = [row[3] for row in plan if "outbox" in row[3] or "TEMP B-TREE" in row[3]]
    assert steps == ["SEARCH outbox USING INDEX outbox_due (is_dead=?)"]


def test_a_damaged_entry_hides_no_other_and_is_named_so_that_it_can_be_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "store.db"

    async def fill(store: SqliteStore) -> None:
        dead = (mail("c", is_dead=True), mail("d", is_dead=True))
        await Writer(store).commit(outbox=(mail("a"), mail("b"), *dead))

    async def read(store: SqliteStore) -> None:
        # Not even at the head of the smallest page: the relay would carry out nothing any more.
        for limit in (100, 1):
            assert await store.list_outbox(limit=limit) == (mail("b"),)
            assert await store.list_dead_outbox(limit=limit) == (mail("d", is_dead=True),)
        assert "Outbox entry 'a'" in caplog.text
        with pytest.raises(CorruptRecord, match="Outbox entry 'a'"):
            await store.find_outbox("a")
        await store.delete_outbox(("a",))
        assert await store.list_outbox() == (mail("b"),)

    on(path, fill)
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE outbox SET record = x'3000' WHERE entry_id IN ('a', 'c')")
        file.commit()
    on(path, read)
