"""What a workflow is given, by its code and from outside: refused before it can do harm."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import (
    AgentRuntime,
    NaturalEnd,
    RunRequest,
    RunStatus,
    WorkflowContext,
    tool,
    user,
    workflow,
)
from awaken.errors import (
    EventIdReused,
    EventRefused,
    InvalidSpec,
    LimitExceeded,
    RunHasEnded,
    StepTimedOut,
)
from awaken.services.workflows import send_event
from awaken.testing import make_virtual_runtime, run_in_virtual_time, wait_for_end
from awaken.tools import StepRetry

from .each_store import NewStore, each_store, memory, sqlite
from .test_workflow_edges import fails_with, play, slow
from .test_workflows import World, awaited, ended, until

MISUSES: dict[str, Any] = {
    "deciders are a text": lambda ctx: ctx.approve("Pay?", deciders="boss"),
    "a decider is a number": lambda ctx: ctx.approve("Pay?", deciders=(1,)),
    "a decider is nobody": lambda ctx: ctx.approve("Pay?", deciders=(None,)),
    "deciders are a number": lambda ctx: ctx.approve("Pay?", deciders=1),
    "the question is a number": lambda ctx: ctx.approve(5),
    "the question is nothing": lambda ctx: ctx.approve(None),
    "the event is a number": lambda ctx: ctx.wait_for(5),
    "the time is a text": lambda ctx: ctx.sleep("5"),
    "the time is a truth": lambda ctx: ctx.sleep(True),
    "the time is no number": lambda ctx: ctx.sleep(float("nan")),
    "the time is endless": lambda ctx: ctx.sleep(float("inf")),
    "the timeout is a text": lambda ctx: ctx.wait_for("go", timeout="5"),
    "the timeout is no number": lambda ctx: ctx.wait_for("go", timeout=float("nan")),
    "the retry is a text": lambda ctx: ctx.call(slow, "a", retry="3"),
    "no attempt": lambda ctx: ctx.call(slow, "a", retry=StepRetry(attempts=0)),
    "the tool is a number": lambda ctx: ctx.call(5),
    "the agent is a number": lambda ctx: ctx.ask(5),
}


@pytest.mark.parametrize("wrong", MISUSES)
def test_what_a_journal_could_not_keep_is_refused_before_the_step(wrong: str) -> None:
    @workflow(tools=[slow])
    async def flow(ctx: WorkflowContext) -> None:
        await MISUSES[wrong](ctx)

    fails_with("workflow_misuse", flow)


def test_the_id_of_a_patch_is_a_text() -> None:
    @workflow
    async def flow(ctx: WorkflowContext) -> bool:
        return ctx.patched(5)  # type: ignore[arg-type]

    fails_with("workflow_misuse", flow)


def test_a_list_of_deciders_is_taken() -> None:
    @workflow
    async def flow(ctx: WorkflowContext) -> bool:
        return bool(await ctx.approve("Pay?", deciders=["ann"], timeout=1))  # type: ignore[arg-type]

    assert play(flow).output is False


@pytest.mark.parametrize(
    ("returned", "value"),
    [(int, "nope"), (str, 5), (str, None), (list[int], [1, "a"]), (int, None), (dict, [])],
)
def test_a_result_that_is_not_of_the_declared_type_fails_the_run(returned: Any, value: Any) -> None:
    async def flow(ctx: WorkflowContext) -> Any:
        return value

    flow.__annotations__["return"] = returned
    assert "flow" in fails_with("workflow_result_invalid", workflow(flow))


@pytest.mark.parametrize(
    ("returned", "value"),
    [(int, 5), (str, "a"), (str | None, None), (int | str, "a"), (None, None), (list[int], [1])],
)
def test_a_result_of_the_declared_type_is_the_output(returned: Any, value: Any) -> None:
    async def flow(ctx: WorkflowContext) -> Any:
        return value

    flow.__annotations__["return"] = returned
    assert (play(workflow(flow)).output or None) == value


def test_a_task_group_says_what_to_use_instead() -> None:
    @workflow(tools=[slow])
    async def flow(ctx: WorkflowContext) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.call(slow, "a"))

    assert "ctx.gather" in fails_with("workflow_foreign_task", flow)


def test_a_workflow_without_parameters_is_asked_without_a_prompt() -> None:
    @workflow
    async def child(ctx: WorkflowContext) -> int:
        return 5

    @workflow
    async def flow(ctx: WorkflowContext) -> int:
        return int(await ctx.ask(child, output=int))

    async def story() -> Any:
        async with make_virtual_runtime([flow, child]) as runtime:
            started = await runtime.run("flow", {})
            return (await wait_for_end(runtime, started.run_id)).output

    assert run_in_virtual_time(story) == 5


def test_a_step_that_takes_too_long_names_its_own_time() -> None:
    @workflow(tools=[slow])
    async def flow(ctx: WorkflowContext) -> str:
        try:
            await ctx.call(slow, "a", 60, timeout=1)
        except StepTimedOut as error:
            return str(error)
        return "in time"

    assert "no result within 1000 ms" in play(flow).text


def test_timers_of_a_branch_fire_while_another_one_executes() -> None:
    @workflow(tools=[slow])
    async def flow(ctx: WorkflowContext) -> list[Any]:
        began = await ctx.now()

        async def measure(work: Any) -> int:
            with contextlib.suppress(StepTimedOut):
                await work
            return round((await ctx.now() - began) / 1000)

        race = await ctx.race(ctx.call(slow, "long", 100.0), ctx.sleep(5))
        others = await ctx.gather(
            ctx.call(slow, "long", 100.0),
            measure(ctx.sleep(10)),
            measure(ctx.wait_for("never", timeout=15)),
            measure(ctx.approve("Pay?", timeout=20)),
        )
        return [race[0], *others[1:]]

    first, *times = play(flow).output
    assert first == 1
    # The race took five seconds; the sweeper wakes within one of a timer.
    assert [round(it / 5) for it in times] == [3, 4, 5]


def test_an_event_that_came_early_and_does_not_fit_is_passed_over() -> None:
    @workflow(tools=[slow])
    async def flow(ctx: WorkflowContext) -> list[Any]:
        await ctx.wait_for("begin")
        await ctx.call(slow, "between", 30.0)
        one = await ctx.wait_for("go", int)
        two = await ctx.wait_for("go", str)
        return [one, two]

    async def story(runtime: AgentRuntime, started: Any) -> None:
        await runtime.send_event(started.run_id, "begin")
        await asyncio.sleep(5)
        for payload in (True, "text", 7):
            await runtime.send_event(started.run_id, "go", payload)

    assert play(flow, story=story).output == [7, "text"]


@awaited
async def test_a_decision_that_the_journal_could_not_keep_is_refused(tmp_path: Path) -> None:
    @workflow
    async def flow(ctx: WorkflowContext) -> bool:
        return bool(await ctx.approve("Pay?"))

    async with World(sqlite, tmp_path).process(flow) as runtime:
        run = await runtime.run("flow", {})
        (asked,) = run.tickets
        with pytest.raises(LimitExceeded):
            await runtime.decide(asked.ticket_id, "resume", result="x" * 1_000_000)
        await runtime.decide(asked.ticket_id, "resume", result="x" * 900_000)
        assert isinstance((await ended(runtime, run.run_id)).termination, NaturalEnd)


@each_store
@awaited
async def test_the_code_sees_the_user_that_it_was_started_for(
    new_store: NewStore, tmp_path: Path
) -> None:
    @tool(effect="none")
    async def note(text: str) -> str:
        """Note a text."""
        return text

    @workflow(tools=[note])
    async def flow(ctx: WorkflowContext) -> list[str]:
        noted = await ctx.call(note, f"for {ctx.run.user_id}")
        return [noted, await ctx.wait_for("message"), f"of {ctx.run.user_id}"]

    async with World(new_store, tmp_path).process(flow) as runtime:
        begun = RunRequest(agent_id="flow", messages=(user("{}"),), user_id="ann")
        run = await (await runtime.start(begun)).result()
        said = RunRequest(thread_id=run.thread_id, messages=(user("hi"),), user_id="bob")
        await runtime.start(said)
        assert (await ended(runtime, run.run_id)).output == ["for ann", "hi", "of ann"]


@awaited
async def test_a_workflow_sees_nothing_of_the_requests_that_let_it_go_on(tmp_path: Path) -> None:
    seen: list[Any] = []

    @workflow
    async def flow(ctx: WorkflowContext) -> None:
        seen.append(ctx.run)
        await ctx.wait_for("message")
        await ctx.wait_for("go")

    async with World(memory, tmp_path).process(flow) as runtime:
        first = {"user_id": "ann", "session_id": "one", "transport_request_id": "a"}
        run = await (
            await runtime.start(RunRequest(agent_id="flow", messages=(user("{}"),), **first))
        ).result()
        second = {"user_id": "bob", "session_id": "two", "transport_request_id": "b"}
        said = RunRequest(thread_id=run.thread_id, messages=(user("hi"),), **second)
        await runtime.start(said)
        await until(runtime, lambda: _is_waiting_for_go(runtime, run.run_id))
        await runtime.send_event(run.run_id, "go", None)
        await ended(runtime, run.run_id)
    assert len(seen) == 3
    assert [*map(msgspec.to_builtins, seen)] == [msgspec.to_builtins(seen[0])] * 3
    assert (seen[0].run_id, seen[0].user_id) == (run.run_id, "ann")


async def _is_waiting_for_go(runtime: AgentRuntime, run_id: str) -> bool:
    run = await runtime.get_run(run_id)
    found = await runtime.store.list_run_tickets(run.thread_id, run_id)
    return any((it.tool_name, it.status) == ("go", "open") for it in found)


@each_store
@awaited
async def test_an_event_follows_a_run_that_continued_as_new(
    new_store: NewStore, tmp_path: Path
) -> None:
    @workflow
    async def flow(ctx: WorkflowContext, n: int = 0) -> int:
        if n < 2:
            ctx.continue_as_new({"n": n + 1})
        return int(await ctx.wait_for("go", int))

    async with World(new_store, tmp_path).process(flow) as runtime:
        first = await runtime.run("flow", {})

        async def find_newest() -> Any:
            runs = await runtime.list_runs(thread_id=first.thread_id)
            return next((it.run_id for it in runs if it.status is RunStatus.WAITING), None)

        newest = await until(runtime, find_newest)
        assert newest != first.run_id
        sent = await runtime.send_event(first.run_id, "go", 7, event_id="e")
        assert (sent.event_id, sent.is_duplicate) == ("e", False)
        assert (await ended(runtime, newest)).output == 7
        again = await runtime.send_event(first.run_id, "go", 7, event_id="e")
        assert again.is_duplicate
        with pytest.raises(EventIdReused, match=f"event_id 'e' .* run '{first.run_id}'"):
            await runtime.send_event(first.run_id, "go", 8, event_id="e")
        with pytest.raises(RunHasEnded, match="continued as run"):
            await runtime.send_event(first.run_id, "go", 9)

        # Another run of the same workflow on the thread is not what the first one became.
        other = await runtime.run("flow", {"n": 2}, thread_id=first.thread_id)
        with pytest.raises(RunHasEnded, match="continued as run"):
            await runtime.send_event(first.run_id, "go", 10)
        await runtime.send_event(other.run_id, "go", 11)
        assert (await ended(runtime, other.run_id)).output == 11


@awaited
async def test_what_another_user_says_is_no_event_of_the_runs_user(tmp_path: Path) -> None:
    @workflow
    async def flow(ctx: WorkflowContext) -> str:
        return str(await ctx.wait_for("message"))

    async with World(sqlite, tmp_path).process(flow) as runtime:
        begun = RunRequest(agent_id="flow", messages=(user("{}"),), user_id="ann")
        run = await (await runtime.start(begun)).result()
        control, record = runtime._control, await runtime.store.load_run(run.run_id)
        assert record is not None
        event = ("message", "What do you know of me?", None)
        with pytest.raises(EventRefused, match="another user"):
            await send_event(control.engine, control, record, event, "bob")
        await send_event(control.engine, control, record, event, "ann")
        assert (await ended(runtime, run.run_id)).output == event[1]


def test_the_first_parameter_of_a_workflow_is_its_context() -> None:
    async def forgotten(order: str) -> str:
        return order

    with pytest.raises(InvalidSpec, match="its first parameter is the context"):
        workflow(forgotten)

    async def plain(ctx) -> None:  # type: ignore[no-untyped-def]
        return None

    assert workflow(plain).id == "plain"


@tool(effect="none")
async def describe() -> dict[str, object]:
    """Describe something."""
    return {"size": 3, "tags": ["a"]}


def test_a_step_returns_an_object_of_any_values() -> None:
    @workflow(tools=[describe])
    async def flow(ctx: WorkflowContext) -> dict[str, Any]:
        return await ctx.call(describe)

    async def story() -> None:
        async with AgentRuntime([flow]) as runtime:
            assert (await runtime.run("flow", {})).output == {"size": 3, "tags": ["a"]}

    asyncio.run(story())
