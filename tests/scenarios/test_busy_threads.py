"""A thread that is busy: the caller chooses, and Python and every wire get the same."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    Cancelled,
    MailboxConfig,
    NaturalEnd,
    OnBusy,
    RunFinish,
    RunRequest,
    ThreadBusy,
    ToolContext,
    tool,
    user,
)
from awaken.events import Termination
from awaken.testing import ScriptedModel, ToolCalls

QUICK = MailboxConfig(poll_ms=5)
Scenario = Callable[[AgentRuntime, "Gate"], Awaitable[None]]


class Gate:
    """A tool that holds a run until it is opened."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()

    def tool(self) -> Any:
        @tool(effect="none")
        async def hold() -> str:
            """Hold."""
            self.entered.set()
            await self.opened.wait()
            return "held"

        return hold


def played(scenario: Scenario, tools: Any = (), script: Any = (), **options: Any) -> None:
    async def play() -> None:
        gate = Gate()
        # The first run holds; all others answer at once.
        model = ScriptedModel([ToolCalls([("hold", {})]), *script, *["Done."] * 20])
        agent = Agent("a", model=model, tools=[gate.tool(), *tools])
        runtime = AgentRuntime([agent], mailbox=QUICK, **options)
        async with asyncio.timeout(20), runtime:
            await scenario(runtime, gate)

    asyncio.run(play())


async def by_run(runtime: AgentRuntime, on_busy: str) -> Termination | None:
    return (await runtime.run("a", "two", thread_id="t", on_busy=on_busy)).termination


async def by_start(runtime: AgentRuntime, on_busy: str) -> Termination | None:
    handle = await runtime.start("a", "two", thread_id="t", on_busy=on_busy)
    return (await handle.result()).termination


async def by_request(runtime: AgentRuntime, on_busy: str) -> Termination | None:
    request = RunRequest(
        agent_id="a", thread_id="t", messages=(user("two"),), on_busy=OnBusy(on_busy)
    )
    handle = await runtime.start(request)
    ends = [it.termination async for it in handle.events() if isinstance(it, RunFinish)]
    return ends[-1]


async def by_stream(runtime: AgentRuntime, on_busy: str) -> Termination | None:
    events = runtime.stream("a", "two", thread_id="t", on_busy=on_busy)
    return [it.termination async for it in events if isinstance(it, RunFinish)][-1]


async def by_view(runtime: AgentRuntime, on_busy: str) -> Termination | None:
    view = runtime.view("someone")
    request = RunRequest(
        agent_id="a", thread_id="t", messages=(user("two"),), on_busy=OnBusy(on_busy)
    )
    return (await view.wait((await view.start(request)).run_id)).termination


WAYS = [by_run, by_start, by_request, by_stream, by_view]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("on_busy", list(OnBusy))
def test_the_caller_chooses_and_every_way_in_does_the_same(way: Any, on_busy: OnBusy) -> None:
    async def scenario(runtime: AgentRuntime, gate: Gate) -> None:
        first = await runtime.start("a", "one", thread_id="t")
        await gate.entered.wait()
        if on_busy is OnBusy.REJECT:
            with pytest.raises(ThreadBusy) as busy:
                await way(runtime, "reject")
            assert busy.value.run_id == first.run_id
            gate.opened.set()
            assert (await first.result()).termination == NaturalEnd()
            assert len(await runtime.list_runs("t")) == 1
            return
        second = asyncio.ensure_future(way(runtime, str(on_busy)))
        if on_busy is OnBusy.QUEUE:
            while not await runtime.store.count_queued():
                await asyncio.sleep(0)
            gate.opened.set()
        assert await second == NaturalEnd()
        ended = (await first.result()).termination
        wanted = {OnBusy.QUEUE: NaturalEnd(), OnBusy.INTERRUPT: Cancelled(cause="interrupt")}
        assert ended == wanted[on_busy]
        said = [it.message.text for it in await runtime.messages("t") if it.message.role == "user"]
        assert said == ["one", "two"]

    played(scenario)


def test_an_interrupt_drops_what_is_queued() -> None:
    async def scenario(runtime: AgentRuntime, gate: Gate) -> None:
        first = await runtime.start("a", "one", thread_id="t")
        await gate.entered.wait()
        others = [asyncio.ensure_future(runtime.run("a", str(n), thread_id="t")) for n in range(3)]
        while await runtime.store.count_queued() < 3:
            await asyncio.sleep(0)
        assert await by_run(runtime, "interrupt") == NaturalEnd()
        dropped = [it.termination for it in await asyncio.gather(*others)]
        assert dropped == [Cancelled(cause="superseded")] * 3
        assert (await first.result()).termination == Cancelled(cause="interrupt")
        said = [it.message.text for it in await runtime.messages("t") if it.message.role == "user"]
        assert said == ["one", "two"]

    played(scenario)


def test_queueing_is_what_happens_unless_the_caller_chooses() -> None:
    async def scenario(runtime: AgentRuntime, gate: Gate) -> None:
        first = await runtime.start("a", "one", thread_id="t")
        await gate.entered.wait()
        others = [asyncio.ensure_future(runtime.run("a", str(n), thread_id="t")) for n in range(3)]
        while await runtime.store.count_queued() < 3:
            await asyncio.sleep(0)
        gate.opened.set()
        results = [await first.result(), *await asyncio.gather(*others)]
        assert [it.termination for it in results] == [NaturalEnd()] * 4
        assert len({it.run_id for it in results}) == 4

    played(scenario)


