"""Rates over repeated samples of cases: intervals, pass@k, pass^k, flakes, shares of variance."""

import math
from collections.abc import Sequence
from statistics import median_low

from awaken.contracts.evals.verdicts import Interval

from .quantiles import normal_quantile, student_quantile

CONFIDENCE = 0.95


def weigh_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """The weighted mean."""
    return math.fsum(map(float.__mul__, values, weights)) / math.fsum(weights)


def measure_error(values: Sequence[float], weights: Sequence[float]) -> float:
    """The standard error of the weighted mean of independent values; 0 for fewer than two."""
    n = len(values)
    if n < 2:
        return 0.0
    mean, total = weigh_mean(values, weights), math.fsum(weights)
    squares = math.fsum((w * (x - mean)) ** 2 for x, w in zip(values, weights, strict=True))
    return math.sqrt(squares * n / (n - 1)) / total


def estimate_wilson(rate: float, size: float, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's interval of a rate that `size` independent samples gave."""
    z = normal_quantile(0.5 + confidence / 2)
    square = z * z / size
    middle = (rate + square / 2) / (1 + square)
    half = z * math.sqrt(rate * (1 - rate) / size + square / (4 * size)) / (1 + square)
    # Exactly 0 and 1 at the ends, where rounding would leave a remainder.
    low = 0.0 if rate <= 0 else max(0.0, middle - half)
    high = 1.0 if rate >= 1 else min(1.0, middle + half)
    return Interval(low=low, high=high)


def bound_share(count: int, size: int, level: float) -> float:
    """The share that is exceeded with this chance if `count` of `size` cases are of a kind.

    The exact upper bound of Clopper and Pearson: with none of 60 it is 0.06 at a level of 0.025,
    which is known as the rule of three at 0.05.
    """
    if count >= size:
        return 1.0
    if count == 0:
        return float(1 - level ** (1 / size))
    low, high = count / size, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        tail = math.fsum(
            math.comb(size, it) * middle**it * (1 - middle) ** (size - it)
            for it in range(count + 1)
        )
        low, high = (middle, high) if tail > level else (low, middle)
    return high


def estimate_mean(
    values: Sequence[float], weights: Sequence[float], confidence: float = CONFIDENCE
) -> Interval | None:
    """The interval of the weighted mean of values from 0 to 1; None for fewer than two.

    Student's, which of equal values makes a point. So while most values are equal and few differ,
    its ends reach as far as the shares of cases that lie below and above may (Clopper and Pearson).
    """
    if len(values) < 2:
        return None
    mean = weigh_mean(values, weights)
    reach = student_quantile(0.5 + confidence / 2, len(values) - 1)
    half = reach * measure_error(values, weights)
    low, high = max(0.0, mean - half), min(1.0, mean + half)
    usual, alpha = median_low(values), 1 - confidence
    below, above = sum(it < usual for it in values), sum(it > usual for it in values)
    # As few as cannot be told from none by the signs of their differences.
    is_sparse = 2 * (below + above) < len(values) and 2.0 ** (1 - below - above) > alpha
    if is_sparse:
        size = max(1, int(math.fsum(weights) ** 2 / math.fsum(it * it for it in weights) + 1e-9))
        low = min(low, usual * (1 - bound_share(min(below, size), size, alpha / 2)))
        high = max(high, usual + (1 - usual) * bound_share(min(above, size), size, alpha / 2))
    return Interval(low=low, high=high)


def count_effective(
    rates: Sequence[float], sizes: Sequence[int], weights: Sequence[float]
) -> float:
    """How many independent samples the samples of these cases are worth.

    Repeats of one case resemble each other, so they are worth less than samples of other cases:
    as many as would give the observed variance between cases. At least the number of cases, as
    their weights count it, and at most the number of samples.
    """
    total = math.fsum(weights)
    shares = [it / total for it in weights]
    cases = 1 / math.fsum(it * it for it in shares)
    samples = 1 / math.fsum(it * it / n for it, n in zip(shares, sizes, strict=True))
    mean, error = weigh_mean(rates, weights), measure_error(rates, weights)
    if error == 0:
        return cases
    return min(max(mean * (1 - mean) / error**2, cases), samples)


def pass_at_k(samples: int, passes: int, k: int) -> float:
    """The chance that at least one of k samples passes, drawn from these without return."""
    return 1 - math.comb(samples - passes, k) / math.comb(samples, k)


def pass_hat_k(samples: int, passes: int, k: int) -> float:
    """The chance that all of k samples pass, drawn from these without return."""
    return math.comb(passes, k) / math.comb(samples, k)


def share_of_flakes(counts: Sequence[tuple[int, int]]) -> float | None:
    """The share of cases, as (samples, passes), that neither always pass nor always fail.

    Only cases with at least two samples count; None if there is none.
    """
    repeated = [(samples, passes) for samples, passes in counts if samples >= 2]
    if not repeated:
        return None
    return sum(0 < passes < samples for samples, passes in repeated) / len(repeated)


def split_variance(groups: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """The variance between cases and the one within a case, from one-way analysis of variance.

    None if no case has two samples, or there is only one case. The first is never negative.
    """
    kept = [it for it in groups if it]
    count, total = len(kept), sum(map(len, kept))
    if count < 2 or total == count:
        return None
    means = [math.fsum(it) / len(it) for it in kept]
    grand = math.fsum(map(math.fsum, kept)) / total
    squares_between = math.fsum(
        len(it) * (mean - grand) ** 2 for it, mean in zip(kept, means, strict=True)
    )
    squares_within = math.fsum(
        (value - mean) ** 2 for it, mean in zip(kept, means, strict=True) for value in it
    )
    within = squares_within / (total - count)
    size = (total - sum(len(it) ** 2 for it in kept) / total) / (count - 1)
    return max(0.0, (squares_between / (count - 1) - within) / size), within


def share_between(groups: Sequence[Sequence[float]]) -> float | None:
    """The share of variance between cases (ICC); None if there are no repeats or no variance."""
    parts = split_variance(groups)
    if parts is None or sum(parts) == 0:
        return None
    return parts[0] / sum(parts)
