"""Rates, intervals and tests against scipy, statsmodels and published figures."""

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from awaken.contracts.evals.eval_runs import ItemStatus
from awaken.contracts.evals.verdicts import ComparisonVerdict, Interval, ScorerComparison
from awaken.scoring.calibration import (
    JudgeLabel,
    calibrate_judge,
    correct_rate,
    measure_kappa,
)
from awaken.scoring.comparisons import ComparisonPlan, compare_items, judge_interval, plan_look
from awaken.scoring.figures import summarize_variant
from awaken.scoring.statistics import power
from awaken.scoring.statistics.quantiles import percentile, student_quantile
from awaken.scoring.statistics.rates import (
    bound_share,
    count_effective,
    estimate_mean,
    estimate_wilson,
    measure_error,
    pass_at_k,
    pass_hat_k,
    share_between,
    share_of_flakes,
)
from awaken.scoring.statistics.resampling import (
    adjust_holm,
    bootstrap_interval,
    flip_signs,
    measure_mcnemar,
)

from .samples import make_item, make_items, make_score

ORACLES = json.loads((Path(__file__).parent / "oracles.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("passes", "n", "low", "high"), ORACLES["wilson"])
def test_wilson_is_that_of_statsmodels(passes: int, n: int, low: float, high: float) -> None:
    found = estimate_wilson(passes / n, n)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)


@pytest.mark.parametrize(("level", "freedom", "quantile"), ORACLES["student"])
def test_student_is_that_of_scipy(level: float, freedom: int, quantile: float) -> None:
    assert student_quantile(level, freedom) == pytest.approx(quantile, rel=0.01)


@pytest.mark.parametrize(("first", "second", "p"), ORACLES["mcnemar"])
def test_mcnemar_is_that_of_statsmodels(first: int, second: int, p: float) -> None:
    assert measure_mcnemar(first, second) == pytest.approx(p, rel=1e-9)


@pytest.mark.parametrize(("given", "adjusted"), ORACLES["holm"])
def test_holm_is_that_of_statsmodels(given: list[float], adjusted: list[float]) -> None:
    assert adjust_holm(given) == pytest.approx(adjusted)


@pytest.mark.parametrize(("table", "kappa", "low", "high"), ORACLES["kappa"])
def test_kappa_is_that_of_statsmodels(
    table: list[int], kappa: float, low: float, high: float
) -> None:
    found = measure_kappa(*table)
    assert found is not None
    assert found[0] == pytest.approx(kappa)
    clipped = (max(-1, low), min(1, high))
    assert (found[1].low, found[1].high) == pytest.approx(clipped, abs=1e-6)


@pytest.mark.parametrize(("differences", "p"), ORACLES["flips"])
def test_exact_sign_flips_are_those_of_scipy(differences: list[float], p: float) -> None:
    assert flip_signs(differences, [1.0] * len(differences), Random(1)) == pytest.approx(p)


def test_sampled_sign_flips_are_near_the_exact_ones() -> None:
    differences = [0.2, -0.4, 0.6, 0.2, 1.0, -0.2, 0.4, 0.2, 0.6, 0.4, -0.6, 0.8, 0.2, 0.4, 0.2, 1]
    exact = flip_signs(differences, [1.0] * 16, Random(1))
    # A seventeenth that weighs nothing to speak of makes the test sample.
    sampled = flip_signs([*differences, 1e-12], [1.0] * 17, Random(1))
    assert sampled == pytest.approx(exact, abs=4 * math.sqrt(exact / 10_000))
    assert flip_signs([1.0] * 40, [1.0] * 40, Random(1)) == pytest.approx(1 / 10_001)


@pytest.mark.parametrize(("differences", "low", "high"), ORACLES["bootstrap"])
def test_the_bootstrap_is_that_of_scipy(differences: list[float], low: float, high: float) -> None:
    found = bootstrap_interval(differences, [1.0] * len(differences), Random(3))
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.02)
    weights = [2.0] * (len(differences) - 1) + [2.0000001]
    weighted = bootstrap_interval(differences, weights, Random(3))
    assert (weighted.low, weighted.high) == pytest.approx((low, high), abs=0.02)


@pytest.mark.parametrize(("ordered", "level", "value"), ORACLES["percentile"])
def test_percentiles_are_those_of_numpy(ordered: list[float], level: float, value: float) -> None:
    assert percentile(ordered, level) == pytest.approx(value)


