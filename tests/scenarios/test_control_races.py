"""Control that comes between two moments: a run is about to wait, or just goes on elsewhere."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    Cancelled,
    MailboxConfig,
    NaturalEnd,
    RunHandle,
    RunRequest,
    RunStatus,
    ToolContext,
    tool,
    user,
)
from awaken.buses.memory import MemoryBus
from awaken.errors import LeaseLost
from awaken.events import Termination
from awaken.mailbox.mailbox import Mailbox
from awaken.runtime.children.background_tasks import TaskMailbox
from awaken.services.control import RunControl
from awaken.stores import Commit, CommitReceipt, MemoryStore
from awaken.testing import LoopClock, ScriptedModel, ToolCalls

from .asking import Asking
from .crashes import Process, after_the_lease, shared_store
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


# --- a process that has lost its thread and does not know it ---

GO = RunRequest(thread_id="t", agent_id="a", messages=(user("go"),), run_id_hint="r")


@tool(effect="none")
async def work() -> str:
    await asyncio.sleep(3600)
    return "worked"


@tool(id="work", effect="none")
async def quick_work() -> str:
    return "worked"


@tool(id="ask", effect="none")
async def ask_somebody(ctx: ToolContext) -> Any:
    return ctx.suspend("?") if ctx.resume is None else "told"


WORK = ToolCalls([("work", {}, "c1")])


async def starved_process(store: MemoryStore) -> tuple[Process, Any]:
    """A process whose run was taken back because it gave no sign of life; it goes on here."""
    process = Process(store, [WORK, "done"], tools=[work])
    handle = await process.engine.start(GO)
    await asyncio.sleep(1)
    (queued,) = await after_the_lease(store)
    assert queued.run_id == "r"
    return process, handle


def control_of(process: Process) -> RunControl:
    engine = process.engine
    clock, ids = engine.services.clock, engine.services.ids
    mailbox = Mailbox(engine.store, MemoryBus(), clock, ids, MailboxConfig())
    control = RunControl(engine, mailbox, lambda: None)
    engine.tasks._mailbox = cast("TaskMailbox", SimpleNamespace(cancel_run=control.cancel_run))
    return control


async def ending_of(store: MemoryStore) -> Termination | None:
    record = await store.load_run("r")
    assert record is not None
    return record.termination


Cancel = Callable[[RunControl, RunHandle], Awaitable[Any]]
WAYS: dict[str, tuple[Cancel, str]] = {
    "run": (lambda control, _: control.cancel_run("r"), "user"),
    "thread": (lambda control, _: control.cancel_thread("t"), "user"),
    "run id": (lambda control, _: control.cancel("r"), "user"),
    "thread id": (lambda control, _: control.cancel("t"), "user"),
    "and wait": (lambda control, _: control.cancel_and_wait("t", 5_000), "user"),
    "make way": (lambda control, _: control.clear_thread("t"), "interrupt"),
    "tree": (lambda control, _: control._engine.tasks.cancel_tree("r"), "owner"),
    "handle": (lambda _, handle: handle.cancel(), "user"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_cancel_holds_although_the_process_has_lost_the_thread_without_knowing(way: str) -> None:
    async def scenario() -> None:
        store = shared_store()
        starved, handle = await starved_process(store)
        control, (cancel, cause) = control_of(starved), WAYS[way]
        assert await cancel(control, handle)
        with pytest.raises(LeaseLost):
            await handle.result()
        assert await ending_of(store) == Cancelled(cause=cause)
        assert await store.claim("there", "token", 1_000) == (), "it would come back"
        assert (await control.wait("r", 1_000)).termination == Cancelled(cause=cause)
        assert await control.cancel_run("r") is False

    simulated(scenario)


@pytest.mark.parametrize("way", ["run", "handle"])
def test_a_cancel_reaches_whoever_has_recovered_the_run_meanwhile(way: str) -> None:
    async def scenario() -> None:
        store = shared_store()
        starved, handle = await starved_process(store)
        there = Process(store, [WORK, "done"], tools=[work])
        dispatch = await there.claim()
        goes_on = asyncio.create_task(there.engine.execute(dispatch))
        await asyncio.sleep(1)
        assert await WAYS[way][0](control_of(starved), handle)
        with pytest.raises(LeaseLost):
            await handle.result()
        (news,) = store.lease_keeper().extend([dispatch.claim_token or ""], 30_000)
        assert news.cancel_cause == "user"
        there.book.watched[news.claim_token].cancel(news.cancel_cause)
        assert (await goes_on).termination == Cancelled(cause="user")

    simulated(scenario)


@pytest.mark.parametrize("way", ["run", "handle"])
@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_lost_run_that_waits_elsewhere_is_cancelled_and_one_that_has_ended_is_not(
    is_waiting: bool, way: str
) -> None:
    async def scenario() -> None:
        store = shared_store()
        starved, handle = await starved_process(store)
        rest = [ToolCalls([("ask", {}, "c2")])] if is_waiting else []
        there = Process(store, [WORK, *rest, "done"], tools=[quick_work, ask_somebody])
        await there.execute_next()
        assert await WAYS[way][0](control_of(starved), handle) is is_waiting
        ended = Cancelled(cause="user") if is_waiting else NaturalEnd()
        assert await ending_of(store) == ended
        with pytest.raises(LeaseLost):
            await handle.result()

    simulated(scenario)


def test_a_run_that_takes_its_thread_while_it_is_cancelled_has_not_lost_it() -> None:
    async def scenario() -> None:
        store = shared_store()
        process = Process(store, [WORK, "done"], tools=[work])

        async def asked_too_early(*_: Any) -> bool:
            await asyncio.sleep(1)
            return False

        process.line.request_cancel = asked_too_early
        begun = asyncio.create_task(process.engine.start(GO))
        while process.engine.active.of_run("r") is None:
            await asyncio.sleep(0)
        assert await control_of(process).cancel_run("r")
        result = await (await begun).result()
        assert result.termination == Cancelled(cause="user")
        assert await ending_of(store) == Cancelled(cause="user")

    simulated(scenario)
