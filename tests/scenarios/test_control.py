"""Who runs, under which id, one at a time per thread, and how runs are found, awaited and freed."""

import asyncio
import gc
from collections import Counter
from contextlib import aclosing
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    AwakenError,
    Cancelled,
    InvalidInput,
    Limits,
    NaturalEnd,
    OnBusy,
    RunRequest,
    RunStatus,
    ThreadBusy,
    ToolContext,
    UnknownAgent,
    UnknownRun,
    tool,
    user,
)
from awaken.errors import InvalidResume, LeaseLost, StoreUnavailable
from awaken.plugins import ACTIVE_AGENT
from awaken.runtime.admission.active_runs import ActiveRun
from awaken.runtime.journal.journal import Journal
from awaken.runtime.journal.streams import EventReader
from awaken.runtime.run import Run
from awaken.stores import Checkout, Commit, MemoryStore, RunRecord
from awaken.testing import Chunks, ScriptedModel, ToolCalls

from .asking import Asking, retold
from .worlds import WatchedStore, World, simulated

ASK = ToolCalls([("ask", {"question": "?"})])
SLOW = Chunks(["slow", "ly"], delay_ms=60_000)


def go(**fields: Any) -> RunRequest:
    return RunRequest(
        **{"thread_id": "t", "agent_id": "agent", "messages": (user("go"),), **fields}
    )


def agents() -> list[Agent]:
    @tool
    async def hand_over(to: str | None, ctx: ToolContext) -> str:
        ctx.state.set(ACTIVE_AGENT, to)
        return "done"

    def answers(_: Any) -> Any:
        return "hello"

    def handing(to: str | None) -> list[Any]:
        return [ToolCalls([("hand_over", {"to": to})]), *[answers] * 9]

    scripts = {"default": [answers] * 9, "plain": [answers] * 9, "leaving": handing("plain")}
    return [Agent(name, model=ScriptedModel(it), tools=[hand_over]) for name, it in scripts.items()]


@pytest.mark.parametrize(
    ("history", "asked", "chosen"),
    [
        ([], None, "default"),
        ([], "plain", "plain"),
        (["plain"], None, "plain"),
        (["default", "plain"], None, "plain"),
        (["plain"], "default", "default"),
        (["leaving"], None, "plain"),
        (["leaving"], "leaving", "leaving"),
        (["leaving", "default"], None, "default"),
        (["leaving"], "  ", InvalidInput),
        ([], "nobody", UnknownAgent),
    ],
)
def test_the_agent_is_the_one_asked_for_else_the_active_one_else_the_latest_else_the_default(
    history: list[str], asked: str | None, chosen: Any
) -> None:
    async def scenario() -> None:
        runtime = AgentRuntime(agents())
        for agent_id in history:
            await runtime.run(agent_id, "before", thread_id="t")
        if isinstance(chosen, str):
            result = await runtime.run(asked, "now", thread_id="t")
            record = await runtime.get_run(result.run_id)
            assert (result.agent_id, record.agent_id) == (chosen, chosen)
        else:
            with pytest.raises(chosen):
                await runtime.run(asked, "now", thread_id="t")
            assert await runtime.messages("t") == () or history

    simulated(scenario)


WAITING, DONE, CREATED = "waiting-run", "done-run", "created-run"


