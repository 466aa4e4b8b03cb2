"""Who cancels a run cancels what it asked of others; who cancels only that is told to the run."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    AwakenError,
    Cancelled,
    NaturalEnd,
    RunStatus,
    ToolCallStart,
    ToolContext,
    tool,
)
from awaken.stores import RunRecord
from awaken.testing import ToolCalls
from awaken.tools import Delegation

from .delegating import (
    Door,
    StoreOf,
    agent,
    answers,
    asking,
    asks,
    boss,
    child_of,
    ended,
    file,
    heard,
    nothing_ordered,
    on_both_stores,
    runtime,
    ticket_on,
    within,
)

BY_PARENT = Cancelled(cause="parent")


def three(door: Door) -> list[Agent]:
    """An agent that asks one that asks one that stands before a door."""
    return [
        agent("top", asks("middle"), "ok", delegates=["middle"]),
        agent("middle", asks("worker"), "ok", delegates=["worker"]),
        agent("worker", ToolCalls([("door", {})]), "ok", tools=[door.tool]),
    ]


async def lineage_of(rt: AgentRuntime, thread_id: str = "t") -> list[RunRecord]:
    """The latest run of a thread, its child, and its grandchild."""
    found = [(await rt.list_runs(thread_id))[-1]]
    for _ in range(2):
        found.append(await child_of(rt, found[-1].run_id))
    return found


Cancel = Callable[[AgentRuntime, str], Awaitable[Any]]


async def by_run(rt: AgentRuntime, run_id: str) -> None:
    assert await rt.cancel(run_id)


async def by_thread(rt: AgentRuntime, _run_id: str) -> None:
    assert await rt.cancel("t")


async def and_wait(rt: AgentRuntime, run_id: str) -> None:
    assert await rt.cancel_and_wait(run_id)


@on_both_stores
@pytest.mark.parametrize("cancel", [by_run, by_thread, and_wait])
def test_whoever_cancels_a_run_cancels_everything_below_it(
    store_of: StoreOf, cancel: Cancel, tmp_path: Path
) -> None:
    async def scenario() -> None:
        door = Door()
        async with runtime(three(door), store_of(tmp_path)) as rt:
            handle = await rt.start("top", "hi", thread_id="t")
            await door.opened()
            _, child, grandchild = await lineage_of(rt)
            await cancel(rt, handle.run_id)
            assert (await within(handle.result())).termination == Cancelled(cause="user")
            assert (await ended(rt, child.run_id)).termination == BY_PARENT
            assert (await ended(rt, grandchild.run_id)).termination == BY_PARENT
            assert door.is_cancelled
            for thread_id in ("t", child.thread_id, grandchild.thread_id):
                assert await answers(rt, thread_id) == ["[The run was cancelled]"]
            await nothing_ordered(rt)

    asyncio.run(scenario())


@on_both_stores
def test_a_caller_that_goes_away_takes_everything_along(store_of: StoreOf, tmp_path: Path) -> None:
    async def scenario() -> None:
        door = Door()
        async with runtime(three(door), store_of(tmp_path)) as rt:
            caller = asyncio.create_task(rt.run("top", "hi", thread_id="t"))
            await door.opened()
            caller.cancel()
            with suppress(asyncio.CancelledError):
                await caller
            top, child, grandchild = await lineage_of(rt)
            assert top.termination == Cancelled(cause="caller")
            assert (await ended(rt, child.run_id)).termination == BY_PARENT
            assert (await ended(rt, grandchild.run_id)).termination == BY_PARENT

    asyncio.run(scenario())


@on_both_stores
def test_a_reader_that_goes_away_takes_everything_along(store_of: StoreOf, tmp_path: Path) -> None:
    async def scenario() -> None:
        door = Door()
        async with runtime(three(door), store_of(tmp_path)) as rt:
            events = rt.stream("top", "hi", thread_id="t")
            async for event in events:
                if isinstance(event, ToolCallStart):
                    break
            reading = asyncio.create_task(anext(events))
            await door.opened()
            reading.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await reading
            await events.aclose()
            _, child, grandchild = await lineage_of(rt)
            assert (await ended(rt, child.run_id)).termination == BY_PARENT
            assert (await ended(rt, grandchild.run_id)).termination == BY_PARENT

    asyncio.run(scenario())


@on_both_stores
def test_a_call_that_takes_too_long_cancels_its_delegate_and_nothing_else(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario(seconds: float, folder: Path) -> bool:
        @tool(timeout=seconds)
        async def asks_shortly(ctx: ToolContext) -> str:
            """Ask, but not for long."""
            answer = await ctx.sub_runs.delegate(Delegation(agent_id="middle", prompt="go"))
            return answer.text

        door = Door()
        top = agent("top", ToolCalls([("asks_shortly", {})]), heard, tools=[asks_shortly])
        async with runtime([top, *three(door)[1:]], store_of(folder)) as rt:
            result = await within(rt.run("top", "hi", thread_id="t"))
            assert f"no result within {seconds * 1000:.0f} ms" in result.text
            assert result.termination == NaturalEnd()
            if not door.visits:
                return False
            _, child, grandchild = await lineage_of(rt)
            assert (await ended(rt, child.run_id)).termination == BY_PARENT
            assert (await ended(rt, grandchild.run_id)).termination == BY_PARENT
            await nothing_ordered(rt)
        return True

    # A machine that is too slow to get to the grandchild in a moment is given more of them.
    folders = {seconds: tmp_path / str(seconds) for seconds in (0.2, 2.0, 15.0)}
    for folder in folders.values():
        folder.mkdir()
    assert any(asyncio.run(scenario(*it)) for it in folders.items())


@on_both_stores
def test_a_delegate_that_is_cancelled_alone_is_an_error_of_the_call(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        door = Door()
        async with runtime(three(door), store_of(tmp_path)) as rt:
            handle = await rt.start("top", "hi", thread_id="t")
            await door.opened()
            _, child, grandchild = await lineage_of(rt)
            assert await rt.cancel(child.run_id)
            result = await within(handle.result())
            assert (result.text, result.termination) == ("ok", NaturalEnd())
            (answer,) = await answers(rt, "t")
            assert "Agent 'middle' did not answer (cancelled)" in answer
            assert (await ended(rt, child.run_id)).termination == Cancelled(cause="user")
            assert (await ended(rt, grandchild.run_id)).termination == BY_PARENT

    asyncio.run(scenario())


@on_both_stores
def test_a_run_that_is_cancelled_while_its_delegate_waits_cancels_it(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        agents = [
            agent("top", asks("middle"), "ok", delegates=["middle"]),
            agent("middle", asks("worker"), "ok", delegates=["worker"]),
            asking(),
        ]
        async with runtime(agents, store_of(tmp_path)) as rt:
            waiting = await rt.run("top", "hi", thread_id="t")
            assert waiting.is_waiting
            _, child, grandchild = await lineage_of(rt)
            assert await rt.cancel("t")
            assert (await ended(rt, waiting.run_id)).termination == Cancelled(cause="user")
            assert (await ended(rt, child.run_id)).termination == BY_PARENT
            assert (await ended(rt, grandchild.run_id)).termination == BY_PARENT
            assert await rt.tickets() == ()
            await nothing_ordered(rt)

    asyncio.run(scenario())


@on_both_stores
def test_a_waiting_delegate_that_is_cancelled_alone_lets_its_parent_go_on(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with runtime([boss(asks("worker"), heard), asking()], store_of(tmp_path)) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, waiting.run_id)
            assert await rt.cancel(child.run_id)
            done = await ended(rt, waiting.run_id)
            assert done.final_output is not None
            assert "Agent 'worker' did not answer (cancelled)" in done.final_output
            await nothing_ordered(rt)

    asyncio.run(scenario())


@on_both_stores
def test_a_new_message_in_place_of_a_decision_cancels_the_delegate(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with runtime([boss(asks("worker"), heard), asking()], store_of(tmp_path)) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, waiting.run_id)
            result = await within(rt.run("boss", "never mind", thread_id="t"))
            assert (result.run_id, result.text) == (waiting.run_id, "heard never mind")
            assert (await ended(rt, child.run_id)).termination == BY_PARENT
            assert await rt.tickets() == ()
            await nothing_ordered(rt)

    asyncio.run(scenario())


@on_both_stores
def test_whoever_declines_the_call_cancels_the_delegate_that_waits(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with runtime([boss(asks("worker"), heard), asking()], store_of(tmp_path)) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, waiting.run_id)
            await rt.decide((await ticket_on(rt, "t")).ticket_id, "cancel", reason="not now")
            assert (await ended(rt, waiting.run_id)).final_output == "heard not now"
            assert (await ended(rt, child.run_id)).termination == BY_PARENT
            assert (await rt.get_run(waiting.run_id)).usage.total_tokens == 2 * 30
            assert await rt.tickets() == ()
            await nothing_ordered(rt)

    asyncio.run(scenario())


def test_whoever_ends_a_run_by_force_ends_what_waits_below_it(tmp_path: Path) -> None:
    """A process that has none of the agents cancels: nothing of them is executed."""

    async def scenario() -> None:
        async with runtime([boss(asks("worker"), "ok"), asking()], file(tmp_path)) as rt:
            waiting = await rt.run("boss", "hi", thread_id="t")
            child = await child_of(rt, waiting.run_id)
            async with runtime([], file(tmp_path), has_worker=False) as other:
                assert await other.cancel(waiting.run_id)
                assert (await ended(other, waiting.run_id)).termination == Cancelled(cause="user")
                assert (await ended(other, child.run_id)).termination == BY_PARENT

    asyncio.run(scenario())


def test_another_process_cancels_what_executes_here(tmp_path: Path) -> None:
    async def scenario() -> None:
        door = Door()
        async with runtime(three(door), file(tmp_path)) as rt:
            handle = await rt.start("top", "hi", thread_id="t")
            await door.opened()
            _, child, grandchild = await lineage_of(rt)
            async with runtime([], file(tmp_path), has_worker=False) as other:
                assert await other.cancel(handle.run_id)
                assert (await ended(other, handle.run_id)).termination == Cancelled(cause="user")
                assert (await ended(other, child.run_id)).termination == BY_PARENT
                assert (await ended(other, grandchild.run_id)).termination == BY_PARENT

    asyncio.run(scenario())


def test_a_process_that_closes_gives_parent_and_child_to_another_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        door = Door()
        async with runtime(three(door), file(tmp_path), has_worker=False) as first:
            handle = await first.start("top", "hi", thread_id="t")
            await door.opened()
            _, child, grandchild = await lineage_of(first)
        with suppress(AwakenError):
            await handle.result()
        again = Door()
        again.let_go.set()
        scripts = {"top": ["ok"], "middle": ["ok"], "worker": ["the answer"]}
        agents = [
            agent("top", *scripts["top"], delegates=["middle"]),
            agent("middle", *scripts["middle"], delegates=["worker"]),
            agent("worker", *scripts["worker"], tools=[again.tool]),
        ]
        async with runtime(agents, file(tmp_path)) as second:
            done = await ended(second, handle.run_id)
            assert (done.termination, done.final_output) == (NaturalEnd(), "ok")
            assert [it.run_id for it in (await lineage_of(second))[1:]] == [
                child.run_id,
                grandchild.run_id,
            ]
            for run_id in (child.run_id, grandchild.run_id):
                record = await second.get_run(run_id)
                assert (record.status, record.termination) == (RunStatus.DONE, NaturalEnd())
            assert len(await answers(second, "t")) == 1
            assert len(await answers(second, child.thread_id)) == 1
            assert done.usage.total_tokens == 6 * 30
            await nothing_ordered(second)

    asyncio.run(scenario())
