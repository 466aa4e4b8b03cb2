"""The memory store forgets the oldest ended runs by itself, and answers as SQLite after a purge."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, MailboxConfig
from awaken.contracts.errors import CursorExpired
from awaken.contracts.events import StepEnd, StepStart
from awaken.contracts.lifecycle import NaturalEnd
from awaken.contracts.storage.queries import RunQuery
from awaken.contracts.storage.store import Store
from awaken.errors import UnknownRun
from awaken.stores.memory import MemoryStore
from awaken.stores.memory.tables import FORGOTTEN_AT_ONCE
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FakeClock, ScriptedModel
from awaken.testing.store_conformance.writing import (
    DONE,
    RUNNING,
    WAITING,
    Writer,
    build_user_message,
    claim,
    queue,
    read_everything,
    run,
    tool_record,
    value,
)


class Threads:
    """Writes runs to threads, each with a message, events, state and a tool record."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._writers: dict[str, Writer] = {}
        self._event_seqs: dict[str, int] = {}

    async def begin(self, run_id: str, at: int, thread_id: str, **fields: Any) -> None:
        writer = self._writers.setdefault(thread_id, Writer(self.store, thread_id))
        log_start = self._event_seqs.get(thread_id, 0)
        times = {"updated_at": at, "created_at": at}
        record = run(run_id, thread_id=thread_id, log_start=log_start, **times, **fields)
        message = build_user_message(f"m-{run_id}")
        self._event_seqs[thread_id] = log_start + 2
        await writer.commit(
            run=record, messages=(message,), events=(StepStart(),), committed_at=at,
            tool_records=(tool_record("c-1", run_id=run_id),),
        )  # fmt: skip

    async def end(self, run_id: str, at: int, thread_id: str, **fields: Any) -> None:
        times = {"updated_at": at, "finished_at": at, "created_at": at - 5}
        log_start = self._event_seqs[thread_id] - 2
        record = run(run_id, DONE, thread_id=thread_id, log_start=log_start, **times, **fields)
        await self._writers[thread_id].commit(
            run=record, events=(StepEnd(),), committed_at=at, state={"k": value(str(at))}
        )

    async def play(self, run_id: str, at: int, thread_id: str = "t", **fields: Any) -> None:
        await self.begin(run_id, at - 5, thread_id, **fields)
        await self.end(run_id, at, thread_id, **fields)


async def kept(store: Store) -> list[str]:
    return [it.run_id for it in (await store.list_runs(RunQuery(limit=1000))).items]