@pytest.mark.parametrize(
    ("thread", "request_", "chosen"),
    [
        ("new", go(), None),
        ("new", go(run_id_hint=" mine "), "mine"),
        ("new", go(dispatch_id_hint="mine"), "mine"),
        ("new", go(run_id_hint="mine", dispatch_id_hint="other"), "mine"),
        ("new", go(dispatch_id="trace"), None),
        ("new", go(continue_run_id="nobody"), InvalidResume),
        ("new", go(continue_run_id=DONE), InvalidResume),
        ("done", go(), None),
        ("done", go(run_id_hint=DONE), InvalidResume),
        ("done", go(dispatch_id_hint=DONE), InvalidResume),
        ("done", go(continue_run_id=DONE), InvalidResume),
        ("created", go(run_id_hint=CREATED), CREATED),
        ("created", go(dispatch_id_hint=CREATED), InvalidResume),
        ("waiting", go(), WAITING),
        ("waiting", go(dispatch_id="trace"), WAITING),
        ("waiting", go(continue_run_id=WAITING), WAITING),
        ("waiting", go(continue_run_id=WAITING, run_id_hint="mine"), WAITING),
        ("waiting", go(run_id_hint="mine", on_busy=OnBusy.REJECT), ThreadBusy),
        ("waiting", go(dispatch_id_hint="mine"), ThreadBusy),
        ("waiting", go(run_id_hint=" "), InvalidInput),
        ("waiting", go(thread_id="x" * 300), InvalidInput),
        ("waiting", go(continue_run_id="a\x00b"), InvalidInput),
    ],
)
def test_the_run_is_the_one_continued_else_the_one_hinted_else_the_waiting_one_else_a_new_one(
    thread: str, request_: RunRequest, chosen: Any
) -> None:
    async def scenario() -> None:
        script = [ASK if thread == "waiting" else "hi", "bye"]
        world = World(script, tools=Asking().tools)
        if thread == "created":
            record = RunRecord(run_id=CREATED, thread_id="t", agent_id="agent")
            await world.store.commit(
                Commit(commit_id="c", thread_id="t", expected_version=0, committed_at=0, run=record)
            )
        elif thread != "new":
            await world.tell(run_id_hint=WAITING if thread == "waiting" else DONE)
        known = {run.run_id for run in await world.runtime.list_runs("t")}
        commits = len(world.store.commits)
        if isinstance(chosen, type):
            with pytest.raises(chosen):
                await world.runtime.start(request_)
            assert len(world.store.commits) == commits
        else:
            result = await (await world.runtime.start(request_)).result()
            assert result.termination == NaturalEnd()
            assert (result.run_id == chosen) if chosen else (result.run_id not in known)
            assert result.run_id != "trace"

    simulated(scenario)


class ClosedStore(WatchedStore):
    """A store that is slow to check out, and fails where it is told to."""

    def __init__(self, failing: str = "") -> None:
        super().__init__()
        self.failing = failing

    async def checkout(self, thread_id: str) -> Checkout | None:
        await asyncio.sleep(10)
        if self.failing == "checkout":
            raise StoreUnavailable(store="x", problem="down")
        return await super().checkout(thread_id)

    async def commit(self, commit: Commit) -> Any:
        if self.failing == "commit":
            raise StoreUnavailable(store="x", problem="down")
        return await super().commit(commit)


@pytest.mark.parametrize(
    ("failing", "request_", "error"),
    [
        ("", go(agent_id="nobody"), UnknownAgent),
        ("", go(continue_run_id="nobody"), InvalidResume),
        ("", go(messages=(user("x" * 5_000),)), AwakenError),
        ("checkout", go(), StoreUnavailable),
        ("commit", go(), StoreUnavailable),
        ("", go(), TimeoutError),
    ],
)
@pytest.mark.parametrize("how", ["run", "start"])
def test_the_slot_is_free_again_however_a_request_fails(
    failing: str, request_: RunRequest, error: type[BaseException], how: str
) -> None:
    async def scenario() -> None:
        store = ClosedStore(failing)
        world = World(["hello"], store=store, limits=Limits(message_bytes=1_000))
        with pytest.raises(error):
            async with asyncio.timeout(5 if error is TimeoutError else 50):
                await getattr(world.runtime._engine, how)(request_)
        assert world.store.commits == []
        store.failing = ""
        assert (await world.runtime.run("agent", "again", thread_id="t")).text == "hello"

    simulated(scenario)


def test_a_thread_has_one_run_at_a_time_from_the_moment_it_is_asked_for() -> None:
    async def scenario() -> None:
        world = World([SLOW, SLOW, "next"], store=ClosedStore())
        first = asyncio.create_task(world.runtime.run("agent", "one", thread_id="t"))
        # At once, while the first is being admitted, and while it runs.
        for seconds in (0, 5, 20):
            await asyncio.sleep(seconds)
            with pytest.raises(ThreadBusy) as busy:
                await world.runtime.run("agent", "two", thread_id="t", on_busy="reject")
        (record,) = await world.runtime.list_runs("t")
        assert busy.value.run_id == record.run_id
        second = asyncio.create_task(world.runtime.run("agent", "one", thread_id="u"))
        await asyncio.sleep(20)
        with pytest.raises((ThreadBusy, InvalidResume)):
            await world.runtime.run("agent", "x", thread_id="v", run_id_hint=record.run_id)
        assert [(await run).text for run in (first, second)] == ["slowly", "slowly"]
        assert (await world.runtime.run("agent", "three", thread_id="t")).text == "next"

    simulated(scenario)


