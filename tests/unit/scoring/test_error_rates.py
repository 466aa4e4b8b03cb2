"""What the intervals and verdicts promise, against simulated evals whose truth is known.

`make test` looks at a sample, with room for its own chance; `make torture` at 2,000 evals each.
"""

import math
from random import Random

import pytest
from tests.sampling import choose_size, sampled

from awaken.contracts.evals.eval_runs import EvalItem
from awaken.contracts.evals.verdicts import ComparisonVerdict, ScorerComparison
from awaken.scoring.calibration import JudgeLabel, calibrate_judge, correct_rate
from awaken.scoring.comparisons import ComparisonPlan, compare_items, plan_look
from awaken.scoring.figures import summarize_variant

from .samples import make_items

pytestmark = pytest.mark.timeout(3_600)  # Thousands of evals take minutes.
EVALS = choose_size(80, 2_000)
RESAMPLES = choose_size(400, 1_000)
PLAN = ComparisonPlan(resamples=RESAMPLES)
CASES = 60
REPEATS = 5


def draw_pair(
    rng: Random, shift: float, cases: int = CASES, repeats: int = REPEATS
) -> tuple[list[EvalItem], list[EvalItem]]:
    """Two variants whose cases differ by `shift` on average, each by a little more or less."""
    first, second = {}, {}
    for it in range(cases):
        rate = rng.uniform(0.3, 0.7)
        other = rate + shift + rng.uniform(-0.15, 0.15)
        first[f"c{it}"] = [float(rng.random() < rate) for _ in range(repeats)]
        second[f"c{it}"] = [float(rng.random() < other) for _ in range(repeats)]
    return make_items("a", first), make_items("b", second)


def compare_pair(rng: Random, shift: float, **sizes: int) -> ScorerComparison:
    first, second = draw_pair(rng, shift, **sizes)
    (found,) = compare_items(first, "a", second, "b", PLAN).scorers
    return found


def allow(share: float) -> float:
    """Three standard deviations of an observed share; none in the full size."""
    return 3 * math.sqrt(share * (1 - share) / EVALS) if EVALS < 2_000 else 0.0


def check_coverage(covered: int) -> None:
    room = allow(0.95)
    assert 0.93 - room <= covered / EVALS <= 0.97 + room, covered / EVALS


@sampled
def test_the_interval_of_a_difference_has_the_truth_in_95_of_100() -> None:
    rng, covered = Random(1), 0
    for _ in range(EVALS):
        found = compare_pair(rng, -0.05).interval
        assert found is not None
        covered += found.low <= -0.05 <= found.high
    check_coverage(covered)


@sampled
def test_the_interval_of_a_rate_has_the_truth_in_95_of_100_with_repeats() -> None:
    rng, covered = Random(2), 0
    for _ in range(EVALS):
        # The cases differ much: counting repeats as cases would give far too short intervals.
        rates = [rng.choice((0.1, 0.5, 0.9, 1.0)) for _ in range(CASES)]
        values = {
            f"c{at}": [float(rng.random() < it) for _ in range(REPEATS)]
            for at, it in enumerate(rates)
        }
        (figures,) = summarize_variant(make_items("a", values), "a").scorers
        assert figures.interval is not None
        covered += figures.interval.low <= 0.625 <= figures.interval.high
    check_coverage(covered)


@sampled
def test_the_interval_of_a_mean_has_the_truth_in_95_of_100() -> None:
    rng, covered = Random(7), 0
    for _ in range(EVALS):
        values = {f"c{it}": [rng.betavariate(4, 2)] for it in range(CASES)}
        (figures,) = summarize_variant(make_items("a", values), "a").scorers
        assert figures.mean_interval is not None
        covered += figures.mean_interval.low <= 4 / 6 <= figures.mean_interval.high
    check_coverage(covered)


