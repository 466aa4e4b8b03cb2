"""Gates are read strictly, pass only with enough data, and say why."""

from typing import Any

import msgspec
import pytest

from awaken.contracts.evals.errors import InvalidDataset, InvalidGate
from awaken.contracts.evals.eval_runs import EvalItem, ItemStatus
from awaken.contracts.evals.scores import JudgeUse
from awaken.contracts.evals.verdicts import Calibration, FixtureChange, GateStatus
from awaken.scoring.fixture_diffs import diff_reports
from awaken.scoring.gates import Gate, GateEvidence, evaluate_gate, parse_gate

from .samples import make_item, make_items, make_score

YAML = """
require:
  - {scorer: ok, min_rate: 0.9, min_lower: 0.5}
compare:
  - {scorer: ok, not_worse_than: 0.05, policy: lenient}
cases: {must_pass: [smoke]}
max_cost_ratio: 1.5
max_missing: 0.1
on_undecided: fail
"""


def test_a_gate_is_read_from_yaml_json_and_objects() -> None:
    gate = parse_gate(YAML)
    assert gate.compare[0].not_worse_than == 0.05
    assert gate.cases.must_pass == ("smoke",)
    assert parse_gate('{"require": [{"scorer": "ok", "min_rate": 1}]}').require[0].min_rate == 1
    assert parse_gate({"cases": {"must_pass": ["x"]}}).cases.must_pass == ("x",)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("require: [{scorer: ok}]", "require[0]"),
        ("require: [{scorer: ok, min_rat: 0.9}]", "min_rat"),
        ("require: [{scorer: ok, min_rate: 90}]", "require[0].min_rate"),
        ("require: [{scorer: ok, min_rate: .nan}]", "require[0].min_rate"),
        ("require: [{scorer: ok, min_rate: high}]", "$.require[0].min_rate"),
        ("compare: [{scorer: ok, policy: kind}]", "$.compare[0].policy"),
        ("compare: [{scorer: ok}, {scorer: ok}]", "compare[1].scorer"),
        ("compare: [{scorer: ok, not_worse_than: -1}]", "compare[0].not_worse_than"),
        ("require: [{scorer: ok, min_rate: 1}]\nmax_missing: 2", "max_missing"),
        ("require: [{scorer: ok, min_rate: 1}]\nmax_cost_ratio: 0", "max_cost_ratio"),
        ("require: [{scorer: ok, min_rate: 1}]\nrequire: []", "'require' is there twice"),
        ("{}", "asks for nothing"),
        ("max_missing: 0.1", "asks for nothing"),
        ("", "object"),
        ("a: [", "YAML"),
        ("require: &a [*a]", "aliases"),
        ("[" * 50_000, "YAML"),
        ("x" * 200_000, "longer"),
    ],
)
def test_a_wrong_gate_is_refused_by_field(given: str, named: str) -> None:
    with pytest.raises(InvalidGate) as caught:
        parse_gate(given)
    assert named in str(caught.value)
    assert len(str(caught.value)) < 400


def judge(gate: dict[str, Any], items: list[EvalItem], **fields: Any) -> Any:
    return evaluate_gate(parse_gate(gate), GateEvidence(items=items, variant="b", **fields))


def status_of(result: Any, condition: str) -> GateStatus:
    (found,) = [it.status for it in result.checks if it.condition == condition]
    return found


def make_rate(passes: int, n: int = 100, variant: str = "b") -> list[EvalItem]:
    return make_items(variant, {f"c{it}": [float(it < passes)] for it in range(n)})


@pytest.mark.parametrize(("passes", "status"), [(90, "passed"), (89, "failed"), (100, "passed")])
def test_a_rate_is_met_from_its_value_on(passes: int, status: str) -> None:
    gate = {"require": [{"scorer": "ok", "min_rate": 0.9}]}
    result = judge(gate, make_rate(passes))
    assert result.status == status
    assert f"0.{passes}0" in result.checks[-1].reason or passes == 100


def test_a_lower_end_asks_for_more_than_a_rate() -> None:
    items = make_rate(95)
    assert judge({"require": [{"scorer": "ok", "min_rate": 0.95}]}, items).is_passed
    # Wilson's lower end of 95 of 100 is 0.888.
    assert judge({"require": [{"scorer": "ok", "min_lower": 0.888}]}, items).is_passed
    assert judge({"require": [{"scorer": "ok", "min_lower": 0.889}]}, items).status == "failed"


