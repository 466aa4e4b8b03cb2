"""Control that comes between two moments: a run is about to wait, or just goes on elsewhere."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.contracts.lifecycle import Cancelled, RunStatus
from awaken.contracts.storage import Commit, CommitReceipt
from awaken.mailbox.config import MailboxConfig
from awaken.stores.memory import MemoryStore
from awaken.testing import LoopClock, ScriptedModel, ToolCalls

from .asking import Asking
from .worlds import simulated

PATIENT = MailboxConfig(lease_ms=3_600_000)
"""Leases are kept in real time, runs here take virtual time: none may run out."""


class HeldBack(MemoryStore):
    """A store that has taken it in that a run waits, and lets nobody know for a while."""

    def __init__(self) -> None:
        super().__init__(clock=LoopClock())
        self.is_taken_in = asyncio.Event()

    async def commit(self, commit: Commit) -> CommitReceipt:
        receipt = await super().commit(commit)
        if commit.run is not None and commit.run.status is RunStatus.WAITING:
            self.is_taken_in.set()
            await asyncio.sleep(5)
        return receipt


@pytest.mark.parametrize("how", ["cancel", "cancel_and_wait"])
@pytest.mark.parametrize("by_thread", [False, True])
def test_a_run_that_is_about_to_wait_can_be_cancelled(how: str, by_thread: bool) -> None:
    async def scenario() -> None:
        store = HeldBack()
        model = ScriptedModel([ToolCalls([("ask", {"question": "?"})])])
        agent = Agent("agent", model=model, tools=Asking().tools)
        async with AgentRuntime([agent], store=store, clock=LoopClock()) as runtime:
            handle = await runtime.start("agent", "go", thread_id="t")
            await store.is_taken_in.wait()
            cancel: Callable[[str], Any] = getattr(runtime, how)
            assert await cancel("t" if by_thread else handle.run_id)
            record = await runtime.get_run(handle.run_id)
            assert record.termination == Cancelled(cause="user")
            assert await runtime.tickets("t") == ()

    simulated(scenario)


def test_a_decision_reaches_a_run_that_goes_on_with_another_one_in_another_process() -> None:
    async def scenario() -> None:
        heard: list[Any] = []

        @tool(effect="once")
        async def ask(seconds: int, ctx: ToolContext) -> Any:
            if ctx.resume is None:
                return ctx.suspend("?")
            await asyncio.sleep(seconds)
            heard.append(ctx.resume.result)
            return "heard"

        calls = ToolCalls([("ask", {"seconds": 9}, "c1"), ("ask", {"seconds": 0}, "c2")])
        store = MemoryStore(clock=LoopClock(), is_shared=True)
        agent = Agent("agent", model=ScriptedModel([calls, "done"]), tools=[ask])

        def runtime(*, has_worker: bool) -> AgentRuntime:
            return AgentRuntime([agent], store=store, mailbox=PATIENT, has_worker=has_worker)

        async with runtime(has_worker=True) as there, runtime(has_worker=False) as here:
            await there.run("agent", "go", thread_id="t", run_id_hint="r")
            first, second = sorted(await there.tickets("t"), key=lambda it: it.call_id)
            await there.decide(first.ticket_id, result="one")
            await asyncio.sleep(1)
            await here.decide(second.ticket_id, result="two")
            while (await there.wait("r")).status is not RunStatus.DONE:
                await asyncio.sleep(0.1)
        assert heard == ["one", "two"]

    simulated(scenario)


def test_a_runtime_that_must_not_work_only_queues_what_is_submitted() -> None:
    async def scenario() -> None:
        store = MemoryStore(clock=LoopClock(), is_shared=True)
        agent = Agent("agent", model=ScriptedModel(["done"]))
        async with AgentRuntime(
            [agent], store=store, clock=LoopClock(), has_worker=False
        ) as runtime:
            receipt = await runtime.submit("agent", "go", thread_id="t")
            await asyncio.sleep(60)
            assert (await runtime.get_run(receipt.run_id)).status is RunStatus.CREATED

    simulated(scenario)
