"""Quantiles: of samples, of the normal and of Student's distribution."""

import math
from collections.abc import Sequence
from statistics import NormalDist

_NORMAL = NormalDist()


def normal_quantile(level: float) -> float:
    """The quantile of the standard normal distribution."""
    return _NORMAL.inv_cdf(level)


def normal_share(value: float) -> float:
    """The share of the standard normal distribution up to a value."""
    return _NORMAL.cdf(value)


def student_quantile(level: float, freedom: float) -> float:
    """The quantile of Student's distribution, within 1 % from three degrees of freedom on.

    Exact for one and two degrees; else the expansion around the normal quantile, whose error falls
    with the fifth power of the degrees.
    """
    if freedom <= 1:
        return math.tan(math.pi * (level - 0.5))
    if freedom <= 2:
        return (2 * level - 1) / math.sqrt(2 * level * (1 - level))
    z = normal_quantile(level)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, start=1))


def percentile(ordered: Sequence[float], level: float) -> float:
    """The percentile of sorted values, with linear interpolation between neighbours."""
    place = level * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
