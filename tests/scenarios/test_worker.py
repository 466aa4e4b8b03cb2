"""Workers: what is queued is executed once, wherever, and whatever fails meanwhile."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from awaken import Agent, Failed, MailboxConfig, NaturalEnd, RunRequest, RunStatus, ThreadBusy, user
from awaken.buses.memory import MemoryBus
from awaken.errors import StoreUnavailable
from awaken.mailbox.mailbox import Mailbox
from awaken.runtime.primitives.system import Uuid7Source
from awaken.stores import DispatchStatus
from awaken.testing import (
    ScriptedModel,
    ToolCalls,
    simulate,
)
from awaken.tools import ToolCallResume

from .asking import Asking
from .nodes import POLL_MS, Node, TruthStore, run_of, settled
from .workers import Door, Talking, asking_agent, assert_one_writer_at_a_time, open_ticket, texts
from .worlds import simulated

# --- executing ---


def test_what_is_queued_is_executed_and_acked_with_its_outcome() -> None:
    async def scenario() -> None:
        truth = TruthStore()
        async with Node(truth, [Talking().agent()]) as node:
            receipt = await node.submit("hello")
            ended = await settled(truth, receipt.dispatch_id)
            run = await run_of(truth, receipt.run_id)
        assert (ended.status, ended.attempt_count) == (DispatchStatus.ACKED, 1)
        assert run.termination == NaturalEnd()
        assert await texts(truth) == [("user", "hello"), ("assistant", "heard hello")]
        last = truth.commits[-1]
        assert last.release is not None
        assert last.run is not None
        assert last.run.status is RunStatus.DONE, "the outcome and the ack are one commit"

    simulated(scenario)


@pytest.mark.parametrize(("is_heard", "latest_ms"), [(True, 5), (False, POLL_MS + 5)])
def test_work_starts_with_a_signal_and_without_one_within_the_poll_interval(
    is_heard: bool, latest_ms: int
) -> None:
    async def scenario() -> None:
        truth, bus, model = TruthStore(), MemoryBus(), Talking()
        if is_heard:
            await bus.open()
        async with Node(truth, [model.agent()], bus=bus) as node:
            await asyncio.sleep(1.01)
            begun = asyncio.get_running_loop().time()
            receipt = await node.submit()
            await settled(truth, receipt.dispatch_id)
            run = await run_of(truth, receipt.run_id)
            assert run.started_at is not None
            waited = (
                run.started_at
                - truth.clock.now_ms()
                + (asyncio.get_running_loop().time() - begun) * 1000
            )
        assert waited <= latest_ms

    simulated(scenario)


def test_a_thread_is_served_in_order_and_never_twice_at_once() -> None:
    async def scenario() -> None:
        truth, model = TruthStore(), Talking(pause_s=0.05)
        async with (
            Node(truth, [model.agent()], name="a") as node,
            Node(truth, [model.agent()], name="b"),
        ):
            receipts = [await node.submit(str(n)) for n in range(8)]
            for receipt in receipts:
                await settled(truth, receipt.dispatch_id)
        assert model.asked == [str(n) for n in range(8)]
        assert model.most == 1
        assert_one_writer_at_a_time(truth.commits)

    simulated(scenario)


def test_no_thread_waits_much_longer_than_the_others() -> None:
    async def scenario() -> None:
        truth, model = TruthStore(), Talking(pause_s=0.01)
        node = Node(truth, [model.agent()], concurrency=16)
        first = {}
        for n in range(1000):
            receipts = [await node.submit("x", f"t{n}") for _ in range(1 + 9 * (n == 0))]
            first[f"t{n}"] = receipts[0].run_id
        async with node:
            while await truth.count_queued():
                await asyncio.sleep(0.05)
        begun = [(await run_of(truth, run_id)).started_at or 0 for run_id in first.values()]
        waits = sorted(at - min(begun) for at in begun)
        assert waits[-1] <= 10 * max(waits[len(waits) // 2], 1)

    simulated(scenario)


def test_no_more_runs_are_in_flight_than_the_worker_may_have() -> None:
    async def scenario() -> None:
        truth, model = TruthStore(), Talking(pause_s=0.1)
        async with Node(truth, [model.agent()], concurrency=3) as node:
            receipts = [await node.submit("x", f"t{n}") for n in range(20)]
            for receipt in receipts:
                await settled(truth, receipt.dispatch_id)
                assert node.worker.in_flight <= 3
        assert model.most == 3

    simulated(scenario)


def test_a_claim_that_hangs_in_the_store_makes_no_drain_longer() -> None:
    drain_s, settle_s = 20, 5

    async def scenario() -> None:
        truth, model, loop = TruthStore(), Talking(pause_s=3600), asyncio.get_running_loop()
        node = Node(truth, [model.agent()], drain_ms=drain_s * 1000)
        node.signals.open()
        node.worker.start()
        await node.submit()
        while not model.asked:
            await asyncio.sleep(0.01)
        node.wire.delays["claim"] = 3600
        claims = node.wire.asked.count("claim")
        while node.wire.asked.count("claim") == claims:
            await asyncio.sleep(0.01)
        begun = loop.time()
        await node.worker.stop()
        assert drain_s <= loop.time() - begun <= drain_s + settle_s
        node.signals.close()

    simulated(scenario)


def test_two_workers_never_execute_one_dispatch_twice() -> None:
    async def scenario() -> None:
        truth, model = TruthStore(), Talking(pause_s=0.003)
        async with (
            Node(truth, [model.agent()], name="a", concurrency=4) as a,
            Node(truth, [model.agent()], name="b", concurrency=4) as b,
        ):
            receipts = []
            for n in range(24):
                node = a if n % 2 else b
                receipts.append(await node.submit(str(n), f"t{n % 6}"))
            for receipt in receipts:
                ended = await settled(truth, receipt.dispatch_id)
                assert (ended.status, ended.attempt_count) == (DispatchStatus.ACKED, 1)
        assert Counter(model.asked) == Counter(str(n) for n in range(24))
        assert_one_writer_at_a_time(truth.commits)

    simulate(scenario, seeds=range(15))


# --- failing ---


class Broken:
    """Lets the first attempts fail, each before its run has begun."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.times: list[float] = []

    def __call__(self, method: str, _arguments: tuple[Any, ...]) -> Exception | None:
        if method != "checkout" or self.failures <= 0:
            return None
        self.failures -= 1
        self.times.append(asyncio.get_running_loop().time())
        return StoreUnavailable(store="s", problem="hiccup")