def test_the_bounds_of_looks_are_those_of_obrien_and_fleming() -> None:
    for number, (bound, alpha) in enumerate(ORACLES["obrien_fleming"], start=1):
        found = power.bound_look(number)
        assert found == pytest.approx((bound, alpha), rel=2e-3)
    looks = [plan_look(done, 30) for done in (0, 9, 10, 19, 20, 29, 30)]
    assert [it and it.number for it in looks] == [None, None, 1, 1, 2, 2, 3]


def test_pass_hat_k_gives_the_published_row_of_tau_bench() -> None:
    # gpt-4o, airline: 50 tasks of 4 trials. Only these counts of tasks by passes give the row.
    passes = [4] * 10 + [3] * 4 + [2] * 10 + [1] * 12 + [0] * 14
    row = [sum(pass_hat_k(4, it, k) for it in passes) / 50 for k in (1, 2, 3, 4)]
    assert [round(it, 3) for it in row] == [0.420, 0.273, 0.220, 0.200]
    items = make_items(
        "a", {f"t{at}": [1.0] * it + [0.0] * (4 - it) for at, it in enumerate(passes)}
    )
    (figures,) = summarize_variant(items, "a").scorers
    assert [round(it.all, 3) for it in figures.passes] == [0.420, 0.273, 0.220, 0.200]
    assert figures.flake_rate == 26 / 50


def test_pass_at_k_is_one_minus_that_none_passes() -> None:
    assert pass_at_k(5, 0, 3) == 0
    assert pass_at_k(5, 3, 3) == 1
    assert pass_at_k(5, 2, 2) == pytest.approx(1 - 3 / 10)
    assert pass_hat_k(5, 4, 2) == pytest.approx(6 / 10)


def test_repeats_are_worth_less_than_cases() -> None:
    ones = [1.0] * 10
    # Every case always passes or always fails: repeats say nothing new.
    assert count_effective([1.0, 0.0] * 5, [5] * 10, ones) == pytest.approx(10)
    # All cases are alike: every repeat is a sample of its own.
    alike = [0.4, 0.6] * 5
    assert count_effective(alike, [5] * 10, ones) == pytest.approx(50)
    assert count_effective([1.0] * 10, [5] * 10, ones) == pytest.approx(10)
    assert count_effective([1.0, 0.0], [1, 1], [1.0, 3.0]) == pytest.approx(1 / (1 / 16 + 9 / 16))


def test_the_interval_of_a_rate_counts_cases_not_repeats() -> None:
    values = {f"c{it}": [float(it < 6)] * 5 for it in range(10)}
    (figures,) = summarize_variant(make_items("a", values), "a").scorers
    assert (figures.rate, figures.samples) == (pytest.approx(0.6), 50)
    wanted = estimate_wilson(0.6, 10)
    assert figures.interval is not None
    assert figures.interval.low == pytest.approx(wanted.low)
    assert figures.interval.high == pytest.approx(wanted.high)


def test_shares_of_variance_and_flakes() -> None:
    assert share_between([[0.0, 0.0], [1.0, 1.0]]) == 1
    assert share_between([[0.0, 1.0], [0.0, 1.0]]) == 0
    # By hand: between 0.125 - 0.25 / 2 < 0, so all of it lies within.
    assert share_between([[1.0], [0.0]]) is None
    assert share_between([[1.0, 1.0], [1.0, 1.0]]) is None
    # Mean squares 2/3 between and 1/6 within, 3 samples each: (2/3 - 1/6) / 3 = 1/6.
    assert share_between([[0.0, 0.0, 1.0], [1.0, 1.0, 1.0]]) == pytest.approx(0.5)
    assert share_of_flakes([(5, 5), (5, 0), (5, 2), (1, 1)]) == pytest.approx(1 / 3)
    assert share_of_flakes([(1, 1)]) is None


def test_missing_samples_are_no_zeros() -> None:
    items = make_items("a", {"x": [1.0, None], "y": [1.0]})
    cut = make_item("z", "a", 0, status=ItemStatus.CUT)
    infra = make_item("x", "a", 2, status=ItemStatus.INFRA_ERROR)
    failed = make_item("y", "a", 1, status=ItemStatus.FAILED)
    figures = summarize_variant([*items, cut, infra], "a")
    (scorer,) = figures.scorers
    assert (scorer.rate, scorer.mean, scorer.samples) == (1, 1, 2)
    assert (scorer.errors, scorer.missing, scorer.cases) == (1, 2, 2)
    assert scorer.error_share == pytest.approx(1 / 3)
    assert (figures.items, figures.missing, figures.failed) == (5, 2, 0)
    # An agent that failed did: its sample is 0.
    (scorer,) = summarize_variant([*items, failed], "a").scorers
    assert scorer.rate == pytest.approx((1 + 0.5) / 2)
    assert summarize_variant([cut], "a").scorers == ()


