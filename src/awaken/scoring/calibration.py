"""How far a judge agrees with people, and what its pass rate is without its known errors."""

import math
from collections.abc import Sequence

import msgspec

from awaken.contracts.evals.verdicts import Calibration, CorrectedRate, Interval

from .statistics.quantiles import normal_quantile
from .statistics.rates import estimate_wilson

LABELS_MIN = 30
"""Fewer labels calibrate nothing."""
_Z = normal_quantile(0.975)


class JudgeLabel(msgspec.Struct, frozen=True, kw_only=True):
    """One item that a person and a judge graded."""

    human: bool
    judge: bool
    votes: tuple[float, ...] = ()
    judge_key: tuple[str, str] | None = None
    """The prompt and the model of the judge, as `JudgeUse.judge_key` has them."""


def calibrate_judge(labels: Sequence[JudgeLabel], scorer: str = "") -> Calibration:
    """Compare a judge with people; below 30 labels, or with labels of one kind, it is uncalibrated.

    Without people's passes or fails one of its errors is unknown, however many labels there are. So
    it is with labels of several judges: what they have in common is the error of none of them.
    """
    total = len(labels)
    both = sum(it.human and it.judge for it in labels)
    neither = sum(not it.human and not it.judge for it in labels)
    passes = sum(it.human for it in labels)
    fails = total - passes
    false_fails, false_passes = passes - both, fails - neither
    keys = {it.judge_key for it in labels}
    prompt_hash, model_id = next(iter(keys)) or (None, None) if len(keys) == 1 else (None, None)
    known = Calibration(
        scorer=scorer,
        labels=total,
        human_passes=passes,
        human_fails=fails,
        self_consistency=_measure_consistency(labels),
        prompt_hash=prompt_hash,
        model_id=model_id,
    )
    if total == 0:
        return known
    agreement = (both + neither) / total
    kappa = measure_kappa(both, false_fails, false_passes, neither)
    return msgspec.structs.replace(
        known,
        is_calibrated=total >= LABELS_MIN and passes > 0 and fails > 0 and len(keys) == 1,
        agreement=agreement,
        agreement_interval=estimate_wilson(agreement, total),
        kappa=None if kappa is None else kappa[0],
        kappa_interval=None if kappa is None else kappa[1],
        false_pass=false_passes / fails if fails else None,
        false_pass_interval=estimate_wilson(false_passes / fails, fails) if fails else None,
        false_fail=false_fails / passes if passes else None,
        false_fail_interval=estimate_wilson(false_fails / passes, passes) if passes else None,
    )


def measure_kappa(
    both: int, only_human: int, only_judge: int, neither: int
) -> tuple[float, Interval] | None:
    """Cohen's kappa with its large-sample interval; None if chance alone explains everything."""
    total = both + only_human + only_judge + neither
    if total == 0:
        return None
    table = [[both / total, only_human / total], [only_judge / total, neither / total]]
    human = [sum(it) for it in table]
    judge = [table[0][it] + table[1][it] for it in (0, 1)]
    observed = table[0][0] + table[1][1]
    expected = human[0] * judge[0] + human[1] * judge[1]
    if expected == 1:
        return None
    kappa = (observed - expected) / (1 - expected)
    # The variance of Fleiss, Cohen and Everitt: that of a kappa that may differ from 0.
    diagonal = sum(
        table[it][it] * (1 - (human[it] + judge[it]) * (1 - kappa)) ** 2 for it in (0, 1)
    )
    others = (1 - kappa) ** 2 * sum(
        table[row][column] * (judge[row] + human[column]) ** 2 for row, column in ((0, 1), (1, 0))
    )
    chance = (kappa - expected * (1 - kappa)) ** 2
    error = math.sqrt(max(0.0, diagonal + others - chance) / total) / (1 - expected)
    low, high = max(-1.0, kappa - _Z * error), min(1.0, kappa + _Z * error)
    return kappa, Interval(low=low, high=high)


def _measure_consistency(labels: Sequence[JudgeLabel]) -> float | None:
    """The share of pairs of votes of one item that agree, over all items with several votes."""
    equal = pairs = 0
    for it in labels:
        n = len(it.votes)
        pairs += n * (n - 1) // 2
        equal += sum(
            (first >= 0.5) == (second >= 0.5)
            for place, first in enumerate(it.votes)
            for second in it.votes[place + 1 :]
        )
    return equal / pairs if pairs else None


def correct_rate(rate: float, size: float, calibration: Calibration) -> CorrectedRate | None:
    """The pass rate that people would give, estimated after Rogan and Gladen.

    None for a judge that is not calibrated or no better than chance. The interval counts the
    uncertainty of the rate and of both errors of the judge.
    """
    false_pass, false_fail = calibration.false_pass, calibration.false_fail
    if not calibration.is_calibrated or false_pass is None or false_fail is None:
        return None
    found = 1 - false_fail - false_pass
    if found <= 0:
        return None
    corrected = (rate - false_pass) / found
    # One item of each kind is added to the counts: rates of 0 and 1 are uncertain as well.
    variance = (
        _vary(rate, size)
        + (1 - corrected) ** 2 * _vary(false_pass, calibration.human_fails)
        + corrected**2 * _vary(false_fail, calibration.human_passes)
    ) / found**2
    half = _Z * math.sqrt(variance)
    low, high = max(0.0, corrected - half), min(1.0, corrected + half)
    shown = min(1.0, max(0.0, corrected))
    return CorrectedRate(rate=shown, interval=Interval(low=min(low, shown), high=max(high, shown)))


def _vary(rate: float, size: float) -> float:
    smoothed = (rate * size + 1) / (size + 2)
    return smoothed * (1 - smoothed) / (size + 2)