def test_a_transient_failure_is_tried_again_after_a_growing_pause() -> None:
    async def scenario() -> None:
        truth, broken, chances = TruthStore(), Broken(3), [0.0, 1.0, 0.5]
        node = Node(
            truth,
            [Talking().agent()],
            randomness=lambda: chances.pop(0),
            retry_base_ms=1000,
            retry_cap_ms=3000,
            poll_ms=10,
        )
        node.wire.fault = broken
        async with node:
            receipt = await node.submit()
            ended = await settled(truth, receipt.dispatch_id)
        assert (ended.status, ended.attempt_count) == (DispatchStatus.ACKED, 4)
        assert "hiccup" in (ended.last_error or "")
        pauses = [b - a for a, b in zip(broken.times, broken.times[1:], strict=False)]
        # Between half of the pause and the whole: 500..1000, 1000..2000; then the cap.
        assert pauses == pytest.approx([0.5, 2.0], abs=0.02)
        started = (await run_of(truth, receipt.run_id)).started_at or 0
        last_pause = started - truth.clock.now_ms() + asyncio.get_running_loop().time() * 1000
        assert last_pause - broken.times[-1] * 1000 == pytest.approx(2250, abs=50)

    simulated(scenario)


def test_a_dispatch_is_buried_after_exactly_as_many_attempts_as_it_has() -> None:
    async def scenario() -> None:
        truth, broken = TruthStore(), Broken(3)
        node = Node(truth, [Talking().agent()], max_attempts=3, poll_ms=10)
        node.wire.fault = broken
        async with node:
            receipt = await node.submit()
            ended = await settled(truth, receipt.dispatch_id)
            assert ended.status is DispatchStatus.DEAD_LETTER
            assert "3 attempts" in (ended.last_error or "")
            assert "hiccup" in (ended.last_error or "")
            assert len(broken.times) == 3
            run = await run_of(truth, receipt.run_id)
            assert isinstance(run.termination, Failed)
            assert run.termination.code == "attempts_exhausted"
            # The thread is free, and the letter can be replayed.
            again = await node.mailbox.replay_dead_letter(receipt.dispatch_id)
            assert again.run_id != receipt.run_id
            replayed = await settled(truth, again.dispatch_id)
            assert replayed.status is DispatchStatus.ACKED
            twice = await node.mailbox.replay_dead_letter(receipt.dispatch_id)
            assert twice.is_duplicate
        assert await texts(truth) == [("user", "hi"), ("assistant", "heard hi")]

    simulated(scenario)


