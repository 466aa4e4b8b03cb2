"""What an eval does not know is missing, and what it did not spend is not spent."""

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, tool, workflow
from awaken.contracts.evals.errors import (
    InvalidEval,
    InvalidGate,
    InvalidScorer,
    NotComparable,
    UnknownDataset,
)
from awaken.contracts.evals.eval_runs import EvalSpec, EvalStatus, ItemStatus
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.evals import (
    Case,
    Dataset,
    EvalBudget,
    EvalMode,
    EvalResult,
    OnMiss,
    ScorerSpec,
    ScriptedCall,
    ScriptedTurn,
    ToolPolicy,
    Variant,
    compare,
    evaluate,
    scorers,
)
from awaken.evals.evaluating import keep_dataset
from awaken.evals.simulated_tools import simulate_call
from awaken.models import TokenUsage
from awaken.testing import ScriptedModel, Turn

USAGE = TokenUsage(prompt_tokens=4, completion_tokens=6, total_tokens=10)
GATE: dict[str, Any] = {"require": [{"scorer": "contains", "min_rate": 1.0}]}


def agent(*answers: Any, **options: Any) -> Agent:
    return Agent(id="agent", model=ScriptedModel(answers), instructions="Answer.", **options)


def case(case_id: str = "c", usage: TokenUsage | None = None, **fields: Any) -> Case:
    script = (ScriptedTurn(text="yes", usage=usage),)
    return Case(id=case_id, user_input="hi", provider_script=script, **fields)


def dataset(*cases: Case, **fields: Any) -> Dataset:
    return Dataset(cases=cases or (case(),), scorers=(scorers.contains("yes"),), **fields)


def run(given: Dataset, *agents: Any, **options: Any) -> EvalResult:
    return asyncio.run(evaluate(given, agents or [agent()], **options))


def test_scripted_answers_report_the_tokens_that_they_have_and_no_others() -> None:
    limit = (scorers.max_tokens(100),)
    unknown = run(dataset(case(scorers=limit)))
    assert (unknown.items[0].usage or USAGE).total_tokens is None
    score = next(it for it in unknown.items[0].scores if it.name == "max_tokens")
    assert (score.value, score.passed) == (None, None)
    assert unknown.figures.variants[0].tokens is None
    known = run(dataset(case(usage=USAGE, scorers=limit)))
    assert known.is_passed
    assert known.items[0].usage == USAGE


def test_answers_that_nobody_paid_for_are_not_spent() -> None:
    done = run(dataset(case(usage=USAGE)))
    assert done.record.spent == {"tokens": 0, "cost_usd": 0}
    live = {"mode": EvalMode.LIVE, "repeats": 1}
    paid = run(dataset(), agent(Turn("yes", usage=USAGE)), **live)
    assert paid.record.spent == {"tokens": 10, "cost_usd": None}
    # A provider that reports nothing is not free, nor is a model without a price below a cap.
    model = ScriptedModel(["yes"], usage=None)
    silent = run(dataset(), Agent(id="agent", model=model, instructions="Answer."), **live)
    assert silent.record.spent == {"tokens": None, "cost_usd": None}
    capped = run(
        dataset(), agent(Turn("yes", usage=USAGE)), budget=EvalBudget(tokens=10**9), **live
    )
    assert capped.record.spent == {"tokens": 10, "cost_usd": None}


def test_an_eval_that_is_cancelled_says_what_it_has_spent() -> None:
    async def main() -> None:
        model = ScriptedModel([Turn("yes", usage=USAGE), Turn("yes", usage=USAGE)])
        given = Agent(id="agent", model=model, instructions="Answer.")
        async with asyncio.timeout(60), AgentRuntime([given]) as runtime:
            runner = runtime.evals
            await keep_dataset(runner.parts.evals, dataset(case("a")))
            spec = EvalSpec(
                dataset_id="dataset", variants=(Variant(name="v", agent_id="agent"),), repeats=2
            )
            made = await runner.create(spec)
            runner.start(made.eval_id)
            done = await runner.wait(made.eval_id)
            other = await runner.create(spec)
            for item in await runner.parts.evals.list_eval_items(done.eval_id, limit=1):
                await runner.parts.evals.put_eval_item(other.eval_id, item)
            ended = await runner.cancel(other.eval_id)
            assert ended.status is EvalStatus.CANCELLED
            assert ended.spent == {"tokens": 10, "cost_usd": None}

    asyncio.run(main())


