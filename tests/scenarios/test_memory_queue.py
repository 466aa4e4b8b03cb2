"""Queued input where everything is in memory: no run there holds a claim, and no signal is late."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from awaken import (
    Agent,
    AgentRuntime,
    Cancelled,
    InputMode,
    MailboxConfig,
    NaturalEnd,
    OnBusy,
    RunFinish,
    RunRequest,
    ToolContext,
    UnknownThread,
    tool,
    user,
)
from awaken.contracts.events import unwrap_event
from awaken.server import TenantView
from awaken.stores import Commit, CommitReceipt, DeleteStrategy, DispatchStatus, MemoryStore
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import ResumeMode, ToolCallResume

QUICK = MailboxConfig(poll_ms=10)
SOON_S = 5
"""Much less than the silence after which a follower looks by itself."""


class Gate:
    """A tool that waits until it is opened, and one that asks."""

    def __init__(self) -> None:
        self.entered, self.opened = asyncio.Event(), asyncio.Event()

    def tools(self) -> list[Any]:
        @tool(effect="none")
        async def wait() -> str:
            """Wait."""
            self.entered.set()
            await self.opened.wait()
            return "waited"

        @tool(effect="none")
        async def ask(ctx: ToolContext) -> Any:
            """Ask."""
            return ctx.suspend("sure?", mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT)

        return [wait, ask]


def asked(text: str = "go", **fields: Any) -> RunRequest:
    return RunRequest(agent_id="a", thread_id="t", messages=(user(text),), **fields)


def played(
    scenario: Callable[[AgentRuntime, TenantView, Gate], Awaitable[None]],
    script: list[Any],
    store: MemoryStore | None = None,
) -> None:
    async def play() -> None:
        gate = Gate()
        agent = Agent("a", model=ScriptedModel(script, cycle=True), tools=gate.tools())
        runtime = AgentRuntime([agent], store=store, mailbox=QUICK)
        async with asyncio.timeout(20), runtime:
            await scenario(runtime, runtime._services.view(None), gate)

    asyncio.run(play())


async def texts(runtime: AgentRuntime) -> list[str]:
    return [record.message.text for record in await runtime.messages("t")]


# --- input that an executing run takes in ---


def test_steering_through_the_queue_counts_once() -> None:
    async def scenario(runtime: AgentRuntime, view: TenantView, gate: Gate) -> None:
        started = await view.start(asked())
        await gate.entered.wait()
        receipt = await view.send(asked("faster"), InputMode.STEER)
        gate.opened.set()
        assert (await view.wait(receipt.run_id, 5_000)).run_id == started.run_id
        # Whatever is left of it in the queue would be delivered before this.
        await view.wait((await view.send(asked("next"), InputMode.QUEUE)).run_id, 5_000)
        taken = await runtime.store.find_dispatch(receipt.dispatch_id)
        assert taken is not None
        assert (taken.status, taken.taken_by) == (DispatchStatus.ACKED, started.run_id)
        assert (await texts(runtime)).count("faster") == 1

    played(scenario, [ToolCalls([("wait", {})]), "Done."])


def test_a_decision_through_the_queue_counts_once() -> None:
    async def scenario(runtime: AgentRuntime, view: TenantView, gate: Gate) -> None:
        started = await view.start(asked())
        await gate.entered.wait()
        while not (tickets := await view.tickets("t")):
            await asyncio.sleep(0)
        given = ToolCallResume(decision_id="yes", result="yes")
        decided = RunRequest(thread_id="t", decisions=((tickets[0].ticket_id, given),))
        receipt = await view.send(decided, InputMode.RESUME)
        gate.opened.set()
        assert (await view.wait(started.run_id, 5_000)).termination == NaturalEnd()
        taken = await runtime.store.find_dispatch(receipt.dispatch_id)
        assert taken is not None
        assert taken.status is DispatchStatus.ACKED
        assert await runtime.store.count_queued() == 0

    played(scenario, [ToolCalls([("ask", {}), ("wait", {})]), "Done."])


# --- starting on a busy thread ---


@pytest.mark.parametrize("on_busy", [OnBusy.QUEUE, OnBusy.INTERRUPT])
def test_everybody_who_starts_on_a_busy_thread_at_once_is_served(on_busy: OnBusy) -> None:
    async def scenario(runtime: AgentRuntime, view: TenantView, gate: Gate) -> None:
        first = await view.start(asked())
        await gate.entered.wait()
        gate.opened.set()
        starts = (view.start(asked(str(n), on_busy=on_busy)) for n in range(4))
        started = await asyncio.gather(*starts)
        assert len({it.run_id for it in (first, *started)}) == 5
        ended = [(await view.wait(it.run_id, 5_000)).termination for it in (first, *started)]
        if on_busy is OnBusy.QUEUE:
            assert ended == [NaturalEnd()] * 5
            return
        assert ended[0] == Cancelled(cause="interrupt")
        assert ended.count(NaturalEnd()) == 1, "the last one that came"

    played(scenario, [ToolCalls([("wait", {})]), "Done."])


class Rival(MemoryStore):
    """A store to which another process writes first, once."""

    def __init__(self) -> None:
        super().__init__(is_shared=True)
        self.is_faster = True

    async def commit(self, commit: Commit) -> CommitReceipt:
        if self.is_faster:
            self.is_faster = False
            await super().commit(
                Commit(
                    commit_id="rival",
                    thread_id=commit.thread_id,
                    expected_version=0,
                    committed_at=1,
                    messages=(msgspec.structs.replace(user("first"), id="m"),),
                )
            )
        return await super().commit(commit)


def test_a_start_that_another_process_was_faster_than_is_queued() -> None:
    async def scenario(_: AgentRuntime, view: TenantView, gate: Gate) -> None:
        started = await view.start(asked())
        assert (await view.wait(started.run_id, 5_000)).termination == NaturalEnd()

    played(scenario, ["Done."], Rival())


# --- followers ---


@pytest.mark.parametrize("how", ["run", "thread", "interrupt"])
def test_whoever_follows_queued_input_learns_at_once_that_it_is_cancelled(how: str) -> None:
    async def scenario(runtime: AgentRuntime, view: TenantView, gate: Gate) -> None:
        receipt = await view.send(asked(), InputMode.QUEUE, {"delay_ms": 60_000})
        batches = (await view.follow_run(receipt.run_id)).batches()
        reading = asyncio.ensure_future(anext(batches))
        await is_listening(runtime)
        match how:
            case "run":
                assert await view.cancel_run(receipt.run_id)
            case "thread":
                assert await view.cancel_thread("t")
            case _:
                assert await view.interrupt_thread("t") == 1
        async with asyncio.timeout(SOON_S):
            assert [type(unwrap_event(it)) for it in await reading] == [RunFinish]
        await batches.aclose()

    played(scenario, ["never"])


def test_whoever_follows_a_thread_learns_at_once_that_it_is_deleted() -> None:
    async def scenario(runtime: AgentRuntime, view: TenantView, gate: Gate) -> None:
        await view.wait((await view.start(asked())).run_id, 5_000)
        batches = (await view.follow_thread("t")).batches()
        reading = asyncio.ensure_future(anext(batches))
        await is_listening(runtime)
        await view.delete_thread("t", DeleteStrategy.REJECT)
        async with asyncio.timeout(SOON_S):
            with pytest.raises(UnknownThread):
                await reading

    played(scenario, ["Done."])


async def is_listening(runtime: AgentRuntime) -> None:
    """Let the follower come to where it waits for a change."""
    while not runtime._engine.active.watchers.get("t"):
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
