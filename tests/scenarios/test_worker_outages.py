"""Workers whose store goes away, whose lease is lost, or who vanish."""

import asyncio
import logging
import time
from typing import Any

import pytest

from awaken import Agent, Cancelled, RunRequest, ToolContext, tool, user
from awaken.errors import LeaseLost
from awaken.mailbox.heartbeat import Heartbeat
from awaken.mailbox.worker import Worker
from awaken.messages import Role
from awaken.runtime.engine import RunEngine
from awaken.runtime.primitives.system import SystemClock, Uuid7Source
from awaken.stores import Claim, DispatchStatus
from awaken.testing import (
    InjectionPoint,
    ScriptedModel,
    ToolCalls,
    enumerate_awaits,
)

from .nodes import Node, TruthStore, run_of, settled
from .workers import Door, Talking, assert_one_writer_at_a_time, texts
from .worlds import simulated

LOGGER = "awaken.mailbox"


# --- outages and lost leases ---


def test_a_worker_waits_for_a_store_that_is_away_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        truth, model = TruthStore(), Talking()
        async with Node(truth, [model.agent()], retry_cap_ms=2000) as node:
            node.wire.is_cut = True
            sent = await Node(truth, [], name="other").submit()
            await asyncio.sleep(120)
            asked = node.wire.asked.count("claim")
            assert asked < 120 / 2 + 10, "the pauses grow"
            node.wire.is_cut = False
            begun = asyncio.get_running_loop().time()
            await settled(truth, sent.dispatch_id)
            assert asyncio.get_running_loop().time() - begun <= 2.1

    with caplog.at_level(logging.INFO, LOGGER):
        simulated(scenario)
    said = [record.getMessage() for record in caplog.records]
    assert sum("Claiming work failed" in line for line in said) == 1
    assert sum("Claiming work works again" in line for line in said) == 1


@pytest.mark.parametrize("cut_s", [0.5, 10, 100])
def test_a_run_survives_an_outage_in_its_middle(cut_s: float) -> None:
    async def scenario() -> None:
        truth, door = TruthStore(), Door()
        config = {"lease_ms": 3000, "renew_ms": 1000, "sweep_ms": 1000}
        async with Node(truth, [door.agent()], **config) as node:
            receipt = await node.submit()
            await door.entered.wait()
            node.wire.is_cut = True
            door.let_go.set()
            await asyncio.sleep(cut_s)
            node.wire.is_cut = False
            ended = await settled(truth, receipt.dispatch_id)
        assert ended.status is DispatchStatus.ACKED
        assert await texts(truth) == [("user", "hi"), ("assistant", "done")]
        assert_one_writer_at_a_time(truth.commits)

    simulated(scenario)


def test_whoever_has_lost_its_lease_writes_nothing_more() -> None:
    async def scenario() -> None:
        truth = TruthStore()
        effects: list[str] = []
        doors = {name: asyncio.Event() for name in ("a", "b")}

        def agent(name: str) -> Agent:
            @tool(effect="idempotent")
            async def act(ctx: ToolContext) -> str:
                effects.append(f"{name} begins")
                await doors[name].wait()
                effects.append(f"{name} ends")
                return name

            # The second one goes on after the model has asked for the tool.
            first = [ToolCalls([("act", {})])] if name == "a" else []
            return Agent("agent", model=ScriptedModel([*first, f"said by {name}"]), tools=[act])

        config = {"lease_ms": 2000, "renew_ms": 500, "sweep_ms": 500}
        a = Node(truth, [agent("a")], name="a", **config)
        receipt = await a.submit()
        async with a:
            while not effects:
                await asyncio.sleep(0.01)
            a.wire.is_cut = True
            async with Node(truth, [agent("b")], name="b", **config):
                while "b begins" not in effects:
                    await asyncio.sleep(0.01)
                # The first one is back, and goes on as if nothing had happened.
                a.wire.is_cut = False
                doors["a"].set()
                await asyncio.sleep(5)
                doors["b"].set()
                ended = await settled(truth, receipt.dispatch_id)
        assert (ended.status, ended.attempt_count) == (DispatchStatus.ACKED, 2)
        said = await texts(truth)
        assert said[-1] == ("assistant", "said by b")
        assert [text for role, text in said if role == "tool"] == ["b"]
        assert_one_writer_at_a_time(truth.commits)

    simulated(scenario)


def test_a_lease_is_kept_from_the_claim_on_and_not_only_from_when_the_run_begins() -> None:
    async def scenario() -> None:
        truth, model = TruthStore(), Talking()
        config = {"lease_ms": 1000, "renew_ms": 300, "sweep_ms": 100}
        node = Node(truth, [model.agent()], **config)
        node.wire.delays["checkout"] = 30
        async with node:
            ended = await settled(truth, (await node.submit()).dispatch_id)
        assert (ended.status, ended.attempt_count) == (DispatchStatus.ACKED, 1)

    simulated(scenario)


