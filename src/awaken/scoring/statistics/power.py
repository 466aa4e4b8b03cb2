"""How much an eval could see, and how much more would decide it."""

import math
from collections.abc import Sequence
from itertools import pairwise

from .quantiles import normal_quantile, normal_share, student_quantile

POWER = 0.8
_BOTH = 0.83
"""For 80 % power: the interval and the test have to agree, which costs one or two points."""
CASES_MAX = 1_000_000
LOOKS = (1 / 3, 2 / 3, 1.0)
_OBRIEN_FLEMING = 2.0041
"""The last bound of three equally spaced looks at 5 %, two-sided; the others follow from it."""


def smallest_effect(
    error: float, cases: int, step: float = 0.0, alpha: float = 0.05
) -> float | None:
    """The smallest true difference that is found with 80 % power; None if nothing varies.

    Args:
        error: The standard error of the difference.
        cases: How many cases it has.
        step: The distance between two values that the mean difference can have. The permutation
            test counts the observed value as extreme, as if it were half a step nearer to 0.
        alpha: The two-sided level.
    """
    if error == 0 or cases < 2:
        return None
    freedom = cases - 1
    reach = student_quantile(1 - alpha / 2, freedom) + student_quantile(_BOTH, freedom)
    return reach * error + step / 2


def measure_step(differences: Sequence[float], weights: Sequence[float]) -> float:
    """The distance between two sums of signed differences, as a part of the mean; 0 if uneven."""
    if min(weights) != max(weights):
        return 0.0
    sizes = sorted({0.0, *(round(abs(it), 9) for it in differences)})
    gaps = [after - before for before, after in pairwise(sizes)]
    return 2 * min(gaps) / len(differences) if gaps else 0.0


def needed_error(difference: float, margin: float, alpha: float = 0.05) -> float | None:
    """The standard error with which a true difference of this size would be decided.

    Either as a difference (80 % power), or as none inside the margin; None if neither can be.
    """
    z = normal_quantile(1 - alpha / 2)
    as_difference = abs(difference) / (z + normal_quantile(POWER))
    # Both ends of the interval have to stay inside, each with 80 % power when they are near.
    as_same = (margin - abs(difference)) / (z + normal_quantile((1 + POWER) / 2))
    found = max(as_difference, as_same)
    return found if found > 0 else None


def needed_cases(error: float, cases: int, target: float) -> int | None:
    """How many cases, with as many repeats, reach a standard error; None beyond a million."""
    if not cases or error <= 0:
        return None
    found = math.ceil(cases * (error / target) ** 2)
    return max(found, cases + 1) if found <= CASES_MAX else None


def needed_equal(margin: float, alpha: float = 0.05) -> int | None:
    """How many cases without any difference leave only differences inside the margin."""
    if not 0 < margin < 1:
        return None
    found = math.ceil(math.log(alpha / 2) / math.log1p(-margin))
    return found if found <= CASES_MAX else None


def needed_repeats(
    within: float, error: float, repeats: float, cases: int, target: float
) -> int | None:
    """How many repeats of the same cases reach a standard error.

    Args:
        within: The variance of one sample around its case, both variants added.
        error: The standard error now.
        repeats: How many samples a case has now.
        cases: How many cases.
        target: The standard error that is wanted.

    Returns:
        The number; None if the cases differ too much among each other for repeats alone.
    """
    if repeats <= 0 or cases < 2:
        return None
    between = max(0.0, error**2 * cases - within / repeats)
    left = target**2 * cases - between
    if left <= 0 or within <= 0:
        return None
    return max(math.ceil(within / left), math.floor(repeats) + 1)


def bound_look(number: int) -> tuple[float, float]:
    """The O'Brien-Fleming bound of a look and its two-sided level; looks are counted from 1."""
    bound = _OBRIEN_FLEMING * math.sqrt(1 / LOOKS[number - 1])
    return bound, 2 * normal_share(-bound)


def find_look(fraction: float) -> int | None:
    """The last look that is due when so much of the plan is there; None before the first."""
    due = [it for it, wanted in enumerate(LOOKS, start=1) if fraction >= wanted - 1e-9]
    return due[-1] if due else None


def weigh_within(groups: Sequence[Sequence[float]]) -> float | None:
    """The variance of a sample around its case; None without repeats."""
    degrees = sum(len(it) - 1 for it in groups if it)
    if degrees <= 0:
        return None
    squares = 0.0
    for it in groups:
        mean = math.fsum(it) / len(it) if it else 0.0
        squares += math.fsum((value - mean) ** 2 for value in it)
    return squares / degrees
