"""A server that has no place for another connection: those that a process has do the work."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from tests.postgres.server import new_schema, server

from awaken.contracts.errors import StoreUnavailable
from awaken.contracts.runs.threads import Thread
from awaken.stores.postgres import PostgresStore
from awaken.testing.store_conformance.writing import refusal

PLACES = 3


@asynccontextmanager
async def crowded() -> AsyncIterator[tuple[PostgresStore, str]]:
    """A store whose user may have fewer connections than its pool."""
    name = new_schema()
    await server().sql(f"CREATE ROLE {name} LOGIN CONNECTION LIMIT {PLACES}")
    await server().sql(f"GRANT CREATE ON DATABASE postgres TO {name}")
    url = f"postgresql://{name}@/postgres?host={server().folder}"
    store = PostgresStore(url, schema=name, pool_size=8, connect_timeout_ms=2_000)
    await store.open()
    try:
        yield store, url
    finally:
        await store.close()


def test_work_waits_for_the_connections_that_there_are() -> None:
    async def check() -> None:
        async with crowded() as (store, _):
            writes = [store.save_thread(Thread(id=f"t-{number}")) for number in range(40)]
            await asyncio.gather(*writes)
            reads = [store.load_thread(f"t-{number}") for number in range(40)]
            assert all(await asyncio.gather(*reads))

    asyncio.run(check())


def test_who_gives_up_while_it_waits_leaves_its_connection_to_others() -> None:
    async def check() -> None:
        async with crowded() as (store, _):
            for round_ in range(20):
                tasks = [asyncio.create_task(store.load_thread("t")) for _ in range(16)]
                await asyncio.sleep(0.001 * round_)
                for task in tasks[::2]:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(store.load_thread("t") for _ in range(40)))
            pool = store.database._pool
            assert pool is not None
            assert (pool._busy, pool._slots._value, len(pool._waiting)) == (0, 8, 0)

    asyncio.run(check())


def test_without_any_connection_it_is_refused_at_once_and_says_why() -> None:
    async def check() -> None:
        async with crowded() as (store, url):
            await store.close()
            others = [await asyncpg.connect(url) for _ in range(PLACES)]
            began = asyncio.get_running_loop().time()
            error = await refusal(StoreUnavailable, store.open())
            assert "too many connections" in str(error)
            assert asyncio.get_running_loop().time() - began < 2
            for other in others:
                await other.close()

    asyncio.run(check())
