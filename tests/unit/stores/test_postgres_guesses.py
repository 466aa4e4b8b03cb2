"""A write of one statement is made from a row seen earlier, and fails if any process changed it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from tests.postgres.counting import counted
from tests.postgres.server import new_schema, server
from tests.postgres.stores import opened
from tests.postgres.writing import commit_at, message_ids

from awaken.contracts.errors import LeaseLost, VersionConflict
from awaken.contracts.runs.threads import Thread, ThreadMetadata
from awaken.contracts.storage.dispatch import Release
from awaken.contracts.storage.store import CancelWanted, StreamCheckpoint
from awaken.stores.postgres import PostgresStore
from awaken.testing.store_conformance.writing import (
    DONE,
    SHORT_MS,
    THREAD,
    Writer,
    claim,
    claim_fields,
    dispatch,
    elapse,
    read_everything,
    refusal,
    run,
    value,
)


@asynccontextmanager
async def two_processes() -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    schema = new_schema()
    async with opened(schema=schema) as here, opened(schema=schema) as there:
        yield here, there


def play(check: Callable[[PostgresStore, PostgresStore], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60), two_processes() as (here, there):
            await check(here, there)

    asyncio.run(bounded())


async def hold(store: PostgresStore, lease_ms: int = SHORT_MS) -> Writer:
    """Take a thread with the first commit of a run; its row is known from then on."""
    writer = Writer(store)
    await writer.commit(run=run(), **claim_fields("token-a", lease_ms))
    await writer.commit(run=run(), fencing_token="token-a")
    return writer


async def take_over(store: PostgresStore) -> None:
    """Take a thread whose lease has run out, as another process does."""
    await elapse(store, SHORT_MS)
    await store.reclaim()
    assert [it.thread_id for it in await store.claim("other", "token-b", 600_000)] == [THREAD]


async def use_number_again(here: PostgresStore, there: PostgresStore) -> None:
    """Let the row have the mark that is known here, as after a failover that lost transactions."""
    schema = there.database._server.schema
    row = (await server().sql(f"SELECT xmin FROM {schema}.threads WHERE id = $1", THREAD))[0]
    known = here.database._shared.known
    seen = known.find(THREAD)
    assert seen is not None
    known.keep(THREAD, msgspec.structs.replace(seen, mark=row["xmin"]))


@pytest.mark.parametrize("is_used_again", [False, True], ids=["another mark", "the same mark"])
def test_a_process_that_lost_its_thread_writes_nothing(is_used_again: bool) -> None:
    async def check(here: PostgresStore, there: PostgresStore) -> None:
        writer = await hold(here)
        await take_over(there)
        before = await read_everything(there)
        if is_used_again:
            await use_number_again(here, there)
        stale = writer.next(run=run(), fencing_token="token-a")
        await refusal(LeaseLost, here.commit(stale))
        assert await read_everything(there) == before

    play(check)


@pytest.mark.parametrize("is_used_again", [False, True], ids=["another mark", "the same mark"])
def test_a_commit_at_an_old_version_writes_nothing(is_used_again: bool) -> None:
    async def check(here: PostgresStore, there: PostgresStore) -> None:
        for number in range(2):
            await here.commit(commit_at(number, f"c-{number}"))
        await there.commit(commit_at(2, "theirs"))
        if is_used_again:
            await use_number_again(here, there)
        await refusal(VersionConflict, here.commit(commit_at(2, "ours")))
        assert await message_ids(here) == ["c-0", "c-1", "theirs"]

    play(check)


def test_an_edit_of_a_thread_is_not_lost_when_its_run_goes_on() -> None:
    async def check(here: PostgresStore, there: PostgresStore) -> None:
        writer = await hold(here, 600_000)
        await there.save_thread(Thread(id=THREAD, metadata=ThreadMetadata(title="edited")))
        await writer.commit(run=run(), fencing_token="token-a")
        thread = await there.load_thread(THREAD)
        assert thread is not None
        assert thread.metadata.title == "edited"

    play(check)


def test_a_run_cannot_end_as_if_its_cancel_had_not_been_acknowledged() -> None:
    async def check(here: PostgresStore, there: PostgresStore) -> None:
        writer = await hold(here, 600_000)
        assert await there.request_cancel(THREAD, "unwanted")
        await writer.expect_refusal(
            CancelWanted, run=run(status=DONE), fencing_token="token-a", release=Release()
        )

    play(check)


def test_a_cancel_that_only_its_dispatch_has_is_kept_by_the_end_of_another_run() -> None:
    async def check(here: PostgresStore, there: PostgresStore) -> None:
        writer = Writer(here)
        await writer.commit(run=run("before"))
        await here.enqueue(dispatch("d-1", run_id="after"))
        claimed = await claim(here)
        token = claimed.claim_token
        await writer.commit(run=run("before"), fencing_token=token)
        # The run that is open ends first; the cancel is for the one that the dispatch begins.
        assert await there.request_cancel(THREAD, "unwanted", "after")
        await writer.commit(run=run("before", status=DONE), fencing_token=token)
        kept = await there.find_dispatch("d-1")
        assert kept is not None
        assert kept.cancel_cause == "unwanted"
        await writer.expect_refusal(
            CancelWanted, run=run("after", status=DONE), fencing_token=token, release=Release()
        )

    play(check)


def test_an_answer_of_a_process_that_lost_its_thread_is_not_kept() -> None:
    async def check(here: PostgresStore, there: PostgresStore) -> None:
        await hold(here)
        checkpoint = StreamCheckpoint(run_id="run-1", thread_id=THREAD, step=1, message_id="m")
        await here.save_checkpoint(checkpoint, "token-a")
        await take_over(there)
        await refusal(LeaseLost, here.save_checkpoint(checkpoint, "token-a"))

    play(check)


def test_two_submissions_at_once_are_both_queued_in_one_order() -> None:
    async def check(here: PostgresStore, there: PostgresStore) -> None:
        names = [f"d-{number}" for number in range(12)]
        await asyncio.gather(
            *(
                (here if number % 2 else there).enqueue(dispatch(name))
                for number, name in enumerate(names)
            )
        )
        assert await here.count_queued() == len(names)
        seen = []
        while found := await here.claim("worker", f"token-{len(seen)}", 600_000):
            seen.append(found[0].dispatch_id)
            assert found[0].claim_token is not None
            await here.release(found[0].dispatch_id, found[0].claim_token)
        assert sorted(seen) == sorted(names)

    play(check)


def test_work_with_more_parts_than_one_statement_has_is_written_whole() -> None:
    async def check(here: PostgresStore, there: PostgresStore) -> None:
        writer = await hold(here, 600_000)
        values = {f"key-{number}": value(str(number)) for number in range(40)}
        with counted() as sent:
            await writer.commit(run=run(), state=values, fencing_token="token-a")
        assert any(text.startswith("BEGIN") for text in sent.texts)
        seen = await there.checkout(THREAD)
        assert seen is not None
        assert len(seen.state) == 40

    play(check)
