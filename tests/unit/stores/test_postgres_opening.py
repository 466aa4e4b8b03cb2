"""How the Postgres store connects, what it refuses, and what its errors say."""

import asyncio
import re
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.older_schemas import list_removals
from tests.postgres.proxy import mute_server
from tests.postgres.server import new_schema, server
from tests.postgres.stores import opened
from tests.postgres.writing import commit_at

from awaken.contracts.errors import (
    InvalidInput,
    InvalidRecord,
    StorageError,
    StoreTooNew,
    StoreUnavailable,
    UnknownThread,
)
from awaken.contracts.events import RunStart
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs.threads import Thread
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.state.profile import ProfileEntry
from awaken.contracts.storage.queries import ThreadQuery
from awaken.contracts.storage.store import OutboxEntry, Store
from awaken.stores.postgres import PostgresStore
from awaken.stores.postgres.schema import STEP
from awaken.stores.postgres.server import PostgresServer, parse_server
from awaken.stores.sql.migrations import migrations
from awaken.stores.sql.session import SqlSession
from awaken.stores.sqlite import SqliteStore
from awaken.testing.store_conformance.writing import (
    Writer,
    build_call_message,
    build_user_message,
    claim,
    dispatch,
    extend,
    queue,
    read_everything,
    refusal,
    run,
    ticket,
)

SECRET = "s3cr3t"
DIRECT = f"postgresql%3A%2F%2Fann%3A{SECRET}%40db%3A5433%2Fapp"