def test_a_run_id_is_active_at_most_once() -> None:
    async def scenario() -> None:
        world = World([SLOW, "never"])
        runs = [
            world.runtime.run("agent", "go", thread_id=thread, run_id_hint="same")
            for thread in ("t", "u")
        ]
        outcomes = await asyncio.gather(*runs, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes[1:]] == [ThreadBusy]
        assert [run.thread_id for run in await world.runtime.list_runs()] == ["t"]

    simulated(scenario)


@pytest.mark.parametrize("waiting", [False, True], ids=["running", "waiting"])
def test_runs_are_cancelled_by_run_or_thread_and_an_ambiguous_id_hits_nobody(waiting: bool) -> None:
    async def scenario() -> None:
        entry = ASK if waiting else SLOW
        world = World([entry] * 4, tools=Asking().tools)
        names = {"a": "b", "b": "c", "c": "run-c", "d": "run-d"}
        for thread, run_id in names.items():
            await world.runtime.start("agent", "go", thread_id=thread, run_id_hint=run_id)
        await asyncio.sleep(1)
        for name in ("b", "c", "nobody"):
            assert not await world.runtime.cancel(name)
            assert not await world.runtime.cancel_and_wait(name)
        assert await world.runtime.list_runs(status=RunStatus.DONE) == ()
        assert await world.runtime.cancel("a")
        assert await world.runtime.cancel("run-c")
        assert await world.runtime.cancel_and_wait("d")
        for run_id in ("b", "run-c", "run-d"):
            ended = await world.runtime.wait(run_id)
            assert ended.termination == Cancelled(cause="user")
        assert not await world.runtime.cancel("run-d")
        assert await world.runtime.cancel("b"), "not ambiguous any more"
        await asyncio.sleep(1)
        assert len(await world.runtime.list_runs(status=RunStatus.DONE)) == 4

    simulated(scenario)


def test_cancelling_is_idempotent_and_waiting_for_it_is_bounded() -> None:
    async def scenario() -> None:
        @tool
        async def tidy() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(3)

        world = World([ToolCalls([("tidy", {})])], tools=[tidy])
        handle = await world.runtime.start("agent", "go", thread_id="t")
        await asyncio.sleep(1)
        assert not await world.runtime.cancel_and_wait("t", timeout_ms=1_000)
        assert [await world.runtime.cancel("t"), await handle.cancel()] == [True, True]
        assert await world.runtime.cancel_and_wait("t", timeout_ms=5_000)
        assert asyncio.get_running_loop().time() == 4
        assert (await handle.result()).termination == Cancelled(cause="user")
        assert [await world.runtime.cancel("t"), await handle.cancel()] == [False, False]

    simulated(scenario)


def test_a_run_that_is_still_being_admitted_can_be_cancelled() -> None:
    async def scenario() -> None:
        world = World(["never"], store=ClosedStore())
        run = asyncio.create_task(world.runtime.run("agent", "go", thread_id="t"))
        await asyncio.sleep(5)
        assert await world.runtime.cancel("t")
        assert (await run).termination == Cancelled(cause="user")
        assert world.model.requests == []
        await retold(world)

    simulated(scenario)


def test_whoever_waits_for_a_run_gets_its_outcome_and_may_stop_waiting() -> None:
    async def scenario() -> None:
        world = World([SLOW, ASK, "bye"], tools=Asking().tools)
        handle = await world.runtime.start("agent", "go", thread_id="t")
        impatient = asyncio.create_task(world.runtime.wait(handle.run_id))
        waiters = [asyncio.create_task(world.runtime.wait(handle.run_id)) for _ in range(3)]
        await asyncio.sleep(1)
        impatient.cancel()
        results = [await waiter for waiter in waiters]
        assert results == [await handle.result()] * 3
        assert results[0].text == "slowly"
        recorded = await World(model=world.model, store=world.store).runtime.wait(handle.run_id)
        assert (recorded.text, recorded.termination) == ("slowly", NaturalEnd())
        with pytest.raises(UnknownRun):
            await world.runtime.wait("nobody")
        waiting = await world.runtime.run("agent", "ask", thread_id="t")
        assert await world.runtime.wait(waiting.run_id) == waiting

    simulated(scenario)


