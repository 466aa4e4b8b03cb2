"""What happens because time has passed: dead workers, deadlines, retention."""

import asyncio
import logging
from typing import Any

import pytest

from awaken import Agent, InputMode, RunStatus, SuspendTicket, ToolContext, ToolResult, tool
from awaken.errors import StoreUnavailable
from awaken.mailbox.sweeper import PAGE
from awaken.messages import Role
from awaken.stores import DispatchStatus, Purged
from awaken.testing import LoopClock, ScriptedModel, ToolCalls, simulate
from awaken.tools import DecisionAction, Suspension, Ticket, ToolCallResume

from .nodes import Node, TruthStore, all_dispatches, run_of, settled
from .worlds import simulated

DEADLINE_MS = 60_000


class Deadlines:
    """An agent that asks and sets a deadline; notes what it was told."""

    def __init__(self, on_expiry: DecisionAction = DecisionAction.CANCEL) -> None:
        self.told: list[Any] = []

        @tool
        async def ask(ctx: ToolContext) -> Any:
            self.told.append(None if ctx.resume is None else ctx.resume.decided_by)
            if ctx.resume is not None:
                return "went on"
            expires_at = LoopClock().now_ms() + DEADLINE_MS
            ticket = SuspendTicket(
                suspension=Suspension(action="ask"),
                expires_at=expires_at,
                on_expiry=on_expiry,
                deciders=("boss",),
            )
            return ToolResult.from_ticket("ask", ticket)

        async def answer(request: Any) -> Any:
            is_asked = request.messages[-1].role is Role.USER
            return ToolCalls([("ask", {})]) if is_asked else "over"

        model = ScriptedModel([answer] * 300)
        self.agent = Agent("agent", model=model, tools=[ask])


async def waiting(truth: TruthStore, count: int) -> tuple[Ticket, ...]:
    while len(tickets := await truth.list_tickets()) < count:
        await asyncio.sleep(0.01)
    return tickets


async def ended(truth: TruthStore, run_id: str) -> None:
    while (await run_of(truth, run_id)).status is not RunStatus.DONE:
        await asyncio.sleep(0.01)


# --- claims ---


def test_the_work_of_the_dead_goes_on_within_lease_and_sweep() -> None:
    async def scenario() -> None:
        truth = TruthStore()
        agent = Agent("agent", model=ScriptedModel(["done"]))
        node = Node(truth, [agent])
        receipt = await node.submit()
        (claimed,) = await truth.claim("dead", "token", node.config.lease_ms)
        begun = asyncio.get_running_loop().time()
        async with node:
            over = await settled(truth, receipt.dispatch_id)
        waited = (asyncio.get_running_loop().time() - begun) * 1000
        assert (over.status, over.attempt_count) == (DispatchStatus.ACKED, 2)
        assert waited <= node.config.lease_ms + node.config.sweep_ms + node.config.poll_ms
        assert claimed.attempt_count == 1

    simulated(scenario)


def test_every_dead_claim_is_taken_back_however_many_there_are_and_by_one_node() -> None:
    async def scenario() -> None:
        truth = TruthStore()
        nodes = [Node(truth, [], name=name) for name in ("a", "b")]
        count = 2 * PAGE + 50
        for n in range(count):
            await nodes[0].submit(thread_id=f"t{n}")
        assert len(await truth.claim("dead", "token", 1000, limit=count)) == count
        await asyncio.sleep(1.001)
        taken = await asyncio.gather(*(node.sweeper.reclaim() for node in nodes))
        assert sum(taken) == count
        back = await all_dispatches(truth, status=DispatchStatus.QUEUED)
        assert len(back) == count
        assert {dispatch.attempt_count for dispatch in back} == {1}

    simulated(scenario)


# --- deadlines ---


