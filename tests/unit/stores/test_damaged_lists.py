"""One damaged record is left out of its list; all others are listed, and each list says so."""

import asyncio
import json
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest
from tests.postgres.server import new_schema, server
from tests.postgres.stores import opened
from typer.testing import CliRunner

from awaken import Agent, AgentRuntime
from awaken.cli.main import app
from awaken.contracts.storage.queries import (
    DispatchQuery,
    Page,
    RunQuery,
    ScheduleQuery,
    ThreadQuery,
    TicketQuery,
    TriggerQuery,
    at_cursor,
)
from awaken.demo.agents import ask_user_question
from awaken.errors import CorruptRecord
from awaken.extensions.memory import (
    DocumentDraft,
    FactSource,
    knowledge_collection,
    user_memory,
)
from awaken.services.workers import (
    OWNER,
    SILENT_MS,
    has_unreadable_workers,
    list_workers,
    remove_silent_workers,
)
from awaken.stores import ProfileEntry, SqliteStore
from awaken.testing import ScriptedModel, ToolCalls

ANN, DOCS = user_memory(None, "ann"), knowledge_collection(None, "docs")
PATIENCE_S = 60
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "flipped": lambda it: it[:-3] + bytes([it[-3] ^ 8]) + it[-2:],
    "cut": lambda it: it[: len(it) // 2],
    "empty": lambda _: b"",
    "zeroes": lambda it: bytes(len(it)),
    "text": lambda _: b"\xff\xfe not a record",
}
TABLES = {
    "threads": ("id", "head"),
    "runs": ("run_id", "record"),
    "tickets": ("ticket_id", "record"),
    "dispatches": ("dispatch_id", "record"),
    "schedules": ("schedule_id", "record"),
    "triggers": ("trigger_id", "record"),
}
"""The column of the id and that of the record."""
GROUPS = {"fact": "group_id = ''", "passage": "group_id <> ''"}
Change = Callable[..., Awaitable[str]]


def asking() -> Agent:
    question = ToolCalls([("askUserQuestion", {"question": "Really?"})])
    script = [question, question, question]
    return Agent("asker", model=ScriptedModel(script), tools=[ask_user_question])


async def fill(store: Any) -> None:
    async with AgentRuntime([asking()], store=store, has_worker=False) as runtime:
        hook = {"scheme": "github", "secrets": ["env:HOOK"], "target": {"agent_id": "asker"}}
        for name in ("a", "b", "c"):
            await runtime.run("asker", "Go.", thread_id=name)
            await runtime.submit("asker", "More.", thread_id=name)
            await runtime.schedules.create("asker", "Go.", every_ms=60_000, schedule_id=name)
            await runtime.triggers.create(hook, trigger_id=name)
            await runtime.memory.remember(ANN, [f"likes tea {name}"], FactSource())
            await runtime.knowledge.ingest(DOCS, DocumentDraft(data=f"tea {name}", id=name))


@asynccontextmanager
async def damageable(kind: str, folder: Path) -> AsyncIterator[tuple[Any, Change]]:
    """A full store, and a function that damages the middle row of a table and returns its id."""
    if kind == "sqlite":
        path = folder / "a.db"
        await fill(SqliteStore(path))
        store = SqliteStore(path)
        await store.open()

        async def change(
            table: str, key: str, column: str, damage: Any, where: str = "1 = 1"
        ) -> str:
            with closing(sqlite3.connect(path)) as connection:
                rows = f"SELECT {key}, {column} FROM {table} WHERE {where} ORDER BY {key}"
                name, blob = connection.execute(rows).fetchall()[1]
                order = f"UPDATE {table} SET {column} = ? WHERE {key} = ?"
                connection.execute(order, (damage(bytes(blob)), name))
                connection.commit()
            return str(name)

        try:
            yield store, change
        finally:
            await store.close()
        return
    schema = new_schema()
    async with opened(schema=schema, connect_timeout_ms=30_000) as first:
        await fill(first)
    async with opened(schema=schema, connect_timeout_ms=30_000) as store:

        async def change(
            table: str, key: str, column: str, damage: Any, where: str = "1 = 1"
        ) -> str:
            connection = await asyncpg.connect(server().url)
            try:
                await connection.execute(f"SET search_path = {schema}")
                rows = f"SELECT {key}, {column} FROM {table} WHERE {where} ORDER BY {key}"
                name, blob = (await connection.fetch(rows))[1]
                order = f"UPDATE {table} SET {column} = $1 WHERE {key} = $2"
                await connection.execute(order, damage(bytes(blob)), name)
            finally:
                await connection.close()
            return str(name)

        yield store, change


