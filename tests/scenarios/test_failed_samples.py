"""A sample that failed fails by every scorer of its case, and by no other one."""

import asyncio

from awaken import Agent, AgentRuntime, tool
from awaken.evals import (
    Case,
    Dataset,
    EvalItem,
    EvalMode,
    EvalResult,
    EvalSpec,
    ItemStatus,
    Score,
    Variant,
    evaluate,
    scorers,
)
from awaken.evals.evaluating import keep_dataset
from awaken.evals.outcomes import name_unscored
from awaken.evals.rescoring import rescore_eval
from awaken.models import InferenceRequest
from awaken.scoring.figures import summarize_variant
from awaken.testing import ScriptedModel, Turn

FORBIDDEN = scorers.forbidden_tools("delete")
GREETS = scorers.contains("Hello")


@tool(effect="once")
async def pay(amount: int) -> str:
    """Pay."""
    raise AssertionError


def answer(request: InferenceRequest) -> Turn:
    """Answer a greeting; call a tool that the case has no answer for otherwise."""
    if "hi" in request.messages[-1].text:
        return Turn("Hello")
    return Turn(calls=[("pay", {"amount": 1})])


def make_agent() -> Agent:
    return Agent("clerk", model=ScriptedModel([answer], cycle=True), tools=[pay])


def try_cases(dataset: Dataset) -> EvalResult:
    return asyncio.run(evaluate(dataset, [make_agent()], mode="live", repeats=1))


def rates(result: EvalResult) -> dict[str, tuple[float | None, int]]:
    return {it.scorer: (it.rate, it.cases) for it in result.figures.variants[0].scorers}


def test_a_case_that_always_diverges_fails_by_the_scorers_that_nothing_was_wrong_for() -> None:
    gate = {"require": [{"scorer": "forbidden_tools", "min_rate": 1.0}]}
    cases = (Case(id="one", user_input="hi"), Case(id="two", user_input="pay"))
    result = try_cases(Dataset(cases=cases, scorers=(FORBIDDEN, GREETS), gate=gate))
    assert [it.status for it in result.items].count(ItemStatus.DIVERGED) == 1
    assert rates(result) == {"forbidden_tools": (0.5, 2), "contains": (0.5, 2)}
    assert not result.is_passed


def test_a_case_that_always_times_out_fails_by_its_own_scorers_alone() -> None:
    passed = Score(name="contains", value=1.0, passed=True)
    items = [
        EvalItem(
            number=0,
            case_id="one",
            variant="v",
            sample=0,
            status=ItemStatus.SCORED,
            scores=(passed,),
        ),
        EvalItem(number=1, case_id="two", variant="v", sample=0, status=ItemStatus.TIMEOUT),
    ]
    figures = summarize_variant([items[0], name_unscored(items[1], (FORBIDDEN,))], "v")
    found = {it.scorer: (it.rate, it.cases) for it in figures.scorers}
    assert found == {"contains": (1.0, 1), "forbidden_tools": (0.0, 1)}


def test_a_failed_sample_does_not_pass_because_it_is_scored_again() -> None:
    dataset = Dataset(cases=(Case(id="two", user_input="pay"),), scorers=(FORBIDDEN,))

    async def main() -> tuple[EvalResult, str]:
        async with AgentRuntime([make_agent()]) as runtime:
            runner = runtime.evals
            await keep_dataset(runner.parts.evals, dataset)
            variant = Variant(name="v", agent_id="clerk")
            spec = EvalSpec(
                dataset_id=dataset.id, variants=(variant,), mode=EvalMode.LIVE, repeats=1
            )
            record = await runner.create(spec)
            runner.start(record.eval_id)
            ended = await runner.wait(record.eval_id, 30_000)
            return await rescore_eval(runner, record.eval_id), str(ended.status)

    result, status = asyncio.run(main())
    assert status == "done"
    assert rates(result) == {"forbidden_tools": (0.0, 1)}
    assert not result.is_passed
