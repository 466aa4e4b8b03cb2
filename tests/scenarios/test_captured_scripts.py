"""The answers of a run become the script of a case only if a script can say them."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from awaken import Agent, AgentRuntime
from awaken.contracts.evals.errors import InvalidDataset
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.models.errors import Unauthorized
from awaken.errors import RunFailed
from awaken.evals import Dataset, Recording, evaluate
from awaken.evals.capture import CapturePlan, ScriptMode, build_case
from awaken.extensions.guardrails import GuardrailsPlugin
from awaken.models import InferenceRequest, ModelEvent
from awaken.testing import ScriptedModel


class CutModel:
    """Begins an answer, and fails."""

    name = "own"

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta(delta="I will")
        raise Unauthorized("no key")


def make_guarded() -> Agent:
    rule = {"name": "plans", "on": ["output"], "action": "block", "pattern": "Falcon"}
    model = ScriptedModel(["Falcon ships in May."] * 9)
    config = {"guardrails": {"rules": [rule]}}
    return Agent("a", model=model, plugins=[GuardrailsPlugin()], config=config)


def record(agent: Agent) -> Recording:
    async def main() -> Recording:
        async with AgentRuntime([agent], history="full") as runtime:
            try:
                done = await runtime.run("a", "When?")
            except RunFailed as error:
                done = error.result
            found: Recording = await runtime.replays.record(done.run_id)
            return found

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        (Agent("a", model=CutModel(), instructions="x"), "step 1 has no whole answer"),
        (make_guarded(), "a guardrail held back the answer of step 1"),
    ],
)
def test_an_answer_that_is_not_whole_is_no_script(agent: Agent, problem: str) -> None:
    recording = record(agent)
    made = build_case(recording, "c", CapturePlan())
    assert made.case.provider_script == ()
    assert made.case.provider_script_error == problem
    with pytest.raises(InvalidDataset, match=problem):
        build_case(recording, "c", CapturePlan(script=ScriptMode.REQUIRE))
    # Its recording has what is needed: the case passes by its own proposal.
    dataset = Dataset(cases=(made.case,), recordings=made.recordings)
    options: dict[str, Any] = {"mode": "verify", "has_drafts": True}
    assert asyncio.run(evaluate(dataset, [agent], **options)).is_passed
