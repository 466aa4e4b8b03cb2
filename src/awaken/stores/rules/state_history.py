"""The history of state: what a commit keeps of its changes, and how values are folded from it.

A commit that changes state keeps its changes. Every `FULL_EVERY` versions of a thread it also keeps
all values before it, if they are small, so that a fold reads no more changes than that.
"""

from collections.abc import Iterable, Mapping

import msgspec

from awaken.contracts.state.keys import StoredValue
from awaken.contracts.storage.state_history import FoldedState, MissingHistory

FULL_EVERY = 64
FULL_BYTES = 4096
"""The maximum size of all values that one commit keeps besides its changes."""

KeptValue = tuple[int, msgspec.Raw]
"""The version and the JSON of a value."""
KeptValues = dict[str, KeptValue]


class KeptChange(msgspec.Struct, array_like=True, frozen=True):
    """What one commit changed in state; a removed key is None."""

    thread: dict[str, KeptValue | None] = {}
    run: dict[str, KeptValue | None] = {}
    before: tuple[KeptValues, KeptValues] | None = None
    """All values of the thread and of the run before the commit; most commits do not keep them."""


KeptRow = tuple[str | None, KeptChange | None]
"""The run of a commit, and its change; None if the change was not kept."""


def keep_changes(changes: Mapping[str, StoredValue | None]) -> dict[str, KeptValue | None]:
    """Return changes in the form in which they are kept."""
    return {name: None if it is None else (it.version, it.data) for name, it in changes.items()}


def fold_rows(newest_first: Iterable[KeptRow], run_id: str) -> tuple[FoldedState, bool]:
    """Fold the changes of a thread up to a commit, newest first; older ones need not be given.

    Returns the state, and whether it begins with all values of some commit.
    """
    taken: list[tuple[str | None, KeptChange]] = []
    missing, is_full = None, False
    for of_run, change in newest_first:
        if change is None:
            missing = MissingHistory.NOT_KEPT
            break
        taken.append((of_run, change))
        if change.before is not None:
            is_full = True
            break
    thread: dict[str, KeptValue | None] = {}
    run: dict[str, KeptValue | None] = {}
    for of_run, change in reversed(taken):
        is_own = of_run == run_id
        if change.before is not None:
            thread |= change.before[0]
            run |= change.before[1] if is_own else {}
        thread |= change.thread
        run |= change.run if is_own else {}
    return FoldedState(thread=_values(thread), run=_values(run), missing=missing), is_full


def _values(kept: Mapping[str, KeptValue | None]) -> dict[str, StoredValue]:
    return {
        name: StoredValue(version=it[0], data=it[1]) for name, it in kept.items() if it is not None
    }