async def list_ids(store: Any, table: str, limit: int = 100) -> tuple[list[str], int]:
    """All ids of a list, page by page, and how many records were left out."""
    lists: dict[str, tuple[Any, Any, str]] = {
        "threads": (store.list_threads, ThreadQuery(limit=limit), "id"),
        "runs": (store.list_runs, RunQuery(limit=limit), "run_id"),
        "tickets": (store.list_ticket_page, TicketQuery(limit=limit), "ticket_id"),
        "dispatches": (store.list_dispatches, DispatchQuery(limit=limit), "dispatch_id"),
        "schedules": (store.list_schedules, ScheduleQuery(limit=limit), "schedule_id"),
        "triggers": (store.list_triggers, TriggerQuery(limit=limit), "trigger_id"),
    }
    read, query, name = lists[table]
    ids: list[str] = []
    damaged = 0
    # A list that does not end would be one: no list here has more pages than this.
    for _ in range(10):
        page: Page[Any] = await read(query)
        ids += [getattr(it, name) for it in page.items]
        damaged += page.damaged
        if page.next_cursor is None:
            return ids, damaged
        query = at_cursor(query, page.next_cursor)
    raise AssertionError(f"the list of {table} does not end")


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_damaged_record_is_left_out_of_its_list_and_logged(
    kind: str, damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with damageable(kind, tmp_path) as (store, change):
            before = {table: (await list_ids(store, table))[0] for table in TABLES}
            for table, columns in reversed(TABLES.items()):
                lost = await change(table, *columns, DAMAGES[damage])
                rest = sorted(it for it in before[table] if it != lost)
                assert len(rest) == len(before[table]) - 1
                for limit in (100, 1):
                    caplog.clear()
                    ids, damaged = await list_ids(store, table, limit)
                    assert (sorted(ids), damaged) == (rest, 1), (table, limit)
                    assert any(lost in it.getMessage() for it in caplog.records)
                if table == "tickets":
                    open_ids = [it.ticket_id for it in await store.list_tickets()]
                    assert sorted(open_ids) == rest

    caplog.set_level(logging.ERROR)
    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_damaged_schedule_does_not_keep_the_others_from_firing(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with damageable(kind, tmp_path) as (store, change):
            for key in ("a", "b", "c"):
                schedule = await store.find_schedule(key)
                await store.save_schedule(msgspec.structs.replace(schedule, wake_at=1))
            lost = await change("schedules", *TABLES["schedules"], DAMAGES["cut"])
            claimed = await store.claim_schedules("token", 60_000)
            assert {it.schedule_id for it in claimed.items} == {"a", "b", "c"} - {lost}

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_damaged_report_of_a_process_hides_no_other_and_is_removed_when_it_is_old(
    kind: str, damage: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with damageable(kind, tmp_path) as (store, change):
            for name in ("one", "two", "three"):
                value = {"id": name, "version": "1", "host": "here", "pid": 1, "at": 5}
                entry = ProfileEntry(owner=OWNER, key=name, value=value, updated_at=5)
                await store.save_entry(entry)
            place = ("name", "value", DAMAGES[damage], f"owner = '{OWNER}'")
            rest = sorted({"one", "two", "three"} - {await change("profiles", *place)})
            assert sorted(it.id for it in await list_workers(store, 6)) == rest
            # Whose report it was is not known: it may be that of an older version.
            assert await has_unreadable_workers(store, 6)
            assert await remove_silent_workers(store, 5 + SILENT_MS) == 3
            assert await store.list_entries(OWNER) == ()

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def test_damaged_tickets_do_not_hide_other_tickets_whose_time_is_over(tmp_path: Path) -> None:
    async def main() -> None:
        async with damageable("sqlite", tmp_path) as (store, _):
            ids = sorted(it.ticket_id for it in await store.list_tickets())
            with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
                # Those that are listed first are damaged.
                for due, name in enumerate(ids, 1):
                    order = "UPDATE tickets SET expires_at = ? WHERE ticket_id = ?"
                    connection.execute(order, (due, name))
                for name in ids[:2]:
                    order = "UPDATE tickets SET record = x'00' WHERE ticket_id = ?"
                    connection.execute(order, (name,))
                connection.commit()
            found = await store.list_expired_tickets(1)
            assert [it.ticket_id for it in found] == ids[2:]

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


@pytest.mark.parametrize("damage", ["cut", "empty", "zeroes", "text"])
@pytest.mark.parametrize("what", ["fact", "passage"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_damaged_fact_or_passage_is_left_out_and_can_be_forgotten_or_restored(
    kind: str, what: str, damage: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with (
            damageable(kind, tmp_path) as (store, change),
            AgentRuntime(store=store, has_worker=False) as runtime,
        ):
            memory, knowledge = runtime.memory, runtime.knowledge
            before = (await memory.list_facts(ANN)).items
            await change("memory_items", "no", "body", DAMAGES[damage], GROUPS[what])
            seen = (await memory.list_facts(ANN)).items
            documents = (await knowledge.list_documents(DOCS)).items
            assert (len(seen), len(documents)) == ((2, 3) if what == "fact" else (3, 2))
            assert len(await memory.search(ANN, "tea")) == len(seen)
            assert len(await knowledge.search(DOCS, "tea")) == len(documents)
            assert [it async for it in memory.export(ANN)] == list(seen)
            for fact in before:
                if fact not in seen:
                    with pytest.raises(CorruptRecord):
                        await memory.get(ANN, fact.id)
                    (again,) = await memory.remember(ANN, [fact.text], FactSource())
                    assert (again.id, again.text) == (fact.id, fact.text)
                    assert (await memory.get(ANN, fact.id)).text == fact.text

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def test_a_command_and_the_doctor_say_that_records_are_left_out(tmp_path: Path) -> None:
    async def main() -> None:
        async with damageable("sqlite", tmp_path) as (_, change):
            for table in ("runs", "schedules"):
                await change(table, *TABLES[table], DAMAGES["flipped"])

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
    url = f"sqlite:///{tmp_path / 'a.db'}"
    runs = CliRunner().invoke(app, ["runs", "list", "--store", url])
    assert runs.exit_code == 0
    assert "Damaged and left out: 1; `awaken db check` names them." in runs.stdout
    document = json.loads(
        CliRunner().invoke(app, ["runs", "list", "--store", url, "--json"]).stdout
    )
    assert (len(document["items"]), document["damaged"]) == (2, 1)
    told = CliRunner().invoke(app, ["doctor", "--store", url])
    assert "threads: 1, runs: 1, schedules: 1" in told.stdout