def test_where_nothing_executes_what_is_queued_a_busy_thread_is_refused() -> None:
    async def scenario(runtime: AgentRuntime, gate: Gate) -> None:
        first = await runtime.start("a", "one", thread_id="t")
        await gate.entered.wait()
        with pytest.raises(ThreadBusy):
            await runtime.run("a", "two", thread_id="t")
        assert await by_run(runtime, "interrupt") == NaturalEnd()
        assert (await first.result()).termination == Cancelled(cause="interrupt")

    played(scenario, has_worker=False)


@pytest.mark.parametrize("way", [by_run, by_stream])
def test_a_queued_run_ends_with_its_caller(way: Any) -> None:
    async def scenario(runtime: AgentRuntime, gate: Gate) -> None:
        first = await runtime.start("a", "one", thread_id="t")
        await gate.entered.wait()
        second = asyncio.ensure_future(way(runtime, "queue"))
        while not await runtime.store.count_queued():
            await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        gate.opened.set()
        assert (await first.result()).termination == NaturalEnd()
        assert await runtime.store.count_queued() == 0
        assert len(await runtime.list_runs("t")) == 1

    played(scenario)


# --- a run that waits for itself ---


class Asking:
    """A tool that runs the agent again, on a thread of its choice, in one of several ways."""

    def __init__(self, way: Any) -> None:
        self.runtime: AgentRuntime | None = None
        self.busy: list[ThreadBusy] = []
        self._way = way

    def tool(self) -> Any:
        @tool(effect="none")
        async def ask_again(thread_id: str, ctx: ToolContext) -> str:
            """Ask again."""
            assert self.runtime is not None
            try:
                return str(await self._way(self.runtime, thread_id))
            except ThreadBusy as error:
                self.busy.append(error)
                return "busy"

        return ask_again


async def run_on(runtime: AgentRuntime, thread_id: str) -> str:
    return (await runtime.run("a", "again", thread_id=thread_id)).text


async def start_on(runtime: AgentRuntime, thread_id: str) -> str:
    return (await runtime.start("a", "again", thread_id=thread_id)).run_id


async def stream_on(runtime: AgentRuntime, thread_id: str) -> str:
    return str([it async for it in runtime.stream("a", "again", thread_id=thread_id)])


def again(thread_id: str) -> ToolCalls:
    return ToolCalls([("ask_again", {"thread_id": thread_id})])


def nested(script: list[Any], way: Any, threads: list[str], busy: list[str]) -> None:
    """Play runs that call each other, and see which threads were refused."""

    async def play() -> None:
        asking = Asking(way)
        model = ScriptedModel([*script, *["Done."] * 20])
        runtime = AgentRuntime([Agent("a", model=model, tools=[asking.tool()])], mailbox=QUICK)
        asking.runtime = runtime
        async with asyncio.timeout(10), runtime:
            runs = (runtime.run("a", "go", thread_id=it) for it in threads)
            results = await asyncio.gather(*runs)
            assert [it.termination for it in results] == [NaturalEnd()] * len(threads)
        assert [it.thread_id for it in asking.busy] == busy

    asyncio.run(play())


@pytest.mark.parametrize("way", [run_on, start_on, stream_on])
def test_a_run_that_starts_one_on_its_own_thread_is_refused(way: Any) -> None:
    nested([again("t")], way, ["t"], ["t"])


@pytest.mark.parametrize("way", [run_on, stream_on])
def test_a_run_within_a_run_does_not_wait_for_the_outer_one(way: Any) -> None:
    nested([again("u"), again("v"), again("t")], way, ["t"], ["t"])


@pytest.mark.parametrize("way", [run_on, stream_on])
def test_two_runs_do_not_wait_for_each_other(way: Any) -> None:
    # Each asks for the other's thread: the second that asks would wait for ever.
    async def play() -> None:
        asking = Asking(way)
        both = asyncio.Barrier(2)

        @tool(effect="none")
        async def meet() -> str:
            """Meet."""
            await both.wait()
            return "met"

        def script(other: str) -> list[Any]:
            return [ToolCalls([("meet", {})]), again(other), *["Done."] * 9]

        agents = [
            Agent(name, model=ScriptedModel(script(other)), tools=[asking.tool(), meet])
            for name, other in (("a", "u"), ("b", "t"))
        ]
        runtime = AgentRuntime(agents, mailbox=QUICK)
        asking.runtime = runtime
        async with asyncio.timeout(10), runtime:
            results = await asyncio.gather(
                runtime.run("a", "go", thread_id="t"), runtime.run("b", "go", thread_id="u")
            )
            assert [it.termination for it in results] == [NaturalEnd()] * 2
        assert len(asking.busy) == 1

    asyncio.run(play())


def test_what_a_run_has_started_and_left_may_use_its_thread_later() -> None:
    async def play() -> None:
        asking, gate = Asking(run_on), Gate()
        slow = Agent(
            "slow",
            model=ScriptedModel([ToolCalls([("hold", {})]), again("t"), *["Done."] * 9]),
            tools=[asking.tool(), gate.tool()],
        )

        @tool(effect="none")
        async def leave() -> str:
            """Leave."""
            return (await runtime.start("slow", "go", thread_id="u")).run_id

        model = ScriptedModel([ToolCalls([("leave", {})]), *["Done."] * 9])
        runtime = AgentRuntime([slow, Agent("a", model=model, tools=[leave])], mailbox=QUICK)
        asking.runtime = runtime
        async with asyncio.timeout(10), runtime:
            await runtime.run("a", "go", thread_id="t")
            await gate.entered.wait()
            gate.opened.set()
            (left,) = await runtime.list_runs("u")
            assert (await runtime.wait(left.run_id)).termination == NaturalEnd()
        assert asking.busy == []

    asyncio.run(play())