def test_a_worker_that_dies_at_every_attempt_buries_its_dispatch_at_last() -> None:
    async def scenario() -> None:
        truth, model = TruthStore(), Talking()
        node = Node(truth, [model.agent()], max_attempts=2, lease_ms=1000, renew_ms=300)
        receipt = await node.submit()
        for attempt in (1, 2):
            (claimed,) = await truth.claim("dies", f"token-{attempt}", 1000)
            assert claimed.attempt_count == attempt
            await asyncio.sleep(1.001)
            assert await node.sweeper.reclaim() == 1
        async with node:
            ended = await settled(truth, receipt.dispatch_id)
        assert ended.status is DispatchStatus.DEAD_LETTER
        assert model.asked == [], "it is not executed once more"

    simulated(scenario)


def test_a_run_that_died_in_its_middle_can_be_replayed_as_a_new_one() -> None:
    async def scenario() -> None:
        truth, door, model = TruthStore(), Door(), Talking()
        config = {"lease_ms": 1000, "renew_ms": 300, "sweep_ms": 100, "max_attempts": 1}
        async with Node(truth, [door.agent()], name="a", **config) as dying:
            receipt = await dying.submit()
            await door.entered.wait()
            dying.wire.is_cut = True
            async with Node(truth, [model.agent()], name="b", **config) as node:
                ended = await settled(truth, receipt.dispatch_id)
                assert ended.status is DispatchStatus.DEAD_LETTER
                assert model.asked == []
                again = await node.mailbox.replay_dead_letter(receipt.dispatch_id)
                replayed = await settled(truth, again.dispatch_id)
                assert replayed.status is DispatchStatus.ACKED
            dying.wire.is_cut = False
        assert [text for _, text in await texts(truth)] == ["hi", "hi", "heard hi"]

    simulated(scenario)


def test_a_permanent_failure_buries_a_dispatch_after_one_attempt() -> None:
    async def scenario() -> None:
        truth, model = TruthStore(), Talking()
        async with Node(truth, [model.agent()], unknown_agent_ms=0) as node:
            lost = await node.submit("x", agent_id="nobody")
            served = await node.submit("y")
            ended = await settled(truth, lost.dispatch_id)
            assert (ended.status, ended.attempt_count) == (DispatchStatus.DEAD_LETTER, 1)
            assert "UnknownAgent" in (ended.last_error or "")
            assert "'nobody' is not registered" in (ended.last_error or "")
            run = await run_of(truth, lost.run_id)
            assert run.termination == Failed(
                message="Agent 'nobody' is not registered; known agents: agent.",
                code="unknown_agent",
            )
            after = await settled(truth, served.dispatch_id)
            assert after.status is DispatchStatus.ACKED

    simulated(scenario)


def test_an_error_that_nobody_foresaw_is_charged_and_tried_again() -> None:
    async def scenario() -> None:
        truth, failures = TruthStore(), [ZeroDivisionError("what"), OSError("where")]
        node = Node(truth, [Talking().agent()], poll_ms=10)

        def fault(method: str, _: Any) -> BaseException | None:
            return failures.pop() if method == "checkout" and failures else None

        node.wire.fault = fault
        async with node:
            receipt = await node.submit()
            ended = await settled(truth, receipt.dispatch_id)
        assert (ended.status, ended.attempt_count) == (DispatchStatus.ACKED, 3)

    simulated(scenario)


