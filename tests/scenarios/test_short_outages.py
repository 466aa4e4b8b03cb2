"""A store that is away for a moment costs a delivered run an attempt, never its outcome."""

from typing import Any

import pytest

from awaken import Agent, NaturalEnd, tool
from awaken.errors import StoreUnavailable
from awaken.stores import DispatchStatus
from awaken.testing import ScriptedModel, ToolCalls

from .nodes import Node, TruthStore, run_of, settled
from .worlds import assert_valid_at_every_commit, simulated

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
