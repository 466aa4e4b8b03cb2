"""The comparison of two variants, paired by case, and its verdict.

Only cases that are scored in both count; the others are listed. The order of the verdict is fixed:
same if the whole interval lies inside the margin, worse if it lies below 0, better if above, else
undecided. A difference is only called one if the permutation test agrees, adjusted for the number
of scorers: with few cases an interval alone says too much. For the same reason an interval in which
few cases differ reaches as far as the cases that were not tried may: a handful of equal cases is
not the same.
"""

from collections.abc import Sequence
from random import Random

import msgspec

from awaken.contracts.evals.eval_runs import EvalItem
from awaken.contracts.evals.verdicts import (
    CaseDifference,
    ComparisonVerdict,
    EvalComparison,
    Interval,
    ScorerComparison,
    SequentialLook,
)

from .figures import CaseScores, Scores, collect_scores
from .statistics.power import (
    LOOKS,
    bound_look,
    find_look,
    measure_step,
    needed_cases,
    needed_equal,
    needed_error,
    needed_repeats,
    smallest_effect,
    weigh_within,
)
from .statistics.rates import measure_error, weigh_mean
from .statistics.resampling import (
    RESAMPLES,
    adjust_holm,
    bootstrap_interval,
    flip_signs,
    measure_mcnemar,
    widen_sparse,
)

MARGIN = 0.02
"""The difference of rates that does not matter, unless said otherwise."""
ALPHA = 0.05
REPEATS_MAX = 50


class ComparisonPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How two variants are compared."""

    margin: float = MARGIN
    margins: dict[str, float] = {}
    """Others for some scorers."""
    scorers: tuple[str, ...] = ()
    """Which scorers; absent: all that both have."""
    seed: int = 0
    resamples: int = RESAMPLES
    look: SequentialLook | None = None
    """The look at which the comparison is made; absent: the end of an eval without looks."""


def plan_look(done: int, planned: int) -> SequentialLook | None:
    """The look that is due when so many samples of the plan have ended; None before the first."""
    fraction = done / planned if planned else 0.0
    number = find_look(fraction)
    if number is None:
        return None
    bound, alpha = bound_look(number)
    return SequentialLook(number=number, of=len(LOOKS), fraction=fraction, bound=bound, alpha=alpha)


def compare_items(
    first_items: Sequence[EvalItem],
    first: str,
    second_items: Sequence[EvalItem],
    second: str,
    plan: ComparisonPlan | None = None,
) -> EvalComparison:
    """Compare the second variant with the first by every scorer that both have.

    Args:
        first_items: The items of the eval that has the first variant.
        first: The variant that is compared with, such as the baseline.
        second_items: Those of the eval that has the second one; may be the same eval.
        second: The variant that is judged.
        plan: How; absent: all scorers with the default margin.
    """
    plan = plan or ComparisonPlan()
    known = collect_scores(first_items, first)
    of_second = collect_scores(second_items, second, known)
    of_first = collect_scores(first_items, first, of_second)
    names = [it for it in of_first if it in of_second and it in (plan.scorers or (it,))]
    compared = compare_scores(of_first, of_second, names, (first, second), plan)
    missing = [it for it in plan.scorers if it not in names]
    return EvalComparison(
        first=first,
        second=second,
        scorers=compared,
        cost_ratio=_compare_costs(first_items, first, second_items, second),
        warnings=tuple(
            [
                f"'{it.scorer}': {len(it.rescored)} cases are left out, because the scorer changed"
                for it in compared
                if it.rescored
            ]
            + [f"scorer '{it}' is not in both evals" for it in missing]
        ),
    )


def compare_scores(
    first: Scores,
    second: Scores,
    names: Sequence[str],
    variants: tuple[str, str],
    plan: ComparisonPlan,
) -> tuple[ScorerComparison, ...]:
    """Compare by several scorers; their p values are adjusted together."""
    measured = [_measure(name, first[name], second[name], variants, plan) for name in names]
    tested = [it for it in measured if it.p_value is not None]
    adjusted = dict(
        zip(
            [it.scorer for it in tested],
            adjust_holm([it.p_value for it in tested if it.p_value is not None]),
            strict=True,
        )
    )
    alpha = ALPHA if plan.look is None else plan.look.alpha
    return tuple(_decide(it, adjusted.get(it.scorer), alpha) for it in measured)


def _measure(
    name: str,
    first: dict[str, CaseScores],
    second: dict[str, CaseScores],
    variants: tuple[str, str],
    plan: ComparisonPlan,
) -> ScorerComparison:
    """Everything but the verdict."""
    scored_first = {key for key, it in first.items() if it.values}
    scored_second = {key for key, it in second.items() if it.values}
    # By their ids: the order in which items were written changes no draw.
    both = sorted(scored_first & scored_second)
    # Samples of agents that failed have no version: they are 0 by every version.
    rescored = {
        key
        for key in both
        if first[key].versions and second[key].versions
        if first[key].versions != second[key].versions
    }
    paired = [key for key in both if key not in rescored]
    differences = [second[key].mean - first[key].mean for key in paired]
    weights = [float(second[key].weight) for key in paired]
    rows = [
        CaseDifference(
            case_id=key,
            first=first[key].mean,
            second=second[key].mean,
            difference=difference,
            weight=weight,
        )
        for key, difference, weight in zip(paired, differences, weights, strict=True)
    ]
    found = ScorerComparison(
        scorer=name,
        first=variants[0],
        second=variants[1],
        verdict=ComparisonVerdict.UNDECIDED,
        reason="",
        cases=len(paired),
        margin=plan.margins.get(name, plan.margin),
        difference=weigh_mean(differences, weights) if paired else None,
        only_first=tuple(sorted(scored_first - scored_second)),
        only_second=tuple(sorted(scored_second - scored_first)),
        rescored=tuple(sorted(rescored)),
        by_case=tuple(sorted(rows, key=lambda it: (it.difference, it.case_id))),
        look=plan.look,
    )
    if len(paired) < 2:
        return found
    alpha = ALPHA if plan.look is None else plan.look.alpha
    rng = Random(f"{plan.seed} {name}")
    pairs = [(first[key], second[key]) for key in paired]
    target = needed_error(found.difference or 0.0, found.margin, alpha)
    error = measure_error(differences, weights)
    drawn = bootstrap_interval(differences, weights, rng, alpha=alpha, resamples=plan.resamples)
    return msgspec.structs.replace(
        found,
        interval=widen_sparse(drawn, differences, weights, alpha),
        p_value=flip_signs(differences, weights, rng, resamples=plan.resamples),
        mcnemar_p=_test_pairs(pairs),
        smallest_effect=smallest_effect(
            error, len(paired), measure_step(differences, weights), alpha
        ),
        needed_cases=_count_cases(found, error, target, alpha),
        needed_repeats=None if target is None else _count_repeats(pairs, error, target),
    )


def _test_pairs(pairs: Sequence[tuple[CaseScores, CaseScores]]) -> float | None:
    """McNemar's p, if every case has one sample in each that is 0 or 1."""
    if any(len(it.values) != 1 or it.values[0] not in (0, 1) for pair in pairs for it in pair):
        return None
    only_first = sum(a.values[0] > b.values[0] for a, b in pairs)
    only_second = sum(a.values[0] < b.values[0] for a, b in pairs)
    return measure_mcnemar(only_first, only_second)


def _count_cases(
    found: ScorerComparison, error: float, target: float | None, alpha: float
) -> int | None:
    """How many cases would decide it; if no case differs, how many may be called the same."""
    if error == 0:
        return None if found.difference else needed_equal(found.margin, alpha)
    return None if target is None else needed_cases(error, found.cases, target)