@pytest.mark.parametrize(
    ("on_expiry", "told"),
    [(DecisionAction.RESUME, [None, "deadline"]), (DecisionAction.CANCEL, [None])],
)
def test_a_deadline_fires_once_on_two_nodes_and_decides_as_the_ticket_says(
    on_expiry: DecisionAction, told: list[Any]
) -> None:
    async def scenario() -> None:
        truth, asking = TruthStore(), Deadlines(on_expiry)
        async with (
            Node(truth, [asking.agent], name="a", sweep_ms=1000) as node,
            Node(truth, [asking.agent], name="b", sweep_ms=1000),
        ):
            receipt = await node.submit()
            (ticket,) = await waiting(truth, 1)
            await asyncio.sleep(DEADLINE_MS / 1000 - 1)
            assert await truth.list_tickets() == (ticket,), "not before its time"
            await ended(truth, receipt.run_id)
        assert asking.told == told
        decided = await truth.find_ticket(ticket.ticket_id)
        assert decided is not None
        assert decided.decision is not None
        assert (decided.decision.decided_by, decided.decision.action) == ("deadline", on_expiry)
        resumes = [it for it in await all_dispatches(truth) if it.mode is InputMode.RESUME]
        assert len(resumes) == 1
        assert asyncio.get_running_loop().time() <= DEADLINE_MS / 1000 + 2

    simulate(scenario, seeds=range(5))


@pytest.mark.parametrize(("late_ms", "decider"), [(0, "boss"), (1, "deadline")])
def test_a_decision_counts_up_to_the_deadline_and_the_deadline_after_it(
    late_ms: int, decider: str
) -> None:
    async def scenario() -> None:
        truth, asking = TruthStore(), Deadlines(DecisionAction.RESUME)
        node = Node(truth, [asking.agent])
        node.worker.start()
        receipt = await node.submit()
        (ticket,) = await waiting(truth, 1)
        assert ticket.expires_at is not None
        await asyncio.sleep((ticket.expires_at - await truth.now_ms() + late_ms) / 1000)
        given = ToolCallResume(decision_id="d", result=True, decided_by="boss")
        outcome, _, _ = await asyncio.gather(
            node.mailbox.decide([(ticket.ticket_id, given)]),
            asyncio.sleep(0.001),
            _sweep_twice(node),
            return_exceptions=True,
        )
        await ended(truth, receipt.run_id)
        await node.worker.stop()
        assert asking.told[1:] == [decider]
        assert isinstance(outcome, tuple) == (decider == "boss")

    simulate(scenario, seeds=range(30))


async def _sweep_twice(node: Node) -> None:
    await node.sweeper.expire_tickets()
    await asyncio.sleep(0.002)
    await node.sweeper.expire_tickets()