def test_a_store_of_one_process_keeps_its_leases_and_hears_of_cancels_too() -> None:
    async def scenario() -> None:
        truth, door = TruthStore(is_shared=False), Door()
        config = {"lease_ms": 1000, "renew_ms": 300, "sweep_ms": 100}
        async with Node(truth, [door.agent()], **config) as node:
            receipt = await node.submit()
            await asyncio.sleep(60)
            assert await node.mailbox.cancel(receipt.run_id)
            ended = await settled(truth, receipt.dispatch_id)
        assert (ended.status, ended.attempt_count) == (DispatchStatus.ACKED, 1)
        assert (await run_of(truth, receipt.run_id)).termination == Cancelled(cause="user")

    simulated(scenario)


def test_a_run_that_is_in_the_way_goes_on_although_others_are_queued_before_it() -> None:
    async def scenario() -> None:
        truth, model, door = TruthStore(), Talking(), Door()
        config = {"lease_ms": 2000, "renew_ms": 500, "sweep_ms": 500}
        dying = Node(truth, [door.agent()], name="a", **config)
        started = asyncio.create_task(
            dying.engine.run(RunRequest(thread_id="t", agent_id="agent", messages=(user("1"),)))
        )
        await door.entered.wait()
        assert truth.commits[0].claim == Claim(worker_id="a", lease_ms=2000)
        urgent = await dying.submit("2", priority=0)
        dying.wire.is_cut = True
        async with Node(truth, [model.agent()], name="b", **config):
            ended = await settled(truth, urgent.dispatch_id)
        assert ended.status is DispatchStatus.ACKED
        dying.wire.is_cut = False
        door.let_go.set()
        with pytest.raises(LeaseLost):
            await started
        assert [text for _, text in await texts(truth)] == ["1", "heard 1", "2", "heard 2"]

    simulated(scenario)


def test_a_worker_may_vanish_at_any_moment() -> None:
    async def scenario(hook: InjectionPoint) -> None:
        truth, ran = TruthStore(), list[str]()

        @tool(effect="idempotent")
        async def act(ctx: ToolContext) -> str:
            ran.append("act")
            await asyncio.sleep(0.01)
            return "acted"

        async def answer(request: Any) -> Any:
            is_asked = request.messages[-1].role is Role.USER
            return ToolCalls([("act", {})]) if is_asked else "done"

        agent = Agent("agent", model=ScriptedModel([answer] * 20), tools=[act])
        config = {"lease_ms": 1000, "renew_ms": 300, "sweep_ms": 200, "drain_ms": 100}
        a = Node(truth, [agent], name="a", **config)
        receipts = [await a.submit(text) for text in ("one", "two")]
        hook.arm(lambda: setattr(a.wire, "is_cut", True))
        async with a, Node(truth, [agent], name="b", concurrency=1, **config):
            for receipt in receipts:
                ended = await settled(truth, receipt.dispatch_id)
                assert ended.status is DispatchStatus.ACKED
                assert ended.attempt_count <= 2
        turn = ["", "acted", "done"]
        assert [text for _, text in await texts(truth)] == ["one", *turn, "two", *turn]
        assert 2 <= len(ran) <= 3
        assert_one_writer_at_a_time(truth.commits)

    assert enumerate_awaits(scenario) > 100


# --- real time ---


def test_a_blocked_event_loop_costs_no_lease() -> None:
    async def scenario(lease_ms: int) -> tuple[Any, Any]:
        truth, clock, ids = TruthStore(SystemClock()), SystemClock(), Uuid7Source()
        taken: list[object] = []

        @tool
        async def block(ctx: ToolContext) -> str:
            time.sleep(3 * lease_ms / 1000)
            # As another node would do it now.
            taken.extend(await truth.reclaim())
            return "unblocked"

        agent = Agent(
            "agent", model=ScriptedModel([ToolCalls([("block", {})]), "done"]), tools=[block]
        )
        node = Node(truth, [agent], clock=clock, lease_ms=lease_ms, renew_ms=100)
        heartbeat = Heartbeat(truth, clock, ids, node.config, "real")
        engine = RunEngine(truth, node.engine.registry, node.engine.services, heartbeat)
        worker = Worker(engine, node.mailbox, heartbeat)
        worker.start()
        receipt = await node.submit()
        async with asyncio.timeout(40):
            ended = await settled(truth, receipt.dispatch_id)
        await worker.stop()
        await heartbeat.close()
        return ended, taken

    ended, taken = asyncio.run(scenario(400))
    if taken or ended.attempt_count > 1:
        # A machine that stops all threads for as long as a lease lasts needs a longer one.
        ended, taken = asyncio.run(scenario(4_000))
    assert taken == []
    assert (ended.status, ended.attempt_count) == (DispatchStatus.ACKED, 1)
