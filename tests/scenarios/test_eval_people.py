"""What the people of a case do decides its own samples, and no others."""

import asyncio
from typing import Any

import pytest

from awaken import Agent, tool
from awaken.contracts.models.errors import Unauthorized
from awaken.evals import (
    Case,
    EvalResult,
    EvalStatus,
    PlannedDecision,
    SimulatedUser,
    ToolPolicy,
    ToolStub,
    evaluate,
    scorers,
)
from awaken.models import InferenceRequest, ModelSpec
from awaken.testing import ScriptedModel, Turn

SAYS = (scorers.contains("yes"),)
OTHER = Case(id="other", user_input="hi", scorers=SAYS)


@tool(effect="once", approval=True)
def pay(amount: int) -> str:
    """Pay."""
    raise AssertionError


def run(*cases: Case, **options: Any) -> EvalResult:
    return asyncio.run(evaluate(cases, **options))


def find_statuses(done: EvalResult) -> dict[str, set[str]]:
    return {
        case_id: {it.status.value for it in done.items if it.case_id == case_id}
        for case_id in ("c", "other")
    }


def test_a_model_of_a_person_that_fails_leaves_its_samples_missing_and_others_as_they_are() -> None:
    asked: list[InferenceRequest] = []

    def refuse(request: InferenceRequest) -> Turn:
        asked.append(request)
        raise Unauthorized("no key")

    providers = {"own": ScriptedModel([refuse] * 9)}
    models = [ModelSpec(id="m", provider_id="own", upstream_model="m", max_output_tokens=100)]
    done = run(
        Case(id="c", user=SimulatedUser(goal="a yes", model_id="m"), scorers=SAYS),
        OTHER,
        agents=[Agent(id="agent", model=ScriptedModel(["yes"] * 9), instructions="Answer.")],
        repeats=1,
        runtime_options={"providers": providers, "models": models},
    )
    assert find_statuses(done) == {"c": {"infra_error"}, "other": {"scored"}}
    missing = next(it for it in done.items if it.case_id == "c")
    assert "the simulated person could not be asked: no key" in (missing.error or "")
    assert len(asked) == 3, "a sample is tried again twice"
    assert done.record.status is EvalStatus.INCOMPLETE
    # Nothing of it counts as 0.
    (variant,) = done.figures.variants
    assert (variant.failed, variant.missing, variant.scorers[0].rate) == (0, 1, 1.0)


@pytest.mark.parametrize("result", [{"x": 1}, "perhaps"])
def test_a_decision_that_its_question_refuses_fails_its_own_sample(result: Any) -> None:
    def answer(request: InferenceRequest) -> Turn:
        if "pay" not in request.messages[0].text or request.messages[-1].role == "tool":
            return Turn("yes")
        return Turn(calls=[("pay", {"amount": 5})])

    done = run(
        Case(
            id="c",
            user_input="pay",
            decisions=(PlannedDecision(tool="pay", result=result),),
            tools=ToolPolicy(stubs={"pay": (ToolStub(result="paid"),)}),
            scorers=SAYS,
        ),
        OTHER,
        agents=[Agent(id="a", model=ScriptedModel([answer] * 9), instructions="x", tools=[pay])],
        repeats=1,
        mode="live",
    )
    assert find_statuses(done) == {"c": {"failed"}, "other": {"scored"}}
    error = next(it.error or "" for it in done.items if it.case_id == "c")
    assert error.startswith("waiting: The decision on ticket"), error
    assert done.record.status is EvalStatus.DONE