def test_a_scorer_of_one_case_is_no_failure_of_another() -> None:
    items = [
        make_item("x", "a", 0, make_score("of_x", 1.0)),
        make_item("y", "a", 0, make_score("of_y", 1.0)),
        make_item("y", "a", 1, status=ItemStatus.TIMEOUT),
    ]
    found = {it.scorer: it for it in summarize_variant(items, "a").scorers}
    assert (found["of_x"].cases, found["of_x"].rate) == (1, 1)
    assert (found["of_y"].samples, found["of_y"].rate) == (2, 0.5)


def test_weights_of_cases_are_honoured() -> None:
    weights = {"x": 3.0, "y": 1.0}
    items = make_items("a", {"x": [1.0], "y": [0.0]}, weights=weights)
    (figures,) = summarize_variant(items, "a").scorers
    assert figures.rate == 0.75
    first = make_items("a", {"x": [0.0], "y": [1.0]}, weights=weights)
    second = make_items("b", {"x": [1.0], "y": [0.0]}, weights=weights)
    (compared,) = compare_items(first, "a", second, "b").scorers
    assert compared.difference == pytest.approx((3 - 1) / 4)


def test_a_comparison_is_paired_by_case_over_cases_of_both() -> None:
    # Cases differ by far more than the variants; only pairs show the difference.
    base = {f"c{it}": it / 60 for it in range(40)}
    first = make_items("a", {key: [it] for key, it in base.items()} | {"old": [1.0]})
    # A little unlike each other, so that the interval is no point.
    second = make_items(
        "b",
        {key: [it + 0.05 + 0.01 * (at % 3)] for at, (key, it) in enumerate(base.items())}
        | {"new": [0.0], "unscored": [None]},
    )
    (found,) = compare_items(first, "a", second, "b").scorers
    assert found.cases == 40
    assert (found.only_first, found.only_second) == (("old",), ("new",))
    assert found.difference == pytest.approx(0.06, abs=0.001)
    assert found.verdict is ComparisonVerdict.BETTER
    assert found.interval is not None
    assert 0.055 < found.interval.low < found.interval.high < 0.065
    assert found.mcnemar_p is None
    assert [it.difference for it in found.by_case] == sorted(it.difference for it in found.by_case)


@pytest.mark.parametrize("values", [{}, {"x": [1.0]}])
def test_fewer_than_two_comparable_cases_decide_nothing(values: dict[str, list[float]]) -> None:
    first = make_items("a", values | {"other": [1.0]})
    second = make_items("b", {key: [0.0] for key in values} | {"another": [1.0]})
    (found,) = compare_items(first, "a", second, "b").scorers
    assert found.verdict is ComparisonVerdict.UNDECIDED
    assert (found.interval, found.p_value, found.cases) == (None, None, len(values))
    assert "at least two" in found.reason


def compare_equal(cases: int, **plan: Any) -> ScorerComparison:
    values = {f"c{it}": [1.0, 0.0] for it in range(cases)}
    first, second = make_items("a", values), make_items("b", values)
    (found,) = compare_items(first, "a", second, "b", ComparisonPlan(**plan)).scorers
    return found


def test_a_handful_of_equal_cases_is_not_the_same_and_says_how_many_would_be() -> None:
    few = compare_equal(10)
    assert (few.verdict, few.p_value) == (ComparisonVerdict.UNDECIDED, 1)
    # Of 10 cases without a difference, 31 % of all cases may still have one.
    assert few.interval is not None
    assert -few.interval.low == few.interval.high == pytest.approx(1 - 0.025**0.1)
    assert few.needed_cases == 183
    assert "about 183 cases would decide it" in few.reason
    assert compare_equal(182).verdict is ComparisonVerdict.UNDECIDED
    assert compare_equal(183).verdict is ComparisonVerdict.SAME
    assert compare_equal(183).needed_cases is None
    # Less is asked for by a wider margin, more by an early look, and no number by none.
    assert compare_equal(36, margin=0.1).verdict is ComparisonVerdict.SAME
    early = compare_equal(183, look=plan_look(1, 3))
    assert early.verdict is ComparisonVerdict.UNDECIDED
    assert (early.needed_cases or 0) > 300
    assert compare_equal(10, margin=0.0).needed_cases is None


