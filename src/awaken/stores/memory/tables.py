"""The records of the memory store; the rules for changing them are elsewhere.

Data of a commit is appended, never copied: another form of it (a `Thread`, a `LoggedEvent`, a
`MessageRecord`) is built when a reader asks for it. No record refers back to its thread, and few
containers of a thread hold other containers, so that the garbage collector has little to scan in a
store of many threads.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from awaken.contracts.errors import IdempotencyConflict
from awaken.contracts.events import AgentEvent
from awaken.contracts.messages.message import Message
from awaken.contracts.record import EMPTY, Record
from awaken.contracts.runs.records import RunRecord, run_id_in_use
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.store import (
    Commit,
    CommitReceipt,
    OutboxEntry,
    StreamCheckpoint,
    ToolRecord,
)
from awaken.contracts.suspension.tickets import Ticket
from awaken.stores.rules.head import ThreadHead

if TYPE_CHECKING:
    from awaken.contracts.storage.usage import UsageKey, UsageSums

FORGOTTEN_AT_ONCE = 64


class AppliedCommit(Record, frozen=True, kw_only=True):
    """One commit that was applied: the thread after it, its time and the run it belongs to."""

    version: int
    message_count: int
    event_seq: int
    committed_at: int
    run_id: str | None


class StoredLease:
    """How long a claim lasts. Another OS thread may extend it, so it is never copied."""

    __slots__ = ("shown_until", "thread_id", "token", "until")

    def __init__(self, thread_id: str, token: str) -> None:
        self.thread_id = thread_id
        self.token = token
        self.until = 0
        """When the claim may be taken back, by the monotonic clock."""
        self.shown_until = 0
        """The same by the wall clock, for people to read."""


StateValues = tuple[Mapping[str, StoredValue], Mapping[str, StoredValue]]
UNKEPT_RUNS_MAX = 64
"""How many of the latest runs a thread can name whose changes of state were not kept."""


class StateNote(msgspec.Struct, frozen=True):
    """The values of state after a commit that changed some."""

    event_seq: int
    run_id: str | None
    names: tuple[tuple[str, ...], tuple[str, ...]]
    """The keys of the thread and of the run that it changed."""
    values: StateValues
    """All values of the thread and of the run after it."""


class StoredThread(ThreadHead, gc=False):
    """One thread with all its records; a part that few threads have takes no room in the others."""

    messages: list[Message] = msgspec.field(default_factory=list)
    message_ids: set[str] | None = None
    """The ids that a client could send again; ids that runs make are always new."""
    state: Mapping[str, StoredValue] = EMPTY
    """Replaced by every change."""
    events: list[AgentEvent] = msgspec.field(default_factory=list)
    """The events after `purged_seq`."""
    purged_seq: int = 0
    """Events up to this number were purged."""
    state_notes: tuple[StateNote, ...] = ()
    """What is known of state at earlier times, oldest first."""
    unkept_seqs: tuple[int, int] | None = None
    """The events after the first and the latest change of state that was not kept."""
    unkept_runs: tuple[str, ...] = ()
    has_dropped_notes: bool = False
    run_ids: tuple[str, ...] = ()
    run_state: Mapping[str, StoredValue] = EMPTY
    """Run-scoped keys of the open run, replaced by every change; cleared when it ends."""
    ticket_ids: tuple[str, ...] = ()
    applied: dict[str, AppliedCommit] = msgspec.field(default_factory=dict)
    """Every commit by its id, in the order of versions."""
    last_commit: Commit | None = None
    """Kept whole, so that a retry can be compared with it."""
    lease: StoredLease | None = None
    """The lease of the claim; None exactly when there is no claim."""
    served_at: int = 0
    """When the thread last had its turn."""
    queue: tuple[tuple[int, int, str], ...] = ()
    """The queued dispatches in order: priority, number of arrival, id."""
    dispatch_ids: tuple[str, ...] = ()

    def note_state(
        self, commit: Commit, run_id: str | None, values: StateValues, *, is_kept: bool
    ) -> None:
        """Keep the values after a commit that changed some; they are replaced, so not copied."""
        if is_kept:
            names = (tuple(commit.state), tuple(commit.run_state))
            note = StateNote(self.event_seq, run_id, names, values)
            self.state_notes = (*self.state_notes, note)
            return
        first = self.event_seq if self.unkept_seqs is None else self.unkept_seqs[0]
        self.unkept_seqs = (first, self.event_seq)
        if run_id is not None and run_id not in self.unkept_runs:
            self.unkept_runs = (*self.unkept_runs[1 - UNKEPT_RUNS_MAX :], run_id)

    def drop_purged_notes(self) -> None:
        """Remove what is known of state at times whose events were purged."""
        if self.state_notes and self.state_notes[0].event_seq <= self.purged_seq:
            kept = (it for it in self.state_notes if it.event_seq > self.purged_seq)
            self.state_notes, self.has_dropped_notes = tuple(kept), True

    def find_receipt(self, commit_id: str) -> CommitReceipt | None:
        """Return the receipt of an applied commit, or None."""
        applied = self.applied.get(commit_id)
        if applied is None:
            return None
        return CommitReceipt(
            commit_id=commit_id,
            version=applied.version,
            message_count=applied.message_count,
            event_seq=applied.event_seq,
        )

    def repeat_receipt(self, commit: Commit) -> CommitReceipt:
        """Return the receipt of a commit whose id was applied before.

        The last commit is compared as a whole. Of an older commit only the expected version is
        compared, so that a commit costs little memory.

        Raises:
            IdempotencyConflict: The id was used for other contents.
        """
        receipt = self.find_receipt(commit.commit_id)
        assert receipt is not None
        if receipt.version == self.version:
            is_same = self.last_commit == commit
        else:
            is_same = commit.expected_version == receipt.version - 1
        if not is_same:
            raise IdempotencyConflict(commit_id=commit.commit_id)
        return receipt


class EndedRuns:
    """The ended runs in the order of their ends; see `retention.forget_ended_runs`."""

    __slots__ = ("age_ms", "batch", "latest", "limit", "order", "since")

    def __init__(self, limit: int | None = None, age_ms: int | None = None) -> None:
        self.limit = limit
        """How many are kept; None does not count them."""
        self.age_ms = age_ms
        """How long they are kept; None keeps them."""
        self.batch = FORGOTTEN_AT_ONCE if limit is None else min(FORGOTTEN_AT_ONCE, limit // 8 + 1)
        """How many runs end before the oldest ones are forgotten together."""
        self.since = 0
        """How many have ended since then."""
        self.order: dict[str, None] = {}
        """Their ids, oldest end first; a run that was deleted with its thread may still be here."""
        self.latest: dict[str, str] = {}
        """By thread, the run that is due but stays, because it is the latest of its thread."""


class Tables:
    """All threads, and the records that must be found without knowing the thread."""

    __slots__ = (
        "arrivals",
        "checkpoints",
        "dedupe_keys",
        "dispatches",
        "ended",
        "keeps_state",
        "leases",
        "open_tickets",
        "outbox",
        "queued_count",
        "run_dispatches",
        "runs",
        "threads",
        "tickets",
        "tool_records",
        "usage",
        "usage_cursor",
    )

    def __init__(self) -> None:
        self.threads: dict[str, StoredThread] = {}
        self.runs: dict[str, RunRecord] = {}
        self.tickets: dict[str, Ticket] = {}
        self.open_tickets: dict[str, Ticket] = {}
        self.tool_records: dict[str, dict[tuple[int, str], ToolRecord]] = {}
        """By run, then by step and call id: some models use the same call ids in every step."""
        self.outbox: dict[str, tuple[str, OutboxEntry]] = {}
        """By entry id, with the thread whose commit wrote it."""
        self.checkpoints: dict[str, StreamCheckpoint] = {}
        self.dispatches: dict[str, RunDispatch] = {}
        self.arrivals: dict[str, int] = {}
        """The number of arrival of each dispatch."""
        self.dedupe_keys: dict[tuple[str, str], str] = {}
        """The dispatch of each thread's dedupe key."""
        self.run_dispatches: dict[str, tuple[str, ...]] = {}
        """The dispatches that name a run."""
        self.leases: dict[str, StoredLease] = {}
        """The lease of each claim, by its token."""
        self.queued_count = 0
        self.keeps_state = False
        self.ended = EndedRuns()
        self.usage: dict[UsageKey, UsageSums] = {}
        self.usage_cursor: tuple[int, str] = (-1, "")
        """The end time and the id of the last run that is in `usage`."""

    def find_run(self, run_id: str) -> RunRecord | None:
        """Return a run of any thread."""
        return self.runs[run_id] if run_id in self.runs else None

    def find_ticket(self, ticket_id: str) -> Ticket | None:
        """Return a ticket of any thread."""
        return self.tickets.get(ticket_id)

    def find_dispatch(self, dispatch_id: str) -> RunDispatch | None:
        """Return a dispatch of any thread."""
        return self.dispatches.get(dispatch_id)

    def check_sent_here(self, run: RunRecord) -> None:
        """Refuse a new run whose id a dispatch on another thread names.

        Raises:
            InvalidResume: There is such a dispatch.
        """
        for dispatch_id in self.run_dispatches.get(run.run_id, ()):
            if self.dispatches[dispatch_id].thread_id != run.thread_id:
                raise run_id_in_use(run.run_id)

    def parents(self) -> Mapping[str, str | None]:
        """Return the parent of each thread."""
        return _Parents(self.threads)

    def has_messages(self, thread_id: str, ids: Iterable[str]) -> bool:
        """Whether the thread has a message with one of these ids."""
        thread = self.threads.get(thread_id)
        known = None if thread is None else thread.message_ids
        return known is not None and not known.isdisjoint(ids)

    def remove(self, thread_id: str) -> None:
        """Remove a thread and all its records."""
        thread = self.threads.pop(thread_id)
        self.ended.latest.pop(thread_id, None)
        for run_id in thread.run_ids:
            self.runs.pop(run_id, None)
            self.tool_records.pop(run_id, None)
            self.checkpoints.pop(run_id, None)
        for ticket_id in thread.ticket_ids:
            self.tickets.pop(ticket_id, None)
            self.open_tickets.pop(ticket_id, None)
        self.queued_count -= len(thread.queue)
        if thread.lease is not None:
            self.leases.pop(thread.lease.token, None)
        for dispatch_id in thread.dispatch_ids:
            self.forget_dispatch(self.dispatches[dispatch_id])
        # Entries that are still to be sent to others stay.
        owned = [(id_, it) for id_, (owner, it) in self.outbox.items() if owner == thread_id]
        for entry_id, entry in owned:
            if entry.is_dead:
                del self.outbox[entry_id]

    def forget_dispatch(self, dispatch: RunDispatch) -> None:
        """Remove a dispatch that is no longer queued; its thread still lists its id."""
        dispatch_id = dispatch.dispatch_id
        del self.dispatches[dispatch_id], self.arrivals[dispatch_id]
        if dispatch.dedupe_key is not None:
            self.dedupe_keys.pop((dispatch.thread_id, dispatch.dedupe_key), None)
        self.unname_run(dispatch)

    def unname_run(self, dispatch: RunDispatch) -> None:
        """Forget that a dispatch names its run."""
        named = self.run_dispatches.pop(dispatch.run_id)
        left = tuple(id_ for id_ in named if id_ != dispatch.dispatch_id)
        if left:
            self.run_dispatches[dispatch.run_id] = left

    def name_run(self, dispatch: RunDispatch) -> None:
        """Remember that a dispatch names its run."""
        named = self.run_dispatches.get(dispatch.run_id, ())
        self.run_dispatches[dispatch.run_id] = (*named, dispatch.dispatch_id)


class _Parents(Mapping[str, str | None]):
    """The parents of all threads, read from the threads themselves."""

    __slots__ = ("_threads",)

    def __init__(self, threads: dict[str, StoredThread]) -> None:
        self._threads = threads

    def __getitem__(self, thread_id: str) -> str | None:
        return self._threads[thread_id].shown.parent_thread_id

    def __iter__(self) -> Iterator[str]:
        return iter(self._threads)

    def __len__(self) -> int:
        return len(self._threads)
