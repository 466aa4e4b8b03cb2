"""What users of a durable runtime rely on, on real stores and in real time."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.postgres.server import server

from awaken import (
    Agent,
    AgentRuntime,
    InputMode,
    InvalidInput,
    MailboxConfig,
    Message,
    RunStatus,
    StepEnd,
    SuspendTicket,
    ToolContext,
    tool,
)
from awaken.errors import InvalidRecord, InvalidResume
from awaken.messages import Role
from awaken.stores import Commit, RunDispatch, SqliteStore
from awaken.testing import ScriptedModel, ToolCalls

QUICK = MailboxConfig(lease_ms=20_000, renew_ms=100, sweep_ms=200, poll_ms=20, drain_ms=500)
WAIT_MS = 20_000


class Slow:
    """A tool that is inside until it is let go."""

    def __init__(self) -> None:
        self.inside, self.let_go = asyncio.Event(), asyncio.Event()

        @tool
        async def slow() -> str:
            """Take a while."""
            self.inside.set()
            await self.let_go.wait()
            return "ok"

        self.tool = slow


@tool
async def ask(ctx: ToolContext) -> str | SuspendTicket:
    """Ask somebody."""
    return ctx.suspend("may I?") if ctx.resume is None else "allowed"


def echo(request: Any) -> str:
    return f"heard {request.messages[-1].text}"


def runtime(store: Any, script: list[Any], *tools: Any, **options: Any) -> AgentRuntime:
    agent = Agent("agent", model=ScriptedModel(script), tools=list(tools))
    return AgentRuntime([agent], store=store, mailbox=QUICK, **options)


def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


STORES: list[Callable[[Path], str | None]] = [file, lambda _: None]


@pytest.mark.parametrize("store", STORES, ids=["sqlite", "memory"])
def test_input_that_another_run_took_in_comes_to_what_that_run_comes_to(
    store: Callable[[Path], str | None], tmp_path: Path
) -> None:
    async def scenario() -> None:
        slow = Slow()
        script = [ToolCalls([("slow", {})]), echo]
        async with runtime(store(tmp_path), script, slow.tool) as rt:
            first = await rt.submit("agent", "go", thread_id="t")
            await slow.inside.wait()
            steered = await rt.submit("agent", "be brief", thread_id="t", mode="steer")
            slow.let_go.set()
            result = await rt.wait(steered.run_id, timeout_ms=WAIT_MS)
            assert (result.run_id, result.text) == (first.run_id, "heard be brief")
            assert (await rt.get_run(steered.run_id)).run_id == first.run_id

    asyncio.run(scenario())


@pytest.mark.parametrize("store", STORES, ids=["sqlite", "memory"])
def test_a_message_to_a_waiting_thread_is_waited_for_under_its_own_receipt(
    store: Callable[[Path], str | None], tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with runtime(store(tmp_path), [ToolCalls([("ask", {})]), echo], ask) as rt:
            first = await rt.submit("agent", "go", thread_id="t")
            assert (await rt.wait(first.run_id, timeout_ms=WAIT_MS)).is_waiting
            second = await rt.submit("agent", "never mind", thread_id="t")
            result = await rt.wait(second.run_id, timeout_ms=WAIT_MS)
            assert (result.run_id, result.text) == (first.run_id, "heard never mind")

    asyncio.run(scenario())


def test_whoever_decides_in_a_process_without_the_agent_waits_for_the_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with runtime(file(tmp_path), [ToolCalls([("ask", {})]), "done"], ask) as rt:
            waiting = await rt.run("agent", "go", thread_id="t")
            async with AgentRuntime([], store=file(tmp_path), has_worker=False) as other:
                await other.decide(waiting.tickets[0].ticket_id)
                result = await other.wait(waiting.run_id, timeout_ms=WAIT_MS)
                assert (result.status, result.text) == (RunStatus.DONE, "done")

    asyncio.run(scenario())


def test_what_is_submitted_in_memory_waits_for_the_run_that_executes() -> None:
    async def scenario() -> None:
        slow = Slow()
        script = [ToolCalls([("slow", {})]), "first done", "second done"]
        async with runtime(None, script, slow.tool) as rt:
            handle = await rt.start("agent", "go", thread_id="t")
            await slow.inside.wait()
            queued = await rt.submit("agent", "next", thread_id="t")
            await asyncio.sleep(0.1)
            slow.let_go.set()
            assert (await handle.result()).text == "first done"
            assert (await rt.wait(queued.run_id, timeout_ms=WAIT_MS)).text == "second done"

    asyncio.run(scenario())


def test_a_run_id_is_used_once_so_that_no_input_is_lost(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with runtime(file(tmp_path), ["a", "b"]) as rt:
            first = await rt.submit("agent", "one", thread_id="t", run_id_hint="mine")
            await rt.wait(first.run_id, timeout_ms=WAIT_MS)
            for thread_id in ("t", "elsewhere"):
                for how in ({}, {"dedupe_key": "k"}, {"mode": InputMode.INTERRUPT}):
                    with pytest.raises(InvalidResume):
                        await rt.submit(
                            "agent", "two", thread_id=thread_id, run_id_hint="mine", **how
                        )
            assert await rt.store.load_thread("elsewhere") is None

    asyncio.run(scenario())


def test_cancel_from_another_process_is_waited_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        slow = Slow()
        async with (
            runtime(file(tmp_path), [ToolCalls([("slow", {})]), "x"], slow.tool) as rt,
            AgentRuntime([], store=file(tmp_path), has_worker=False) as other,
        ):
            receipt = await rt.submit("agent", "go", thread_id="t")
            await slow.inside.wait()
            assert await other.cancel_and_wait(receipt.run_id, timeout_ms=WAIT_MS)
            assert (await other.get_run(receipt.run_id)).status is RunStatus.DONE
            queued = await other.submit("nobody", "later", thread_id="u")
            assert await other.cancel_and_wait(queued.run_id, timeout_ms=WAIT_MS)

    asyncio.run(scenario())


def test_a_runtime_works_on_postgres_by_its_url_alone() -> None:
    async def scenario() -> None:
        async with runtime(server().url, ["hello"]) as rt:
            receipt = await rt.submit("agent", "hi", thread_id="by-url")
            assert (await rt.wait(receipt.run_id, timeout_ms=WAIT_MS)).text == "hello"
            await rt.store.delete_thread("by-url")

    asyncio.run(scenario())


def commit(thread_id: str, **parts: Any) -> Commit:
    known = {"commit_id": f"{thread_id}:1", "thread_id": thread_id, "expected_version": 0}
    return Commit(**({"committed_at": 1} | known | parts))


def test_one_bad_write_fails_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = SqliteStore(tmp_path / "store.db")
        await store.open()
        good = [store.commit(commit(f"t{number}")) for number in range(20)]
        bad: Any = store.commit(commit("bad", committed_at=1.5))
        answers = await asyncio.gather(*good, bad, return_exceptions=True)
        assert [type(it) for it in answers].count(InvalidRecord) == 1
        assert isinstance(answers[-1], InvalidRecord)
        assert await store.load_thread("bad") is None
        await store.close()

    asyncio.run(scenario())


def test_a_damaged_thread_does_not_keep_others_from_being_served(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = SqliteStore(tmp_path / "store.db")
        await store.open()
        for name in ("a", "b", "c"):
            await store.enqueue(RunDispatch(dispatch_id=name, thread_id=name, run_id=f"r-{name}"))
        damage(tmp_path, "a")
        claimed = await store.claim("worker", "token", 1, limit=10)
        assert [it.dispatch_id for it in claimed] == ["b", "c"]
        damage(tmp_path, "b")
        await asyncio.sleep(0.05)
        assert [it.dispatch_id for it in await store.reclaim()] == ["c"]
        await store.close()

    asyncio.run(scenario())


def damage(folder: Path, dispatch_id: str) -> None:
    with sqlite3.connect(folder / "store.db") as connection:
        connection.execute(
            "UPDATE dispatches SET record = x'3000000000' WHERE dispatch_id = ?", (dispatch_id,)
        )
    connection.close()


def test_a_long_log_is_read_whole(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = SqliteStore(tmp_path / "store.db")
        await store.open()
        commits = [
            commit("t", commit_id=f"c{n}", expected_version=n, events=(StepEnd(),))
            for n in range(1500)
        ]
        for one in commits:
            await store.commit(one)
        found = await store.list_events("t", limit=5000)
        assert [it.seq for it in found] == list(range(1, 1501))
        await store.close()

    asyncio.run(scenario())


def test_a_large_thread_is_read_by_many_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = SqliteStore(tmp_path / "store.db")
        await store.open()
        for number in range(8):
            said = tuple(Message(role=Role.USER, id=f"{number}-{n}", content=()) for n in range(50))
            await store.commit(commit(f"t{number}", messages=said))
        names = [f"t{n % 8}" for n in range(200)]
        views = await asyncio.gather(*(store.checkout(name) for name in names))
        assert all(view is not None and len(view.messages) == 50 for view in views)
        await store.close()

    asyncio.run(scenario())


def test_a_store_in_memory_is_not_asked_of_sqlite() -> None:
    with pytest.raises(InvalidInput, match="memory://"):
        AgentRuntime([], store="sqlite:///:memory:")
