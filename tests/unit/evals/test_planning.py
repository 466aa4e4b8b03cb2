"""The plan of an eval: its order, its repeats, and what is refused before anything is spent."""

from itertools import groupby

import pytest

from awaken.contracts.evals.cases import (
    Case,
    CaseEntry,
    CaseStatus,
    CaseTurn,
    DatasetRevision,
    Expectation,
)
from awaken.contracts.evals.errors import InvalidEval, UnknownCase
from awaken.contracts.evals.eval_runs import EvalMode, EvalSpec
from awaken.contracts.evals.worlds import (
    ScriptedTurn,
    SimulatedUser,
    ToolPolicy,
    ToolSource,
    Variant,
)
from awaken.evals.planning import check_case, count_repeats, plan_samples, select_cases

SCRIPT = (ScriptedTurn(text="yes"),)
CASES = [Case(id=f"c{n}", user_input="hi", provider_script=SCRIPT) for n in range(6)]
VARIANTS = (Variant(name="a"), Variant(name="b"), Variant(name="c"))


def spec(**fields: object) -> EvalSpec:
    return EvalSpec(**{"dataset_id": "d", "mode": EvalMode.SCRIPTED, **fields})  # type: ignore[arg-type]


def revision(*entries: CaseEntry) -> DatasetRevision:
    return DatasetRevision(dataset_id="d", revision=1, cases=entries)


def test_every_sample_is_planned_once_and_the_seed_alone_decides_the_order() -> None:
    first = plan_samples(spec(variants=VARIANTS, repeats=4, seed=7), CASES)
    assert plan_samples(spec(variants=VARIANTS, repeats=4, seed=7), CASES) == first
    assert plan_samples(spec(variants=VARIANTS, repeats=4, seed=8), CASES) != first
    keys = {(it.case_id, it.variant, it.sample) for it in first}
    assert len(keys) == len(first) == 6 * 3 * 4
    assert [it.number for it in first] == list(range(len(first)))


def test_the_variants_of_a_case_begin_one_after_another() -> None:
    planned = plan_samples(spec(variants=VARIANTS, repeats=5), CASES)
    cells = [[it.variant for it in group] for _, group in groupby(planned, _cell)]
    assert all(sorted(names) == ["a", "b", "c"] for names in cells)
    assert len({tuple(names) for names in cells}) > 1


def _cell(it: object) -> tuple[str, int]:
    return it.sample, it.case_id  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fields", "case", "repeats"),
    [
        ({}, CASES[0], 1),
        ({"mode": EvalMode.RECORDED}, CASES[0], 1),
        ({"mode": EvalMode.VERIFY}, CASES[0], 1),
        ({"mode": EvalMode.LIVE}, CASES[0], 5),
        ({"tools": ToolPolicy(source=ToolSource.LIVE)}, CASES[0], 5),
        ({"tools": ToolPolicy(allow_live=("look_up",))}, CASES[0], 5),
        ({}, Case(id="u", user=SimulatedUser(goal="x"), provider_script=SCRIPT), 5),
        ({"mode": EvalMode.LIVE, "repeats": 2}, CASES[0], 2),
    ],
)
def test_what_may_answer_differently_is_repeated(
    fields: dict[str, object], case: Case, repeats: int
) -> None:
    assert count_repeats(spec(**fields), case) == repeats


def test_more_samples_than_an_eval_may_have_are_refused() -> None:
    with pytest.raises(InvalidEval, match="18 samples, and an eval may have 17"):
        plan_samples(spec(variants=VARIANTS), CASES, 17)


def test_cases_are_selected_by_id_tag_and_split_and_drafts_only_if_asked_for() -> None:
    entries = (
        CaseEntry(id="a", hash="1", tags=("x",), split="test"),
        CaseEntry(id="b", hash="2", tags=("x", "y"), split="train"),
        CaseEntry(id="c", hash="3", status=CaseStatus.DRAFT),
    )
    found = revision(*entries)
    assert select_cases(found, spec()) == ("a", "b")
    assert select_cases(found, spec(tags=("y",))) == ("b",)
    assert select_cases(found, spec(split="test")) == ("a",)
    assert select_cases(found, spec(has_drafts=True)) == ("a", "b", "c")
    with pytest.raises(UnknownCase, match="no case 'z'"):
        select_cases(found, spec(cases=("a", "z")))
    with pytest.raises(InvalidEval, match="case 'c' is a draft"):
        select_cases(found, spec(cases=("c",)))
    with pytest.raises(InvalidEval, match="no case of dataset 'd' fits"):
        select_cases(found, spec(tags=("nothing",)))


@pytest.mark.parametrize(
    ("case", "mode", "problem"),
    [
        (CASES[0], EvalMode.SCRIPTED, "no expectation and no scorer"),
        (Case(id="x", user_input="hi", expect=Expectation()), EvalMode.SCRIPTED, "provider_script"),
        (Case(id="x", user_input="hi", expect=Expectation()), EvalMode.VERIFY, "no recording"),
        (
            Case(
                id="x",
                user_input="hi",
                provider_script=SCRIPT,
                continued_turns=(CaseTurn(user_input="and"),),
                expect=Expectation(),
            ),
            EvalMode.SCRIPTED,
            "further turn without a provider_script",
        ),
        *(
            (
                Case(
                    id="x",
                    recording="0" * 32,
                    continued_turns=(CaseTurn(user_input="and"),),
                    expect=Expectation(),
                ),
                mode,
                "further turns, which its recording does not have",
            )
            for mode in (EvalMode.RECORDED, EvalMode.VERIFY)
        ),
    ],
)
def test_a_case_that_the_eval_cannot_try_is_refused(
    case: Case, mode: EvalMode, problem: str
) -> None:
    with pytest.raises(InvalidEval, match=problem):
        check_case(case, spec(mode=mode), has_scorers=False)
