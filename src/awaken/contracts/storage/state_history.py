"""State over time: what each commit changed, and the values after any of them."""

from enum import StrEnum

from awaken.contracts.record import Record
from awaken.contracts.state.keys import StoredValue


class MissingHistory(StrEnum):
    """Why values of state at an earlier time are not known."""

    NOT_KEPT = "not_kept"
    """A commit kept no history: the runtime had `history="lean"`, or an earlier version wrote."""
    PURGED = "purged"
    """The log of that time was purged."""


class FoldedState(Record, frozen=True, kw_only=True):
    """The values of state after a commit."""

    thread: dict[str, StoredValue] = {}
    run: dict[str, StoredValue] = {}
    missing: MissingHistory | None = None
    """Set if values that were written earlier are unknown; those here are right nevertheless."""


class StateChange(Record, frozen=True, kw_only=True):
    """The names of the keys that one commit of a run changed."""

    event_seq: int
    """The thread's last event after the commit."""
    thread: tuple[str, ...] = ()
    run: tuple[str, ...] = ()


class StateChanges(Record, frozen=True, kw_only=True):
    """What the commits of a run changed in state, in their order."""

    changes: tuple[StateChange, ...] = ()
    missing: MissingHistory | None = None
    """Set if some of the run's changes are unknown."""
