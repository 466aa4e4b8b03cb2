"""A server that crashes and comes back under load: what was acknowledged is there, once."""

import asyncio

from tests.postgres.server import server
from tests.postgres.stores import opened
from tests.postgres.writing import commit_at, message_ids

from awaken.contracts.errors import StorageError, StoreUnavailable
from awaken.stores.postgres import PostgresStore
from awaken.testing.store_conformance.writing import claim, queue, refusal

RESTARTS, WRITERS = 3, 6


class Ledger:
    """What a writer knows of each commit: told that it is durable, found later, or absent."""

    def __init__(self) -> None:
        self.acked: list[str] = []
        self.unknown = 0
        self.is_over = False


def test_nothing_acknowledged_is_lost_and_nothing_comes_twice_when_the_server_crashes() -> None:
    async def check() -> None:
        async with opened(pool_size=4) as store:
            ledgers = [Ledger() for _ in range(WRITERS)]
            writing = [
                asyncio.create_task(write(store, f"thread-{name}", ledger))
                for name, ledger in enumerate(ledgers)
            ]
            for _ in range(RESTARTS):
                before = [len(ledger.acked) for ledger in ledgers]
                await until_all_wrote(ledgers, before)
                await asyncio.to_thread(server().restart)
            await until_all_wrote(ledgers, [len(ledger.acked) for ledger in ledgers])
            for ledger in ledgers:
                ledger.is_over = True
            await asyncio.gather(*writing)
            for name, ledger in enumerate(ledgers):
                assert await message_ids(store, f"thread-{name}") == ledger.acked
            assert sum(ledger.unknown for ledger in ledgers) >= RESTARTS

    asyncio.run(check())


def test_a_store_whose_server_is_away_says_so_and_works_when_it_is_back() -> None:
    async def check() -> None:
        async with opened() as store:
            await queue(store, "d-1")
            await claim(store)
            keeper = store.lease_keeper()
            assert (await asyncio.to_thread(keeper.extend, ("token-1",), 60_000))[0].is_held
            await asyncio.to_thread(server().stop)
            try:
                raised = await refusal(StoreUnavailable, store.load_thread("thread-1"))
                assert store.name in str(raised)
                await refusal(
                    StoreUnavailable, asyncio.to_thread(keeper.extend, ("token-1",), 60_000)
                )
                await refusal(StoreUnavailable, PostgresStore(server().url).open())
            finally:
                await asyncio.to_thread(server().start)
            assert (await asyncio.to_thread(keeper.extend, ("token-1",), 60_000))[0].is_held
            await asyncio.to_thread(keeper.close)
            assert await store.load_thread("thread-1") is not None

    asyncio.run(check())


async def write(store: PostgresStore, thread_id: str, ledger: Ledger) -> None:
    while not ledger.is_over:
        commit_id = f"c-{len(ledger.acked)}"
        commit = commit_at(len(ledger.acked), commit_id, thread_id)
        try:
            await store.commit(commit)
            ledger.acked.append(commit_id)
        except StoreUnavailable:
            ledger.unknown += 1
            if await is_applied(store, commit_id, thread_id):
                ledger.acked.append(commit_id)


async def is_applied(store: PostgresStore, commit_id: str, thread_id: str) -> bool:
    """Ask until the store answers."""
    while True:
        try:
            return await store.find_commit(commit_id, thread_id) is not None
        except StorageError:
            await asyncio.sleep(0.01)


async def until_all_wrote(ledgers: list[Ledger], before: list[int]) -> None:
    async with asyncio.timeout(30):
        while any(
            len(ledger.acked) < known + 3 for ledger, known in zip(ledgers, before, strict=True)
        ):
            await asyncio.sleep(0.01)
