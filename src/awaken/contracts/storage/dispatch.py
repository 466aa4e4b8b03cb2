"""Dispatches: one durable delivery of input to a thread, and the claim that one worker has on it.

The queue record owns delivery only; how the run went is in the run record. `acked` does not
mean that the run succeeded. A claim is a lease on a whole thread: while it lasts, only the holder
of its token can write there.
"""

from collections.abc import Mapping
from enum import StrEnum

from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunRecord, RunRequest, WaitingReason

RECOVERY = "recovered:"
"""Begins the ids of dispatches that a store makes, to go on with a run that nobody sent again."""


class InputMode(StrEnum):
    """How input reaches a thread."""

    QUEUE = "queue"
    """A run of its own, after what the thread has to do already."""
    STEER = "steer"
    """Into the run that executes, before its next inference; without one, like `queue`."""
    INTERRUPT = "interrupt"
    """Drop what is queued, cancel what executes or waits, then a run of its own."""
    RESUME = "resume"
    """Into the run that waits, which goes on under its own id."""


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
        {
            DispatchStatus.CLAIMED,
            DispatchStatus.ACKED,  # A run that executes has taken it in.
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
    """The run that it was meant to start or to continue."""
    taken_by: str | None = None
    """The run that took its input in, when that was another one."""
    request: RunRequest = RunRequest()
    mode: InputMode = InputMode.QUEUE
    priority: int = 128
    """0 goes first."""
    dedupe_key: str | None = None
    """Unique per thread until the dispatch is purged."""
    request_hash: str = ""
    """Tells whether two submissions under one dedupe key ask for the same."""
    dispatch_epoch: int = 0
    """The thread's epoch when it was queued; an interrupt raises it and drops older ones."""
    status: DispatchStatus = DispatchStatus.QUEUED
    available_at: int = 0
    attempt_count: int = 0
    """How often it was claimed to be executed; counted before the execution."""
    max_attempts: int = 5
    last_error: str | None = None
    claim_token: str | None = None
    claimed_by: str | None = None
    lease_until: int | None = None
    cancel_cause: str | None = None
    """Somebody wants the run cancelled: whoever executes it ends it."""
    completed_at: int | None = None
    created_at: int = 0
    updated_at: int = 0

    def __post_init__(self) -> None:
        if (self.status is DispatchStatus.CLAIMED) != (self.claim_token is not None):
            message = "a dispatch has a claim token exactly while it is claimed"
            raise ValueError(message)

    @property
    def is_news(self) -> bool:
        """Whether it only tells what a task or another agent says; no interrupt drops that."""
        messages = self.request.messages
        return bool(messages) and all(message.sender is not None for message in messages)

    @property
    def reader(self) -> str | None:
        """The only agent that may read it: the one that another agent's message names."""
        request = self.request
        is_addressed = bool(request.agent_id) and request.continue_run_id is None
        return request.agent_id if is_addressed and self.is_news else None

    def is_held_by(self, run: RunRecord | None) -> bool:
        """Whether it stays queued while this run of its thread waits; other input passes it.

        A run takes in what names its agent, but not while a decision is open: the call that is
        decided may hand the thread over.
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
        """Whether a store made it: how often it is tried is up to whoever executes it."""
        return self.dispatch_id.startswith(RECOVERY)

    @property
    def is_spent(self) -> bool:
        """Whether every attempt was used; a spent dispatch is buried, not executed."""
        return self.attempt_count > self.max_attempts


class Claim(Record, frozen=True, kw_only=True):
    """Who takes a thread with a commit, and for how long without a sign of life."""

    worker_id: str
    lease_ms: int


class Release(Record, frozen=True, kw_only=True):
    """The end of a claim: what becomes of the dispatch that was executed under it."""

    status: DispatchStatus = DispatchStatus.ACKED
    error: str | None = None
    taken_by: str | None = None
    """The run that had its input already."""


class LeaseNews(Record, frozen=True, kw_only=True):
    """What the holder of a claim learns when it extends its lease."""

    claim_token: str
    is_held: bool = True
    cancel_cause: str | None = None
    """Somebody wants the run cancelled."""
    has_input: bool = False
    """Queued input is there that the run could take in."""


class Interruption(Record, frozen=True, kw_only=True):
    """What an interrupt did: the new epoch, what it dropped, and whether a run was executing."""

    epoch: int
    superseded: tuple[RunDispatch, ...] = ()
    has_claim: bool = False


class Purged(Record, frozen=True, kw_only=True):
    """How much a purge removed; all zero means that nothing old enough was left."""

    dispatches: int = 0
    runs: int = 0
    events: int = 0
    orders: int = 0
    """Those that were given up."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was removed."""
        return not (self.dispatches or self.runs or self.events or self.orders)
