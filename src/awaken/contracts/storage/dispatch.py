"""Dispatches: one durable delivery of input to a thread, and the claim that one worker has on it.

The queue record is about delivery only; the outcome of the run is in the run record. `acked` does
not mean that the run succeeded. A claim is a lease on a whole thread: while it lasts, only the
holder of its token can write to the thread.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypedDict

from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunRecord, RunRequest, WaitingReason

RECOVERY = "recovered:"
"""Id prefix of the dispatches that a store creates to continue an abandoned run."""


RELEASED = "released:"
"""Id prefix of the dispatches that continue a run whose agent was paused."""


class DeliveryOptions(TypedDict, total=False):
    """How queued input is delivered."""

    priority: int
    """0 is delivered first, 128 is the default."""
    dedupe_key: str
    """The same request under the same key is queued once."""
    delay_ms: int
    """How long it waits at least."""


class InputMode(StrEnum):
    """How input reaches a thread."""

    QUEUE = "queue"
    """Starts a new run after the work that the thread already has."""
    STEER = "steer"
    """Joins the executing run before its next inference; without one, like `queue`."""
    INTERRUPT = "interrupt"
    """Drops queued input, cancels the executing or waiting run, then starts a new run."""
    RESUME = "resume"
    """Continues the waiting run under its own id."""


class DispatchStatus(StrEnum):
    """The state of a dispatch. `DISPATCH_TRANSITIONS` lists every legal transition."""

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
        {
            DispatchStatus.CLAIMED,
            DispatchStatus.ACKED,  # An executing run has read it.
            DispatchStatus.CANCELLED,
            DispatchStatus.SUPERSEDED,
        }
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
    """The run that it should start or continue."""
    taken_by: str | None = None
    """The run that read its input, if that was another one."""
    request: RunRequest = RunRequest()
    mode: InputMode = InputMode.QUEUE
    priority: int = 128
    """0 goes first."""
    dedupe_key: str | None = None
    """Unique per thread until the dispatch is purged."""
    request_hash: str = ""
    """Two submissions with one dedupe key are equal if their hashes are equal."""
    dispatch_epoch: int = 0
    """The thread's epoch when it was queued; an interrupt raises it and drops older dispatches."""
    status: DispatchStatus = DispatchStatus.QUEUED
    available_at: int = 0
    attempt_count: int = 0
    """How often it was claimed for execution; counted before the execution."""
    max_attempts: int = 5
    last_error: str | None = None
    claim_token: str | None = None
    claimed_by: str | None = None
    lease_until: int | None = None
    cancel_cause: str | None = None
    """A cancellation was requested: the worker that executes the run ends it."""
    completed_at: int | None = None
    created_at: int = 0
    updated_at: int = 0

    def __post_init__(self) -> None:
        if (self.status is DispatchStatus.CLAIMED) != (self.claim_token is not None):
            message = "a dispatch has a claim token exactly while it is claimed"
            raise ValueError(message)

    @property
    def is_notification(self) -> bool:
        """Whether it has only messages of tasks or other agents; no interrupt drops those."""
        messages = self.request.messages
        return bool(messages) and all(message.sender is not None for message in messages)

    @property
    def reader(self) -> str | None:
        """The only agent that may read it: the one that another agent's message names."""
        request = self.request
        is_addressed = bool(request.agent_id) and request.continue_run_id is None
        return request.agent_id if is_addressed and self.is_notification else None

    def is_held_by(self, run: RunRecord | None) -> bool:
        """Whether it stays queued while this run of its thread waits; other input overtakes it.

        A run reads a message to its agent, but not while a decision is open: the decided call may
        hand the thread over to another agent.
        """
        if run is None or run.status is not RunStatus.WAITING or self.reader is None:
            return False
        is_own = run.run_id in (self.run_id, self.taken_by) or run.dispatch_id == self.dispatch_id
        is_for_agent = self.reader == (run.active_agent_id or run.agent_id)
        reason = None if run.waiting is None else run.waiting.reason
        is_for_work = reason is WaitingReason.BACKGROUND_TASKS
        return not (is_own or (is_for_agent and is_for_work))

    @property
    def is_recovery(self) -> bool:
        """Whether a store created it; then the executing worker decides how often it is tried."""
        return self.dispatch_id.startswith(RECOVERY)

    @property
    def is_release(self) -> bool:
        """Whether it continues a run that an operator paused, and nothing else."""
        return self.dispatch_id.startswith(RELEASED)

    @property
    def is_exhausted(self) -> bool:
        """Whether all attempts were used; such a dispatch becomes a dead letter, not a run."""
        return self.attempt_count > self.max_attempts


class Claim(Record, frozen=True, kw_only=True):
    """The worker that claims a thread with a commit, and the length of its lease."""

    worker_id: str
    lease_ms: int


class Release(Record, frozen=True, kw_only=True):
    """The end of a claim: the final state of the dispatch that was executed under it."""

    status: DispatchStatus = DispatchStatus.ACKED
    error: str | None = None
    taken_by: str | None = None
    """The run that had already read its input."""


class LeaseReport(Record, frozen=True, kw_only=True):
    """What the store reports to the holder of a claim when it extends the lease."""

    claim_token: str
    is_held: bool = True
    cancel_cause: str | None = None
    """The cause of a requested cancellation."""
    has_input: bool = False
    """Whether there is queued input that the run could read."""


class Interruption(Record, frozen=True, kw_only=True):
    """What an interrupt did: the new epoch, what it dropped, and which worker has the thread."""

    epoch: int
    superseded: tuple[RunDispatch, ...] = ()
    holder: str | None = None
    """The worker that has claimed the thread."""

    @property
    def has_claim(self) -> bool:
        """Whether a run was executing."""
        return self.holder is not None


class Purged(Record, frozen=True, kw_only=True):
    """How much a purge removed; all zero means that nothing old enough was left."""

    dispatches: int = 0
    runs: int = 0
    events: int = 0
    orders: int = 0
    """Outbox commands that were given up."""
    partitions: int = 0
    """Parts of the log that went as a whole; their events are not counted."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was removed."""
        return self == Purged()