def test_a_thread_that_is_busy_here_is_tried_again_and_not_charged() -> None:
    async def scenario() -> None:
        truth, busy = TruthStore(), [ThreadBusy(thread_id="t", run_id="r")] * 9
        node = Node(truth, [Talking().agent()], max_attempts=1)

        def fault(method: str, _: Any) -> BaseException | None:
            return busy.pop() if method == "checkout" and busy else None

        node.wire.fault = fault
        async with node:
            receipt = await node.submit()
            ended = await settled(truth, receipt.dispatch_id)
        assert (ended.status, ended.attempt_count) == (DispatchStatus.ACKED, 1)
        assert asyncio.get_running_loop().time() >= 9 * POLL_MS / 1000

    simulated(scenario)


def test_a_dispatch_whose_run_is_gone_is_ended_once_and_never_retried() -> None:
    async def scenario() -> None:
        truth, model = TruthStore(), Talking()
        async with Node(truth, [model.agent()]) as node:
            receipt = await node.submit("x")
            await settled(truth, receipt.dispatch_id)
            request = RunRequest(thread_id="t", continue_run_id="gone", messages=(user("x"),))
            sent = await node.mailbox.submit(request)
            ended = await settled(truth, sent.dispatch_id)
            assert (ended.status, ended.attempt_count) == (DispatchStatus.DEAD_LETTER, 1)
            assert "does not exist" in (ended.last_error or "")
            stale = RunRequest(thread_id="t", continue_run_id=receipt.run_id, messages=(user("x"),))
            dropped = await settled(truth, (await node.mailbox.submit(stale)).dispatch_id)
            assert dropped.status is DispatchStatus.ACKED
        assert model.asked == ["x"]

    simulated(scenario)


# --- suspension ---


def test_a_decision_from_anywhere_lets_the_run_go_on_under_its_own_id() -> None:
    async def scenario() -> None:
        truth = TruthStore()
        asking, agent = asking_agent()
        async with Node(truth, [agent], name="a") as node:
            receipt = await node.submit()
            ticket_id = await open_ticket(truth)
            assert node.worker.in_flight == 0, "what waits holds nothing"
            assert await truth.request_cancel("t", "x") is None, "not even a claim"
        other = Mailbox(truth, MemoryBus(), truth.clock, Uuid7Source(), MailboxConfig())
        given = [(ticket_id, ToolCallResume(decision_id="d", result="yes"))]
        receipts = await asyncio.gather(*(other.decide(given) for _ in range(100)))
        assert receipts == [receipts[0]] * 100
        async with Node(truth, [agent], name="b"):
            while (await run_of(truth, receipt.run_id)).status is not RunStatus.DONE:
                await asyncio.sleep(0.01)
        assert asking.ran == [("?", None), ("?", "yes")], "one execution of the decided call"
        assert (await texts(truth))[-1] == ("assistant", "thanks")

    simulated(scenario)


def test_a_refused_decision_is_buried_and_its_run_waits_on() -> None:
    async def scenario() -> None:
        truth = TruthStore()
        _, agent = asking_agent()
        async with Node(truth, [agent]) as node:
            receipt = await node.submit()
            ticket_id = await open_ticket(truth)
            request = RunRequest(
                thread_id="t",
                continue_run_id=receipt.run_id,
                decisions=(("no such ticket", ToolCallResume(decision_id="d")),),
            )
            sent = await node.mailbox.submit(request)
            ended = await settled(truth, sent.dispatch_id)
            assert (ended.status, ended.attempt_count) == (DispatchStatus.DEAD_LETTER, 1)
            run = await run_of(truth, receipt.run_id)
            assert run.status is RunStatus.WAITING
            assert [it.ticket_id for it in await truth.list_tickets("t")] == [ticket_id]

    simulated(scenario)