def test_missing_samples_never_pass_and_are_no_failures() -> None:
    gate = {"require": [{"scorer": "ok", "min_rate": 1}], "max_missing": 0.02}
    cut = [make_item(f"d{it}", "b", 0, status=ItemStatus.CUT) for it in range(3)]
    whole = make_rate(98, 98)
    assert judge(gate, [*whole, *cut[:2]]).is_passed
    result = judge(gate, [*make_rate(97, 97), *cut])
    assert result.status is GateStatus.UNDECIDED
    assert "3 of 100" in result.checks[0].reason
    # Samples that were never begun have no item.
    assert judge(gate, whole, planned=101).status is GateStatus.UNDECIDED
    assert judge(gate, whole, planned=100).is_passed
    assert judge(gate, []).status is GateStatus.UNDECIDED


def test_a_scorer_that_often_cannot_score_passes_nothing() -> None:
    gate = {"require": [{"scorer": "ok", "min_rate": 0.5}]}
    some = make_items("b", {f"e{it}": [None] for it in range(5)})
    assert judge(gate, [*make_rate(95, 95), *some]).is_passed
    result = judge(gate, [*make_rate(94, 94), *some, *make_items("b", {"f": [None]})])
    assert result.status is GateStatus.UNDECIDED
    assert status_of(result, "scorer_errors") is GateStatus.UNDECIDED
    assert judge({"require": [{"scorer": "no", "min_rate": 0}]}, make_rate(1)).status == "undecided"


@pytest.mark.parametrize(
    ("passes", "policy", "on_undecided", "status"),
    [
        (100, "strict", "warn", "passed"),
        (95, "strict", "warn", "failed"),
        (95, "lenient", "warn", "passed"),
        (95, "lenient", "fail", "failed"),
        (80, "lenient", "warn", "failed"),
    ],
)
def test_policies_of_comparisons(passes: int, policy: str, on_undecided: str, status: str) -> None:
    # 98 of 100 in the baseline; its two failures are cases that pass now.
    baseline = make_items("a", {f"c{it}": [float(it not in (0, 1))] for it in range(100)})
    gate = {
        "compare": [{"scorer": "ok", "not_worse_than": 0.02, "policy": policy}],
        "on_undecided": on_undecided,
    }
    result = judge(gate, make_rate(passes), baseline_items=baseline, baseline_variant="a")
    assert result.status == status
    if (passes, on_undecided, policy) == (95, "warn", "lenient"):
        assert any("undecided" in it for it in result.warnings)


def test_a_strict_comparison_of_few_equal_cases_is_undecided_not_failed() -> None:
    gate = {"compare": [{"scorer": "ok", "policy": "strict"}]}

    def compare(cases: int, falls: int = 0, **more: str) -> Any:
        before = make_rate(cases, cases, variant="a")
        after = make_items("b", {f"c{it}": [float(it >= falls)] for it in range(cases)})
        return judge(gate | more, after, baseline_items=before, baseline_variant="a")

    few = compare(5)
    assert status_of(few, "compare[0]") is GateStatus.UNDECIDED
    assert few.is_passed
    assert any("183 cases would decide it" in it for it in few.warnings)
    assert compare(5, on_undecided="fail").status is GateStatus.FAILED
    assert status_of(compare(183), "compare[0]") is GateStatus.PASSED
    assert compare(183).warnings == ()
    # One case that fell is a difference that is seen.
    assert compare(60, falls=1).status is GateStatus.FAILED


def test_a_comparison_without_a_baseline_is_undecided() -> None:
    gate = {"compare": [{"scorer": "ok"}], "on_undecided": "fail"}
    assert judge(gate, make_rate(9, 9)).status == "failed"
    warns = gate | {"on_undecided": "warn"}
    one = make_items("a", {"c0": [1.0]})
    # A warning is for what more data may decide: without any, nothing has passed.
    assert judge(warns, make_rate(9, 9)).status == "undecided"
    assert judge(warns, make_rate(9, 9), baseline_items=one).status == "undecided"
    typo = warns | {"compare": [{"scorer": "typo"}]}
    same = make_rate(9, 9)
    assert judge(typo, same, baseline_items=same).status == "undecided"


def test_cases_that_must_pass_pass_every_time() -> None:
    gate = {"cases": {"must_pass": ["smoke"]}}
    tags = {"x": ["smoke"], "y": ["slow"]}
    good = make_items("b", {"x": [1.0, 1.0], "y": [0.0, 0.0]})
    assert judge(gate, good, tags=tags).is_passed
    bad = make_items("b", {"x": [1.0, 0.0], "y": [1.0, 1.0]})
    result = judge(gate, bad, tags=tags)
    assert result.status == "failed"
    assert "x" in result.checks[-1].reason
    crashed = [*good, make_item("x", "b", 2, status=ItemStatus.FAILED)]
    assert judge(gate, crashed, tags=tags).status == "failed"
    cut = [*good, make_item("x", "b", 2, status=ItemStatus.CUT)]
    assert judge(gate | {"max_missing": 1.0}, cut, tags=tags).status == "undecided"
    assert judge(gate, good, tags={"x": ["smoke"], "z": ["smoke"]}).status == "undecided"
    assert judge(gate, good, tags={}).status == "undecided"


