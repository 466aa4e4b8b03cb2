"""`awaken db`: damage is found, named and counted; migrating says what it did."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from awaken import __version__
from awaken.contracts.state.profile import ProfileEntry
from awaken.services.workers import OWNER, SILENT_MS, WorkerEntry
from awaken.stores import SqliteStore

from .conftest import Call

COUNTS = {
    "checkpoints": 0,
    "dispatches": 4,
    "messages": 7,
    "outbox": 0,
    "profile_entries": 0,
    "runs": 2,
    "threads": 3,
    "tickets": 1,
}


def change(db: Path, statement: str) -> None:
    with closing(sqlite3.connect(db)) as connection:
        assert connection.execute(statement).rowcount > 0
        connection.commit()


def test_a_sound_store_is_read_whole(call: Call, db: Path) -> None:
    answer = call("db", "check", "--json")
    assert (answer.code, answer.err) == (0, "")
    found = answer.document
    assert found["problems"] == []
    assert found["schema_version"] == 12
    assert {kind: found["records"][kind] for kind in COUNTS} == COUNTS
    assert found["records"]["events"] > 10
    assert found["records"]["tool_records"] >= 3
    assert found["records"]["state"] >= 1
    assert "sound" in call("db", "check").out


@pytest.mark.parametrize(
    ("table", "column", "where", "name"),
    [
        ("messages", "body", "place % 4294967296 = 2", "Message 2 of thread 't-done'"),
        ("runs", "record", "run_id = 'r-done'", "Run 'r-done'"),
        ("threads", "head", "id = 't-waits'", "Thread 't-waits'"),
        ("dispatches", "record", "dispatch_id = 'd-1'", "Dispatch 'd-1'"),
        ("tickets", "record", "1", "Ticket '"),
        ("state", "data", "name = 'demo.notes'", "State 'demo.notes' of thread 't-done'"),
        ("commits", "events", "events IS NOT NULL", "The events of commit 1 of thread 't-done'"),
        ("commits", "tools", "tools IS NOT NULL", "The tool journal of commit"),
    ],
)
def test_a_flipped_bit_is_found_and_its_record_named(
    call: Call, db: Path, table: str, column: str, where: str, name: str
) -> None:
    flipped = f"substr({column}, 1, 5) || x'00' || substr({column}, 7)"
    change(db, f"UPDATE {table} SET {column} = CAST({flipped} AS BLOB) WHERE {where}")
    answer = call("db", "check")
    assert answer.code == 1
    assert f"awaken: {name}" in answer.err
    found = call("db", "check", "--json")
    assert found.code == 1
    assert any(problem.startswith(name) for problem in found.document["problems"])


def test_a_contract_is_refused_while_a_process_of_another_version_is_there(
    call: Call, db: Path
) -> None:
    other = WorkerEntry(id="p-1", version="0.0.1", host="h", pid=1)

    async def report(entry: WorkerEntry, ago_ms: int) -> None:
        store = SqliteStore(db)
        await store.open()
        at = await store.now_ms() - ago_ms
        value = msgspec.to_builtins(msgspec.structs.replace(entry, at=at))
        await store.save_entry(ProfileEntry(owner=OWNER, key=entry.id, value=value))
        await store.close()

    asyncio.run(report(other, ago_ms=0))
    refused = call("db", "contract", "--json")
    assert refused.code != 0
    assert "version 0.0.1" in refused.error["message"]
    # It has not reported itself for longer than a minute: it is gone.
    asyncio.run(report(other, ago_ms=SILENT_MS))
    asyncio.run(report(msgspec.structs.replace(other, id="p-2", version=__version__), ago_ms=0))
    done = call("db", "contract", "--json")
    assert (done.code, done.document["readable_from"]) == (0, 12)
    assert "nothing to take away" in call("db", "contract").out


def test_one_damaged_record_does_not_hide_the_next(call: Call, db: Path) -> None:
    for run_id in ("r-done", "r-waits"):
        change(db, f"UPDATE runs SET record = x'00' WHERE run_id = '{run_id}'")
    found = call("db", "check", "--json").document
    named = [problem for problem in found["problems"] if problem.startswith("Run '")]
    assert len(named) == 2
    assert found["records"]["runs"] == 0
    assert found["records"]["dispatches"] == 4


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM messages WHERE place % 4294967296 = 5", "it has 4 of 5 messages"),
        ("DELETE FROM commits WHERE place % 4294967296 = 2 AND events IS NOT NULL", "events"),
    ],
)
def test_a_record_that_is_missing_is_missed(
    call: Call, db: Path, statement: str, problem: str
) -> None:
    change(db, statement)
    problems = call("db", "check", "--json").document["problems"]
    assert any("Thread 't-done'" in each and problem in each for each in problems)


def test_a_damaged_page_is_named_and_the_rest_is_read(call: Call, db: Path) -> None:
    with closing(sqlite3.connect(db)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'dispatches_run'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray(db.read_bytes())
    data[(page - 1) * size : page * size] = b"\xff" * size
    db.write_bytes(data)
    answer = call("db", "check", "--json")
    assert answer.code == 1
    assert any(problem.startswith("The file") for problem in answer.document["problems"])
    assert answer.document["records"]["messages"] == 7


def test_checking_changes_nothing(call: Call, db: Path) -> None:
    before = db.read_bytes()
    assert call("db", "check").code == 0
    assert db.read_bytes() == before


def test_migrating_makes_a_store_and_says_from_where_to_where(call: Call) -> None:
    arguments = ("db", "migrate", "--store", "sqlite:///new.db")
    document = {"store": "sqlite:///new.db", "from_version": 0, "to_version": 12}
    assert call(*arguments, "--json").document == document
    assert "is up to date: schema 12" in call(*arguments).out
    assert call(*arguments, "--json").document == {**document, "from_version": 12}
    assert call("threads", "list", "--store", "sqlite:///new.db").code == 0
