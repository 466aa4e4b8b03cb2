"""Decisions of a recording in an eval: each answers the call that it was made on, and no other."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, tool
from awaken.contracts.suspension.permissions import PermissionScope, Remember
from awaken.evals import (
    Case,
    Dataset,
    EvalMode,
    EvalResult,
    OnQuestion,
    Recording,
    ToolPolicy,
    evaluate,
    scorers,
)
from awaken.extensions.permission import PermissionPlugin, ask
from awaken.models import InferenceRequest
from awaken.testing import ScriptedModel, Turn

LIVE = ToolPolicy(allow_live=("*",), allow_effects=True)
PAYS: Any = ("pay", {"amount": 5})


class Cashier:
    """An agent that pays the same amount in each of its steps, and counts the payments."""

    def __init__(self, steps: Sequence[int], *, approval: bool = True, **options: Any) -> None:
        """`steps` says how often it pays in each step."""
        self.paid = 0

        @tool(effect="once", approval=approval)
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid += 1
            return f"paid {amount}"

        def answer(request: InferenceRequest) -> Turn:
            done = sum(it.role == "assistant" for it in request.messages)
            return Turn(calls=[PAYS] * steps[done]) if done < len(steps) else Turn("done")

        model = ScriptedModel([answer], cycle=True)
        self.agent = Agent("agent", model=model, instructions="Pay.", tools=[pay], **options)


async def record_run(cashier: Cashier, decisions: Sequence[Any]) -> Recording:
    async with AgentRuntime([cashier.agent], history="full") as runtime:
        result = await runtime.run("agent", "hi")
        left = list(decisions)
        while result.is_waiting:
            ticket = result.tickets[0]
            given = left.pop(0)
            await runtime.decide(ticket.ticket_id, **given)
            result = await runtime.wait(result.run_id)
        assert not left
        return await runtime.replays.record(result.run_id, ())


async def evaluate_recording(
    cashier: Cashier, recording: Recording, mode: EvalMode, **fields: Any
) -> EvalResult:
    case = Case(id="c", recording="0" * 64, scorers=(scorers.contains("done"),), **fields)
    dataset = Dataset(cases=()).with_recorded(case, recording)
    return await evaluate(dataset, [cashier.agent], mode=mode, repeats=1)


YES, NO = {"action": "resume"}, {"action": "cancel"}


@pytest.mark.parametrize("steps", [(1, 1), (2,)])
@pytest.mark.parametrize("mode", [EvalMode.LIVE, EvalMode.RECORDED, EvalMode.VERIFY])
@pytest.mark.parametrize(("decisions", "paid"), [([YES, NO], 1), ([NO, YES], 1), ([NO, NO], 0)])
def test_an_equal_call_gets_the_decision_on_itself(
    steps: Sequence[int], mode: EvalMode, decisions: Sequence[Any], paid: int
) -> None:
    """What was refused then is not executed, although an equal call was approved."""

    async def main() -> None:
        recording = await record_run(Cashier(steps), decisions)
        # Nothing of the real tool answers from the recording here: each yes is an effect.
        again = Cashier(steps)
        live = ToolPolicy(source="live", allow_effects=True)  # type: ignore[arg-type]
        done = await evaluate_recording(again, recording, mode, tools=live)
        assert [it.status.value for it in done.items] == ["scored"], done.items[0].error
        assert again.paid == paid

    asyncio.run(main())


def test_a_call_more_than_recorded_is_not_decided_by_the_recording() -> None:
    async def main() -> None:
        recording = await record_run(Cashier((1,)), [YES])
        for rule, status, paid in (
            (OnQuestion.STOP, "failed", 0),
            (OnQuestion.DENY, "scored", 0),
            (OnQuestion.APPROVE, "scored", 1),
        ):
            again = Cashier((1, 1))
            fields: dict[str, Any] = {"tools": LIVE, "on_question": rule}
            done = await evaluate_recording(again, recording, EvalMode.LIVE, **fields)
            assert done.items[0].status.value == status, (rule, done.items[0].error)
            assert again.paid == paid, rule

    asyncio.run(main())


def test_a_decision_that_was_remembered_answers_later_calls_of_the_sample_only() -> None:
    def make() -> Cashier:
        return Cashier((1, 1), approval=False, plugins=[PermissionPlugin([ask("pay")])])

    async def main() -> None:
        remember = Remember(scope=PermissionScope.PROJECT, pattern="pay")
        recording = await record_run(make(), [{**YES, "remember": remember}])
        again = make()
        for _ in range(2):
            done = await evaluate_recording(again, recording, EvalMode.LIVE)
            assert [it.status.value for it in done.items] == ["scored"], done.items[0].error
        assert again.paid == 0

    asyncio.run(main())
