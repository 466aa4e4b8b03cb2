"""`eval_cases`: one test for each case, and the gate as its assertion."""

from typing import Any

import pytest

from awaken import Agent
from awaken.evals import Case, Dataset, EvalResult, ScriptedTurn, scorers
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