@sampled
def test_a_corrected_rate_has_the_truth_in_95_of_100() -> None:
    """Judged: 15 % of the fails pass, 10 % of the passes fail; people would pass 70 %."""
    rng, covered = Random(8), 0

    def grade(is_good: bool) -> bool:
        return rng.random() < (0.9 if is_good else 0.15)

    for _ in range(EVALS):
        people = [rng.random() < 0.7 for _ in range(80)]
        labels = [JudgeLabel(human=it, judge=grade(it)) for it in people]
        graded = [grade(rng.random() < 0.7) for _ in range(200)]
        found = correct_rate(sum(graded) / 200, 200, calibrate_judge(labels))
        assert found is not None
        covered += found.interval.low <= 0.7 <= found.interval.high
    check_coverage(covered)


@sampled
def test_equal_variants_are_seldom_called_worse() -> None:
    for number, sizes in enumerate(({}, {"cases": 12, "repeats": 1})):
        rng = Random(3 + number)
        verdicts = [compare_pair(rng, 0.0, **sizes).verdict for _ in range(EVALS)]
        worse = sum(it is ComparisonVerdict.WORSE for it in verdicts) / EVALS
        assert worse <= 0.05 + allow(0.05), worse


def compare_sparse(rng: Random, falls: float, cases: int) -> ScorerComparison:
    """Deterministic variants: a case passes in both, or falls in the second."""
    names = [f"c{it}" for it in range(cases)]
    first = make_items("a", {it: [1.0] for it in names})
    second = make_items("b", {it: [float(rng.random() >= falls)] for it in names})
    (found,) = compare_items(first, "a", second, "b", PLAN).scorers
    return found


@sampled
@pytest.mark.parametrize("cases", [3, 20, 100, 200, 300])
def test_a_variant_that_is_worse_than_the_margin_is_seldom_called_the_same(cases: int) -> None:
    """3 of 100 cases fall, and the margin is 0.02: a handful of equal cases must not hide it."""
    rng = Random(cases)
    verdicts = [compare_sparse(rng, 0.03, cases).verdict for _ in range(EVALS)]
    same = sum(it is ComparisonVerdict.SAME for it in verdicts) / EVALS
    assert same <= 0.05 + allow(0.05), same


@sampled
@pytest.mark.parametrize("cases", [10, 60, 300])
def test_the_interval_of_rare_differences_has_the_truth_in_93_of_100_or_more(cases: int) -> None:
    rng, covered = Random(9), 0
    for _ in range(EVALS):
        found = compare_sparse(rng, 0.02, cases).interval
        assert found is not None
        covered += found.low <= -0.02 <= found.high
    assert covered / EVALS >= 0.93 - allow(0.95), covered / EVALS


@sampled
def test_the_stated_effect_is_seen_four_times_in_five() -> None:
    rng = Random(5)
    stated = [compare_pair(rng, 0.0).smallest_effect or 0.0 for _ in range(EVALS // 5)]
    effect = sum(stated) / len(stated)
    verdicts = [compare_pair(rng, -effect).verdict for _ in range(EVALS)]
    seen = sum(it is ComparisonVerdict.WORSE for it in verdicts) / EVALS
    assert seen >= 0.8 - allow(0.8), (effect, seen)


@sampled
def test_three_looks_find_a_difference_that_is_none_in_at_most_5_of_100() -> None:
    rng, wrong = Random(6), 0
    for _ in range(EVALS):
        first, second = draw_pair(rng, 0.0, cases=60, repeats=3)
        for done in (1, 2, 3):
            look = plan_look(done, 3)
            # The plan is interleaved: a third of it is a third of each variant.
            parts = [[it for it in items if it.sample < done] for items in (first, second)]
            plan = ComparisonPlan(resamples=RESAMPLES, look=look)
            (found,) = compare_items(parts[0], "a", parts[1], "b", plan).scorers
            if found.verdict in (ComparisonVerdict.WORSE, ComparisonVerdict.BETTER):
                wrong += 1
                break
    assert wrong / EVALS <= 0.05 + allow(0.05), wrong / EVALS
