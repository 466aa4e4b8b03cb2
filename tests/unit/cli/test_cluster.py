"""`awaken cluster status`: for people and for programs; a standstill is an exit code."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.postgres.server import new_schema, server
from tests.unit.stores.test_nodes import begin

from awaken import __version__
from awaken.contracts.state.profile import ProfileEntry
from awaken.services.workers import OWNER, SILENT_MS, WorkerEntry, remove_silent_workers
from awaken.stores.postgres import PostgresStore
from awaken.stores.sql.migrations import migrations
from awaken.testing.store_conformance.writing import dispatch

from .conftest import Call

KNOWN = len(migrations("awaken.stores.postgres"))


@pytest.fixture
def store() -> PostgresStore:
    return PostgresStore(server().url, schema=new_schema())


def test_a_file_shows_its_queue_and_no_nodes(call: Call, db: Path) -> None:
    answer = call("cluster", "status")
    assert (answer.code, answer.err) == (0, "")
    assert "no nodes" in answer.out
    assert "leases per thread" in answer.out
    assert call("cluster", "status", "--json").document["leases"] == "thread"


def test_nodes_are_listed_and_input_that_nobody_claims_is_an_exit_code(
    call: Call, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = store.database._server.schema

    async def fill() -> None:
        await store.open()
        await begin(store, "a", "t1")
        await store.close()

    async def forget() -> None:
        await store.open()
        await store.enqueue(dispatch("d-2", thread_id="t2"))
        await store.close()
        await server().sql(f"UPDATE {schema}.dispatches SET created_at = 0, available_at = 0")

    asyncio.run(fill())
    monkeypatch.setattr(
        "awaken.cli.cluster.store_at", lambda _: PostgresStore(server().url, schema=schema)
    )
    answer = call("cluster", "status")
    assert (answer.code, answer.err) == (0, "")
    assert "aaaaaaaaaaaa" in answer.out
    assert "1 held, 0 of nodes that are over; leases per node" in answer.out
    asyncio.run(forget())
    stuck = call("cluster", "status")
    assert stuck.code == 1
    assert "while 4 slots are free" in stuck.err
    told = call("cluster", "status", "--json")
    assert (told.code, [it["code"] for it in told.document["problems"]]) == (1, ["queue_is_stuck"])


def test_a_contract_is_refused_while_a_process_of_an_older_schema_has_the_same_version(
    call: Call, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = store.database._server.schema
    monkeypatch.setattr(
        "awaken.cli.db.store_at", lambda _: PostgresStore(server().url, schema=schema)
    )

    async def report() -> None:
        """Of a version that had no nodes yet: it only has an entry."""
        await store.open()
        entry = WorkerEntry(id="p", version=__version__, host="h", pid=1, at=await store.now_ms())
        value = msgspec.to_builtins(entry)
        await store.save_entry(ProfileEntry(owner=OWNER, key=entry.id, value=value))
        await store.close()

    async def begin_node() -> None:
        await store.open()
        await begin(store, "a")
        await store.close()

    asyncio.run(report())
    assert "a schema without nodes" in call("db", "contract", "--json").error["message"]
    asyncio.run(begin_node())
    known = f"(SELECT schema_no FROM {schema}.nodes)"
    asyncio.run(server().sql(f"UPDATE {schema}.nodes SET schema_no = {known} - 1"))
    assert f"schema {KNOWN - 1}" in call("db", "contract", "--json").error["message"]
    asyncio.run(server().sql(f"UPDATE {schema}.nodes SET schema_no = {known} + 1"))
    assert call("db", "contract", "--json").code == 0


def test_a_contract_is_refused_while_a_process_reports_what_this_version_cannot_read(
    call: Call, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = store.database._server.schema
    monkeypatch.setattr(
        "awaken.cli.db.store_at", lambda _: PostgresStore(server().url, schema=schema)
    )

    async def report(age_ms: int) -> int:
        """Another version wrote it; returns how many entries a sweep removes."""
        await store.open()
        now = await store.now_ms()
        strange = ProfileEntry(owner=OWNER, key="p", value={"id": 7}, updated_at=now - age_ms)
        await store.save_entry(strange)
        removed = await remove_silent_workers(store, now)
        await store.close()
        return removed

    assert asyncio.run(report(0)) == 0
    assert "cannot read" in call("db", "contract", "--json").error["message"]
    assert asyncio.run(report(SILENT_MS)) == 1
    assert call("db", "contract", "--json").code == 0
