"""What an eval says itself counts; only what it leaves out is taken from the terms of its gate."""

from typing import Any

import pytest

from awaken.contracts.evals.cases import Case
from awaken.contracts.evals.eval_runs import CELL_TIMEOUT_MS, EvalMode, EvalSpec
from awaken.contracts.evals.worlds import OnMiss, ScriptedTurn, ToolPolicy, Variant
from awaken.evals.evaluating import Dataset, build_spec
from awaken.evals.terms import apply_terms, list_off_terms
from awaken.scoring.gates import GateTerms
from awaken.testing.eval_cases import TriedCases

TERMS = GateTerms(
    mode=EvalMode.SCRIPTED,
    seed=7,
    cell_timeout_ms=5_000,
    tools=ToolPolicy(on_miss=OnMiss.ERROR),
)
STATED: dict[str, Any] = {
    "mode": EvalMode.LIVE,
    "seed": 0,
    "cell_timeout_ms": CELL_TIMEOUT_MS,
    "tools": ToolPolicy(),
}
SCRIPTED = Case(id="c", user_input="hi", provider_script=(ScriptedTurn(text="ok"),))
GATE = {"require": [{"scorer": "contains", "min_rate": 1.0}]}


def test_what_an_eval_leaves_out_is_taken_from_the_terms() -> None:
    made = apply_terms(EvalSpec(dataset_id="d"), TERMS)
    assert [getattr(made, it) for it in STATED] == [getattr(TERMS, it) for it in STATED]
    assert list_off_terms(made, TERMS) == ()


@pytest.mark.parametrize("name", STATED)
def test_what_an_eval_states_counts_even_if_it_is_the_default(name: str) -> None:
    made = apply_terms(EvalSpec(dataset_id="d", **{name: STATED[name]}), TERMS)
    assert getattr(made, name) == STATED[name]
    (problem,) = list_off_terms(made, TERMS)
    assert problem.startswith(f"{name} is ")


def test_an_eval_that_is_kept_leaves_nothing_open() -> None:
    made = apply_terms(EvalSpec(dataset_id="d"), GateTerms())
    assert [getattr(made, it) for it in STATED] == list(STATED.values())
    assert list_off_terms(made, GateTerms()) == ()


def test_the_mode_of_the_terms_comes_before_the_one_that_the_cases_suggest() -> None:
    variants = (Variant(name="v"),)
    gate = {**GATE, "terms": {"mode": "live"}}
    stated = Dataset(cases=(SCRIPTED,), gate=gate)
    assert build_spec(stated, variants, {}).mode is EvalMode.LIVE
    assert build_spec(stated, variants, {"mode": "scripted"}).mode is EvalMode.SCRIPTED
    silent = Dataset(cases=(SCRIPTED,), gate=GATE)
    assert build_spec(silent, variants, {}).mode is EvalMode.SCRIPTED
    assert build_spec(silent, variants, {"gate": gate}).mode is EvalMode.LIVE
    # The tests of single cases are tried without the gate, and in its mode.
    assert TriedCases(stated, [], None, {})._options["mode"] is EvalMode.LIVE
    assert TriedCases(silent, [], None, {})._options["mode"] is EvalMode.SCRIPTED
