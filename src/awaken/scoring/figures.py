"""Figures of a variant: what its items say, case by case and over all cases.

A sample that was cut or that a provider failed is missing. A sample that the scorer could not
score is an error of that scorer, and missing too. A sample whose agent failed is a failure: it has
the scores that it has, and 0 for the scorers that the case has otherwise.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from awaken.contracts.evals.eval_runs import EvalItem, ItemStatus
from awaken.contracts.evals.scores import Score
from awaken.contracts.evals.verdicts import (
    Calibration,
    PassesOfK,
    Percentiles,
    ScorerFigures,
    VariantFigures,
)

from .calibration import correct_rate
from .cost import count_tokens
from .statistics.quantiles import percentile
from .statistics.rates import (
    count_effective,
    estimate_mean,
    estimate_wilson,
    pass_at_k,
    pass_hat_k,
    share_between,
    share_of_flakes,
    weigh_mean,
)


class CaseScores(msgspec.Struct, kw_only=True):
    """What one scorer says of one case of a variant."""

    case_id: str
    weight: float = 1.0
    values: list[float] = []
    passes: int = 0
    errors: int = 0
    missing: int = 0
    is_judged: bool = False
    versions: set[str] = set()
    """The versions of the scorer; several if it changed between samples."""
    judges: set[tuple[str, str]] = set()
    """The judges that scored it, by prompt and model."""

    @property
    def mean(self) -> float:
        """The mean value; only for cases that have one."""
        return sum(self.values) / len(self.values)

    @property
    def rate(self) -> float:
        """The share of samples that pass; only for cases that have one."""
        return self.passes / len(self.values)


Scores = dict[str, dict[str, CaseScores]]
"""By scorer, then by case."""


def collect_scores(items: Iterable[EvalItem], variant: str, known: Scores | None = None) -> Scores:
    """Sort the scores of a variant by scorer and case.

    Args:
        items: The items of an eval, of all its variants.
        variant: The variant.
        known: Which scorers cases have elsewhere, such as in the other eval of a comparison.
    """
    items = tuple(items)
    scorers_of: dict[str, dict[str, None]] = {}
    for scorer, cases in (known or {}).items():
        for case_id in cases:
            scorers_of.setdefault(case_id, {})[scorer] = None
    for item in items:
        found = scorers_of.setdefault(item.case_id, {})
        found.update(dict.fromkeys(score.name for score in item.scores))
        found.update(dict.fromkeys(item.unscored))
    everywhere = dict.fromkeys(name for names in scorers_of.values() for name in names)
    # What others are compared with is not compared with itself: it has no such score to lack.
    foreign = {it.name for item in items for it in item.scores if it.against == variant}
    collected: Scores = {}
    for item in items:
        if item.variant == variant:
            # An older item names no scorer that it never got to: it fails by all of them.
            names = scorers_of[item.case_id] or everywhere
            given = {score.name: score for score in item.scores}
            for name in names:
                if name in foreign:
                    continue
                cases = collected.setdefault(name, {})
                case = cases.get(item.case_id)
                if case is None:
                    case = CaseScores(case_id=item.case_id, weight=item.weight)
                    cases[item.case_id] = case
                _add_sample(case, item, given.get(name))
    return collected


def _add_sample(case: CaseScores, item: EvalItem, score: Score | None) -> None:
    if item.status.is_missing:
        case.missing += 1
    elif score is not None and score.value is not None:
        case.values.append(score.value)
        case.passes += score.value >= 0.5 if score.passed is None else score.passed
        if score.judge is not None:
            case.is_judged = True
            case.judges.add(score.judge.judge_key)
        case.versions.add(score.version)
    elif score is not None or item.status is ItemStatus.SCORED:
        case.errors += 1
    else:
        case.values.append(0.0)


def list_variants(items: Iterable[EvalItem]) -> tuple[str, ...]:
    """The variants of an eval, in the order of the plan."""
    return tuple(dict.fromkeys(it.variant for it in items))


def summarize_variant(
    items: Sequence[EvalItem], variant: str, calibrations: Mapping[str, Calibration] | None = None
) -> VariantFigures:
    """The figures of a variant by every scorer, with what its samples used."""
    own = [it for it in items if it.variant == variant]
    missing = sum(it.status.is_missing for it in own)
    counted = [it for it in own if not it.status.is_missing]
    costs = [it.cost_usd for it in own if it.cost_usd is not None]
    scores = collect_scores(items, variant)
    return VariantFigures(
        variant=variant,
        items=len(own),
        missing=missing,
        failed=sum(it.status is not ItemStatus.SCORED for it in counted),
        scorers=tuple(
            summarize_scorer(name, tuple(cases.values()), (calibrations or {}).get(name))
            for name, cases in scores.items()
        ),
        tokens=_take_percentiles([count_tokens(it.usage) for it in counted]),
        cost_usd=_take_percentiles([it.cost_usd for it in counted]),
        ms=_take_percentiles([it.ms for it in counted]),
        total_cost_usd=sum(costs) if own and len(costs) == len(own) else None,
    )


def summarize_scorer(
    scorer: str, cases: Sequence[CaseScores], calibration: Calibration | None = None
) -> ScorerFigures:
    """The figures of one scorer; without a scored sample they are None, not 0."""
    scored = [it for it in cases if it.values]
    judges = {judge for it in cases for judge in it.judges}
    if calibration is not None and judges != {calibration.judge_key}:
        # Another prompt or model is another judge: what is known of one says nothing of the other.
        calibration = None
    figures = ScorerFigures(
        scorer=scorer,
        cases=len(scored),
        samples=sum(len(it.values) for it in scored),
        errors=sum(it.errors for it in cases),
        missing=sum(it.missing for it in cases),
        is_judged=any(it.is_judged for it in cases),
        calibration=calibration,
    )
    if not scored:
        return figures
    weights = [it.weight for it in scored]
    rates = [it.rate for it in scored]
    rate = weigh_mean(rates, weights)
    size = count_effective(rates, [len(it.values) for it in scored], weights)
    interval = estimate_wilson(rate, size)
    counts = [(len(it.values), it.passes) for it in scored]
    return msgspec.structs.replace(
        figures,
        mean=weigh_mean([it.mean for it in scored], weights),
        mean_interval=estimate_mean([it.mean for it in scored], weights),
        rate=rate,
        interval=interval,
        passes=_list_passes(scored),
        flake_rate=share_of_flakes(counts),
        between_cases=share_between([it.values for it in scored]),
        corrected=None if calibration is None else correct_rate(rate, size, calibration),
    )


def _list_passes(scored: Sequence[CaseScores]) -> tuple[PassesOfK, ...]:
    found = []
    for k in range(1, max(len(it.values) for it in scored) + 1):
        able = [it for it in scored if len(it.values) >= k]
        weights = [it.weight for it in able]
        of_any = [pass_at_k(len(it.values), it.passes, k) for it in able]
        of_all = [pass_hat_k(len(it.values), it.passes, k) for it in able]
        found.append(
            PassesOfK(
                k=k,
                any=weigh_mean(of_any, weights),
                all=weigh_mean(of_all, weights),
                cases=len(able),
            )
        )
    return tuple(found)


def _take_percentiles(values: Sequence[float | None]) -> Percentiles | None:
    known = sorted(float(it) for it in values if it is not None)
    if not known:
        return None
    return Percentiles(p50=percentile(known, 0.5), p95=percentile(known, 0.95), samples=len(known))
