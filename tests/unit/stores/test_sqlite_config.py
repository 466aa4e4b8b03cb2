"""Configuration in an SQLite file: damage and tampering are found, and batches stay whole."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from awaken.contracts.config.audit import AuditAnchor, AuditQuery, find_broken_link
from awaken.contracts.config.errors import HeadMoved
from awaken.contracts.config.store import ConfigPurge, ConfigWrite
from awaken.contracts.errors import CorruptRecord
from awaken.stores.sql import rows
from awaken.stores.sqlite import SqliteStore
from awaken.stores.sqlite.connection import STATEMENTS
from awaken.testing.store_conformance.config_writing import (
    ConfigWriter,
    check_chain,
    make_draft,
    make_event,
    make_secret,
    read_config,
)
from awaken.testing.store_conformance.writing import Writer

ALL = 1000


def on_file(path: Path, work: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def run() -> None:
        store = SqliteStore(path)
        await store.open()
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(run())


async def fill(store: SqliteStore) -> None:
    publisher = ConfigWriter(store)
    for number in range(4):
        await publisher.publish(idempotency_key=f"k{number}", secrets=(make_secret("s", number),))
    await publisher.publish_ephemeral()
    await store.save_draft(make_draft("d", base=2), 0)


def edit(path: Path, statement: str, *args: object) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        assert file.execute(statement, args).rowcount > 0


def list_problems(path: Path) -> tuple[str, ...]:
    return asyncio.run(SqliteStore(path).check()).problems


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "store.db"
    on_file(file, fill)
    return file


def test_a_sound_configuration_is_read_whole(path: Path) -> None:
    found = asyncio.run(SqliteStore(path).check())
    assert found.problems == ()
    kinds = ("heads", "objects", "publications", "drafts", "secrets", "requests")
    assert [found.records[f"config_{kind}"] for kind in kinds] == [1, 5, 5, 1, 1, 4]
    assert found.records["audit_events"] == 4


def test_a_pruned_configuration_is_sound(path: Path) -> None:
    async def prune(store: SqliteStore) -> None:
        purge = ConfigPurge(pinned=frozenset(), audit_before=3000)
        assert (await store.purge_config(purge)).audit == 2

    on_file(path, prune)
    assert list_problems(path) == ()


@pytest.mark.parametrize(
    ("table", "column", "name"),
    [
        ("config_heads", "record", "The head of the configuration"),
        ("config_objects", "body", "Object '"),
        ("config_publications", "record", "Publication 1"),
        ("config_publications", "contents", "The contents of publication 1"),
        ("config_drafts", "record", "Draft 'd'"),
        ("config_audit", "record", "Audit event 1"),
    ],
)
def test_a_flipped_bit_is_found_and_its_record_named(
    path: Path, table: str, column: str, name: str
) -> None:
    flipped = f"substr({column}, 1, 5) || x'00' || substr({column}, 7)"
    edit(path, f"UPDATE {table} SET {column} = CAST({flipped} AS BLOB)")
    assert any(it.startswith(name) for it in list_problems(path))


def test_a_body_under_the_hash_of_another_is_found(path: Path) -> None:
    edit(path, "UPDATE config_objects SET body = (SELECT body FROM config_objects LIMIT 1)")
    problems = list_problems(path)
    assert len(problems) == 4
    assert all("is not the hash of its body" in it for it in problems)


def break_at(path: Path) -> int | None:
    found: list[int | None] = []

    async def verify(store: SqliteStore) -> None:
        chain = await store.read_audit_chain(after=0, limit=ALL)
        found.append(find_broken_link(AuditAnchor(), chain))

    on_file(path, verify)
    return found[0]


def test_a_rewritten_event_with_a_right_checksum_breaks_the_chain(path: Path) -> None:
    async def find_event(store: SqliteStore) -> None:
        (row,) = await store.list_audit(AuditQuery(event_id="event-2"))
        forged = msgspec.structs.replace(row.event, actor="eve")
        edit(path, "UPDATE config_audit SET record = ? WHERE no = 2", rows.pack(forged, 2))
        (row,) = await store.list_audit(AuditQuery(event_id="event-2"))
        assert row.event.actor == "eve"

    on_file(path, find_event)
    assert break_at(path) == 2
    assert list_problems(path) == ("The audit: its chain is broken at event 2",)


def test_a_removed_event_breaks_the_chain(path: Path) -> None:
    edit(path, "DELETE FROM config_audit WHERE no = 3")
    assert break_at(path) == 3
    assert list_problems(path) == ("The audit: its chain is broken at event 3",)


def test_a_chain_without_its_newest_event_does_not_reach_its_end(path: Path) -> None:
    edit(path, "DELETE FROM config_audit WHERE no = 4")
    assert break_at(path) is None

    async def verify(store: SqliteStore) -> None:
        with pytest.raises(AssertionError, match="does not reach its end"):
            await check_chain(store)

    on_file(path, verify)
    assert list_problems(path) == ("The audit: it ends with event 3, not 4",)


def test_the_head_and_the_history_are_read_without_a_manifest(path: Path) -> None:
    edit(path, "UPDATE config_publications SET contents = x'00'")

    async def read(store: SqliteStore) -> None:
        head = await store.find_config_head()
        assert head is not None
        assert head.publication == 4
        assert len(await store.list_publications()) == 4
        with pytest.raises(CorruptRecord):
            await store.load_publication(4)

    on_file(path, read)


@pytest.mark.parametrize(
    ("statement", "arguments", "index"),
    [
        ("list_resource_audit", 7, "config_audit_resource (resource=? AND no<?)"),
        ("list_event_audit", 8, "config_audit_event (event_id=?"),
        ("list_audit", 6, "PRIMARY KEY (rowid<?)"),
        ("list_live_publications", 2, "config_publications_live (no<?)"),
        ("list_all_publications", 2, "PRIMARY KEY (rowid<?)"),
    ],
)
def test_a_page_is_found_by_an_index(
    path: Path, statement: str, arguments: int, index: str
) -> None:
    with closing(sqlite3.connect(path)) as file:
        plan = file.execute(f"EXPLAIN QUERY PLAN {STATEMENTS[statement]}", (1,) * arguments)
        steps = [row[3] for row in plan]
    assert len(steps) == 1
    assert index in steps[0]


def test_a_refused_write_undoes_nothing_of_the_writes_beside_it(tmp_path: Path) -> None:
    async def race(store: SqliteStore) -> None:
        publisher = ConfigWriter(store)
        await publisher.publish()
        late = [await publisher.build() for _ in range(10)]
        good = [ConfigWrite(audit=(make_event(number),)) for number in range(10)]
        writers = [Writer(store, f"t{number}") for number in range(10)]
        outcomes = await asyncio.gather(
            *(
                it
                for trio in zip(
                    map(store.write_config, late),
                    map(store.write_config, good),
                    (writer.commit() for writer in writers),
                    strict=True,
                )
                for it in trio
            ),
            return_exceptions=True,
        )
        refused = [it for it in outcomes if isinstance(it, BaseException)]
        assert len(refused) == 9
        assert all(isinstance(it, HeadMoved) for it in refused)
        assert len(await check_chain(store)) == 12
        for writer in writers:
            assert await store.load_thread(writer.thread_id) is not None

    on_file(tmp_path / "store.db", race)


def test_a_cancelled_caller_leaves_its_write_applied_or_absent(tmp_path: Path) -> None:
    async def cancel_everywhere(store: SqliteStore) -> None:
        publisher = ConfigWriter(store)
        outcomes = set()
        for turns in range(60):
            before = await read_config(store)
            write = await publisher.build(idempotency_key=f"k{turns}")
            task = asyncio.ensure_future(store.write_config(write))
            for _ in range(turns % 20):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            # It waits for a write that is still under way.
            is_applied = await store.find_config_request(f"k{turns}") is not None
            outcomes.add(is_applied)
            await check_chain(store)
            if is_applied:
                head = await store.find_config_head()
                assert head is not None
                assert head.revision == (write.expected_revision or 0) + 1
            else:
                assert await read_config(store) == before
        assert False in outcomes

    on_file(tmp_path / "store.db", cancel_everywhere)