def test_one_bad_ticket_does_not_keep_the_others_from_being_decided(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        truth, asking = TruthStore(), Deadlines()
        async with Node(truth, [asking.agent], sweep_ms=1000) as node:
            for n in range(3):
                await node.submit(thread_id=f"t{n}")
            tickets = await waiting(truth, 3)
            bad = tickets[0].ticket_id

            def fault(method: str, arguments: tuple[Any, ...]) -> BaseException | None:
                is_bad = method == "find_ticket" and arguments[0] == bad
                return RuntimeError("cannot be read") if is_bad else None

            node.wire.fault = fault
            await asyncio.sleep(DEADLINE_MS / 1000 + 2)
            assert [it.ticket_id for it in await truth.list_tickets()] == [bad]

    simulated(scenario)
    assert any("could not be decided" in record.message for record in caplog.records)


class Stuck(TruthStore):
    """A store with more expired tickets than fit on a page, all but the last one stuck."""

    def __init__(self) -> None:
        super().__init__()
        self.tickets = [
            Ticket(ticket_id=f"k{n:04}", thread_id="t", run_id="r", call_id="c", tool_name="x")
            for n in range(2 * PAGE + 1)
        ]
        self.looked_at: list[str] = []

    async def find_next_deadline(self) -> int | None:
        return -1

    async def list_expired_tickets(self, limit: int = 100) -> tuple[Ticket, ...]:
        return tuple(self.tickets[:limit])

    async def find_ticket(self, ticket_id: str) -> Ticket | None:
        self.looked_at.append(ticket_id)
        return None


def test_a_page_full_of_tickets_that_cannot_be_decided_hides_none_behind_it() -> None:
    async def scenario() -> None:
        truth = Stuck()
        assert await Node(truth, []).sweeper.expire_tickets() == 0
        assert truth.looked_at == [ticket.ticket_id for ticket in truth.tickets]

    simulated(scenario)


# --- retention ---


def test_only_what_ended_long_enough_ago_is_removed() -> None:
    async def scenario() -> None:
        truth, asking = TruthStore(), Deadlines()
        agents = [asking.agent, Agent("quick", model=ScriptedModel(["x"] * 9))]
        config = {"retention_ms": 10_000, "purge_ms": 1000, "sweep_ms": 1000}
        async with Node(truth, agents, **config) as node:
            old = await node.submit("1", "t1", agent_id="quick")
            await node.submit("w", "t2")
            await waiting(truth, 1)
            later = await node.submit("2", "t1", agent_id="quick", delay_ms=60_000)
            await asyncio.sleep(9)
            assert await truth.find_dispatch(old.dispatch_id) is not None
            await asyncio.sleep(3)
            assert await truth.find_dispatch(old.dispatch_id) is None
            assert await truth.find_dispatch(later.dispatch_id) is not None
            assert len(await truth.list_tickets()) == 1
            checkout = await truth.checkout("t1")
            assert checkout is not None
            assert [it.role for it in checkout.messages] == [Role.USER, Role.ASSISTANT]

    simulated(scenario)


class Pages(TruthStore):
    """Counts how a purge is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, float]] = []
        self.left = [Purged(dispatches=1000), Purged(runs=1), Purged(events=1)]
        self.left += [Purged(orders=1), Purged()]

    async def purge(self, before_ms: int, limit: int = 1000) -> Purged:
        self.asked.append((before_ms, asyncio.get_running_loop().time()))
        return self.left.pop(0) if self.left else Purged()


def test_a_purge_goes_on_until_nothing_is_left_and_comes_again_in_time() -> None:
    async def scenario() -> None:
        truth = Pages()
        node = Node(truth, [], retention_ms=5000, purge_ms=60_000, sweep_ms=1000)
        node.sweeper.start()
        await asyncio.sleep(119)
        await node.sweeper.stop()
        first = [at for _, at in truth.asked if at < 1]
        assert len(first) == 5
        assert truth.asked[0][0] == LoopClock().now_ms() - 119_000 - 5000
        assert len(truth.asked) == 6

    simulated(scenario)


def test_nothing_is_purged_when_everything_is_to_be_kept() -> None:
    async def scenario() -> None:
        truth = Pages()
        await Node(truth, [], retention_ms=None).sweeper.sweep()
        assert truth.asked == []

    simulated(scenario)


# --- trouble ---


def test_a_stage_that_fails_does_not_keep_the_next_from_being_done(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        truth = Pages()
        node = Node(truth, [], sweep_ms=1000)

        def fault(method: str, _: Any) -> BaseException | None:
            is_bad = method in ("reclaim", "list_expired_tickets")
            return StoreUnavailable(store="s", problem="away") if is_bad else None

        node.wire.fault = fault
        node.sweeper.start()
        node.sweeper.start()
        await asyncio.sleep(30)
        assert truth.asked, "the purge is done all the same"
        node.wire.fault = lambda *_: None
        await node.submit()
        await truth.claim("dead", "token", 500)
        await asyncio.sleep(2)
        await node.sweeper.stop()
        await node.sweeper.stop()
        assert await truth.count_queued() == 1, "it works again when the store is back"

    with caplog.at_level(logging.INFO, "awaken.mailbox"):
        simulated(scenario)
    said = [record.getMessage() for record in caplog.records]
    assert sum("Taking back claims failed" in line for line in said) == 1
    assert sum("Taking back claims works again" in line for line in said) == 1
