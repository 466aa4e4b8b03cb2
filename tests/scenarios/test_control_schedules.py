"""Decisions and cancels from two processes against a run that goes on, under many schedules.

What was acknowledged is held against what happened, by a model that knows nothing of the runtime:
a ticket has one decision, a cancelled run ends cancelled, and a run ends once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import pytest
from tests.sampling import choose_size, sampled

from awaken import Agent, Cancelled, NaturalEnd, RunFinish, RunStatus, ToolContext, tool
from awaken.buses.memory import MemoryBus
from awaken.errors import AlreadyDecided
from awaken.services.control import RunControl
from awaken.testing import ScriptedModel, ToolCalls, simulate
from awaken.tools import DecisionAction, ToolCallResume

from .nodes import Node, TruthStore

SEEDS = choose_size(60, 500)
"""How many schedules of each kind are played."""
AT_REST = (RunStatus.WAITING, RunStatus.DONE)


@dataclass
class Acknowledged:
    """What somebody was told."""

    decisions: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    is_cancelled: bool = False


class World:
    """Two processes on one store, and an agent that may be told to pay while it works."""

    def __init__(self, chance: Random, *, is_crashing: bool) -> None:
        self.chance = chance
        self.paid: list[Any] = []
        self.told = Acknowledged()
        self.truth = TruthStore()
        self.is_crashing = is_crashing
        pause = chance.choice((0.0, 0.01, 0.05))

        @tool(effect="once")
        async def pay(ctx: ToolContext) -> Any:
            if ctx.resume is None:
                return ctx.suspend("?")
            self.paid.append(ctx.resume.result)
            return "paid"

        @tool(effect="none")
        async def work() -> str:
            await asyncio.sleep(pause)
            return "worked"

        model = ScriptedModel([ToolCalls([("pay", {}), ("work", {})]), "thanks", "bye"])
        self.agent = Agent("agent", model=model, tools=[pay, work])
        bus = MemoryBus() if chance.random() < 0.5 else None
        names = ("a", "b")
        config = {"lease_ms": 400, "renew_ms": 100, "sweep_ms": 100, "poll_ms": 20}
        self.nodes = [Node(self.truth, [self.agent], name=it, bus=bus, **config) for it in names]
        self.bus = bus

    async def play(self) -> None:
        if self.bus is not None:
            await self.bus.open()
        async with self.nodes[0], self.nodes[1]:
            receipt = await self.nodes[0].submit("buy", agent_id="agent")
            while not (tickets := await self.truth.list_tickets("t")):
                await asyncio.sleep(0.001)
            ticket, run_id = tickets[0].ticket_id, receipt.run_id
            for node in self.nodes:
                node.wire.delays = {
                    name: self.chance.choice((0.0, 0.0, 0.002, 0.02))
                    for name in ("commit", "decide", "request_cancel", "load_run", "checkout")
                }
            wishes = self.wishes(ticket, run_id)
            await asyncio.gather(*(self.wished(it) for it in wishes))
            if self.is_crashing:
                await self.crash()
            await self.until_over(run_id)
        await self.judge(run_id)

    def wishes(self, ticket: str, run_id: str) -> list[Callable[[], Awaitable[None]]]:
        controls = [
            RunControl(node.engine, node.mailbox, node.worker._wake.set) for node in self.nodes
        ]
        wishes: list[Callable[[], Awaitable[None]]] = []
        for answer in self.chance.sample(("yes", "no", "yes 2"), self.chance.randint(1, 3)):
            control = self.chance.choice(controls)
            wishes.append(
                lambda control=control, answer=answer: self.decide(control, ticket, answer)
            )
        if self.chance.random() < 0.5:
            wishes.append(lambda: self.cancel(self.chance.choice(controls), run_id))
        self.chance.shuffle(wishes)
        return wishes

    async def wished(self, wish: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(self.chance.choice((0.0, 0.0, 0.001, 0.01, 0.05, 0.06)))
        await wish()

    async def decide(self, control: RunControl, ticket: str, answer: str) -> None:
        action = DecisionAction.CANCEL if answer == "no" else DecisionAction.RESUME
        decision = ToolCallResume(decision_id=answer, action=action, result=answer)
        try:
            await control.decide([(ticket, decision)])
        except AlreadyDecided:
            self.told.refused.append(answer)
        else:
            self.told.decisions.append(answer)

    async def cancel(self, control: RunControl, run_id: str) -> None:
        self.told.is_cancelled = await control.cancel_run(run_id)

    async def crash(self) -> None:
        """One process is gone at once: nothing of it gets through any more."""
        await asyncio.sleep(self.chance.choice((0.0, 0.001, 0.01)))
        self.nodes[0].wire.is_cut = True
        for active in self.nodes[0].engine.active:
            if active.task is not None:
                # Nobody is left to see what becomes of it there.
                active.task.add_done_callback(lambda it: it.cancelled() or it.exception())

    async def until_over(self, run_id: str) -> None:
        for _ in range(5_000):
            record = await self.truth.load_run(run_id)
            assert record is not None
            is_waiting = record.status is RunStatus.WAITING
            is_owed = self.told.decisions or self.told.is_cancelled
            if record.status is RunStatus.DONE or (is_waiting and not is_owed):
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"the run is stuck; {self.told}")

    async def is_unknown(self) -> bool:
        """Whether a process died so that nobody knows if it has paid; it is not tried again."""
        checkout = await self.truth.checkout("t")
        assert checkout is not None
        said = [it.text for it in checkout.messages]
        return self.is_crashing and any(it.startswith("[outcome_unknown]") for it in said)

    async def judge(self, run_id: str) -> None:
        record = await self.truth.load_run(run_id)
        assert record is not None
        assert len(self.told.decisions) <= 1, f"contradicting acknowledgements: {self.told}"
        if self.told.is_cancelled:
            assert record.termination == Cancelled(cause="user"), self.told
        elif self.told.decisions:
            assert record.termination == NaturalEnd(), self.told
            is_declined = self.told.decisions == ["no"]
            if is_declined or not await self.is_unknown():
                assert self.paid == ([] if is_declined else self.told.decisions)
        assert self.paid in ([], *([it] for it in self.told.decisions if it != "no"))
        finishes = [
            (commit.run, event)
            for commit in self.truth.commits
            for event in commit.events
            if isinstance(event, RunFinish)
        ]
        for written, event in finishes:
            assert written is not None, "a run has finished in a commit that does not end it"
            assert written.status in AT_REST
            ended = written.termination if written.status is RunStatus.DONE else None
            assert ended in (None, event.termination)
        ends = [it for it, _ in finishes if it is not None and it.status is RunStatus.DONE]
        assert len(ends) <= 1, "it has ended twice"


@sampled
@pytest.mark.parametrize("is_crashing", [False, True], ids=["alive", "crashing"])
def test_what_was_acknowledged_is_what_happened(is_crashing: bool) -> None:
    async def scenario(seed: int) -> None:
        await World(Random(seed), is_crashing=is_crashing).play()

    for seed in range(SEEDS):
        simulate(partial(scenario, seed), seeds=[seed])
