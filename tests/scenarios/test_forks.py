"""Forks: a branch says what its thread said up to a message, and the thread stays as it was."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    InvalidInput,
    RunRequest,
    StateKey,
    ToolContext,
    UnknownThread,
    tool,
    user,
)
from awaken.contracts.state.context_state import CompactionMark, Cut
from awaken.contracts.tasks import OwnedTask, TaskStarted
from awaken.errors import RecordNotFound
from awaken.messages import Role
from awaken.plugins import BACKGROUND_TASKS, CONTEXT_STATE, ContextState, StateScope
from awaken.runtime.admission.forks import NOT_EXECUTED
from awaken.stores import Commit, ForkPoint, MemoryStore
from awaken.testing import ScriptedModel, ToolCalls
from awaken.testing.store_conformance.writing import read_everything

COUNT: StateKey[int, int] = StateKey("count", default=0, scope=StateScope.THREAD)
Scenario = Callable[[AgentRuntime], Awaitable[None]]


@tool
async def ask(ctx: ToolContext) -> Any:
    """Ask a person."""
    return ctx.suspend("sure?") if ctx.resume is None else "asked"


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    return None if request.param == "memory" else f"sqlite:///{tmp_path}/forks.db"


def played(scenario: Scenario, store: Any, *script: Any) -> ScriptedModel:
    model = ScriptedModel(list(script))
    agents = [
        Agent("other", model=ScriptedModel([])),
        Agent("talker", model=model, tools=[ask]),
    ]

    async def main() -> None:
        async with asyncio.timeout(30), AgentRuntime(agents, store=store) as runtime:
            await scenario(runtime)

    asyncio.run(main())
    return model


def _request(thread_id: str, text: str) -> RunRequest:
    return RunRequest(thread_id=thread_id, messages=(user(text),))


async def texts(runtime: AgentRuntime, thread_id: str) -> list[str]:
    return [it.message.text for it in await runtime.messages(thread_id)]


def test_a_branch_goes_on_from_a_message_and_its_thread_stays(store: Any) -> None:
    async def scenario(runtime: AgentRuntime) -> None:
        first = await runtime.run("talker", "one", thread_id="t")
        await runtime.run("talker", "two", thread_id="t")
        said = await runtime.messages("t")
        before = await read_everything(runtime.store)
        branch = await runtime.fork("t", at=said[1].message_id)
        assert branch == await runtime.store.load_thread(branch.id)
        assert branch.forked_from == ForkPoint(thread_id="t", message_id=said[1].message_id)
        assert (branch.open_run_id, branch.latest_run_id) == (None, None)
        copied = await runtime.messages(branch.id)
        assert [it.message for it in copied] == [it.message for it in said[:2]]
        assert {it.produced_by_run_id for it in copied} == {first.run_id}
        await runtime.store.delete_thread(branch.id)
        assert await read_everything(runtime.store) == before
        branch = await runtime.fork("t", before=said[2].message_id)
        # Without an agent's name the branch stays with the agent that the thread was with.
        await runtime.view("p").wait(
            (await runtime.view("p").start(_request(branch.id, "other two"))).run_id
        )
        assert await texts(runtime, branch.id) == ["one", "1", "other two", "3"]
        assert await texts(runtime, "t") == ["one", "1", "two", "2"]

    played(scenario, store, "1", "2", "3")


def test_a_branch_may_have_nothing_or_everything(store: Any) -> None:
    async def scenario(runtime: AgentRuntime) -> None:
        await runtime.run("talker", "one", thread_id="t")
        first = (await runtime.messages("t"))[0].message_id
        empty = await runtime.fork("t", before=first)
        assert empty.forked_from == ForkPoint(thread_id="t")
        assert await texts(runtime, empty.id) == []
        whole = await runtime.fork("t")
        assert await texts(runtime, whole.id) == ["one", "1"]

    played(scenario, store, "1")


def test_what_cannot_be_forked_is_refused(store: Any) -> None:
    async def scenario(runtime: AgentRuntime) -> None:
        with pytest.raises(UnknownThread):
            await runtime.fork("nowhere")
        await runtime.run("talker", "one", thread_id="t")
        with pytest.raises(RecordNotFound):
            await runtime.fork("t", at="nothing")
        with pytest.raises(InvalidInput):
            await runtime.fork("t", at="a", before="b")

    played(scenario, store, "1")


def test_open_calls_are_answered_in_the_branch_and_stay_open_in_the_thread(store: Any) -> None:
    async def scenario(runtime: AgentRuntime) -> None:
        waiting = await runtime.run("talker", "one", thread_id="t")
        branch = await runtime.fork("t")
        last = (await runtime.messages(branch.id))[-1].message
        assert (last.role, last.text) == (Role.TOOL, NOT_EXECUTED)
        assert await runtime.tickets(branch.id) == ()
        await runtime.run("talker", "go on", thread_id=branch.id)
        (ticket,) = await runtime.tickets("t")
        await runtime.decide(ticket.ticket_id, result="yes")
        done = await runtime.wait(waiting.run_id)
        assert done.text == "asked"

    played(scenario, store, ToolCalls([("ask", {})]), "gone on", "asked")


def test_a_fork_between_results_answers_the_rest(store: Any) -> None:
    async def scenario(runtime: AgentRuntime) -> None:
        result = await runtime.run("talker", "one", thread_id="t")
        for ticket in result.tickets:
            await runtime.decide(ticket.ticket_id, result="yes")
        await runtime.wait(result.run_id)
        said = await runtime.messages("t")
        results = [it for it in said if it.message.role is Role.TOOL]
        branch = await runtime.fork("t", at=results[0].message_id)
        assert [it.message.role for it in await runtime.messages(branch.id)][-2:] == [Role.TOOL] * 2
        assert (await texts(runtime, branch.id))[-1] == NOT_EXECUTED

    played(scenario, store, ToolCalls([("ask", {}), ("ask", {})]), "done")


def test_a_branch_has_the_newest_state_and_none_of_the_threads_work() -> None:
    store = MemoryStore()

    async def scenario(runtime: AgentRuntime) -> None:
        await runtime.run("talker", "one", thread_id="t")
        await runtime.run("talker", "two", thread_id="t")
        said = await runtime.messages("t")
        thread = await store.load_thread("t")
        assert thread is not None
        marks = tuple(
            CompactionMark(
                message_id=said[place].message_id,
                place=place,
                summary=str(place),
                pre_tokens=2,
                post_tokens=1,
                at=1,
            )
            for place in (0, 2)
        )
        context = ContextState(marks=marks, cut=Cut(message_id=said[3].message_id, place=3))
        task = OwnedTask(task_id="task", run_id="r")
        tasks = BACKGROUND_TASKS.apply_update({}, TaskStarted(task=task))
        commit = Commit(
            commit_id="c",
            thread_id="t",
            expected_version=thread.version,
            committed_at=1,
            state={
                CONTEXT_STATE.name: CONTEXT_STATE.encode(context),
                BACKGROUND_TASKS.name: BACKGROUND_TASKS.encode(tasks),
                COUNT.name: COUNT.encode(7),
            },
        )
        await store.commit(commit)
        branch = await runtime.fork("t", at=said[1].message_id)
        checkout = await store.checkout(branch.id)
        assert checkout is not None
        assert COUNT.decode(checkout.state[COUNT.name]) == 7
        assert BACKGROUND_TASKS.name not in checkout.state
        kept = CONTEXT_STATE.decode(checkout.state[CONTEXT_STATE.name])
        assert ([mark.place for mark in kept.marks], kept.cut) == ([0], None)

    played(scenario, store, "1", "2")
