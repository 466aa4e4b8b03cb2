"""The Postgres store behind a pooler that gives a session to one transaction at a time."""

import asyncio
import sys
from collections import Counter

import asyncpg
from tests.postgres.pooler import Pooler, pooling
from tests.postgres.proxy import Proxy, proxied
from tests.postgres.server import new_schema, server
from tests.postgres.stores import opened
from tests.postgres.writing import append_many, message_ids

from awaken.contracts.errors import InvalidInput
from awaken.contracts.runs.threads import Thread
from awaken.stores.postgres import PostgresStore
from awaken.testing.store_conformance.writing import claim, extend, queue, refusal

SESSIONS = 10
NODES = 4
WRITERS, MESSAGES = 4, 2
"""Of each process; more tasks at once than the pooler has sessions."""
WRITE_TRIPS = 4
DEFAULTS = {
    "search_path": '"$user", public',
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "0",
    "synchronous_commit": "on",
    "default_transaction_isolation": "read committed",
}


def test_four_processes_share_ten_sessions_and_leave_none_of_them_changed() -> None:
    async def check(pooler: Pooler) -> None:
        await pooler.until_ready()
        schema = new_schema()
        arguments = (pooler.store_url, schema)
        writers = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.postgres.writing", *arguments),
                *(f"node-{number}", str(WRITERS), str(MESSAGES)),
            )
            for number in range(NODES)
        ]
        # Another store on the same sessions must not meet the settings of the first one.
        async with opened(url=pooler.store_url) as other:
            await append_many(other, "other", WRITERS, MESSAGES)
            assert [await writer.wait() for writer in writers] == [0] * NODES
            assert len(await message_ids(other)) == WRITERS * MESSAGES
        async with opened(url=pooler.store_url, schema=schema) as store:
            found = await message_ids(store)
        assert len(found) == len(set(found)) == NODES * WRITERS * MESSAGES
        assert await list_settings(pooler) == {tuple(DEFAULTS.values())}

    with pooling(SESSIONS) as pooler:
        asyncio.run(check(pooler))


def test_leases_are_kept_and_lists_are_read_behind_a_pooler_with_one_session() -> None:
    async def check(pooler: Pooler) -> None:
        await pooler.until_ready()
        async with opened(url=pooler.store_url) as store:
            await queue(store, "d-1")
            await claim(store)
            (kept,) = await extend(store, "token-1")
            assert kept.is_held
            await asyncio.gather(*(store.save_thread(Thread(id=f"t-{no}")) for no in range(20)))
            assert await store.load_thread("t-19") is not None
        assert await list_settings(pooler) == {tuple(DEFAULTS.values())}

    with pooling(1) as pooler:
        asyncio.run(check(pooler))


def test_a_pooler_without_the_server_itself_is_refused_with_the_way_out() -> None:
    async def check(pooler: Pooler) -> None:
        await pooler.until_ready()
        refused = await refusal(InvalidInput, PostgresStore(pooler.url).open())
        assert "direct=" in str(refused)
        # Nothing that the driver prepared stays behind in a session of others.
        connection = await asyncpg.connect(pooler.url, statement_cache_size=0)
        async with connection.transaction():
            assert await connection.fetch("SELECT name FROM pg_prepared_statements") == []
        await connection.close()

    with pooling(1) as pooler:
        asyncio.run(check(pooler))


def test_a_single_read_is_one_round_trip_and_a_transaction_two_and_its_statements() -> None:
    async def check() -> None:
        async with proxied() as proxy, opened(url=proxy.url, pool_size=1) as store:
            await store.save_thread(Thread(id="thread-1"))
            await store.load_thread("thread-1")
            assert await count_requests(proxy, store.load_thread("thread-1")) == 1
            # The thread is locked, its dispatches are looked at, it is written.
            write = await count_requests(proxy, store.save_thread(Thread(id="thread-1")))
            assert write == WRITE_TRIPS

    asyncio.run(check())


async def count_requests(proxy: Proxy, work: object) -> int:
    """How often the client has sent something and waited for the answer."""
    seen = Counter[str]()
    proxy.on_request = lambda _: seen.update(["request"])
    await work  # type: ignore[misc]
    proxy.on_request = lambda _: None
    return seen["request"]


async def list_settings(pooler: Pooler) -> set[tuple[str, ...]]:
    """The settings of all sessions that the pooler has; held at once, so that each is seen."""
    held = await server().sql(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    connections = [
        await asyncpg.connect(pooler.url, statement_cache_size=0) for _ in range(held[0][0])
    ]
    for connection in connections:
        await connection.execute("BEGIN")
    ask = "SELECT " + ", ".join(f"current_setting('{name}')" for name in DEFAULTS)
    found = {tuple(await connection.fetchrow(ask)) for connection in connections}
    for connection in connections:
        await connection.close()
    return found
