"""JSON equality and the subset rule: objects by key, arrays item by item, primitives equal.

A number equals a number of the same value (`1` and `1.0`); a boolean equals no number, although
Python says so. What was not captured never matches.
"""

from typing import Any

import msgspec

DEPTH_MAX = 200


def is_equal(first: Any, second: Any) -> bool:
    """Whether two JSON values are equal."""
    return find_mismatch(first, second) is None and find_mismatch(second, first) is None


def is_subset(subset: Any, actual: Any) -> bool:
    """Whether everything in `subset` is in `actual`."""
    return find_mismatch(subset, actual) is None


def find_mismatch(subset: Any, actual: Any, path: str = "", depth: int = 0) -> str | None:
    """The JSON pointer of the first place where `actual` lacks what `subset` has; None if nowhere.

    The pointer of the whole value is `/`. Values that are nested too deeply never match.
    """
    if depth > DEPTH_MAX or actual is msgspec.UNSET:
        return path or "/"
    if isinstance(subset, dict):
        if not isinstance(actual, dict):
            return path or "/"
        pairs = [(key, value, actual.get(key, msgspec.UNSET)) for key, value in subset.items()]
    elif isinstance(subset, list | tuple):
        if not isinstance(actual, list | tuple) or len(subset) != len(actual):
            return path or "/"
        both = zip(subset, actual, strict=True)
        pairs = [(place, *it) for place, it in enumerate(both)]
    else:
        is_same = subset == actual and isinstance(subset, bool) == isinstance(actual, bool)
        return None if is_same else path or "/"
    for key, wanted, given in pairs:
        place = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
        if (found := find_mismatch(wanted, given, place, depth + 1)) is not None:
            return found
    return None
