"""Waiting for a run from elsewhere, also for one that executes in its caller's task."""

import asyncio
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, Cancelled, NaturalEnd, RunResult
from awaken.buses.memory import MemoryBus
from awaken.errors import StoreUnavailable
from awaken.stores import Commit, CommitReceipt, MemoryStore, Signal, SignalKind
from awaken.testing import ScriptedModel, ToolCalls

from .worlds import simulated


class Door:
    """A model that answers when it is let go."""

    def __init__(self) -> None:
        self.entered, self.let_go = asyncio.Event(), asyncio.Event()

    async def answer(self, _request: Any) -> str:
        self.entered.set()
        await self.let_go.wait()
        return "done"


class FailingStore(MemoryStore):
    """A store that goes away once a run has begun."""

    is_gone = False

    async def commit(self, commit: Commit) -> CommitReceipt:
        if self.is_gone:
            raise StoreUnavailable(store=self.name, problem="gone")
        return await super().commit(commit)


def test_others_can_wait_for_a_run_that_its_caller_awaits() -> None:
    async def scenario() -> list[RunResult]:
        door = Door()
        agent = Agent("a", model=ScriptedModel([door.answer]))
        async with AgentRuntime(agents=[agent]) as runtime, asyncio.TaskGroup() as group:
            caller = group.create_task(runtime.run("a", "hi", run_id_hint="r"))
            await door.entered.wait()
            waiters = [group.create_task(runtime.wait("r")) for _ in range(3)]
            await asyncio.sleep(0)
            waiters.pop().cancel()
            door.let_go.set()
        return [caller.result(), *(waiter.result() for waiter in waiters)]

    results = simulated(scenario)
    assert results == [results[0]] * 3
    assert results[0].termination == NaturalEnd()


def test_those_who_wait_learn_that_the_run_was_cancelled_with_its_caller() -> None:
    async def scenario() -> RunResult:
        door = Door()
        agent = Agent("a", model=ScriptedModel([door.answer]))
        async with AgentRuntime(agents=[agent]) as runtime:
            caller = asyncio.create_task(runtime.run("a", "hi", run_id_hint="r"))
            await door.entered.wait()
            waiter = asyncio.create_task(runtime.wait("r"))
            await asyncio.sleep(0)
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
            assert caller.cancelled()
            return await waiter

    assert simulated(scenario).termination == Cancelled(cause="caller")


def test_those_who_wait_learn_that_the_store_went_away() -> None:
    async def scenario() -> None:
        door, store = Door(), FailingStore()
        agent = Agent("a", model=ScriptedModel([door.answer]))
        async with AgentRuntime(agents=[agent], store=store) as runtime:
            caller = asyncio.create_task(runtime.run("a", "hi", run_id_hint="r"))
            await door.entered.wait()
            waiter = asyncio.create_task(runtime.wait("r"))
            await asyncio.sleep(0)
            store.is_gone = True
            door.let_go.set()
            for task in (caller, waiter):
                with pytest.raises(StoreUnavailable):
                    await task

    simulated(scenario)


def test_a_run_inside_a_tool_of_another_run_is_cancelled_with_it() -> None:
    async def scenario() -> list[Any]:
        door = Door()
        runtime: AgentRuntime

        async def ask_inner() -> str:
            """Ask the inner agent."""
            return (await runtime.run("inner", "hi", run_id_hint="inner-run")).text

        asking = ScriptedModel([ToolCalls([("ask_inner", {})])])
        outer = Agent("outer", model=asking, tools=[ask_inner])
        inner = Agent("inner", model=ScriptedModel([door.answer]))
        async with AgentRuntime(agents=[outer, inner]) as runtime:
            handle = await runtime.start("outer", "go")
            await door.entered.wait()
            assert await handle.cancel()
            outcome = await handle.result()
            return [outcome.termination, (await runtime.get_run("inner-run")).termination]

    assert simulated(scenario) == [Cancelled(), Cancelled(cause="caller")]


def test_whoever_stops_waiting_at_the_moment_of_a_signal_has_stopped() -> None:
    """A cancellation counts, however close to a signal it comes: so does a time limit."""

    async def scenario() -> None:
        store, bus = MemoryStore(is_shared=True), MemoryBus()
        agents = [Agent("a", model=ScriptedModel(["never asked"]))]
        async with AgentRuntime(agents, store=store, bus=bus, has_worker=False) as runtime:
            sent = await runtime.submit("a", "hi", thread_id="t")
            for turns in range(8):
                waiting = asyncio.create_task(runtime.wait(sent.run_id))
                await asyncio.sleep(0.001)
                signal = Signal(kind=SignalKind.RUN_CHANGED, thread_id="t")
                bus.tell(signal)
                for _ in range(turns):
                    await asyncio.sleep(0)
                waiting.cancel()
                done, _ = await asyncio.wait({waiting}, timeout=5)
                assert done, f"it still waits, {turns} turns after the signal"
                assert waiting.cancelled()

    simulated(scenario)