def test_a_store_is_named_without_its_password() -> None:
    store = PostgresStore(f"postgresql://ann:{SECRET}@db.example:5433/app?sslmode=disable")
    assert store.name == "postgresql://ann@db.example:5433/app"
    assert SECRET not in repr(parse(f"postgres://ann:{SECRET}@db/app?direct={DIRECT}"))
    by_socket = PostgresStore(f"postgresql://ann:{SECRET}@/app?host=/run/pg&password={SECRET}")
    assert by_socket.name == "postgresql://ann@/run/pg:5432/app"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{SECRET}/x@db/app",
        f"postgresql://ann:{SECRET}[@db/app",
        f"mysql://ann:{SECRET}@db/app",
        f"ann:{SECRET}@db",
    ],
)
def test_a_bad_url_is_refused_without_showing_its_password(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        PostgresStore(url)
    assert SECRET not in "".join(traceback.format_exception_only(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    "options",
    [
        {"schema": 'a"; DROP SCHEMA public; --'},
        {"schema": ""},
        {"schema": "Upper"},
        {"schema": "x" * 64},
        {"pool_size": 0},
        {"connect_timeout_ms": 0},
        {"command_timeout_ms": 0},
        {"url": "postgresql://db/app?pool=0"},
        {"url": "postgresql:///app?host=/run/pg&port=many"},
        {"url": "postgresql://db/app?pool=many"},
        {"url": "postgresql://db/app?prepared=maybe"},
        {"url": "postgresql://db/app?direct=mysql%3A%2F%2Fdb%2Fapp"},
        {"url": "postgresql://db/app?direct=postgresql%3A%2F%2Fdb%2Fapp%3Fpool%3D2"},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        PostgresStore(**{"url": "postgresql://db/app"} | options)


def test_options_of_a_url_are_not_shown_to_the_driver() -> None:
    plain = parse("postgresql://ann@db/app?sslmode=disable")
    assert (plain.pool_size, plain.is_prepared, plain.has_direct) == (8, True, False)
    assert plain.direct_url == plain.url == "postgresql://ann@db/app?sslmode=disable"
    pooled = parse(f"postgresql://ann@pool:6432/app?pool=3&sslmode=disable&direct={DIRECT}")
    assert pooled.url == "postgresql://ann@pool:6432/app?sslmode=disable"
    assert pooled.direct_url == f"postgresql://ann:{SECRET}@db:5433/app"
    # A pooler may forget what a transaction has prepared.
    assert (pooled.pool_size, pooled.is_prepared, pooled.has_direct) == (3, False, True)
    assert parse(f"postgresql://pool/app?direct={DIRECT}&prepared=on").is_prepared
    assert not parse("postgresql://db/app?prepared=off").is_prepared
    assert parse("postgresql://db/app?pool=3", pool_size=5).pool_size == 5


@pytest.mark.parametrize("module", ["awaken.stores.postgres.store", "awaken.buses.postgres"])
def test_without_the_driver_the_error_names_the_extra(module: str) -> None:
    script = f"import sys; sys.modules['asyncpg'] = None; import {module}"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "pip install 'awaken[postgres]'" in ended.stderr.splitlines()[-1]


def test_a_server_that_is_not_there_is_named_in_time(tmp_path: Path) -> None:
    async def check() -> None:
        store = PostgresStore(f"postgresql://ann:{SECRET}@/app?host={tmp_path}")
        async with asyncio.timeout(10):
            raised = await refusal(StoreUnavailable, store.open())
        assert store.name in str(raised)
        assert SECRET not in all_text(raised)
        # It was never open: that is an answer as well.
        await refusal(StoreUnavailable, store.load_thread("thread-1"))

    asyncio.run(check())


def test_a_server_that_never_answers_is_named_in_time() -> None:
    async def check() -> None:
        async with mute_server() as port:
            url = f"postgresql://ann:{SECRET}@127.0.0.1:{port}/app"
            store = PostgresStore(url, connect_timeout_ms=100)
            async with asyncio.timeout(10):
                raised = await refusal(StoreUnavailable, store.open())
            assert f"Store postgresql://ann@127.0.0.1:{port}/app is unavailable" in str(raised)
            assert "100 ms" in str(raised)
            keeper = store.lease_keeper()
            await refusal(StoreUnavailable, asyncio.to_thread(keeper.extend, ("token",), 50))
            await asyncio.to_thread(keeper.close)

    asyncio.run(check())


def test_a_wrong_password_is_told_without_showing_it() -> None:
    async def check() -> None:
        await server().sql("DROP ROLE IF EXISTS locked")
        await server().sql("CREATE ROLE locked LOGIN PASSWORD 'right'")
        with server().authentication("local all locked scram-sha-256"):
            await server().sql("SELECT pg_reload_conf()")
            url = server().url.replace("postgres@", f"locked:{SECRET}@")
            store = PostgresStore(url)
            async with asyncio.timeout(10):
                while (raised := await refusal(StorageError, store.open())) is not None:
                    if "password" in str(raised):
                        break
        await server().sql("SELECT pg_reload_conf()")
        assert isinstance(raised, StoreUnavailable)
        assert "locked@" in str(raised)
        assert SECRET not in all_text(raised)

    asyncio.run(check())


def test_many_nodes_may_start_at_once_on_an_empty_database() -> None:
    async def check() -> None:
        schema = new_schema()
        stores = [PostgresStore(server().url, schema=schema, pool_size=1) for _ in range(12)]
        await asyncio.gather(*(store.open() for store in stores))
        await stores[0].save_thread(Thread(id="thread-1"))
        assert await stores[-1].load_thread("thread-1") is not None
        await asyncio.gather(*(store.close() for store in stores))

    asyncio.run(check())


def test_a_database_of_a_newer_version_is_refused_and_left_alone() -> None:
    async def check() -> None:
        schema = new_schema()
        async with opened(schema=schema):
            pass
        known = len(migrations("awaken.stores.postgres"))
        facts = f"{schema}.facts"
        await server().sql(f"UPDATE {facts} SET value = $1", str(known + 1))
        raised = await refusal(StoreTooNew, PostgresStore(server().url, schema=schema).open())
        assert (raised.found, raised.known) == (known + 1, known)
        kept = {row["value"] for row in await server().sql(f"SELECT value FROM {facts}")}
        assert kept == {str(known + 1)}
        await server().until_alone()

    asyncio.run(check())


def test_a_database_of_the_first_schema_is_brought_up_to_date_with_what_is_in_it() -> None:
    async def check() -> None:
        schema = new_schema()
        async with opened(schema=schema) as store:
            unsent = OutboxEntry(entry_id="unsent", kind="mail", payload="hello")
            done = run(status=RunStatus.DONE)
            await store.commit(Writer(store).next(run=done, outbox=(unsent,)))
            (before,) = (await store.list_threads(ThreadQuery())).items
        # As the first version left it: without what came later.
        await server().sql(f"ALTER TABLE {schema}.threads DROP COLUMN tenant_id")
        for column in ("due_at", "is_dead"):
            await server().sql(f"ALTER TABLE {schema}.outbox DROP COLUMN {column}")
        for removal in list_removals(schema):
            await server().sql(removal)
        await server().sql(f"UPDATE {schema}.facts SET value = '1' WHERE name = 'schema_version'")
        async with opened(schema=schema) as store:
            assert await store.load_thread(before.id) == before
            assert await store.list_outbox() == (unsent,)
            assert await store.save_outbox(msgspec.structs.replace(unsent, is_dead=True))
            assert len(await store.list_dead_outbox(before.id)) == 1
            await store.save_thread(Thread(id="@ann:new", tenant_id="ann"))
            listed = await store.list_threads(ThreadQuery(tenant_id="ann"))
            assert [thread.id for thread in listed.items] == ["@ann:new"]
            await refusal(UnknownThread, store.save_thread(Thread(id=before.id, tenant_id="ann")))

    asyncio.run(check())


def test_ids_of_tenants_begin_with_the_tenant_after_a_database_was_brought_up_to_date() -> None:
    async def check() -> None:
        schema = new_schema()
        async with opened(schema=schema) as store:
            await store.save_thread(Thread(id="above"))
            writer = Writer(store)
            waiting = run(status=RunStatus.WAITING, parent_thread_id="above")
            told = RunStart(thread_id=waiting.thread_id, run_id=waiting.run_id)
            await writer.commit(
                run=waiting,
                messages=(build_user_message("m-1"), build_call_message("m-2", "c-1")),
                tickets=(ticket("k-1", "c-1"),),
                events=(told,),
                state={"key": StoredValue(version=1, data={"run_id": waiting.run_id})},
            )
            await store.enqueue(dispatch("d-1"))
            before = await store.checkout(waiting.thread_id)
            assert before is not None
        await server().sql(f"UPDATE {schema}.threads SET tenant_id = 'ann' WHERE id <> 'above'")
        for removal in list_removals(schema):
            await server().sql(removal)
        await server().sql(f"UPDATE {schema}.facts SET value = '3' WHERE name = 'schema_version'")
        async with opened(schema=schema) as store:
            thread_id, run_id = f"@ann:{waiting.thread_id}", f"@ann:{waiting.run_id}"
            assert await store.load_thread(waiting.thread_id) is None
            after = await store.checkout(thread_id)
            assert after is not None
            assert (after.thread.tenant_id, after.thread.open_run_id) == ("ann", run_id)
            assert after.thread.parent_thread_id == "above"
            assert list(after.messages) == list(before.messages)
            assert msgspec.json.decode(after.state["key"].data) == {"run_id": run_id}
            assert after.open_run is not None
            assert (after.open_run.run_id, after.open_run.thread_id) == (run_id, thread_id)
            assert [(it.run_id, it.thread_id) for it in after.tickets] == [(run_id, thread_id)]
            (logged,) = await store.list_events(thread_id)
            assert logged.event == RunStart(thread_id=thread_id, run_id=run_id)
            queued = await store.find_dispatch("d-1")
            assert queued is not None
            assert (queued.thread_id, queued.run_id) == (thread_id, "@ann:run-of-d-1")

    asyncio.run(check())


def test_a_store_may_be_opened_twice_and_closed_twice_and_opened_again() -> None:
    async def check() -> None:
        store = PostgresStore(server().url, schema=new_schema())
        await asyncio.gather(store.open(), store.open())
        await store.save_thread(Thread(id="thread-1"))
        await store.close()
        await store.close()
        assert "not open" in str(await refusal(StoreUnavailable, store.load_thread("thread-1")))
        await store.open()
        assert await store.load_thread("thread-1") is not None
        await store.close()
        await server().until_alone()

    asyncio.run(check())


def test_two_stores_in_one_database_do_not_see_each_other() -> None:
    async def check() -> None:
        async with opened() as one, opened() as other:
            await one.save_thread(Thread(id="thread-1"))
            assert await other.load_thread("thread-1") is None

    asyncio.run(check())


def test_both_databases_have_the_same_tables_and_columns() -> None:
    found = [columns_of(f"awaken.stores.{name}") for name in ("sqlite", "postgres")]
    # In a file, the index of words is a virtual table, made when the first fact is kept.
    assert found[1].pop("memory_terms") == ["item_no"]
    assert found[0] == found[1]
    assert len(found[0]) >= 10


def test_a_pool_with_no_free_connection_says_so_in_time() -> None:
    async def check() -> None:
        async with opened(pool_size=2, connect_timeout_ms=1000) as store:
            entered, leave = asyncio.Semaphore(0), asyncio.Event()

            async def work(_session: SqlSession) -> None:
                entered.release()
                await leave.wait()

            busy = [asyncio.create_task(store.database.read(work)) for _ in range(2)]
            for _ in busy:
                await entered.acquire()
            raised = await refusal(StoreUnavailable, store.load_thread("thread-1"))
            assert "pool exhausted: all 2 connections" in str(raised)
            leave.set()
            await asyncio.gather(*busy)
            assert await store.load_thread("thread-1") is None

    asyncio.run(check())


def test_a_statement_that_waits_too_long_is_given_up_and_the_store_goes_on() -> None:
    async def check() -> None:
        schema = new_schema()
        async with opened(schema=schema) as other, opened(schema=schema, **HASTY) as store:
            await other.save_thread(Thread(id="thread-1"))
            entered, leave = asyncio.Event(), asyncio.Event()

            async def work(session: SqlSession) -> None:
                await session.one("lock_thread", "thread-1")
                entered.set()
                await leave.wait()

            blocking = asyncio.create_task(other.database.write(work))
            await entered.wait()
            raised = await refusal(StoreUnavailable, store.save_thread(Thread(id="thread-1")))
            assert "timeout" in str(raised)
            leave.set()
            await blocking
            await store.save_thread(Thread(id="thread-1"))

    asyncio.run(check())


def test_a_server_that_may_forget_is_told_to_wait_for_its_disk() -> None:
    async def check() -> None:
        await server().sql("ALTER ROLE postgres SET synchronous_commit = off")
        try:
            async with opened() as store:
                found = await store.database.write(setting)
        finally:
            await server().sql("ALTER ROLE postgres RESET synchronous_commit")
        assert found == "on"

    async def setting(session: SqlSession) -> str:
        value: str = await session._connection.fetchval("SHOW synchronous_commit")
        return value

    asyncio.run(check())


def test_a_read_sees_one_moment_and_can_change_nothing() -> None:
    async def check() -> None:
        async with opened() as store:
            await store.save_thread(Thread(id="thread-1"))

            async def look(session: SqlSession) -> bool:
                before = await session.one("find_thread", "thread-1")
                await store.delete_thread("thread-1")
                return before == await session.one("find_thread", "thread-1")

            assert await store.database.read(look)

            async def change(session: SqlSession) -> None:
                await session.run("add_thread", "thread-2", b"", None)

            await refusal(StoreUnavailable, store.database.read(change))
            assert await store.load_thread("thread-2") is None

    asyncio.run(check())


def test_a_keeper_finds_a_new_connection_when_its_own_has_died() -> None:
    async def check() -> None:
        async with opened() as store:
            await queue(store, "d-1")
            await claim(store)
            keeper = store.lease_keeper()
            for _ in range(3):
                (news,) = await asyncio.to_thread(keeper.extend, ("token-1",), 1000)
                assert news.is_held
                await kill_others("extend|find_lease|claim_token")
            (news,) = await extend(store, "token-x")
            assert not news.is_held
            await asyncio.to_thread(keeper.close)
            await asyncio.to_thread(keeper.close)

    asyncio.run(check())


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("bad", ["a\0b", "\ud800"], ids=["zero", "half a pair"])
def test_text_that_no_column_can_keep_is_refused_by_every_store(
    kind: str, bad: str, tmp_path: Path
) -> None:
    async def check() -> None:
        async with either(kind, tmp_path) as store:
            await store.commit(commit_at(0, "c-1"))
            before = await read_everything(store)
            for refused in (
                store.commit(commit_at(0, "c-2", bad)),
                store.commit(commit_at(1, bad, messages=())),
                store.commit(commit_at(1, "c-2", run=run(bad))),
                store.save_thread(Thread(id=bad)),
                store.save_thread(Thread(id="thread-2", resource_id=bad)),
                store.enqueue(dispatch(bad)),
                store.enqueue(dispatch("d-1", bad)),
                store.enqueue(dispatch("d-1", dedupe_key=bad)),
                store.save_entry(ProfileEntry(owner=bad, key="k", value=1)),
            ):
                await refusal(InvalidRecord, refused)
            assert await read_everything(store) == before

    asyncio.run(check())


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_numbers_that_no_column_can_keep_are_refused_by_every_store(
    kind: str, tmp_path: Path
) -> None:
    async def check() -> None:
        async with either(kind, tmp_path) as store:
            await store.commit(commit_at(0, "c-1"))
            before = await read_everything(store)
            for number in (2**63, -(2**63) - 1):
                for refused in (
                    store.commit(commit_at(1, "c-2", committed_at=number)),
                    store.enqueue(dispatch("d-1", priority=number)),
                    store.commit(commit_at(1, "c-2", run=run(created_at=number))),
                ):
                    await refusal(InvalidRecord, refused)
            assert await read_everything(store) == before
            await store.enqueue(dispatch("d-1", priority=2**63 - 1))

    asyncio.run(check())


def test_an_id_that_is_too_long_for_an_index_is_refused_with_a_type() -> None:
    async def check() -> None:
        async with opened() as store:
            long = "".join(map(chr, range(0x4E00, 0x4E00 + 4000)))
            await refusal(InvalidRecord, store.commit(commit_at(0, "c-1", long)))
            await store.commit(commit_at(0, "c-1"))

    asyncio.run(check())


HASTY = {"command_timeout_ms": 1500}


def parse(url: str, pool_size: int | None = None) -> PostgresServer:
    return parse_server(
        url, schema="awaken", pool_size=pool_size, connect_timeout_ms=1, command_timeout_ms=1
    )


@asynccontextmanager
async def either(kind: str, folder: Path) -> AsyncIterator[Store]:
    if kind == "postgres":
        async with opened() as store:
            yield store
        return
    embedded = SqliteStore(folder / "store.db")
    await embedded.open()
    try:
        yield embedded
    finally:
        await embedded.close()


async def kill_others(pattern: str) -> None:
    await server().sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE query ~ $1 AND pid <> pg_backend_pid()",
        pattern,
    )


def all_text(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def columns_of(package: str) -> dict[str, list[str]]:
    # A script in steps changes how a table is stored; what it adds is Postgres's own.
    script = "\n".join(it for it in migrations(package) if not STEP.search(it))
    tables = re.findall(
        r"CREATE TABLE (\w+) \((.*?)\n?\)(?: STRICT.*?| WITHOUT ROWID)?;", script, re.DOTALL
    )
    columns = {
        table: re.findall(r"(?:^|,)\s*([a-z]\w*) (?:TEXT|BIGINT|INTEGER|BYTEA|BLOB|REAL)", body)
        for table, body in tables
    }
    for table, column in re.findall(r"ALTER TABLE (\w+) ADD COLUMN (\w+)", script):
        columns[table].append(column)
    return columns


def test_a_user_who_may_make_no_schema_works_in_one_that_was_made_for_that_user() -> None:
    schema, user = new_schema(), "may_make_no_schema"
    url = server().url.replace("//postgres@", f"//{user}@")

    async def run() -> None:
        await server().sql(f"CREATE ROLE {user} LOGIN")
        with pytest.raises(StoreUnavailable, match=f"CREATE SCHEMA {schema} AUTHORIZATION {user}`"):
            await PostgresStore(url, schema=schema).open()

        await server().sql(f"CREATE SCHEMA {schema}")
        with pytest.raises(StoreUnavailable, match=f"ALTER SCHEMA {schema} OWNER TO {user}`"):
            await PostgresStore(url, schema=schema).open()

        await server().sql(f"ALTER SCHEMA {schema} OWNER TO {user}")
        async with opened(url=url, schema=schema) as store:
            assert await store.now_ms() > 0

    asyncio.run(run())


def test_the_refusal_of_a_standby_says_whom_to_name() -> None:
    user, schema = "may_not_write", new_schema()

    async def run() -> None:
        await server().sql(f"CREATE ROLE {user} LOGIN SUPERUSER")
        await server().sql(f"ALTER ROLE {user} SET default_transaction_read_only = on")
        url = server().url.replace("//postgres@", f"//{user}@")
        with pytest.raises(StoreUnavailable, match="it takes no writes; name the primary"):
            await PostgresStore(url, schema=schema).open()

    asyncio.run(run())
