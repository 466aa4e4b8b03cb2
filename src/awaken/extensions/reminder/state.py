"""What a run remembers between a result and the next request."""

from awaken.contracts.state import MergeStrategy, StateKey

DUE: StateKey[tuple[str, ...], str] = StateKey(
    "reminder.due",
    default=(),
    type=tuple[str, ...],
    apply=lambda value, key: tuple(sorted({*value, key})),
    merge=MergeStrategy.COMMUTATIVE,
)
"""The keys of reminders that the next request of this agent is to carry."""
