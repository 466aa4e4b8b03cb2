"""Runs below runs are found by their ids, and by nothing that a client can choose or change."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import AgentRuntime, RunStatus, ToolContext, tool
from awaken.backends import BackendRunStatus
from awaken.contracts.identity import derive_id
from awaken.errors import DuplicateTaskName, TaskIdTaken
from awaken.extensions.background import BackgroundTasksPlugin
from awaken.runtime.children import child_threads as families
from awaken.runtime.children import delegates as children
from awaken.stores import ThreadQuery
from awaken.testing import ToolCalls
from awaken.tools import TaskContext, TaskInfo

from .delegating import (
    Door,
    StoreOf,
    agent,
    answers,
    asks,
    boss,
    children_of,
    ended,
    on_both_stores,
    runtime,
    within,
)
from .remoting import FakeBackend, remote_runtime, said, waits

DELEGATE = derive_id("R:1:call_1", "delegate", "worker", "1")
TASK = derive_id("R:1:call_1", "task", "a", "", "1")


async def boss_runs(rt: AgentRuntime, **options: Any) -> None:
    """Let the boss run under an id that makes the ids of its children known."""
    given = {"thread_id": "t", "run_id_hint": "R", **options}
    handle = await rt.start("boss", "hi", **given)
    await ended(rt, handle.run_id)


@on_both_stores
def test_the_answer_of_a_run_that_a_client_named_is_not_taken_for_a_delegates(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        liar = agent("liar", "yes", "yes", "yes")
        boss_twice = boss(asks("worker"), "end", asks("worker"), "end")
        async with runtime([boss_twice, agent("worker", "no"), liar], store_of(tmp_path)) as rt:
            forged = {"thread_id": DELEGATE, "run_id_hint": DELEGATE}
            await rt.run("liar", "x", tenant_id="A", **forged)
            await boss_runs(rt, tenant_id="A")
            (answer,) = await answers(rt, "@A:t")
            assert "is taken by another run" in answer
            assert "yes" not in answer
            # What another tenant names like that is nothing to it.
            await rt.run("liar", "x", tenant_id="B", **forged)
            await rt.run("liar", "x", **forged)
            await boss_runs(rt, tenant_id="C")
            (answer,) = await answers(rt, "@C:t")
            assert '"response":"no"' in answer

    asyncio.run(scenario())


@on_both_stores
def test_a_delegate_whose_thread_another_run_holds_is_given_up_after_a_while(
    store_of: StoreOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        door = Door()
        agents = [boss(asks("worker"), "end"), agent("worker", "no"), agent("liar", door.answer)]
        async with runtime(agents, store_of(tmp_path)) as rt:
            squatter = await rt.start("liar", "x", thread_id=DELEGATE)
            await door.opened()
            await boss_runs(rt)
            (answer,) = await answers(rt, "t")
            assert "is taken by another run" in answer
            assert not door.is_cancelled
            door.let_go.set()
            assert (await within(squatter.result())).text == "done"
            assert await children_of(rt, "R") == []

    monkeypatch.setattr(children, "LOOK_S", 0.01)
    asyncio.run(scenario())


@tool
async def spawns(ctx: ToolContext) -> str:
    """Start two tasks of one name."""
    let_go = asyncio.Event()

    async def work(_task: TaskContext) -> None:
        await let_go.wait()

    assert ctx.sub_runs is not None
    try:
        await ctx.sub_runs.spawn(work, TaskInfo(name="a"))
        await ctx.sub_runs.spawn(work, TaskInfo(name="a"))
    except (DuplicateTaskName, TaskIdTaken) as error:
        return error.code
    finally:
        let_go.set()
    return "both were started"


@on_both_stores
@pytest.mark.parametrize("is_forged", [False, True])
def test_a_call_is_never_given_a_task_that_it_did_not_start(
    store_of: StoreOf, tmp_path: Path, is_forged: bool
) -> None:
    async def scenario() -> None:
        asker = agent("boss", ToolCalls([("spawns", {})]), *["end"] * 3, tools=[spawns])
        async with runtime([asker, agent("liar", "yes")], store_of(tmp_path)) as rt:
            if is_forged:
                await rt.run("liar", "x", thread_id=TASK, run_id_hint=TASK)
            await boss_runs(rt)
            wanted = "task_id_taken" if is_forged else "duplicate_task_name"
            assert await answers(rt, "t") == [wanted]

    asyncio.run(scenario())


def test_a_remote_delegate_that_awaits_tasks_of_its_own_is_at_rest() -> None:
    async def scenario() -> None:
        waiting = waits(BackendRunStatus.SUSPENDED, "soon", status_reason="awaiting_tasks")
        asker = boss(asks("far"), "end", delegates=["far"])
        async with remote_runtime(FakeBackend(waiting, said("done")), None, asker) as rt:
            result = await within(rt.run("boss", "hi", thread_id="t"))
            assert result.status is RunStatus.WAITING
            assert [it.suspension.action for it in result.tickets] == ["agent_delegate:suspended"]

    asyncio.run(scenario())


def test_every_task_is_listed_however_their_threads_move_while_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        door = Door()
        wanted = [
            ("spawn_agent", {"agent_id": "worker", "prompt": "x", "name": it}) for it in "abc"
        ]
        asker = boss(ToolCalls(wanted), *["end"] * 9, plugins=[BackgroundTasksPlugin()])
        async with runtime([asker, agent("worker", *[door.answer] * 3)], None) as rt:
            handle = await rt.start("boss", "hi", thread_id="t")
            while door.visits < len(wanted):
                await asyncio.sleep(0)
            read, moved = rt.store.list_threads, []

            async def moving(query: ThreadQuery) -> Any:
                page = await read(query)
                if len(moved) < families.ROUNDS and page.next_cursor is not None:
                    last = (await read(msgspec.structs.replace(query, offset=2))).items[0]
                    moved.append(await rt.store.save_thread(last.touch(2**50 + len(moved))))
                return page

            monkeypatch.setattr(rt.store, "list_threads", moving)
            monkeypatch.setattr(families, "LIMIT_MAX", 1)
            assert sorted(it.name or "" for it in await rt.tasks("t")) == ["a", "b", "c"]
            assert moved
            monkeypatch.undo()
            door.let_go.set()
            await ended(rt, handle.run_id)

    asyncio.run(scenario())
