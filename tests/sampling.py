"""Which lane runs how much of a test: `make test` takes a sample, `make torture` takes everything.

The stage `everything` of the torture suite sets AWAKEN_EVERYTHING=1 and runs only the tests with a
mark of this module: the `sampled` ones with all their cases, and the `long` ones, which `make test`
leaves out.
"""

import itertools
import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

from awaken.testing.simulation import InjectedScenario, InjectionPoint, inject_at

T = TypeVar("T")

VARIABLE = "AWAKEN_EVERYTHING"
IS_EVERYTHING = os.environ.get(VARIABLE) == "1"

sampled = pytest.mark.sampled
"""A test with more cases in `make torture`."""
long = pytest.mark.long
"""A test that only `make torture` runs."""


def choose_size(sample: int, everything: int) -> int:
    """The size of a property test or a sweep in this lane."""
    return everything if IS_EVERYTHING else sample


def choose_cases(cases: Sequence[T], sample: int) -> list[T]:
    """All cases, or as many as the sample has, spread evenly, with the first and the last."""
    last = len(cases) - 1
    if IS_EVERYTHING or sample > last:
        return list(cases)
    return [cases[round(place * last / (sample - 1))] for place in range(sample)]


def inject_at_points(scenario: InjectedScenario[object], every: int) -> int:
    """Inject at every n-th point of a scenario, as `enumerate_awaits` does at each.

    Returns how many runs were disturbed. The last run is not: it ends before its point comes.
    """
    for count in itertools.count():
        point = InjectionPoint(count * every)
        try:
            inject_at(scenario, point)
        except BaseException as failure:
            failure.add_note(f"inject_at(scenario, InjectionPoint({count * every})) repeats it")
            raise
        if not point.fired:
            return count
    raise AssertionError("a scenario ends")