def test_workers_with_different_agents_leave_each_other_what_is_theirs() -> None:
    async def scenario() -> None:
        truth, model = TruthStore(), Talking()
        stranger = Agent("other", model=ScriptedModel([]))
        async with Node(truth, [stranger], name="b"):
            async with Node(truth, [model.agent()], name="a") as node:
                sent = [await node.submit("go", thread_id=f"t{number}") for number in range(12)]
                ended = [await settled(truth, it.dispatch_id) for it in sent]
                assert {it.status for it in ended} == {DispatchStatus.ACKED}
                assert max(it.attempt_count for it in ended) == 1
            nobody = await node.submit("left alone")
            # Long enough for many tries, not for the end of patience.
            await asyncio.sleep(600)
            waiting = await truth.find_dispatch(nobody.dispatch_id)
            assert waiting is not None
            assert waiting.attempt_count <= 1
            assert not waiting.status.is_terminal
            await asyncio.sleep(3600)
            given_up = await settled(truth, nobody.dispatch_id)
            assert given_up.status is DispatchStatus.DEAD_LETTER

    simulated(scenario)


def test_an_unknown_agent_does_not_end_the_run_that_waits_on_the_thread() -> None:
    async def scenario() -> None:
        truth = TruthStore()
        _, agent = asking_agent()
        async with Node(truth, [agent], unknown_agent_ms=2_000) as node:
            receipt = await node.submit()
            await open_ticket(truth)
            lost = await node.submit("x", agent_id="nobody")
            ended = await settled(truth, lost.dispatch_id)
            assert ended.status is DispatchStatus.DEAD_LETTER
            assert (await run_of(truth, receipt.run_id)).status is RunStatus.WAITING

    simulated(scenario)


def test_a_run_that_cannot_be_recovered_is_ended_whichever_dispatch_continued_it() -> None:
    async def scenario() -> None:
        truth, door, asking = TruthStore(), Door(), Asking()
        model = ScriptedModel([ToolCalls([("ask", {"question": "?"})]), door.answer])
        agent = Agent("agent", model=model, tools=asking.tools)
        config = {"lease_ms": 1000, "renew_ms": 300, "sweep_ms": 200, "unknown_agent_ms": 0}
        async with Node(truth, [agent], **config) as node:
            receipt = await node.submit()
            await open_ticket(truth)
            message = await node.submit("never mind")
            await door.entered.wait()
            node.wire.is_cut = True
            other = Agent("other", model=ScriptedModel([]))
            async with Node(truth, [other], name="b", **config):
                ended = await settled(truth, message.dispatch_id)
            node.wire.is_cut = False
        assert ended.status is DispatchStatus.DEAD_LETTER
        run = await run_of(truth, receipt.run_id)
        assert isinstance(run.termination, Failed)
        assert run.termination.code == "unknown_agent"
        await texts(truth)

    simulated(scenario)


@pytest.mark.parametrize(("max_attempts", "executed"), [(1, 1), (2, 2), (7, 7)])
def test_a_run_that_was_started_here_is_tried_as_often_as_configured(
    max_attempts: int, executed: int
) -> None:
    """Nobody sent it as a dispatch: what goes on with it is made by the store."""

    async def scenario() -> None:
        truth = TruthStore()
        begun: set[str] = set()

        def node(name: str) -> Node:
            async def answer(_request: Any) -> str:
                begun.add(name)
                await asyncio.Event().wait()
                raise AssertionError

            model = ScriptedModel([answer], cycle=True)
            agents = [Agent("agent", model=model)]
            times = {"lease_ms": 2_000, "renew_ms": 500, "sweep_ms": 500}
            return Node(truth, agents, name=name, max_attempts=max_attempts, **times)

        first = node("first")
        request = RunRequest(thread_id="t", agent_id="agent", messages=(user("hi"),))
        handle = await first.engine.start(request)
        dead = [first]
        while (run := await truth.load_run(handle.run_id)) is not None:
            if run.status is RunStatus.DONE:
                break
            dead[-1].wire.is_cut = True
            alive = node(f"node {len(dead)}")
            dead.append(alive)
            async with asyncio.timeout(600):
                alive.worker.start()
                alive.sweeper.start()
                while f"node {len(dead) - 1}" not in begun and run.status is not RunStatus.DONE:
                    await asyncio.sleep(1)
                    run = await run_of(truth, handle.run_id)
        assert len(begun) == executed
        assert isinstance(run.termination, Failed)
        assert run.termination.code == "attempts_exhausted"
        assert f"after {max_attempts} attempts" in run.termination.message
        for it in dead:
            await it.sweeper.stop()
            await it.worker.stop()
            await it.engine.close()

    simulated(scenario)
