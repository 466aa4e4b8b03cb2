"""Reciprocal rank fusion: one ranking from several, without comparing their scores."""

from collections.abc import Hashable, Sequence
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

RANK_CONSTANT = 60
"""How little the first places differ; 60 is the usual value of the method."""


def fuse_rankings(rankings: Sequence[Sequence[K]], limit: int) -> list[K]:
    """Return the best keys of all rankings; equal ones in the order of the first ranking."""
    scores: dict[K, float] = {}
    for ranking in rankings:
        for place, key in enumerate(ranking, 1):
            scores[key] = scores.get(key, 0.0) + 1 / (RANK_CONSTANT + place)
    return sorted(scores, key=lambda key: -scores[key])[:limit]
