"""`eval_cases`: one test for each case, and the gate as its assertion."""

import asyncio
from typing import Any

import pytest

from awaken import Agent
from awaken.contracts.evals.cases import CaseStatus
from awaken.contracts.evals.errors import InvalidEval
from awaken.evals import (
    Case,
    Dataset,
    EvalResult,
    ScriptedTurn,
    Variant,
    evaluate,
    scorers,
)
from awaken.testing import ScriptedModel, eval_cases

AGENT = Agent(id="agent", model=ScriptedModel([]), instructions="Answer.")
DATASET = Dataset(
    cases=tuple(
        Case(id=name, user_input="hi", provider_script=(ScriptedTurn(text=text),))
        for name, text in (("polite", "yes, please"), ("short", "yes"))
    ),
    scorers=(scorers.contains("yes"),),
)
seen: list[str] = []


@eval_cases(DATASET, [AGENT], repeats=2)
def test_each_case_is_a_test_with_its_repeats_inside(result: EvalResult) -> None:
    assert len(result.items) == 2
    seen.append(result.items[0].case_id)


def test_every_case_was_tried() -> None:
    if seen:  # Not if this test runs alone.
        assert set(seen) <= {"polite", "short"}


def test_a_case_that_does_not_pass_fails_its_test_and_says_why() -> None:
    strict = Dataset(cases=DATASET.cases, scorers=(scorers.contains("please"),))
    calls: list[EvalResult] = []
    made: Any = eval_cases(strict, [AGENT])(calls.append)
    (mark,) = made.pytestmark
    assert mark.args == ("case_id", ["polite", "short"])
    made("polite")
    with pytest.raises(AssertionError, match=r"case 'short'.*contains.*'yes'"):
        made("short")
    assert len(calls) == 1


def make(dataset: Dataset, agents: list[Agent], **options: Any) -> tuple[Any, list[str], list[str]]:
    calls: list[str] = []

    def test(result: EvalResult) -> None:
        calls.append(result.items[0].case_id)

    made: Any = eval_cases(dataset, agents, **options)(test)
    (mark,) = made.pytestmark
    return made, mark.args[1], calls


def test_a_gate_is_judged_once_over_all_cases() -> None:
    # 9 of 10 pass, and the gate asks for that: one case alone would have 0 of 1.
    texts = ["yes"] * 9 + ["no"]
    cases = tuple(
        Case(id=f"c{at}", user_input="hi", provider_script=(ScriptedTurn(text=text),))
        for at, text in enumerate(texts)
    )
    for rate, is_passed in ((0.9, True), (0.95, False)):
        gate = {"require": [{"scorer": "contains", "min_rate": rate}]}
        dataset = Dataset(cases=cases, scorers=(scorers.contains("yes"),), gate=gate)
        made, ids, calls = make(dataset, [AGENT])
        assert ids == [*(it.id for it in cases), "(gate)"]
        for name in ids[:-1]:
            made(name)
        assert len(calls) == 10
        if is_passed:
            made("(gate)")
        else:
            with pytest.raises(AssertionError, match=r"gate: require\[0\] failed.*0\.900"):
                made("(gate)")


def test_a_gate_needs_no_other_test_and_tries_no_case_twice() -> None:
    model = ScriptedModel(["yes"] * 99)
    agent = Agent(id="agent", model=model, instructions="Answer.")
    cases = tuple(Case(id=f"c{at}", user_input="hi") for at in range(3))
    gate = {"require": [{"scorer": "contains", "min_rate": 1}]}
    dataset = Dataset(cases=cases, scorers=(scorers.contains("yes"),))
    made, ids, calls = make(dataset, [agent], repeats=2, gate=gate)
    made(ids[0])
    made(ids[-1])
    made(ids[1])
    assert len(model.requests) == 6
    assert calls == ["c0", "c1"]


def test_a_case_that_a_gate_names_has_to_pass_by_itself() -> None:
    case = Case(
        id="smoke", user_input="hi", tags=("smoke",), provider_script=(ScriptedTurn(text="no"),)
    )
    gate = {"cases": {"must_pass": ["smoke"]}}
    dataset = Dataset(cases=(*DATASET.cases, case), scorers=DATASET.scorers, gate=gate)
    made, ids, _ = make(dataset, [AGENT])
    made("polite")
    for name in ("smoke", ids[-1]):
        with pytest.raises(AssertionError, match="smoke"):
            made(name)


def test_only_chosen_cases_are_tests_and_none_is_an_error() -> None:
    draft = Case(id="draft", user_input="hi", status=CaseStatus.DRAFT)
    tagged = Case(
        id="tagged", user_input="hi", tags=("t",), provider_script=(ScriptedTurn(text="yes"),)
    )
    dataset = Dataset(cases=(*DATASET.cases, draft, tagged), scorers=DATASET.scorers)
    assert make(dataset, [AGENT])[1] == ["polite", "short", "tagged"]
    made, ids, calls = make(dataset, [AGENT], tags=["t"])
    made(*ids)
    assert calls == ["tagged"]
    chosen, ids, calls = make(dataset, [AGENT], cases=["short", "tagged"], mode="scripted")
    chosen("short")
    assert (ids, calls) == (["short", "tagged"], ["short"])
    for nothing in (Dataset(cases=()), Dataset(cases=(draft,))):
        with pytest.raises(InvalidEval, match="no case"):
            make(nothing, [AGENT])


@pytest.mark.parametrize("is_pytest", [True, False])
def test_a_gate_is_for_the_agent_and_the_repeats_that_its_terms_state(is_pytest: bool) -> None:
    agents = [
        Agent(id=name, model=ScriptedModel([text] * 9), instructions="Answer.")
        for name, text in (("first", "yes"), ("wanted", "no"))
    ]
    gate = {
        "terms": {"agent_id": "wanted", "repeats": 2, "seed": 7},
        "require": [{"scorer": "contains", "min_rate": 1.0}],
    }
    cases = (Case(id="c", user_input="hi"),)
    dataset = Dataset(cases=cases, scorers=(scorers.contains("yes"),), gate=gate)
    if is_pytest:
        made, ids, _ = make(dataset, agents)
        assert ids == ["c", "(gate)"]
        with pytest.raises(AssertionError, match=r"case 'c'.*sample 1: contains.*'no'"):
            made("(gate)")
        return
    done = asyncio.run(evaluate(dataset, agents))
    assert {it.agent_id for it in done.items} == {"wanted"}
    assert (len(done.items), done.record.spec.seed, done.is_passed) == (2, 7, False)
    # What an eval says itself is tried all the same; its gate lets nothing be published.
    variants = (Variant(name="v", agent_id="first"),)
    assert asyncio.run(evaluate(dataset, agents, variants=variants)).is_passed
