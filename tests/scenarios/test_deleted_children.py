"""A child whose thread is deleted: its parent gets an answer, and does not wait for ever."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.forked_python import ForkedPython
from tests.postgres.server import new_schema, server

from awaken import (
    Agent,
    AgentRuntime,
    AwakenError,
    NaturalEnd,
    RunStatus,
    WorkflowContext,
    tool,
    workflow,
)
from awaken.errors import StepFailed
from awaken.extensions.background import BackgroundTasksPlugin
from awaken.messages import Role
from awaken.stores import DeleteStrategy, MemoryStore, RunQuery
from awaken.testing import ToolCalls

from . import killed_process
from .delegating import (
    WAIT_S,
    Door,
    agent,
    answers,
    asking,
    asks,
    boss,
    child_of,
    children_of,
    ended,
    heard,
    nothing_ordered,
    runtime,
    ticket_on,
    until,
    within,
)
from .each_store import NewStore, Opener, each_store, postgres, sqlite
from .killed_process import asks_a_payer, asks_a_sleeper, open_store, payer, sleeper
from .mortal import PROMPT, Mortal, dying, on_shared_stores, until_over
from .test_delegate_recovery import replying

SCRIPT = Path(killed_process.__file__)


def shared_memory(_: Path) -> Opener:
    store = MemoryStore(is_shared=True)
    return lambda: store


async def delete_child(rt: AgentRuntime, run_id: str) -> None:
    child = await child_of(rt, run_id)
    await rt.view("operator").delete_thread(child.thread_id, DeleteStrategy.DETACH)


async def texts_with(rt: AgentRuntime, words: str) -> list[str]:
    """What users, agents and tasks have told the parent's thread with these words."""
    found = [it.message for it in await rt.messages("t") if it.message.role is Role.USER]
    return [it.text for it in found if words in it.text]


async def settled_once(rt: AgentRuntime, run_id: str, *words: str) -> None:
    """Check that a parent has ended by itself, and that its model read one result."""
    record = await ended(rt, run_id)
    assert record.termination == NaturalEnd()
    (result,) = await answers(rt, "t")
    for word in words:
        assert word in result
    assert await rt.tickets() == ()
    await nothing_ordered(rt)


