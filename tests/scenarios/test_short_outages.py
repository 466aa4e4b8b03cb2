"""A store that is away for a moment costs a delivered run an attempt, never its outcome."""

import asyncio
from typing import Any

import pytest

from awaken import Agent, NaturalEnd, tool
from awaken.errors import StoreUnavailable
from awaken.plugins import ToolGateContext
from awaken.stores import DispatchStatus
from awaken.testing import ScriptedModel, ToolCalls

from .nodes import Node, TruthStore, run_of, settled
from .worlds import Gate, assert_valid_at_every_commit, simulated

COMMITS = 4
"""As many as the run makes."""


class Blip:
    """A store that refuses one commit, and may not know for a while what became of it."""

    def __init__(self, number: int, *, away: int) -> None:
        self._left = number
        self._away = away

    def __call__(self, method: str, _arguments: tuple[Any, ...]) -> StoreUnavailable | None:
        if method == "commit":
            self._left -= 1
            if self._left == 0:
                return StoreUnavailable(store="test", problem="away")
        elif self.has_struck and self._away and method == "find_commit":
            self._away -= 1
            return StoreUnavailable(store="test", problem="away")
        return None

    @property
    def has_struck(self) -> bool:
        return self._left <= 0


@pytest.mark.parametrize("away", [0, 1, 9])
@pytest.mark.parametrize("number", range(1, COMMITS + 1))
def test_a_queued_run_whose_commit_fails_once_goes_on_and_ends_as_ever(
    number: int, away: int
) -> None:
    @tool(effect="idempotent")
    async def act() -> str:
        return "acted"

    async def scenario() -> None:
        truth = TruthStore()
        model = ScriptedModel(
            [lambda request: "bye" if len(request.messages) > 2 else ToolCalls([("act", {}, "c")])]
            * 9
        )
        async with Node(truth, [Agent("agent", model=model, tools=[act])]) as node:
            blip = node.wire.fault = Blip(number, away=away)
            receipt = await node.submit()
            ended = await settled(truth, receipt.dispatch_id)
            run = await run_of(truth, receipt.run_id)
        assert blip.has_struck
        assert run.termination == NaturalEnd()
        assert ended.status is DispatchStatus.ACKED
        checkout = await truth.checkout("t")
        assert checkout is not None
        assert [it.text for it in checkout.messages] == ["hi", "", "acted", "bye"]
        assert_valid_at_every_commit(truth.commits)

    simulated(scenario)


def act_once_model() -> ScriptedModel:
    return ScriptedModel(
        [lambda request: "bye" if len(request.messages) > 2 else ToolCalls([("act", {}, "c")])] * 9
    )


@pytest.mark.parametrize("away", [0, 1, 4])
@pytest.mark.parametrize("number", range(1, COMMITS + 1))
def test_where_leases_are_told_in_time_a_commit_waits_and_costs_no_attempt(
    number: int, away: int
) -> None:
    acted: list[str] = []

    @tool(effect="idempotent")
    async def act() -> str:
        acted.append("act")
        return "acted"

    async def scenario() -> None:
        truth = TruthStore()
        async with Node(truth, [Agent("agent", model=act_once_model(), tools=[act])]) as node:
            node.book.patience_ms = 10_000
            blip = node.wire.fault = Blip(number, away=away)
            receipt = await node.submit()
            ended = await settled(truth, receipt.dispatch_id)
            run = await run_of(truth, receipt.run_id)
        assert blip.has_struck
        assert (run.termination, ended.attempt_count, acted) == (NaturalEnd(), 1, ["act"])
        assert_valid_at_every_commit(truth.commits)

    simulated(scenario)


def test_a_commit_waits_no_longer_than_a_lease_and_its_run_is_continued_afterwards() -> None:
    @tool(effect="idempotent")
    async def act() -> str:
        return "acted"

    async def scenario() -> None:
        truth, asked, looked = TruthStore(), list[float](), list[float]()
        loop = asyncio.get_running_loop()

        def fail(method: str, _arguments: tuple[Any, ...]) -> StoreUnavailable | None:
            if method == "commit":
                asked.append(loop.time())
            elif method == "find_commit":
                looked.append(loop.time() - asked[0])
            is_away = bool(asked) and loop.time() < asked[0] + 20
            return StoreUnavailable(store="test", problem="away") if is_away else None

        async with Node(truth, [Agent("agent", model=act_once_model(), tools=[act])]) as node:
            node.book.patience_ms = 10_000
            node.wire.fault = fail
            receipt = await node.submit()
            ended = await settled(truth, receipt.dispatch_id)
            run = await run_of(truth, receipt.run_id)
        tries = [at - asked[0] for at in asked if at < asked[0] + 20]
        assert len(tries) == 1, "whether the commit is there is asked first, and that has no answer"
        assert 10 <= max(it for it in looked if it < 20) <= 11
        assert (run.termination, ended.attempt_count) == (NaturalEnd(), 2)
        assert_valid_at_every_commit(truth.commits)

    simulated(scenario)


def test_a_gate_that_finds_the_store_away_blocks_nothing_and_judges_again() -> None:
    asked: list[str] = []

    @tool(effect="idempotent")
    async def act() -> str:
        return "acted"

    async def gate(context: ToolGateContext) -> None:
        asked.append(context.call.name)
        if len(asked) == 1:
            raise StoreUnavailable(store="test", problem="away")

    async def scenario() -> None:
        truth = TruthStore()
        model = ScriptedModel(
            [lambda request: "bye" if len(request.messages) > 2 else ToolCalls([("act", {}, "c")])]
            * 9
        )
        agent = Agent("agent", model=model, tools=[act], plugins=[Gate(gate)])
        async with Node(truth, [agent]) as node:
            receipt = await node.submit()
            await settled(truth, receipt.dispatch_id)
            run = await run_of(truth, receipt.run_id)
        assert run.termination == NaturalEnd()
        assert asked == ["act", "act"]
        checkout = await truth.checkout("t")
        assert checkout is not None
        assert [it.text for it in checkout.messages] == ["hi", "", "acted", "bye"]
        assert_valid_at_every_commit(truth.commits)

    simulated(scenario)
