"""How a stage says what it did: its seed, its counts, what failed, and one line at the end."""

import sys
from collections.abc import Iterable, Mapping
from typing import NoReturn

SHOWN_MAX = 20


def finish(
    stage: str, seed: int, counts: Mapping[str, object], passed: int, failures: Iterable[str]
) -> NoReturn:
    """Print the outcome and exit: 0 only when something passed and nothing failed."""
    found = list(failures)
    print(f"{stage}: seed {seed}")
    for name, count in counts.items():
        print(f"  {name}: {count}")
    for failure in found[:SHOWN_MAX]:
        print(f"  FAILED {failure}")
    if len(found) > SHOWN_MAX:
        print(f"  … and {len(found) - SHOWN_MAX} more")
    print(f"{stage}: {passed} passed, {len(found)} failed", flush=True)
    sys.exit(0 if passed and not found else 1)
