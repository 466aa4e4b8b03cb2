"""A checkout that needs no reader: which threads it may skip, and what it never misses."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.unit.stores.test_sqlite_writer import on_a_file, opened

from awaken.contracts.runs.threads import Thread, ThreadMetadata
from awaken.contracts.storage.store import Checkout, Release
from awaken.stores.sql import rows
from awaken.stores.sql.session import SqlSession
from awaken.stores.sqlite import SqliteStore, connection
from awaken.testing.store_conformance.writing import (
    DONE,
    THREAD,
    Writer,
    build_user_message,
    claim_fields,
    run,
    value,
)

END = {"fencing_token": "token-f", "release": Release()}


class Reading:
    """How often a store asks its readers."""

    def __init__(self, store: SqliteStore) -> None:
        self.store, self.count = store, 0
        self._read = store.database.read_row
        store.database.read_row = self._count  # type: ignore[assignment, method-assign]

    async def _count(self, work: Callable[[SqlSession], Awaitable[object]]) -> object:
        self.count += 1
        return await self._read(work)

    async def checkout(self, *, reads: bool) -> Checkout:
        """Check the thread out, and compare with what a reader sees."""
        before = self.count
        found = await self.store.checkout(THREAD)
        assert self.count == before + reads
        read = await self.store.checkout(THREAD)
        assert found is not None
        assert found == read
        return found


async def end_a_run(writer: Writer, run_id: str = "run-1") -> None:
    name = f"m-{writer.version}"
    await writer.commit(run=run(run_id), messages=(build_user_message(name),), **claim_fields())
    await writer.commit(run=run(run_id, status=DONE), **END)


def test_the_checkout_after_a_run_of_this_process_reads_nothing(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        writer, reading = Writer(store), Reading(store)
        await end_a_run(writer)
        await Writer(store, "other").commit(messages=(build_user_message("m-1"),))
        found = await reading.checkout(reads=False)
        assert (found.thread.version, len(found.messages)) == (2, 1)
        assert found.latest_run is not None
        await end_a_run(writer, "run-2")
        found = await reading.checkout(reads=False)
        assert (found.thread.version, len(found.messages)) == (4, 2)

    on_a_file(tmp_path, scenario)


def test_a_checkout_during_a_run_is_read(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        writer = Writer(store)
        await writer.commit(run=run(), **claim_fields())
        found = await Reading(store).checkout(reads=True)
        assert found.open_run is not None

    on_a_file(tmp_path, scenario)


def test_a_checkout_sees_what_another_process_has_written(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        async with opened(tmp_path) as elsewhere:
            await end_a_run(Writer(store))
            titled = Thread(id=THREAD, metadata=ThreadMetadata(title="Rome"))
            await elsewhere.save_thread(titled)
            found = await Reading(store).checkout(reads=True)
            assert found.thread.metadata.title == "Rome"

    on_a_file(tmp_path, scenario)


def test_a_checkout_sees_what_other_calls_of_its_process_have_written(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await end_a_run(Writer(store))
        await store.save_thread(Thread(id=THREAD, metadata=ThreadMetadata(title="Rome")))
        found = await Reading(store).checkout(reads=True)
        assert found.thread.metadata.title == "Rome"
        await store.delete_thread(THREAD)
        assert await store.checkout(THREAD) is None

    on_a_file(tmp_path, scenario)


@pytest.mark.parametrize("is_ending", [False, True])
def test_a_checkout_sees_a_commit_whose_caller_gave_up(tmp_path: Path, is_ending: bool) -> None:
    """Also when a commit of the same batch ends the run before it."""

    async def scenario(store: SqliteStore) -> None:
        writer = Writer(store)
        await end_a_run(writer)
        if is_ending:
            await writer.commit(run=run("run-2"), **claim_fields())
        late = Writer(store)
        late.version = writer.version + is_ending
        is_free = threading.Event()

        async def wait(_session: SqlSession) -> None:
            is_free.wait(30)

        blocker = asyncio.ensure_future(store.database.write(wait))
        await asyncio.sleep(0)
        ending: Awaitable[object] = blocker
        if is_ending:
            ending = asyncio.ensure_future(writer.commit(run=run("run-2", status=DONE), **END))
        given_up = asyncio.ensure_future(late.commit(run=run("run-3"), commit_id="late"))
        await asyncio.sleep(0)
        given_up.cancel()
        is_free.set()
        await asyncio.gather(blocker, ending)
        # Everything that was queued before is applied when this returns.
        assert await store.find_commit("late", THREAD) is not None
        found = await store.checkout(THREAD)
        assert found is not None
        assert found.open_run is not None

    on_a_file(tmp_path, scenario)


def test_a_thread_with_state_is_read(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        writer, reading = Writer(store), Reading(store)
        await writer.commit(run=run(), state={"plan": value("1")}, **claim_fields())
        await writer.commit(run=run(status=DONE), **END)
        assert "plan" in (await reading.checkout(reads=True)).state
        await end_a_run(writer, "run-2")
        assert "plan" in (await reading.checkout(reads=True)).state

    on_a_file(tmp_path, scenario)


def test_a_thread_whose_head_an_earlier_version_wrote_is_read(tmp_path: Path) -> None:
    """Its heads did not say whether there is state."""

    async def scenario(store: SqliteStore) -> None:
        writer, reading = Writer(store), Reading(store)
        await writer.commit(state={"plan": value("1")})

        async def forget(session: SqlSession) -> None:
            row = await session.one("find_thread", THREAD)
            assert row is not None
            beside = (row[16], row[1], row[2], row[3], row[5], row[17])
            kept = rows.unpack(row[8], rows.ANY, "the head", *beside)
            edit = (row[5], row[5], row[6], row[7], rows.pack(kept[:-1], *beside))
            await session.run("save_edit", row[0], *edit)

        await store.database.write(forget)
        await end_a_run(writer)
        assert "plan" in (await reading.checkout(reads=True)).state

    on_a_file(tmp_path, scenario)


def test_a_checkout_that_is_changed_by_its_owner_changes_nothing_else(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        writer, reading = Writer(store), Reading(store)
        await end_a_run(writer)
        found = await reading.checkout(reads=False)
        found.thread.metadata.custom["mine"] = 1
        await end_a_run(writer, "run-2")
        assert (await reading.checkout(reads=False)).thread.metadata.custom == {}

    on_a_file(tmp_path, scenario)


def test_a_checkout_does_not_wait_for_a_commit_on_its_way_to_the_disk(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        writer, reading = Writer(store), Reading(store)
        await end_a_run(writer)
        behind = store.database._writer
        assert behind is not None
        with behind._mutex:
            await reading.checkout(reads=True)

    on_a_file(tmp_path, scenario)


def test_a_checkout_beside_an_open_transaction_reads_nothing(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore) -> None:
        await end_a_run(Writer(store))
        has_begun, is_free = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        async def wait(_session: SqlSession) -> None:
            loop.call_soon_threadsafe(has_begun.set)
            is_free.wait(30)

        blocker = asyncio.ensure_future(store.database.write(wait))
        await has_begun.wait()
        try:
            await Reading(store).checkout(reads=False)
        finally:
            is_free.set()
        await blocker

    on_a_file(tmp_path, scenario)


def test_a_store_keeps_a_bounded_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEADS_MAX", 2)

    async def scenario(store: SqliteStore) -> None:
        await end_a_run(Writer(store))
        for name in ("a", "b"):
            await Writer(store, name).commit(messages=(build_user_message("m-1"),))
        await Reading(store).checkout(reads=True)

    on_a_file(tmp_path, scenario)
