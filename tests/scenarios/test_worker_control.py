"""Workers that are told to cancel, to interrupt, to steer and to stop."""

import asyncio
from typing import Any

import pytest

from awaken import Agent, Cancelled, InputMode, NaturalEnd, RunRequest, ToolContext, tool, user
from awaken.buses.memory import MemoryBus
from awaken.stores import DispatchStatus, RunDispatch
from awaken.testing import (
    ScriptedModel,
    ToolCalls,
    simulate,
)

from .asking import Asking
from .nodes import Node, TruthStore, run_of, settled
from .workers import Door, Talking, asking_agent, assert_one_writer_at_a_time, open_ticket, texts
from .worlds import assert_valid_at_every_commit, simulated

# --- cancelling and interrupting ---


def test_what_was_cancelled_while_queued_never_starts() -> None:
    async def scenario() -> None:
        truth, model = TruthStore(), Talking()
        node = Node(truth, [model.agent()])
        cancelled = await node.submit("never")
        assert await node.mailbox.cancel(cancelled.run_id)
        async with node:
            served = await node.submit("served")
            await settled(truth, served.dispatch_id)
        assert model.asked == ["served"]

    simulated(scenario)


@pytest.mark.parametrize("is_heard", [True, False])
def test_a_run_that_executes_elsewhere_is_cancelled_durably(is_heard: bool) -> None:
    async def scenario() -> None:
        truth, bus, door = TruthStore(), MemoryBus(), Door()
        if is_heard:
            await bus.open()
        async with Node(truth, [door.agent()], name="a", bus=bus) as node:
            elsewhere = Node(truth, [door.agent()], name="b", bus=bus)
            receipt = await node.submit()
            await door.entered.wait()
            begun = asyncio.get_running_loop().time()
            assert await elsewhere.mailbox.cancel("t", "user")
            await settled(truth, receipt.dispatch_id)
            waited = (asyncio.get_running_loop().time() - begun) * 1000
            run = await run_of(truth, receipt.run_id)
            assert run.termination == Cancelled(cause="user")
            assert waited <= (50 if is_heard else node.config.renew_ms + 50)
            assert await elsewhere.mailbox.cancel("t") is False

    simulated(scenario)


def test_a_cancelled_run_does_not_come_back_when_its_worker_died() -> None:
    async def scenario() -> None:
        truth, door = TruthStore(), Door()
        dying = Node(truth, [door.agent()], name="a", lease_ms=2000, renew_ms=500)
        receipt = await dying.submit()
        async with dying:
            await door.entered.wait()
            dying.wire.is_cut = True
            assert await Node(truth, [], name="x").mailbox.cancel("t")
            async with Node(
                truth, [door.agent()], name="b", lease_ms=2000, renew_ms=500, sweep_ms=500
            ):
                ended = await settled(truth, receipt.dispatch_id)
            run = await run_of(truth, receipt.run_id)
            dying.wire.is_cut = False
        assert ended.status is DispatchStatus.ACKED
        assert run.termination == Cancelled(cause="user")
        assert door.visits == 1

    simulated(scenario)


def test_an_interrupt_supersedes_cancels_and_then_runs() -> None:
    async def scenario() -> None:
        truth, bus, door = TruthStore(), MemoryBus(), Door()
        await bus.open()
        async with Node(truth, [door.agent()], bus=bus) as node:
            running = await node.submit("running")
            await door.entered.wait()
            queued = await node.submit("queued")
            door.let_go.clear()
            now = await node.submit("now", mode=InputMode.INTERRUPT)
            ended = await settled(truth, running.dispatch_id)
            assert ended.status is DispatchStatus.ACKED
            run = await run_of(truth, running.run_id)
            assert run.termination == Cancelled(cause="interrupt")
            dropped = await settled(truth, queued.dispatch_id)
            assert dropped.status is DispatchStatus.SUPERSEDED
            door.let_go.set()
            assert (await settled(truth, now.dispatch_id)).status is DispatchStatus.ACKED
        told = [text for role, text in await texts(truth) if role == "user"]
        assert told == ["running", "now"]

    simulated(scenario)


