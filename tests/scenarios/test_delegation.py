"""An agent asks another one: a run of its own, whose answer is the result of the call."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from awaken import (
    AgentEvent,
    Blocked,
    Failed,
    Limits,
    NaturalEnd,
    Plugin,
    RunFinish,
    RunOrigin,
    RunStart,
    RunStatus,
    StateKey,
    Stopped,
    TextDelta,
    ToolCallDone,
    ToolContext,
    tool,
)
from awaken.errors import ModelError
from awaken.events import ActivitySnapshot
from awaken.plugins import Block, ToolGateContext
from awaken.runtime.loop import closing
from awaken.runtime.outbox import list_commands_at_end
from awaken.stores import RunRecord
from awaken.testing import ToolCalls
from awaken.tools import AgentTool, Delegation, ToolCallOutcome

from .delegating import (
    Door,
    StoreOf,
    agent,
    answers,
    asks,
    boss,
    child_of,
    children_of,
    heard,
    nothing_ordered,
    on_both_stores,
    runtime,
    within,
)
from .worlds import Gate

NOTES = StateKey("notes", default="nothing", scope="thread")


@tool
async def note(text: str, ctx: ToolContext) -> str:
    """Write a note over the one before, which is returned."""
    before = ctx.state.get(NOTES)
    ctx.state.set(NOTES, text)
    return before


@on_both_stores
def test_the_answer_of_a_delegate_is_the_result_of_the_call(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        worker = agent("worker", ToolCalls([("note", {"text": "x"})]), "the answer", tools=[note])
        async with runtime(
            [boss(asks("worker", "solve it"), heard), worker], store_of(tmp_path)
        ) as rt:
            result = await rt.run("boss", "hi", thread_id="t", tenant_id="acme")
            child = await child_of(rt, result.run_id)
            assert child.thread_id == child.run_id
            assert (child.parent_run_id, child.parent_thread_id) == (result.run_id, "@acme:t")
            assert (child.parent_tool_call_id, child.origin) == ("call_1", RunOrigin.SUBAGENT)
            assert (child.lineage, child.tenant_id, child.task) == (("boss",), "acme", None)
            assert (child.status, child.termination) == (RunStatus.DONE, NaturalEnd())
            said = [it.message.text for it in await rt.messages(child.thread_id)]
            assert (said[0], said[-1]) == ("solve it", "the answer")
            (answer,) = await answers(rt, "@acme:t")
            assert answer == (
                '{"agent_id":"worker","status":"completed","response":"the answer",'
                '"output":{},"steps":2}'
            )
            assert result.text == f"heard {answer}"
            await nothing_ordered(rt)

    asyncio.run(scenario())


@on_both_stores
def test_parent_and_child_do_not_see_each_others_state(store_of: StoreOf, tmp_path: Path) -> None:
    async def scenario() -> None:
        first = ToolCalls([("note", {"text": "boss"})])
        last = ToolCalls([("note", {"text": "end"})])
        asker = boss(first, asks("worker"), last, "ok", tools=[note])
        worker = agent("worker", ToolCalls([("note", {"text": "worker"})]), "ok", tools=[note])
        async with runtime([asker, worker], store_of(tmp_path)) as rt:
            result = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, result.run_id)
            assert await answers(rt, child.thread_id) == ["nothing"]
            before, _, after = await answers(rt, "t")
            assert (before, after) == ("nothing", "boss")

    asyncio.run(scenario())


@on_both_stores
def test_a_delegate_has_an_inbox_of_its_own_until_it_returns(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        door = Door()
        worker = agent("worker", ToolCalls([("door", {})]), heard, tools=[door.tool])
        async with runtime([boss(asks("worker"), heard), worker], store_of(tmp_path)) as rt:
            handle = await rt.start("boss", "hi", thread_id="t")
            await door.opened()
            child = await child_of(rt, handle.run_id)
            assert (await rt.steer(child.run_id, "for the worker")).is_accepted
            assert (await rt.steer(handle.run_id, "for the boss")).is_accepted
            door.let_go.set()
            assert (await within(handle.result())).text == "heard for the boss"
            assert (await rt.get_run(child.run_id)).final_output == "heard for the worker"
            assert not (await rt.steer(child.run_id, "too late")).is_accepted

    asyncio.run(scenario())


@on_both_stores
def test_the_plugins_of_a_delegate_are_activated_once(store_of: StoreOf, tmp_path: Path) -> None:
    class Counting(Plugin):
        name = "counting"

        def __init__(self) -> None:
            self.activated: list[str] = []

        def on_activate(self, agent: Any) -> None:
            self.activated.append(agent.id)

    async def scenario() -> None:
        plugin = Counting()
        worker = agent("worker", "ok", plugins=[plugin])
        async with runtime([boss(asks("worker"), "ok"), worker], store_of(tmp_path)) as rt:
            await rt.run("boss", "hi", thread_id="t")
            assert plugin.activated == ["worker"]

    asyncio.run(scenario())


@on_both_stores
@pytest.mark.parametrize("names", [["a", "a"], ["a", "b", "a"]], ids=["itself", "in a circle"])
def test_agents_do_not_ask_each_other_in_circles(
    store_of: StoreOf, names: list[str], tmp_path: Path
) -> None:
    async def scenario() -> None:
        agents = [
            agent(name, asks(asked), "ok", delegates=[asked])
            for name, asked in dict(pairwise(names)).items()
        ]
        async with runtime(agents, store_of(tmp_path)) as rt:
            result = await rt.run("a", "hi", thread_id="t")
            assert result.text == "ok"
            asker = result.run_id if len(names) == 2 else (await child_of(rt, result.run_id)).run_id
            (answer,) = await answers(rt, "t" if len(names) == 2 else asker)
            assert f"agent 'a' asks itself ({' > '.join(names[:-1])})" in answer
            assert await children_of(rt, asker) == []

    asyncio.run(scenario())


@on_both_stores
def test_only_so_many_agents_ask_each_other_in_a_row(store_of: StoreOf, tmp_path: Path) -> None:
    async def scenario() -> None:
        agents = [
            agent(f"a{n}", asks(f"a{n + 1}"), "ok", delegates=[f"a{n + 1}"]) for n in range(4)
        ]
        limits = Limits(delegate_depth=2)
        async with runtime([*agents, agent("a4", "ok")], store_of(tmp_path), limits=limits) as rt:
            result = await rt.run("a0", "hi", thread_id="t")
            lowest = result.run_id
            for _ in range(2):
                lowest = (await child_of(rt, lowest)).run_id
            (answer,) = await answers(rt, lowest)
            assert "3 agents ask each other in a row, the limit is 2" in answer
            assert await children_of(rt, lowest) == []

    asyncio.run(scenario())


@on_both_stores
def test_an_agent_that_is_not_there_is_an_error_of_the_call(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        asker = agent("boss", asks("ghost"), "ok", tools=[AgentTool("ghost", "")])
        async with runtime([asker], store_of(tmp_path)) as rt:
            result = await rt.run("boss", "hi", thread_id="t")
            assert result.text == "ok"
            (answer,) = await answers(rt, "t")
            assert "agent not found: failed to resolve agent 'ghost'" in answer

    asyncio.run(scenario())


async def refuse(_: ToolGateContext) -> Block:
    return Block(reason="not today")


BROKEN: dict[str, tuple[dict[str, Any], list[Any], type, str]] = {
    "failed": ({}, [ModelError("no model")], Failed, "failed: no model"),
    "stopped": (
        {"max_rounds": 1, "tools": [note]},
        [ToolCalls([("note", {"text": "x"})])],
        Stopped,
        "failed: stopped: max_rounds (1 rounds)",
    ),
    "blocked": (
        {"plugins": [Gate(refuse)], "tools": [note]},
        [ToolCalls([("note", {"text": "x"})])],
        Blocked,
        "failed: blocked",
    ),
}


@on_both_stores
@pytest.mark.parametrize("how", BROKEN)
def test_a_delegate_that_does_not_answer_does_not_end_its_parent(
    store_of: StoreOf, how: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        options, script, termination, shown = BROKEN[how]
        worker = agent("worker", *script, **options)
        async with runtime([boss(asks("worker"), "went on"), worker], store_of(tmp_path)) as rt:
            events = [it async for it in rt.stream("boss", "hi", thread_id="t")]
            finish = events[-1]
            assert isinstance(finish, RunFinish)
            assert finish.termination == NaturalEnd()
            child = await child_of(rt, finish.run_id)
            assert isinstance(child.termination, termination)
            done = next(it for it in events if isinstance(it, ToolCallDone))
            assert done.outcome is ToolCallOutcome.FAILED
            assert done.result.metadata["code"] == "delegate_failed"
            assert done.result.metadata["child_run_id"] == child.run_id
            assert done.result.data["status"].startswith(shown)
            assert (await rt.get_run(finish.run_id)).final_output == "went on"

    asyncio.run(scenario())


@on_both_stores
def test_two_delegates_of_one_step_work_side_by_side(store_of: StoreOf, tmp_path: Path) -> None:
    async def scenario() -> None:
        doors = {"left": Door("from the left"), "right": Door("from the right")}
        calls = [(f"agent_run_{name}", {"prompt": "go"}) for name in doors]
        asker = agent("boss", ToolCalls(calls), "ok", delegates=list(doors))
        workers = [agent(name, door.answer) for name, door in doors.items()]
        async with runtime([asker, *workers], store_of(tmp_path)) as rt:
            handle = await rt.start("boss", "hi", thread_id="t")
            for door in doors.values():
                await door.opened()
            for door in reversed(doors.values()):
                door.let_go.set()
            assert (await within(handle.result())).usage.total_tokens == 4 * 30
            left, right = await answers(rt, "t")
            assert ("from the left" in left, "from the right" in right) == (True, True)

    asyncio.run(scenario())


@on_both_stores
def test_a_delegate_that_is_asked_twice_in_one_step_answers_twice(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        asker = boss(asks("worker", "one", "two"), "ok")
        async with runtime([asker, agent("worker", heard, heard)], store_of(tmp_path)) as rt:
            result = await rt.run("boss", "hi", thread_id="t")
            one, two = await answers(rt, "t")
            assert ("heard one" in one, "heard two" in two) == (True, True)
            first, second = await children_of(rt, result.run_id)
            assert first.run_id != second.run_id
            calls = {first.parent_tool_call_id, second.parent_tool_call_id}
            assert calls == {"call_1", "call_2"}

    asyncio.run(scenario())


@on_both_stores
def test_a_tool_may_ask_the_same_agent_again(store_of: StoreOf, tmp_path: Path) -> None:
    @tool
    async def both(ctx: ToolContext) -> str:
        """Ask twice."""
        asked = [Delegation(agent_id="worker", prompt=it) for it in ("one", "two")]
        found = [await ctx.sub_runs.delegate(it) for it in asked]
        return " and ".join(it.text for it in found)

    async def scenario() -> None:
        asker = agent("boss", ToolCalls([("both", {})]), "ok", tools=[both])
        async with runtime([asker, agent("worker", heard, heard)], store_of(tmp_path)) as rt:
            result = await rt.run("boss", "hi", thread_id="t")
            assert await answers(rt, "t") == ["heard one and heard two"]
            assert len(await children_of(rt, result.run_id)) == 2

    asyncio.run(scenario())


@on_both_stores
def test_only_the_progress_of_the_delegates_own_calls_is_shown_in_its_parent(
    store_of: StoreOf, tmp_path: Path
) -> None:
    @tool
    async def digs(ctx: ToolContext) -> str:
        """Report how far it is, and other things."""
        ctx.progress("running", f"dug by {ctx.agent.id}", 0.5)
        ctx.report_activity("weather", {"sky": "blue", "run_id": ctx.run.run_id})
        ctx.emit_output("earth")
        return "dug"

    async def scenario() -> None:
        dig = ToolCalls([("digs", {})])
        lowest = agent("lowest", dig, "low", tools=[digs])
        worker = agent("worker", dig, asks("lowest"), "mid", tools=[digs], delegates=["lowest"])
        async with runtime([boss(asks("worker"), "top"), worker, lowest], store_of(tmp_path)) as rt:
            events = [it async for it in rt.stream("boss", "hi", thread_id="t")]
            start = events[0]
            assert isinstance(start, RunStart)
            child = await child_of(rt, start.run_id)
            own, others = _reports(events, start.run_id)
            assert own == ["running", "done"]
            assert [(it["run_id"], it["tool_name"]) for it in others] == [
                (child.run_id, "digs"),
                (child.run_id, "agent_run_lowest"),
                (child.run_id, "agent_run_lowest"),
            ]
            assert others[0]["message"] == "dug by worker"
            assert others[0]["parent_call_id"] == "call_1"
            assert "".join(it.delta for it in events if isinstance(it, TextDelta)) == "top"
            finishes = [it for it in events if isinstance(it, RunFinish)]
            assert [it.run_id for it in finishes] == [start.run_id]

    asyncio.run(scenario())


def test_only_runs_that_somebody_may_have_to_hear_of_look_for_what_their_end_makes_necessary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []

    def look(record: RunRecord, **options: Any) -> Any:
        looked.append(record.agent_id)
        return list_commands_at_end(record, **options)

    monkeypatch.setattr(closing, "list_commands_at_end", look)

    async def scenario() -> None:
        agents = [boss(asks("worker"), "top"), agent("worker", "low"), agent("alone", "done")]
        async with runtime(agents, None) as rt:
            await rt.run("alone", "hi", thread_id="t1")
            assert looked == []
            await rt.run("boss", "hi", thread_id="t2")
            assert looked == ["worker", "boss"]

    asyncio.run(scenario())


def _reports(events: list[AgentEvent], run_id: str) -> tuple[list[str], list[dict[str, Any]]]:
    """What the run's own call reported, and what was shown of others."""
    shown = [it.content for it in events if isinstance(it, ActivitySnapshot)]
    assert all("tool_name" in it for it in shown), "something else was passed on"
    own = [it["status"] for it in shown if it["run_id"] == run_id]
    return own, [it for it in shown if it["run_id"] != run_id]
