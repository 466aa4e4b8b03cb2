"""A store that is away for a moment after a decision was taken: the decided call is executed.

Each test lets every question and every reply after the decision be lost, one after the other.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal

import pytest

from awaken import Agent, Failed, NaturalEnd, RunRequest, RunStatus, tool, user
from awaken.errors import StoreUnavailable
from awaken.events import Termination
from awaken.services.control import RunControl
from awaken.testing import ScriptedModel, ToolCalls

from .nodes import Node, TruthStore, no_fault
from .posts import decision
from .worlds import assert_valid_at_every_commit, simulated

_DONE = RunStatus.DONE
QUICK = {"lease_ms": 3000, "renew_ms": 1000, "sweep_ms": 500}
ENOUGH_S = 600
"""Longer than all leases and pauses together."""
CALLS_MIN = 8
"""A process asks the store at least as often to execute what was decided."""


class Blip:
    """Loses one question or reply on a wire, and some that follow it."""

    def __init__(self, number: int, lost: int) -> None:
        self._left = number
        self._lost = lost

    def __call__(self, method: str, _arguments: tuple[Any, ...]) -> StoreUnavailable | None:
        self._left -= 1
        if self._left > 0 or self._left <= -self._lost:
            return None
        return StoreUnavailable(store="test", problem=f"away at {method}")

    @property
    def has_struck(self) -> bool:
        return self._left <= 0


class Payer:
    """An agent that pays once it is allowed to, and may look something up meanwhile."""

    def __init__(self, effect: Literal["once", "idempotent"], *calls: str) -> None:
        self.done: Counter[str] = Counter()
        self.looking, self.found = asyncio.Event(), asyncio.Event()

        @tool(approval=True, effect=effect)
        async def pay() -> str:
            self.done["pay"] += 1
            return "paid"

        @tool(effect="idempotent")
        async def look() -> str:
            self.done["look"] += 1
            self.looking.set()
            await self.found.wait()
            return "found"

        def answer(request: Any) -> Any:
            asked = ToolCalls([(name, {}, name) for name in calls])
            return "bye" if len(request.messages) > 2 else asked

        self.agent = Agent("agent", model=ScriptedModel([answer] * 9), tools=[pay, look])


async def reach_end(truth: TruthStore, run_id: str) -> Termination | None:
    async with asyncio.timeout(ENOUGH_S):
        while (found := await truth.load_run(run_id)) is None or found.status is not _DONE:
            await asyncio.sleep(0.05)
    assert_valid_at_every_commit(truth.commits)
    return found.termination


async def list_results(truth: TruthStore) -> list[str]:
    checkout = await truth.checkout("t")
    assert checkout is not None
    return sorted(it.text for it in checkout.messages if it.role.value == "tool")


async def approve(node: Node, blip: Blip, *, has_worker: bool) -> None:
    """Decide at a process, which has trouble with its store once that is acknowledged."""
    taken = node.mailbox.take_decisions

    async def take(*given: Any) -> Any:
        answer = await taken(*given)
        node.wire.fault = blip
        return answer

    node.mailbox.take_decisions = take  # type: ignore[method-assign]
    async with asyncio.timeout(ENOUGH_S):
        while not (tickets := await node.truth.list_tickets("t")):
            await asyncio.sleep(0.05)
    control = RunControl(node.engine, node.mailbox, lambda: None, lambda: has_worker)
    await control.decide([(tickets[0].ticket_id, decision())])


async def start(node: Node) -> str:
    request = RunRequest(thread_id="t", agent_id="agent", messages=(user("hi"),))
    return (await node.engine.start(request)).run_id


def sweep(scenario: Callable[[int], Awaitable[bool]]) -> None:
    """Play a scenario with trouble at each of its calls, until one has none."""
    number = 1
    while simulated(partial(scenario, number)):
        number += 1
    assert number > CALLS_MIN


@pytest.mark.parametrize(
    ("effect", "lost"), [("once", 1), ("idempotent", 1), ("idempotent", 2), ("idempotent", 5)]
)
def test_what_is_decided_at_a_process_without_a_worker_is_executed(
    effect: Literal["once", "idempotent"], lost: int
) -> None:
    async def scenario(number: int) -> bool:
        truth, payer, blip = TruthStore(), Payer(effect, "pay"), Blip(number, lost)
        server = Node(truth, [payer.agent], name="a", **QUICK)
        run_id = await start(server)
        await server.engine.settle(ENOUGH_S * 1000)
        await approve(server, blip, has_worker=False)
        await server.engine.settle(ENOUGH_S * 1000)
        server.wire.fault = no_fault
        async with Node(truth, [payer.agent], name="b", **QUICK):
            assert await reach_end(truth, run_id) == NaturalEnd()
        assert await list_results(truth) == ["paid"]
        # What was executed, and whose result could not be stored, may be repeated if it is safe.
        assert 1 <= payer.done["pay"] <= (1 if lost == 1 else 2)
        return blip.has_struck

    sweep(scenario)


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_what_is_decided_while_its_run_is_busy_is_executed(lost: int) -> None:
    async def scenario(number: int) -> bool:
        truth, payer, blip = TruthStore(), Payer("idempotent", "pay", "look"), Blip(number, lost)
        server = Node(truth, [payer.agent], name="a", **QUICK)
        run_id = await start(server)
        await payer.looking.wait()
        await approve(server, blip, has_worker=False)
        payer.found.set()
        await server.engine.settle(ENOUGH_S * 1000)
        server.wire.fault = no_fault
        async with Node(truth, [payer.agent], name="b", **QUICK):
            ended = await reach_end(truth, run_id)
        # Once all is executed that was decided, it may fail as any run that was started here.
        assert isinstance(ended, NaturalEnd | Failed)
        assert await list_results(truth) == ["found", "paid"]
        assert 1 <= payer.done["pay"] <= (1 if lost == 1 else 2)
        return blip.has_struck

    sweep(scenario)


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_what_is_decided_at_a_process_with_a_worker_is_executed(lost: int) -> None:
    async def scenario(number: int) -> bool:
        truth, payer, blip = TruthStore(), Payer("idempotent", "pay"), Blip(number, lost)
        async with Node(truth, [payer.agent], **QUICK) as node:
            receipt = await node.submit()
            await approve(node, blip, has_worker=True)
            assert await reach_end(truth, receipt.run_id) == NaturalEnd()
            has_struck = blip.has_struck
        assert await list_results(truth) == ["paid"]
        return has_struck

    sweep(scenario)