def test_weights_do_not_make_more_cases_of_a_few() -> None:
    values = {f"c{it}": [1.0] for it in range(200)}
    weights = {key: 1000.0 if key in ("c0", "c1") else 1.0 for key in values}
    first, second = (make_items(it, values, weights=weights) for it in "ab")
    (found,) = compare_items(first, "a", second, "b").scorers
    assert found.verdict is ComparisonVerdict.UNDECIDED


def test_one_case_that_differs_makes_an_interval_wider_not_shorter() -> None:
    intervals = []
    for falls in range(4):
        first = make_items("a", {f"c{it}": [1.0] for it in range(60)})
        second = make_items("b", {f"c{it}": [float(it >= falls)] for it in range(60)})
        (found,) = compare_items(first, "a", second, "b").scorers
        assert found.interval is not None
        intervals.append(found.interval)
    lows = [it.low for it in intervals]
    assert lows == sorted(lows, reverse=True)
    # What no case showed may still be there.
    assert [it.high for it in intervals] == pytest.approx([1 - 0.025 ** (1 / 60)] * 4)


def test_two_cases_never_make_a_difference() -> None:
    first = make_items("a", {"x": [1.0], "y": [1.0]})
    second = make_items("b", {"x": [0.0], "y": [0.0]})
    (found,) = compare_items(first, "a", second, "b").scorers
    assert found.interval is not None
    assert found.interval.low == -1
    assert found.p_value == 0.5
    assert found.verdict is ComparisonVerdict.UNDECIDED