@each_store
def test_a_run_that_waits_for_a_delegate_learns_that_it_was_deleted(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        store = new_store(tmp_path)()
        async with runtime([boss(asks("worker"), heard), asking()], store) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            await ticket_on(rt, "t")
            await delete_child(rt, waiting.run_id)
            await settled_once(rt, waiting.run_id, "was deleted")

    asyncio.run(scenario())


@each_store
def test_a_workflow_whose_sleeping_child_is_deleted_gets_a_failed_step(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        store = new_store(tmp_path)()
        async with runtime([asks_a_sleeper, sleeper], store) as rt:
            begun = await rt.start("asks_a_sleeper", {}, thread_id="t")
            await until(rt, begun.run_id, RunStatus.WAITING)
            await delete_child(rt, begun.run_id)
            record = await ended(rt, begun.run_id)
            assert record.termination == NaturalEnd()
            assert "no answer" in (record.final_output or "")
            assert "was deleted" in (record.final_output or "")

    asyncio.run(scenario())


@pytest.mark.parametrize("new_store", [shared_memory, sqlite, postgres])
def test_what_a_delegate_answered_reaches_its_parent_though_its_thread_was_deleted_first(
    new_store: NewStore, tmp_path: Path
) -> None:
    """The process dies between the delegate's end and the report; then the thread is deleted."""

    async def scenario() -> None:
        open_store = new_store(tmp_path)
        first = Mortal(open_store())
        agents = [boss(asks("worker"), heard), asking()]
        async with runtime(agents, first, has_worker=False) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, waiting.run_id)
            first.refuses["list_outbox"] = 1 << 30
            ticket = await ticket_on(rt, child.thread_id)
            await rt.decide(ticket.ticket_id, result="yes")
            await ended(rt, child.run_id)
            await delete_child(rt, waiting.run_id)
        second = open_store()
        # The models go on where the scripts of the first process ended.
        async with runtime([boss(heard), asking()], second) as rt:
            await settled_once(rt, waiting.run_id, '"response":"heard told yes"')

    asyncio.run(scenario())


@each_store
def test_a_call_that_follows_its_delegate_learns_that_it_was_deleted_and_starts_no_second_one(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        door = Door()
        worker = agent("worker", ToolCalls([("door", {})]), "late", tools=[door.tool])
        store = new_store(tmp_path)()
        async with runtime([boss(asks("worker"), heard), worker], store) as rt:
            begun = await rt.start("boss", "hi", thread_id="t")
            await door.opened()
            await delete_child(rt, begun.run_id)
            door.let_go.set()
            await within(rt.wait(begun.run_id))
            await settled_once(rt, begun.run_id, "was deleted")
            assert door.visits == 1

    asyncio.run(scenario())


@each_store
def test_the_owner_of_a_task_is_told_that_it_was_deleted(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        spawn = ToolCalls([("spawn_agent", {"agent_id": "worker", "prompt": "go", "name": "a"})])
        owner = agent(
            "boss",
            spawn,
            "wait for it",
            heard,
            delegates=["worker"],
            plugins=[BackgroundTasksPlugin()],
        )
        store = new_store(tmp_path)()
        async with runtime([owner, asking()], store) as rt:
            begun = await rt.start("boss", "hi", thread_id="t")
            await until(rt, begun.run_id, RunStatus.WAITING)
            child = await child_of(rt, begun.run_id)
            await ticket_on(rt, child.thread_id)
            await delete_child(rt, begun.run_id)
            record = await ended(rt, begun.run_id)
            assert "was deleted" in (record.final_output or "")
            await nothing_ordered(rt)

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_parent_learns_of_a_deleted_child_though_the_process_is_killed_at_once(
    kind: str, tmp_path: Path
) -> None:
    place = (str(tmp_path / "w.db"), "") if kind == "sqlite" else (server().url, new_schema())
    process = ForkedPython(str(SCRIPT), "delete", kind, *place)
    assert process.wait(60) == -9

    async def scenario() -> None:
        store = open_store(kind, *place)
        async with runtime([asks_a_sleeper, sleeper], store) as rt:
            (run,) = (await store.list_runs(RunQuery())).items
            record = await ended(rt, run.run_id)
            assert "The thread of the run was deleted." in (record.final_output or "")
            await nothing_ordered(rt)

    asyncio.run(scenario())


PAID = "paid"


class Ledger:
    """What the children of every process have done, and the agents that do it."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def agents(self) -> list[Agent]:
        """A parent that is an agent, one that is a workflow, and the child that both ask."""

        @tool(effect="once")
        async def pay() -> str:
            """Pay."""
            self.entries.append(PAID)
            return PAID

        @workflow
        async def flow(ctx: WorkflowContext, message: str) -> str:
            """Ask the payer."""
            try:
                return f"heard {await ctx.ask('worker', message)}"
            except StepFailed as error:
                return f"heard {error}"

        worker = replying("worker", ToolCalls([("pay", {})]), PAID, tools=[pay])
        return [replying("boss", asks("worker"), heard, delegates=["worker"]), worker, flow]


async def dies_and_loses_its_child(
    parent: str, number: int, first: Any, second: Any
) -> tuple[bool, bool]:
    """Let a process die after a commit, delete the child, and let another process go on.

    Returns whether the process died, and whether there was a child.
    """
    ledger, mortal = Ledger(), Mortal(first)
    mortal.die_with(number)
    async with dying(AgentRuntime(ledger.agents(), store=mortal, mailbox=PROMPT)) as rt:
        with suppress(AwakenError):
            handle = await rt.start(parent, "hi", thread_id="t", run_id_hint="r")
            await until_over(handle, mortal)
    async with AgentRuntime(ledger.agents(), store=second, mailbox=PROMPT, has_worker=False) as rt:
        children = [it for it in await children_of(rt, "r") if it.parent_run_id == "r"]
        for child in children:
            await rt.view("operator").delete_thread(child.thread_id, DeleteStrategy.DETACH)
        paid_before = len(ledger.entries)
    async with AgentRuntime(ledger.agents(), store=second, mailbox=PROMPT) as rt:
        record = await ended(rt, "r")
        assert record.termination == NaturalEnd()
        heard_of = record.final_output or ""
        if children:
            assert len(ledger.entries) == paid_before <= 1, f"commit {number}: started again"
            assert "was deleted" in heard_of or PAID in heard_of
        else:
            assert ledger.entries == [PAID]
            assert PAID in heard_of
        await nothing_ordered(rt)
    return mortal.commits >= number, bool(children)


@on_shared_stores
@pytest.mark.parametrize("parent", ["boss", "flow"])
def test_no_child_is_started_again_wherever_its_parent_dies_before_it_is_deleted(
    stores_of: Any, parent: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        died, lost = [], []
        for number in range(1, 16):
            folder = tmp_path / str(number)
            folder.mkdir()
            has_died, has_lost = await dies_and_loses_its_child(parent, number, *stores_of(folder))
            died.append(has_died)
            lost.append(has_died and has_lost)
        assert not all(died), "there are more commits than were tried"
        assert sum(lost) >= 3, "the child is deleted at several of its commits"

    asyncio.run(scenario())


@on_shared_stores
def test_a_task_is_not_started_again_though_its_owner_died_before_it_was_deleted(
    stores_of: Any, tmp_path: Path
) -> None:
    """The owner dies in the call that has started the task."""

    async def scenario() -> None:
        first, second = stores_of(tmp_path)
        mortal, door = Mortal(first), Door()

        def agents() -> list[Agent]:
            spawn = {"agent_id": "worker", "prompt": "go", "name": "a"}
            script = [ToolCalls([("spawn_agent", spawn)]), "wait for it", heard, heard]
            options = {"delegates": ["worker"], "plugins": [BackgroundTasksPlugin()]}
            worker = replying("worker", ToolCalls([("door", {})]), "late", tools=[door.tool])
            return [replying("boss", *script, **options), worker]

        mortal.dies_with = lambda commit: commit.run is not None and commit.run.task is not None
        async with dying(AgentRuntime(agents(), store=mortal, mailbox=PROMPT)) as rt:
            with suppress(AwakenError):
                handle = await rt.start("boss", "hi", thread_id="t", run_id_hint="r")
                await until_over(handle, mortal)
        assert mortal.is_cut
        async with AgentRuntime(agents(), store=second, mailbox=PROMPT, has_worker=False) as rt:
            await delete_child(rt, "r")
        async with AgentRuntime(agents(), store=second, mailbox=PROMPT) as rt:
            await ended(rt, "r")
            assert await children_of(rt, "r") == []
            assert door.visits == 0
            await nothing_ordered(rt)
            async with asyncio.timeout(WAIT_S):
                while not (told := await texts_with(rt, "The thread of the run was deleted.")):
                    await asyncio.sleep(0.005)
            assert len(told) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_child_pays_once_though_its_parent_is_killed_and_it_is_deleted_before_the_recovery(
    kind: str, tmp_path: Path
) -> None:
    place = (str(tmp_path / "w.db"), "") if kind == "sqlite" else (server().url, new_schema())
    ledger = tmp_path / "ledger"
    environment = {**os.environ, "LEDGER": str(ledger)}
    process = ForkedPython(str(SCRIPT), "pay", kind, *place, env=environment)
    assert process.wait(60) == -9

    async def scenario() -> None:
        store, agents = open_store(kind, *place), [asks_a_payer, payer]
        async with runtime(agents, store, has_worker=False) as rt:
            (parent,) = [it for it in await rt.list_runs() if it.parent_run_id is None]
            assert parent.status is RunStatus.RUNNING
            await delete_child(rt, parent.run_id)
        async with runtime(agents, store) as rt:
            record = await ended(rt, parent.run_id)
            assert "no answer" in (record.final_output or "")
            assert "The thread of the run was deleted." in (record.final_output or "")
            await nothing_ordered(rt)
        assert ledger.read_text(encoding="utf-8") == "paid\n"

    asyncio.run(scenario())