def test_an_interrupt_ends_a_run_that_waits_whoever_gets_there_first() -> None:
    async def scenario() -> None:
        truth, bus = TruthStore(), MemoryBus()
        await bus.open()
        asking = Asking()

        async def answer(request: Any) -> Any:
            is_first = request.messages[-1].text == "hi"
            return ToolCalls([("ask", {"question": "?"})]) if is_first else "instead"

        agent = Agent("agent", model=ScriptedModel([answer] * 9), tools=asking.tools)
        async with Node(truth, [agent], bus=bus) as node:
            waiting = await node.submit()
            await open_ticket(truth)
            now = await node.submit("now", mode=InputMode.INTERRUPT)
            await settled(truth, now.dispatch_id)
        assert (await run_of(truth, waiting.run_id)).termination == Cancelled(cause="interrupt")
        assert (await run_of(truth, now.run_id)).termination == NaturalEnd()
        assert await truth.list_tickets() == ()
        assert [text for _, text in await texts(truth)][-2:] == ["now", "instead"]

    simulate(scenario, seeds=range(30))


@pytest.mark.parametrize("is_waiting", [True, False])
def test_an_interrupt_holds_although_whoever_sent_it_is_gone(is_waiting: bool) -> None:
    async def scenario() -> None:
        truth, door = TruthStore(), Door()
        asking, agent = asking_agent()
        config = {"lease_ms": 1000, "renew_ms": 300, "sweep_ms": 200}
        async with Node(truth, [agent if is_waiting else door.agent()], **config) as first:
            old = await first.submit()
            if is_waiting:
                await open_ticket(truth)
            else:
                await door.entered.wait()
            first.wire.is_cut = True
            request = RunRequest(thread_id="t", agent_id="agent", messages=(user("now"),))
            then = RunDispatch(
                dispatch_id="d",
                thread_id="t",
                run_id="new",
                request=request,
                mode=InputMode.INTERRUPT,
                priority=0,
            )
            await truth.interrupt("t", "interrupt", then=then)
            model = Talking()
            async with Node(truth, [model.agent()], name="b", **config):
                ended = await settled(truth, "d")
            assert ended.status is DispatchStatus.ACKED
            first.wire.is_cut = False
        assert (await run_of(truth, old.run_id)).termination == Cancelled(cause="interrupt")
        assert (await run_of(truth, "new")).termination == NaturalEnd()
        assert model.asked == ["now"], "the interrupted run is not executed any more"
        assert len(asking.ran) == is_waiting

    simulated(scenario)


def test_steering_reaches_the_run_that_executes() -> None:
    async def scenario() -> None:
        truth, bus, entered, let_go = TruthStore(), MemoryBus(), asyncio.Event(), asyncio.Event()
        await bus.open()

        @tool
        async def work(ctx: ToolContext) -> str:
            entered.set()
            await let_go.wait()
            return "worked"

        model = ScriptedModel([ToolCalls([("work", {})]), "done"])
        agent = Agent("agent", model=model, tools=[work])
        async with Node(truth, [agent], bus=bus) as node:
            receipt = await node.submit("go")
            await entered.wait()
            steered = await node.submit("left", mode=InputMode.STEER)
            await asyncio.sleep(0.05)
            let_go.set()
            await settled(truth, receipt.dispatch_id)
            taken = await settled(truth, steered.dispatch_id)
            assert (taken.status, taken.taken_by) == (DispatchStatus.ACKED, receipt.run_id)
        checkout = await truth.checkout("t")
        assert checkout is not None
        assert [it.id for it in checkout.messages if it.text == "left"] == [*steered.message_ids]

    simulated(scenario)


# --- stopping ---


def test_a_worker_that_stops_lets_its_runs_end_if_they_are_quick() -> None:
    async def scenario() -> None:
        truth, model = TruthStore(), Talking(pause_s=2)
        async with Node(truth, [model.agent()], drain_ms=5000) as node:
            receipt = await node.submit("x")
            queued = await node.submit("y", "other")
            while len(model.asked) < 2:
                await asyncio.sleep(0.01)
            late = await node.submit("z", "late")
            await node.worker.stop()
            assert node.worker.in_flight == 0
            for it in (receipt, queued):
                assert (await settled(truth, it.dispatch_id)).status is DispatchStatus.ACKED
            untouched = await truth.find_dispatch(late.dispatch_id)
            assert untouched is not None
            assert untouched.attempt_count <= 1

    simulated(scenario)