def test_an_eval_without_a_sample_is_not_compared_and_one_with_some_warns() -> None:
    done = run(dataset(case("a"), case("b")))
    cancelled = msgspec.structs.replace(done.record, eval_id="half", status=EvalStatus.CANCELLED)
    half = EvalResult(record=cancelled, items=done.items[:1], figures=done.figures)
    for pair in ((done, half), (half, done)):
        (found,) = compare(*pair)
        assert found.warnings == ("eval 'half' is cancelled: 1 of 2 samples",)
    empty = EvalResult(record=cancelled, items=(), figures=done.figures)
    for pair in ((done, empty), (empty, done)):
        with pytest.raises(NotComparable, match="'half' is cancelled and has no sample"):
            compare(*pair)
    with pytest.raises(NotComparable, match="has no sample"):
        run(dataset(case("a"), case("b")), baseline=empty)
    # Nothing scored what is missing.
    cut = EvalResult(
        record=cancelled,
        items=tuple(
            msgspec.structs.replace(it, status=ItemStatus.CUT, scores=()) for it in done.items
        ),
        figures=done.figures,
    )
    assert [it.verdict for found in compare(done, cut) for it in found.scorers] == ["undecided"]
    with pytest.raises(NotComparable, match="no scorer has scored samples of both"):
        compare(cut, cut)


def test_a_stored_baseline_without_a_sample_is_refused_before_anything_is_spent() -> None:
    async def main() -> None:
        async with asyncio.timeout(60), AgentRuntime([agent()]) as runtime:
            runner = runtime.evals
            await keep_dataset(runner.parts.evals, dataset())
            spec = EvalSpec(
                id="first",
                dataset_id="dataset",
                mode=EvalMode.SCRIPTED,
                variants=(Variant(name="v", agent_id="agent"),),
            )
            await runner.create(spec)
            await runner.cancel("first")
            with pytest.raises(NotComparable, match="'first' is cancelled and has no sample"):
                await runner.create(msgspec.structs.replace(spec, id="second", baseline="first"))
            wrong = msgspec.structs.replace(spec, id=None, revision=9)
            with pytest.raises(UnknownDataset, match="with a revision 9; its newest is 1"):
                await runner.create(wrong)
            wrong = msgspec.structs.replace(wrong, dataset_id="none")
            with pytest.raises(UnknownDataset, match=r"There is no dataset 'none'\."):
                await runner.create(wrong)

    asyncio.run(main())


def test_an_empty_gate_is_refused_instead_of_left_out() -> None:
    with pytest.raises(InvalidGate):
        run(dataset(), gate={})
    with pytest.raises(InvalidGate):
        run(dataset(gate=GATE), gate={})
    with pytest.raises(InvalidGate):
        run(dataset(gate={}))


def test_a_call_that_nothing_answers_names_the_ways_out() -> None:
    calls = (ScriptedTurn(calls=(ScriptedCall(name="look"),)), ScriptedTurn(text="yes"))
    given = Case(id="c", user_input="hi", provider_script=calls)

    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    done = run(dataset(given), agent(tools=[look]))
    assert done.items[0].status is ItemStatus.DIVERGED
    error = done.items[0].error or ""
    assert "nothing answers 'look', and there is no recording" in error
    assert "give a stub of it, or another on_miss" in error


def test_a_module_that_may_not_score_names_the_variable_that_allows_it() -> None:
    own = ScorerSpec(scorer="python", options={"function": "nowhere:score"})
    with pytest.raises(InvalidScorer, match="AWAKEN_EVAL_MODULES"):
        run(dataset(case(scorers=(own,))))


def test_tools_of_a_workflow_are_not_simulated_because_it_has_no_model() -> None:
    @workflow
    async def flow(ctx: Any, text: str) -> str:
        return "yes"

    policy = ToolPolicy(on_miss=OnMiss.SIMULATE)
    variants = [Variant(name="v", agent_id="flow")]
    with pytest.raises(InvalidEval, match="agent 'flow' has no model that could simulate"):
        run(dataset(), flow, variants=variants, mode=EvalMode.LIVE, repeats=1, tools=policy)
    # Below an agent that has one, its calls fail, and say why.
    asked: Any = SimpleNamespace(agent=SimpleNamespace(models=(), spec=SimpleNamespace(id="flow")))
    descriptor = ToolDescriptor(id="look", name="look", description="Look.")
    output = asyncio.run(simulate_call(asked, None, descriptor, {}))
    assert output.result.metadata["simulated"]
    assert "agent 'flow' has no model" in (output.result.message or "")