@pytest.mark.parametrize(("count", "size", "high"), ORACLES["clopper_pearson"])
def test_the_bound_of_a_share_is_that_of_statsmodels(count: int, size: int, high: float) -> None:
    assert bound_share(count, size, 0.025) == pytest.approx(high, abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_cases_of_one_eval_only_decide_nothing(seed: int) -> None:
    """What is paired decides alone: not what only one has, nor the order of items, nor chance."""
    rng = Random(seed)
    shift = rng.choice((-0.4, 0.0, 0.4))
    shared = {f"c{it}": rng.uniform(0.4, 0.6) for it in range(25)}
    first = make_items("a", {key: [it, it] for key, it in shared.items()})
    noise = {key: rng.uniform(-0.02, 0.02) for key in shared}
    second = make_items("b", {key: [it + shift + noise[key]] for key, it in shared.items()})
    (alone,) = compare_items(first, "a", second, "b").scorers
    assert alone.verdict == {-0.4: "worse", 0.0: "same", 0.4: "better"}[shift]
    # Far more cases than the paired ones, and all of them against the shift.
    value = float(shift <= 0)
    others = [
        *make_items("b", {f"b{it}": [value] * 3 for it in range(200)}),
        # Of cases that the other has too, but could not score.
        *make_items("b", {f"u{it}": [value] for it in range(50)}),
        *make_items("a", {f"u{it}": [None] for it in range(50)}),
        *make_items("a", {f"a{it}": [1 - value] * 3 for it in range(200)}),
        *(make_item(f"u{it}", "a", 1, status=ItemStatus.CUT) for it in range(50)),
    ]
    mixed = [*first, *second, *others]
    rng.shuffle(mixed)
    (found,) = compare_items(mixed, "a", mixed, "b").scorers
    assert (len(found.only_first), len(found.only_second)) == (200, 250)
    assert replace(found, only_first=(), only_second=()) == alone


def test_costs_of_cases_that_only_one_eval_has_are_not_compared() -> None:
    def make(variant: str, costs: dict[str, float | None]) -> list:
        return [
            make_item(key, variant, 0, make_score("ok", 1.0), cost_usd=it)
            for key, it in costs.items()
        ]

    first = make("a", {"x": 1.0, "old": None, "older": 100.0})
    second = make("b", {"x": 2.0, "new": None})
    assert compare_items(first, "a", second, "b").cost_ratio == 2
    assert compare_items(make("a", {"x": None}), "a", second, "b").cost_ratio is None


@pytest.mark.parametrize(
    ("low", "high", "p", "verdict"),
    [
        (-0.02, 0.02, 0.9, "same"),
        (0.001, 0.02, 0.001, "same"),
        (-0.0200001, 0.01, 0.9, "undecided"),
        (-0.1, -0.001, 0.05, "worse"),
        (-0.1, 0.0, 0.05, "undecided"),
        (-0.1, -0.001, 0.0500001, "undecided"),
        (0.001, 0.1, 0.01, "better"),
        (0.0, 0.1, 0.01, "undecided"),
    ],
)
def test_the_verdict_has_a_fixed_order(low: float, high: float, p: float, verdict: str) -> None:
    assert judge_interval(Interval(low=low, high=high), p, 0.02) == verdict


def test_one_binary_sample_per_case_has_mcnemar_too() -> None:
    first = make_items("a", {f"c{it}": [1.0] for it in range(20)})
    second = make_items("b", {f"c{it}": [float(it >= 8)] for it in range(20)})
    (found,) = compare_items(first, "a", second, "b").scorers
    assert found.mcnemar_p == pytest.approx(measure_mcnemar(8, 0)) == pytest.approx(2 / 256)
    assert found.p_value == pytest.approx(2 / 256)
    assert found.verdict is ComparisonVerdict.WORSE


def test_an_early_look_needs_more_than_the_end() -> None:
    first = make_items("a", {f"c{it}": [1.0] for it in range(20)})
    second = make_items("b", {f"c{it}": [float(it >= 8)] for it in range(20)})
    found = [
        compare_items(first, "a", second, "b", ComparisonPlan(look=plan_look(done, 3))).scorers[0]
        for done in (1, 2, 3)
    ]
    # p is 0.008: enough at the second look (0.014), not at the first (0.0005).
    assert [it.verdict.value for it in found] == ["undecided", "worse", "worse"]
    widths = [it.interval.high - it.interval.low for it in found if it.interval is not None]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 1.3 * widths[2]
    assert found[0].look is not None
    assert found[0].look.number == 1
    assert "99.95 %" in found[0].reason


def test_several_scorers_are_adjusted_together() -> None:
    def make(variant: str, bad: int) -> list:
        return [
            make_item(
                f"c{it}",
                variant,
                0,
                make_score("near", float(it >= bad)),
                *(make_score(f"noise{n}", float((it + n) % 2)) for n in range(4)),
            )
            for it in range(20)
        ]

    alone = make_items("a", {f"c{it}": [1.0] for it in range(20)}, scorer="near")
    worse = make_items("b", {f"c{it}": [float(it >= 6)] for it in range(20)}, scorer="near")
    (found,) = compare_items(alone, "a", worse, "b").scorers
    assert found.p_value == found.p_adjusted == pytest.approx(2 / 64)
    assert found.verdict is ComparisonVerdict.WORSE
    found = compare_items(make("a", 0), "a", make("b", 6), "b").scorers[0]
    assert found.p_adjusted == pytest.approx(5 * 2 / 64)
    assert found.verdict is ComparisonVerdict.UNDECIDED


def test_cases_that_another_version_scored_are_left_out() -> None:
    def make(variant: str, versions: list[str]) -> list:
        return [
            make_item(f"c{at}", variant, 0, make_score("ok", 1.0, version=it))
            for at, it in enumerate(versions)
        ]

    compared = compare_items(make("a", ["1", "1", "1"]), "a", make("b", ["1", "1", "2"]), "b")
    (found,) = compared.scorers
    assert (found.cases, found.rescored) == (2, ("c2",))
    assert any("changed" in it for it in compared.warnings)


def test_a_comparison_is_the_same_again() -> None:
    rng = Random(9)
    first, second = (
        make_items(it, {f"c{n}": [float(rng.random() < 0.6) for _ in range(3)] for n in range(30)})
        for it in "ab"
    )
    one, two = (compare_items(first, "a", second, "b") for _ in range(2))
    assert one == two
    other = compare_items(first, "a", second, "b", ComparisonPlan(seed=1))
    assert other.scorers[0].interval != one.scorers[0].interval
    assert other.scorers[0].difference == one.scorers[0].difference


def test_undecided_says_how_much_more_is_needed() -> None:
    rng = Random(4)
    rates = {f"c{it}": 0.3 + 0.4 * it / 30 for it in range(30)}

    def make(variant: str, shift: float) -> list:
        return make_items(
            variant,
            {
                key: [float(rng.random() < it + shift) for _ in range(4)]
                for key, it in rates.items()
            },
        )

    (found,) = compare_items(make("a", 0), "a", make("b", -0.03), "b").scorers
    assert found.verdict is ComparisonVerdict.UNDECIDED
    assert found.needed_cases is not None
    assert found.needed_cases > 30
    assert found.needed_repeats is None or found.needed_repeats > 4
    assert str(found.needed_cases) in found.reason
    assert found.smallest_effect is not None
    # The same variance per case: the promised number of cases gives the promised error.
    error = measure_error([it.difference for it in found.by_case], [1.0] * 30)
    assert 2.8 * error < found.smallest_effect < 3.2 * error
    target = power.needed_error(found.difference or 0, found.margin)
    assert target is not None
    assert error * math.sqrt(30 / found.needed_cases) <= target * 1.0001


def test_a_calibration_needs_thirty_labels_of_both_kinds() -> None:
    agree = [JudgeLabel(human=True, judge=True), JudgeLabel(human=False, judge=False)]
    assert not calibrate_judge([]).is_calibrated
    assert not calibrate_judge((agree * 15)[:29]).is_calibrated
    assert not calibrate_judge([JudgeLabel(human=True, judge=True)] * 60).is_calibrated
    # Labels of several prompts or models are together of no judge.
    keyed = [
        JudgeLabel(human=it.human, judge=it.judge, judge_key=("h", f"m{no % 2}"))
        for no, it in enumerate(agree * 30)
    ]
    assert not calibrate_judge(keyed).is_calibrated
    assert calibrate_judge(keyed).judge_key == (None, None)
    assert calibrate_judge(keyed[::2] * 2).judge_key == ("h", "m0")
    found = calibrate_judge(agree * 15)
    assert found.is_calibrated
    assert (found.agreement, found.kappa, found.false_pass, found.false_fail) == (1, 1, 0, 0)


def test_a_calibration_counts_both_errors_apart() -> None:
    labels = (
        [JudgeLabel(human=True, judge=True)] * 36
        + [JudgeLabel(human=True, judge=False)] * 4
        + [JudgeLabel(human=False, judge=True)] * 6
        + [JudgeLabel(human=False, judge=False)] * 14
    )
    found = calibrate_judge(labels)
    assert found.false_pass == pytest.approx(6 / 20)
    assert found.false_fail == pytest.approx(4 / 40)
    assert found.agreement == pytest.approx(50 / 60)
    # Rogan and Gladen: (rate - false pass) / (1 - both errors).
    corrected = correct_rate(0.66, 100, found)
    assert corrected is not None
    assert corrected.rate == pytest.approx((0.66 - 0.3) / 0.6)
    assert corrected.interval.low < 0.6 < corrected.interval.high
    votes = [JudgeLabel(human=True, judge=True, votes=(1, 1, 0))]
    assert calibrate_judge(votes).self_consistency == pytest.approx(1 / 3)
    blind = [JudgeLabel(human=it % 2 == 0, judge=it % 4 < 2) for it in range(40)]
    assert correct_rate(0.5, 100, calibrate_judge(blind)) is None


@pytest.mark.parametrize("size", [2, 3, 5, 10, 20, 30, 50])
def test_the_interval_of_a_mean_has_its_coverage_also_if_all_cases_are_equal(size: int) -> None:
    weights = [1.0] * size
    intervals = [
        estimate_mean([1.0] * count + [0.0] * (size - count), weights) for count in range(size + 1)
    ]
    for share in (it / 100 for it in range(1, 100)):
        covered = math.fsum(
            math.comb(size, count) * share**count * (1 - share) ** (size - count)
            for count, it in enumerate(intervals)
            if it is not None and it.low <= share <= it.high
        )
        # Exact where few cases differ; elsewhere Student's, which is near.
        assert covered >= 0.915, share


def test_equal_cases_leave_what_none_of_them_showed() -> None:
    ones = estimate_mean([1.0, 1.0], [1.0, 1.0])
    assert ones is not None
    # The exact lower bound of Clopper and Pearson: 0.025 to the power of 1 / 2.
    assert (ones.low, ones.high) == (pytest.approx(0.025**0.5), 1.0)
    halves = estimate_mean([0.5] * 10, [1.0] * 10)
    assert halves is not None
    assert (halves.low, halves.high) == (
        pytest.approx(0.5 - 0.154, abs=1e-3),
        pytest.approx(0.654, abs=1e-3),
    )
    # Weights that make one case of many leave as much as that one.
    heavy = estimate_mean([1.0] * 10, [1e6] + [1e-6] * 9)
    assert heavy is not None
    assert heavy.low == pytest.approx(0.025)
    # Values that differ have Student's interval.
    spread = estimate_mean([0.7, 0.8, 0.9], [1.0] * 3)
    assert spread is not None
    assert spread.low == pytest.approx(0.8 - student_quantile(0.975, 2) * 0.1 / 3**0.5)
