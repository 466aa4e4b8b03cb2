"""When a loaded tool is deferred again: the discounted-Beta policy, as plain functions.

In every turn a tool is called or not. What is believed of it is a Beta distribution over the
probability of a call: each turn discounts what was seen before and adds one observation. The
facts are kept, not the belief: it is a function of the prior, the turns with a call, and the
number of turns, so that every process comes to the same one.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from .config import DiscountedBeta

DEFAULT_PRIOR = 0.01
"""In which share of its turns an agent calls a tool that nothing is known about."""
LEAST = 0.01
"""Below it neither parameter of a prior goes."""
QUANTILE = 1.282
"""Standard deviations above the mean below which 90 % of a normal distribution lie."""


class Belief(NamedTuple):
    """A Beta distribution over the probability that a tool is called in a turn."""

    alpha: float
    beta: float

    @property
    def upper_bound(self) -> float:
        """What the probability is below, with 90 % certainty by the normal approximation."""
        total = self.alpha + self.beta
        mean = self.alpha / total
        deviation = math.sqrt(self.alpha * self.beta / (total * total * (total + 1)))
        return min(1.0, mean + QUANTILE * deviation)


def prior_belief(probability: float, n0: float) -> Belief:
    """What is believed before the first turn, worth `n0` observations."""
    return Belief(max(LEAST, probability * n0), max(LEAST, (1 - probability) * n0))


def belief_after(prior: Belief, called: Iterable[int], turns: int, omega: float) -> Belief:
    """What is believed after `turns` turns, numbered from 1, of which `called` had a call."""
    left = omega**turns
    seen = float(turns) if omega == 1 else (1 - left) / (1 - omega)
    hits = sum(omega ** (turns - turn) for turn in called)
    return Belief(prior.alpha * left + hits, prior.beta * left + max(0.0, seen - hits))


def is_worth_deferring(belief: Belief, saving: float, rules: DiscountedBeta) -> bool:
    """Whether a tool is called so rarely that searching for it again costs less than keeping it.

    `saving` is what its absence saves per turn, in tokens.
    """
    if rules.gamma == 0:
        return False
    return belief.upper_bound < saving / rules.gamma * rules.thresh_mult
