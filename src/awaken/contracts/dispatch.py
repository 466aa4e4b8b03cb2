"""Dispatches: one durable delivery of a run to a worker.

The queue record owns delivery only; how the run went is in the run record. `acked` does not
mean that the run succeeded.
"""

from collections.abc import Mapping
from enum import StrEnum

from .record import Record


class DispatchStatus(StrEnum):
    """Life of a dispatch. `DISPATCH_TRANSITIONS` lists every legal move."""

    QUEUED = "queued"
    CLAIMED = "claimed"
    ACKED = "acked"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    DEAD_LETTER = "dead_letter"

    @property
    def is_terminal(self) -> bool:
        """Whether the delivery is over."""
        return not DISPATCH_TRANSITIONS[self]


DISPATCH_TRANSITIONS: Mapping[DispatchStatus, frozenset[DispatchStatus]] = {
    DispatchStatus.QUEUED: frozenset(
        {DispatchStatus.CLAIMED, DispatchStatus.CANCELLED, DispatchStatus.SUPERSEDED}
    ),
    DispatchStatus.CLAIMED: frozenset(
        {
            DispatchStatus.QUEUED,
            DispatchStatus.ACKED,
            DispatchStatus.SUPERSEDED,
            DispatchStatus.DEAD_LETTER,
        }
    ),
    DispatchStatus.ACKED: frozenset(),
    DispatchStatus.CANCELLED: frozenset(),
    DispatchStatus.SUPERSEDED: frozenset(),
    DispatchStatus.DEAD_LETTER: frozenset(),
}


class RunDispatch(Record, frozen=True, kw_only=True):
    """One delivery. All times are milliseconds; a claimed dispatch always has a claim token."""

    dispatch_id: str
    thread_id: str
    run_id: str
    priority: int = 128
    """0 goes first."""
    dedupe_key: str | None = None
    dispatch_epoch: int = 0
    status: DispatchStatus = DispatchStatus.QUEUED
    available_at: int = 0
    attempt_count: int = 0
    max_attempts: int = 5
    last_error: str | None = None
    claim_token: str | None = None
    claimed_by: str | None = None
    lease_until: int | None = None
    completed_at: int | None = None
    created_at: int = 0
    updated_at: int = 0

    def __post_init__(self) -> None:
        if (self.status is DispatchStatus.CLAIMED) != (self.claim_token is not None):
            message = "a dispatch has a claim token exactly while it is claimed"
            raise ValueError(message)