def _count_repeats(
    pairs: Sequence[tuple[CaseScores, CaseScores]], error: float, target: float
) -> int | None:
    parts = [weigh_within([pair[side].values for pair in pairs]) for side in (0, 1)]
    if parts[0] is None or parts[1] is None:
        return None
    # The harmonic mean: a case with one sample weighs as much as it costs in variance.
    sizes = [len(it.values) for pair in pairs for it in pair]
    repeats = len(sizes) / sum(1 / it for it in sizes)
    found = needed_repeats(parts[0] + parts[1], error, repeats, len(pairs), target)
    return found if found is not None and found <= REPEATS_MAX else None


def _decide(found: ScorerComparison, adjusted: float | None, alpha: float) -> ScorerComparison:
    verdict = judge_interval(found.interval, adjusted, found.margin, alpha)
    is_open = verdict is ComparisonVerdict.UNDECIDED
    decided = msgspec.structs.replace(
        found,
        verdict=verdict,
        p_adjusted=adjusted,
        needed_cases=found.needed_cases if is_open else None,
        needed_repeats=found.needed_repeats if is_open else None,
    )
    return msgspec.structs.replace(decided, reason=_explain(decided, alpha))


def judge_interval(
    interval: Interval | None, p_value: float | None, margin: float, alpha: float = ALPHA
) -> ComparisonVerdict:
    """The verdict, in the fixed order."""
    if interval is None or p_value is None:
        return ComparisonVerdict.UNDECIDED
    if -margin <= interval.low and interval.high <= margin:
        return ComparisonVerdict.SAME
    if interval.high < 0 and p_value <= alpha:
        return ComparisonVerdict.WORSE
    if interval.low > 0 and p_value <= alpha:
        return ComparisonVerdict.BETTER
    return ComparisonVerdict.UNDECIDED


def _explain(found: ScorerComparison, alpha: float) -> str:
    interval = found.interval
    if interval is None or found.difference is None:
        counted = "1 case is" if found.cases == 1 else f"{found.cases} cases are"
        return f"{counted} comparable: at least two are needed"
    level = f"{100 * (1 - alpha):.4g} %"
    shown = (
        f"{found.difference:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}] "
        f"({level}, {found.cases} cases)"
    )
    match found.verdict:
        case ComparisonVerdict.SAME:
            return f"{shown}: inside ±{found.margin:g}"
        case ComparisonVerdict.WORSE | ComparisonVerdict.BETTER:
            return f"{shown}: {found.verdict}, p = {found.p_adjusted:.2g}"
    ways = []
    if found.needed_repeats is not None:
        ways.append(f"{found.needed_repeats} repeats of these cases")
    if found.needed_cases is not None:
        ways.append(f"{found.needed_cases} cases")
    hint = f"; about {' or '.join(ways)} would decide it" if ways else ""
    effect = found.smallest_effect
    seen = "" if effect is None else f"; the smallest difference to be seen is {effect:.3f}"
    return f"{shown}: undecided{hint}{seen}"


def _compare_costs(
    first_items: Sequence[EvalItem], first: str, second_items: Sequence[EvalItem], second: str
) -> float | None:
    """The cost per sample of the cases that both have; None if one of them is not known."""
    old, new = _list_costs(first_items, first), _list_costs(second_items, second)
    sums = [0.0, 0.0]
    for case_id in sorted(old.keys() & new.keys()):
        for side, costs in enumerate((old[case_id], new[case_id])):
            known = [it for it in costs if it is not None]
            if len(known) < len(costs):
                return None
            sums[side] += sum(known) / len(known)
    return sums[1] / sums[0] if sums[0] > 0 else None


def _list_costs(items: Sequence[EvalItem], variant: str) -> dict[str, list[float | None]]:
    """What the samples of each case cost, those that are missing left out."""
    costs: dict[str, list[float | None]] = {}
    for it in items:
        if it.variant == variant and not it.status.is_missing:
            costs.setdefault(it.case_id, []).append(it.cost_usd)
    return costs