@pytest.mark.parametrize("drain_ms", [0, 1000])
def test_a_worker_that_stops_gives_back_what_is_not_done_without_charging(
    drain_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        truth, door = TruthStore(), Door()
        async with Node(truth, [door.agent()], name="a", drain_ms=drain_ms) as node:
            receipt = await node.submit()
            await door.entered.wait()
            begun = asyncio.get_running_loop().time()
            await node.worker.stop()
            assert asyncio.get_running_loop().time() - begun <= drain_ms / 1000 + 1
            assert node.worker.in_flight == 0
            given_back = await truth.find_dispatch(receipt.dispatch_id)
            assert given_back is not None
            assert given_back.status is DispatchStatus.QUEUED
            assert given_back.attempt_count == 0
            writes = len(truth.commits)
            await asyncio.sleep(60)
            assert len(truth.commits) == writes, "nothing is written after it has stopped"
        door.let_go.set()
        async with Node(truth, [door.agent()], name="b"):
            ended = await settled(truth, receipt.dispatch_id)
        assert (ended.status, ended.attempt_count) == (DispatchStatus.ACKED, 1)
        assert (await run_of(truth, receipt.run_id)).termination == NaturalEnd()
        assert await texts(truth) == [("user", "hi"), ("assistant", "done")]

    simulated(scenario)
    assert not caplog.records, "this is no trouble"


@pytest.mark.parametrize("slow", ["claim", "checkout"])
def test_what_is_on_its_way_to_a_worker_that_stops_is_given_back(slow: str) -> None:
    async def scenario() -> None:
        truth, door = TruthStore(), Door()
        node = Node(truth, [door.agent()], drain_ms=0 if slow == "checkout" else 1000)
        receipt = await node.submit()
        node.wire.delays[slow] = 0.5
        node.worker.start()
        await asyncio.sleep(0.25)
        await node.worker.stop()
        given_back = await truth.find_dispatch(receipt.dispatch_id)
        assert given_back is not None
        assert (given_back.status, given_back.attempt_count) == (DispatchStatus.QUEUED, 0)
        assert door.visits == (slow == "checkout")

    simulated(scenario)


def test_stopping_at_any_moment_loses_and_charges_nothing() -> None:
    async def scenario() -> None:
        truth, model = TruthStore(), Talking(pause_s=0.004)
        nodes = [
            Node(truth, [model.agent()], name=name, concurrency=2, drain_ms=1)
            for name in ("a", "b")
        ]
        receipts = [await nodes[0].submit(str(n), f"t{n % 4}") for n in range(8)]
        nodes[0].worker.start()
        await asyncio.sleep(0.006)
        await nodes[0].worker.stop()
        nodes[1].worker.start()
        for receipt in receipts:
            ended = await settled(truth, receipt.dispatch_id)
            assert (ended.status, ended.attempt_count) == (DispatchStatus.ACKED, 1)
        await nodes[1].worker.stop()
        assert_one_writer_at_a_time(truth.commits)
        assert_valid_at_every_commit(truth.commits)

    simulate(scenario, seeds=range(30))


def test_a_worker_can_be_run_until_it_is_cancelled_and_started_again() -> None:
    async def scenario() -> None:
        truth, model = TruthStore(), Talking()
        node = Node(truth, [model.agent()])
        running = asyncio.create_task(node.worker.run())
        await settled(truth, (await node.submit("one")).dispatch_id)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        await node.worker.stop()
        again = asyncio.create_task(node.worker.run())
        await settled(truth, (await node.submit("two")).dispatch_id)
        await node.worker.stop()
        await again
        assert model.asked == ["one", "two"]

    simulated(scenario)


def test_a_worker_is_not_done_before_everything_is_given_back() -> None:
    async def scenario() -> None:
        truth, door = TruthStore(), Door()
        node = Node(truth, [door.agent()], drain_ms=3000)
        running = asyncio.create_task(node.worker.run())
        await node.submit()
        await door.entered.wait()
        stopping = [asyncio.create_task(node.worker.stop()) for _ in range(2)]
        await running
        assert node.worker.in_flight == 0
        assert await truth.count_queued() == 1
        await asyncio.gather(*stopping)

    simulated(scenario)
