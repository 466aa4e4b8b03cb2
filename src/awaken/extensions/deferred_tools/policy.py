"""When a loaded tool is deferred again: the discounted-Beta policy, as plain functions.

In every turn a tool is called or not. The belief about a tool is a Beta distribution over the
probability of a call: each turn discounts earlier observations and adds one. The observations are
stored, not the belief: it is a function of the prior, the turns with a call, and the number of
turns, so that every process computes the same one.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from .config import DiscountedBeta

DEFAULT_PRIOR = 0.01
"""The share of turns in which an agent is assumed to call an unknown tool."""
LEAST = 0.01
"""The minimum of both parameters of a prior."""
QUANTILE = 1.282
"""The 90 % quantile of the normal distribution, in standard deviations."""


class Belief(NamedTuple):
    """A Beta distribution over the probability that a tool is called in a turn."""

    alpha: float
    beta: float

    @property
    def upper_bound(self) -> float:
        """The upper bound of the probability, with 90 % certainty by the normal approximation."""
        total = self.alpha + self.beta
        mean = self.alpha / total
        deviation = math.sqrt(self.alpha * self.beta / (total * total * (total + 1)))
        return min(1.0, mean + QUANTILE * deviation)


def prior_belief(probability: float, n0: float) -> Belief:
    """The belief before the first turn, with the weight of `n0` observations."""
    return Belief(max(LEAST, probability * n0), max(LEAST, (1 - probability) * n0))


def belief_after(prior: Belief, called: Iterable[int], turns: int, omega: float) -> Belief:
    """The belief after `turns` turns, numbered from 1, of which `called` had a call."""
    left = omega**turns
    seen = float(turns) if omega == 1 else (1 - left) / (1 - omega)
    hits = sum(omega ** (turns - turn) for turn in called)
    return Belief(prior.alpha * left + hits, prior.beta * left + max(0.0, seen - hits))


def is_worth_deferring(belief: Belief, saving: float, rules: DiscountedBeta) -> bool:
    """Whether a tool is called so rarely that searching for it again costs less than keeping it.

    `saving` is the number of tokens that its absence saves per turn.
    """
    if rules.gamma == 0:
        return False
    return belief.upper_bound < saving / rules.gamma * rules.thresh_mult