def check(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await scenario()

    asyncio.run(bounded())


async def write_history(store: Store) -> None:
    threads = Threads(store)
    await threads.play("a-1", 1000, "a")
    await threads.play("a-2", 2000, "a")
    await threads.play("b-1", 3000, "b")
    await threads.begin("c-open", 3500, "c")
    await threads.play("a-3", 4000, "a")
    await threads.play("d-1", 5000, "d")


def test_a_forgotten_run_answers_as_on_sqlite_after_its_retention(tmp_path: Path) -> None:
    async def scenario() -> None:
        memory = MemoryStore(clock=FakeClock(), retained_runs=2)
        async with asyncio.timeout(20):
            sqlite = SqliteStore(tmp_path / "s.db")
            await sqlite.open()
        try:
            await write_history(memory)
            await write_history(sqlite)
            # The runs that ended at 1000, 2000 and 3000 are beyond the limit of two.
            await sqlite.purge(3001)
            assert await kept(memory) == ["b-1", "c-open", "a-3", "d-1"]
            assert await read_everything(memory) == await read_everything(sqlite)
            for store in (memory, sqlite):
                assert await store.load_run("a-1") is None
                assert await store.list_tool_records("a-1") == ()
                with pytest.raises(CursorExpired):
                    await store.list_events("a", after=1)
        finally:
            await sqlite.close()

    check(scenario)


def test_the_transcript_and_the_state_of_forgotten_runs_stay() -> None:
    async def scenario() -> None:
        store = MemoryStore(retained_runs=3)
        threads = Threads(store)
        for number in range(50):
            await threads.play(f"run-{number}", 1000 + 10 * number)
        assert await kept(store) == ["run-47", "run-48", "run-49"]
        checkout = await store.checkout("t")
        assert checkout is not None
        assert [it.id for it in checkout.messages] == [f"m-run-{it}" for it in range(50)]
        assert checkout.state == {"k": value("1490")}
        assert len(await store.list_events("t")) == 6
        assert await store.find_commit("t-commit-1", "t") is not None

    check(scenario)


def test_runs_that_have_not_ended_are_never_forgotten() -> None:
    async def scenario() -> None:
        store = MemoryStore(retained_runs=1)
        threads = Threads(store)
        await threads.begin("running", 1, "u")
        await threads.begin("waits", 2, "w")
        await threads._writers["w"].commit(run=run("waits", WAITING, thread_id="w"))
        for number in range(20):
            await threads.play(f"run-{number}", 100 + number)
        assert await kept(store) == ["waits", "running", "run-19"]
        assert len(await store.list_events("u")) == 1

    check(scenario)


def test_the_latest_run_of_a_thread_stays_until_a_later_one_is_due() -> None:
    async def scenario() -> None:
        store = MemoryStore(retained_runs=1)
        threads = Threads(store)
        await threads.play("old", 10, "quiet")
        for number in range(5):
            await threads.play(f"run-{number}", 100 + 10 * number)
        assert await kept(store) == ["old", "run-4"]
        assert await store.list_events("quiet") == ()
        await threads.play("new", 500, "quiet")
        for number in range(5, 10):
            await threads.play(f"run-{number}", 600 + 10 * number)
        assert await kept(store) == ["new", "run-9"]

    check(scenario)


def test_a_run_stays_while_its_parent_has_not_ended() -> None:
    async def scenario() -> None:
        store = MemoryStore(retained_runs=1)
        threads = Threads(store)
        await threads.begin("parent", 1, "p")
        await threads.play("child", 10, "c", parent_run_id="parent")
        await threads.play("another", 20, "c")
        for number in range(5):
            await threads.play(f"run-{number}", 100 + 10 * number)
        assert await store.load_run("child") is not None
        await threads.end("parent", 300, "p")
        for number in range(5, 10):
            await threads.play(f"run-{number}", 400 + 10 * number)
        assert await store.load_run("child") is None

    check(scenario)


def test_a_run_stays_while_a_dispatch_that_names_it_has_not_ended() -> None:
    async def scenario() -> None:
        store = MemoryStore(retained_runs=1)
        threads = Threads(store)
        await threads.play("first", 10)
        await queue(store, "d", thread_id="other", run_id="first")
        for number in range(5):
            await threads.play(f"run-{number}", 100 + 10 * number)
        assert await store.load_run("first") is not None
        await store.cancel_dispatch("d")
        for number in range(5, 10):
            await threads.play(f"run-{number}", 400 + 10 * number)
        assert await store.load_run("first") is None

    check(scenario)


def test_ended_dispatches_go_with_the_runs_except_those_with_a_key() -> None:
    async def scenario() -> None:
        store = MemoryStore(clock=FakeClock(start_ms=0), retained_runs=1)
        await queue(store, "plain", thread_id="t")
        await queue(store, "keyed", thread_id="t", dedupe_key="key")
        for name in ("plain", "keyed"):
            await claim(store, token=f"token-{name}")
            await store.release(name, f"token-{name}")
        threads = Threads(store)
        for number in range(5):
            await threads.play(f"run-{number}", 100 + 10 * number)
        assert await store.find_dispatch("plain") is None
        assert await store.find_dispatch("keyed") is not None

    check(scenario)


def test_runs_are_forgotten_after_their_time_even_without_a_worker() -> None:
    async def scenario() -> None:
        store = MemoryStore(retained_runs=None, retained_ms=1000)
        threads = Threads(store)
        for number in range(10):
            await threads.play(f"old-{number}", 100 + number)
        for number in range(2 * FORGOTTEN_AT_ONCE):
            await threads.play(f"new-{number}", 5000 + number)
        assert len(await kept(store)) == 2 * FORGOTTEN_AT_ONCE
        assert await store.load_run("old-9") is None

    check(scenario)


def test_a_store_without_limits_keeps_every_run() -> None:
    async def scenario() -> None:
        store = MemoryStore(retained_runs=None)
        threads = Threads(store)
        for number in range(200):
            await threads.play(f"run-{number}", 100 * number + 10)
        assert len(await kept(store)) == 200

    check(scenario)


def test_a_deleted_thread_takes_its_runs_out_of_the_count() -> None:
    async def scenario() -> None:
        store = MemoryStore(retained_runs=2)
        threads = Threads(store)
        await threads.play("gone-1", 10, "gone")
        await threads.play("gone-2", 20, "gone")
        await store.delete_thread("gone")
        for number in range(3):
            await threads.play(f"run-{number}", 100 + 10 * number)
        assert await kept(store) == ["run-1", "run-2"]

    check(scenario)


def test_a_runtime_in_memory_forgets_runs_by_its_configuration() -> None:
    async def scenario() -> None:
        agent = Agent("a", model=ScriptedModel(["Done."], cycle=True))
        config = MailboxConfig(retention_runs=3)
        async with AgentRuntime([agent], mailbox=config) as runtime:
            ids = [(await runtime.run("a", "hi", thread_id="t")).run_id for _ in range(10)]
            with pytest.raises(UnknownRun):
                await runtime.get_run(ids[0])
            assert (await runtime.get_run(ids[-1])).run_id == ids[-1]
            assert len(await runtime.list_runs()) == 3
            assert len(await runtime.messages("t")) == 20

    check(scenario)


def test_a_run_with_the_id_of_a_deleted_one_keeps_its_journal_while_it_executes() -> None:
    async def scenario() -> None:
        store = MemoryStore(retained_runs=4)

        async def end(run_id: str) -> None:
            ended = run(run_id, DONE, thread_id=run_id, termination=NaturalEnd(), finished_at=1)
            await Writer(store, run_id).commit(run=ended)

        await end("same")
        await store.delete_thread("same")
        records = (tool_record("c-1", run_id="same"),)
        await Writer(store, "b").commit(
            run=run("same", RUNNING, thread_id="b"), tool_records=records
        )
        for number in range(30):
            await end(f"x{number}")
        assert await store.list_tool_records("same") == records

    asyncio.run(scenario())
