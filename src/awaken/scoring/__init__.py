"""Scorers, statistics, comparisons and gates: pure functions of outcomes and scores.

Belongs here: what a score is made from, one file per family of scorers; what figures, comparisons
and gates say of many scores. Does not: running samples, storing scores, calling models, which
comes through the port `ModelAsk`. Start reading at `registry.py` and `comparisons.py`.
"""

from .expectations import list_expected_specs
from .registry import SCORERS, make_scorers

__all__ = ["SCORERS", "list_expected_specs", "make_scorers"]