def test_costs_are_compared_per_sample() -> None:
    def make(variant: str, cost: float | None) -> list[EvalItem]:
        return [
            make_item(f"c{it}", variant, 0, make_score("ok", 1.0), cost_usd=cost) for it in range(4)
        ]

    gate = {"max_cost_ratio": 1.5}
    for cost, status in ((0.15, "passed"), (0.151, "failed"), (None, "undecided")):
        result = judge(gate, make("b", cost), baseline_items=make("a", 0.1), baseline_variant="a")
        assert result.status == status
    assert judge(gate, make("b", 0.1)).status == "undecided"


def test_a_gate_on_an_uncalibrated_judge_warns() -> None:
    use = JudgeUse(model_id="m", prompt_hash="h1")
    items = [make_item(f"c{it}", "b", 0, make_score("nice", 1.0, judge=use)) for it in range(5)]
    gate = {"require": [{"scorer": "nice", "min_rate": 0.9}]}
    assert any("uncalibrated" in it for it in judge(gate, items).warnings)
    known = Calibration(
        labels=40, is_calibrated=True, false_pass=0.1, false_fail=0.1, human_fails=20,
        human_passes=20, prompt_hash="h1", model_id="m",
    )  # fmt: skip
    assert judge(gate, items, calibrations={"nice": known}).warnings == ()
    # Another prompt or model is another judge, and what is of no certain judge is of none.
    for key in (("h0", "m"), ("h1", "n"), (None, None)):
        prompt_hash, model_id = key
        stale = msgspec.structs.replace(known, prompt_hash=prompt_hash, model_id=model_id)
        warnings = judge(gate, items, calibrations={"nice": stale}).warnings
        assert any("uncalibrated" in it for it in warnings), key
    # Nor is it known of several judges that scored one eval.
    other = JudgeUse(model_id="n", prompt_hash="h1")
    mixed = [*items, make_item("c9", "b", 0, make_score("nice", 1.0, judge=other))]
    warnings = judge(gate, mixed, calibrations={"nice": known}).warnings
    assert any("uncalibrated" in it for it in warnings)


def test_a_gate_does_not_fail_by_rounding() -> None:
    # Three tenths, as repeats of cases add up to.
    items = make_items("b", {f"c{it}": [1.0, 0.0, 0.0] for it in range(10)})
    assert judge({"require": [{"scorer": "ok", "min_rate": 1 / 3}]}, items).is_passed


def test_reports_are_compared_fixture_by_fixture() -> None:
    def report(fixture_id: str, passed: bool, **fields: Any) -> dict[str, Any]:
        return {"fixture_id": fixture_id, "passed": passed, **fields}

    old = [
        report("same", True, final_text="x", session_duration_ms=10),
        report("broke", True),
        report("fixed", False),
        report("still", False),
        report("drift", True, final_text="x", total_tokens=10),
        report("gone", True),
    ]
    new = [
        report("same", True, final_text="x", session_duration_ms=99),
        report("broke", False, failures=[{"kind": "answer_missing_phrase", "phrase": "x"}]),
        report("fixed", True),
        report("still", False, failures=[{"kind": "duration_exceeded"}]),
        report("drift", True, final_text="y", total_tokens=11),
        report("added", False),
    ]
    found = {it.fixture_id: it for it in diff_reports(old, new)}
    assert {key: it.kind.value for key, it in found.items()} == {
        "added": "newly_added",
        "broke": "regression",
        "drift": "drift",
        "fixed": "fixed",
        "gone": "missing_from_new",
        "same": "unchanged",
        "still": "still_failing",
    }
    assert found["broke"].new_failures == ("answer_missing_phrase",)
    assert found["drift"].fields == ("final_text", "total_tokens")
    blocking = {key for key, it in found.items() if it.is_blocking}
    assert blocking == {"added", "broke", "drift", "gone"}
    assert not diff_reports([], [report("new", True)])[0].is_blocking
    assert diff_reports([], [report("new", True)])[0].kind is FixtureChange.NEWLY_ADDED
    with pytest.raises(InvalidDataset, match="twice"):
        diff_reports([report("a", True)] * 2, [])
    with pytest.raises(InvalidDataset, match="fixture_id"):
        diff_reports([], [{"passed": True}])


def test_the_default_gate_is_strict_about_comparisons() -> None:
    gate = parse_gate({"compare": [{"scorer": "ok"}]})
    assert gate == Gate(compare=gate.compare)
    assert (gate.max_missing, gate.compare[0].policy, gate.compare[0].not_worse_than) == (
        0.02,
        "strict",
        0.02,
    )