def test_leaving_the_runtime_waits_for_every_run_also_those_not_yet_admitted() -> None:
    async def scenario() -> None:
        async with World([SLOW, SLOW], store=ClosedStore()) as world:
            await world.runtime.start("agent", "go", thread_id="t")
            late = asyncio.create_task(world.runtime.run("agent", "go", thread_id="u"))
            await asyncio.sleep(5)
        assert (await late).termination == Cancelled(cause="shutdown")
        ended = await world.runtime.list_runs(status=RunStatus.DONE)
        assert [run.termination for run in ended] == [Cancelled(cause="shutdown")] * 2

    simulated(scenario)


async def hang(_: Any) -> str:
    await asyncio.Event().wait()
    return "never"


async def cycle(world: World, number: int) -> None:
    """Start something on a fresh thread and stop it, in one of five ways."""
    runtime, thread = world.runtime, f"t{number}"
    match number % 5:
        case 0:
            await runtime.start("agent", "go", thread_id=thread)
            assert await runtime.cancel_and_wait(thread)
        case 1:
            async with aclosing(runtime.stream("agent", "go", thread_id=thread)) as events:
                await anext(events)
        case 2:
            handle = await runtime.start("agent", "go", thread_id=thread)
            async with aclosing(handle.events()) as events:
                await anext(events)
            assert await handle.cancel()
            await handle.result()
        case 3:
            task = asyncio.create_task(runtime.run("agent", "go", thread_id=thread))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
        case 4:
            (ticket,) = (await runtime.run("agent", "ask", thread_id=thread)).tickets
            assert await runtime.cancel(ticket.run_id)


def living() -> Counter[str]:
    gc.collect()
    kinds = (asyncio.Task, asyncio.Future, Run, ActiveRun, EventReader, Journal, asyncio.Lock)
    return Counter(type(it).__name__ for it in gc.get_objects() if isinstance(it, kinds))


def test_two_thousand_started_and_stopped_runs_leave_nothing_behind() -> None:
    async def scenario() -> None:
        def answer(request: Any) -> Any:
            return ASK if request.messages[-1].text == "ask" else hang(request)

        model = ScriptedModel([answer], cycle=True)
        world = World(model=model, store=MemoryStore(), tools=Asking().tools)
        baselines = []
        for numbers in (range(50), range(50, 2_050)):
            for number in numbers:
                await cycle(world, number)
                model.requests.clear()
            await asyncio.sleep(0)
            baselines.append(living())
        assert baselines[0] == baselines[1]
        assert len(asyncio.all_tasks()) == 1
        assert model.open_streams == 0
        assert list(world.runtime._engine.active) == []
        done = [run.status for run in await world.runtime.list_runs()]
        assert set(done) == {RunStatus.DONE}

    asyncio.run(scenario())


def test_a_waiting_run_that_another_process_took_while_it_was_cancelled_is_cancelled_anyway() -> (
    None
):
    class Taken(MemoryStore):
        """One commit finds that another process has the thread."""

        is_taken = False

        async def commit(self, commit: Commit) -> Any:
            if self.is_taken:
                self.is_taken = False
                raise LeaseLost(thread_id=commit.thread_id)
            return await super().commit(commit)

    @tool
    async def ask(ctx: ToolContext) -> Any:
        """Ask a person."""
        return ctx.suspend("May I?")

    async def main() -> None:
        store = Taken("shared", is_shared=True)
        script = ScriptedModel([ToolCalls([("ask", {})]), "never"])
        agent = Agent("agent", model=script, tools=[ask])
        async with AgentRuntime([agent], store=store) as runtime:
            result = await runtime.run("agent", "go", thread_id="t")
            assert result.tickets
            store.is_taken = True
            assert await runtime.cancel(result.run_id)
            record = await store.load_run(result.run_id)
            assert record is not None
            assert record.termination == Cancelled(cause="user")

    asyncio.run(asyncio.wait_for(main(), 20))
