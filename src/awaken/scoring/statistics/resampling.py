"""Intervals and tests for paired differences of cases: bootstrap, sign flips, McNemar, Holm."""

import math
from collections.abc import Sequence
from random import Random

from awaken.contracts.evals.verdicts import Interval

from .quantiles import normal_share, percentile, student_quantile
from .rates import bound_share

RESAMPLES = 10_000
EXACT_MAX = 16
"""Up to so many cases that differ, all assignments of signs are counted."""
_GROUP = 10
_NEAR = 1e-9
"""Sums that differ by less are equal: the order of additions must not decide a test."""


def bootstrap_interval(
    differences: Sequence[float],
    weights: Sequence[float],
    rng: Random,
    *,
    alpha: float = 0.05,
    resamples: int = RESAMPLES,
) -> Interval:
    """The interval of the weighted mean difference, by drawing cases with return.

    The percentiles are taken a little further out than alpha / 2 each: the spread of means of n
    drawn values is too small by sqrt((n - 1) / n), and few cases have heavier tails.
    """
    n = len(differences)
    if min(differences) == max(differences):
        return Interval(low=differences[0], high=differences[0])
    if min(weights) == max(weights):
        means = [sum(rng.choices(differences, k=n)) / n for _ in range(resamples)]
    else:
        places = range(n)
        products = [x * w for x, w in zip(differences, weights, strict=True)]
        means = []
        for _ in range(resamples):
            drawn = rng.choices(places, k=n)
            weight = sum([weights[it] for it in drawn])
            means.append(sum([products[it] for it in drawn]) / weight)
    means.sort()
    reach = math.sqrt(n / (n - 1)) * student_quantile(1 - alpha / 2, n - 1)
    level = normal_share(-reach)
    return Interval(low=percentile(means, level), high=percentile(means, 1 - level))


def widen_sparse(
    interval: Interval, differences: Sequence[float], weights: Sequence[float], alpha: float = 0.05
) -> Interval:
    """The interval of differences from -1 to 1, if few cases differ: it counts what is unseen.

    Drawing cases with return never draws what no case showed: of five equal cases it makes a
    point. While so few cases differ that no assignment of signs is rare enough to be a difference,
    the ends reach as far as the shares of cases that fall and that rise may, each at alpha / 2.
    """
    falls, rises = (sum(it * sign > 0 for it in differences) for sign in (-1, 1))
    if 2.0 ** (1 - falls - rises) <= alpha:
        return interval
    # As many cases of equal weight as these are worth.
    size = max(1, int(math.fsum(weights) ** 2 / math.fsum(it * it for it in weights) + _NEAR))
    return Interval(
        low=min(interval.low, -bound_share(falls, size, alpha / 2)),
        high=max(interval.high, bound_share(rises, size, alpha / 2)),
    )


def flip_signs(
    differences: Sequence[float],
    weights: Sequence[float],
    rng: Random,
    *,
    resamples: int = RESAMPLES,
) -> float:
    """The two-sided p of no difference: how often random signs give a sum as large as the real one.

    Exact for up to 16 cases that differ; cases that do not differ change nothing.
    """
    products = [x * w for x, w in zip(differences, weights, strict=True) if x != 0]
    if not products:
        return 1.0
    largest = abs(math.fsum(products)) - _NEAR * math.fsum(map(abs, products))
    tables = [
        _list_signed_sums(products[place : place + _GROUP])
        for place in range(0, len(products), _GROUP)
    ]
    n = len(products)
    if n <= EXACT_MAX:
        sums = tables[0]
        for table in tables[1:]:
            sums = [a + b for a in sums for b in table]
        return sum(abs(it) >= largest for it in sums) / len(sums)
    sizes = [len(it) - 1 for it in tables]
    found = 0
    for _ in range(resamples):
        bits, total = rng.getrandbits(n), 0.0
        for table, mask in zip(tables, sizes, strict=True):
            total += table[bits & mask]
            bits >>= _GROUP
        found += abs(total) >= largest
    # The real assignment is one of those that can occur: p is never 0.
    return (found + 1) / (resamples + 1)


def _list_signed_sums(products: Sequence[float]) -> list[float]:
    """The sums of the products with every assignment of signs."""
    sums = [0.0]
    for it in products:
        sums = [total + it for total in sums] + [total - it for total in sums]
    return sums


def measure_mcnemar(only_first: int, only_second: int) -> float:
    """The exact two-sided p of McNemar: cases that pass in one only, split by a fair coin."""
    n = only_first + only_second
    if n == 0:
        return 1.0
    tail = sum(math.comb(n, it) for it in range(min(only_first, only_second) + 1))
    return min(1.0, 2 * tail / (1 << n))


def adjust_holm(values: Sequence[float]) -> list[float]:
    """Adjust p values of several tests, so that one false finding at most alpha times occurs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    adjusted, highest = [0.0] * len(values), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = highest
    return adjusted
