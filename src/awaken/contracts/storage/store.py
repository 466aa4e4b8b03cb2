"""The durable storage ports, and `Commit`: the only durable write.

A commit is applied whole or not at all, once per commit id, and only when the thread is still at
the expected version. Its size is the size of the change, never of the thread.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from awaken.contracts.errors import StorageError
from awaken.contracts.events import AgentEvent, LoggedEvent
from awaken.contracts.messages.content import ContentBlock
from awaken.contracts.messages.message import Message, MessageRecord, ToolCall
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import Thread
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import ToolEffect

from .dispatch import Claim, Release, RunDispatch
from .mailbox import MailboxStore
from .queries import MessageQuery, Page, RunQuery, ThreadQuery, TicketQuery

if TYPE_CHECKING:
    # Few programs that declare an agent read usage, or state of earlier times.
    from .state_history import FoldedState, StateChanges
    from .usage import UsageDay


class ToolRecordStatus(StrEnum):
    """The state of a journalled tool call."""

    STARTED = "started"
    FINISHED = "finished"


class ToolRecord(Record, frozen=True, kw_only=True):
    """One tool call in the journal: the intent before it runs, the result after."""

    run_id: str
    call_id: str
    step: int
    tool_name: str
    attempt: int = 1
    arguments_hash: str = ""
    effect: ToolEffect = ToolEffect.ONCE
    status: ToolRecordStatus = ToolRecordStatus.STARTED
    result: ToolResult | None = None
    updates: tuple[tuple[str, str, Any], ...] = ()
    """The call's state changes as (key, `update` or `clear`, JSON), to survive a crash."""
    reads: tuple[str, ...] = ()  # The state keys that the call read.
    kind: str = ""
    """What a workflow's step does; `call_id` ends with its path, and `step` counts the resets."""
    place: int = 0  # Where it comes among all that a workflow's run has recorded.


NO_PAUSE_MAX = 1 << 53  # No limit on pauses, in milliseconds.


class OutboxEntry(Record, frozen=True, kw_only=True):
    """A message to another recipient, sent only because this commit succeeded."""

    entry_id: str
    kind: str
    payload: Any = None
    attempts: int = 0  # How many failed.
    delays: int = 0  # How often it was put off, because it has to stay.
    due_at: int = 0
    """The earliest next attempt, by the store's clock; for a dead entry, when it was given up."""
    error: str | None = None  # Of the latest attempt.
    is_dead: bool = False  # It was given up, and is kept until it is retried or purged.


class StreamCheckpoint(Record, frozen=True, kw_only=True):
    """The partial answer of a turn in progress; the run's next commit removes it."""

    run_id: str
    thread_id: str
    step: int
    message_id: str
    model: str = ""
    content: tuple[ContentBlock, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()  # Their arguments were complete.
    open_tool: str | None = None  # Its arguments were still being streamed.
    updated_at: int = 0


class Commit(Record, frozen=True, kw_only=True):
    """One durable write to one thread."""

    commit_id: str
    thread_id: str
    expected_version: int
    committed_at: int
    fencing_token: str | None = None
    """The writer's claim on the thread. While a claim exists, only its token can write."""
    claim: Claim | None = None
    """Claims the thread under the fencing token; only if it has no claim."""
    release: Release | None = None
    """Ends the claim, and the dispatch that was executed under it."""
    absorbed: tuple[str, ...] = ()
    """Queued dispatches whose input the run has read; they are acked."""
    enqueued: tuple[RunDispatch, ...] = ()  # This commit queues them, on its own thread.
    thread: Thread | None = None
    """New lineage and metadata for the thread; only at its creation or by an edit."""
    messages: tuple[Message, ...] = ()
    run: RunRecord | None = None
    state: dict[str, StoredValue | None] = {}
    """Changed thread-scoped keys; None removes one."""
    run_state: dict[str, StoredValue | None] = {}
    """Changed run-scoped keys of `run`; None removes one."""
    tool_records: tuple[ToolRecord, ...] = ()
    tickets: tuple[Ticket, ...] = ()
    events: tuple[AgentEvent, ...] = ()
    """They belong to `run`; without one, to the thread's open run."""
    outbox: tuple[OutboxEntry, ...] = ()  # An entry that already exists is not changed.


class CommitReceipt(Record, frozen=True, kw_only=True):
    """What a commit did: the thread's new version, message count and last event sequence."""

    commit_id: str
    version: int
    message_count: int
    event_seq: int


class Checkout(Record, frozen=True, kw_only=True):
    """A consistent view of a thread, from which a run starts or continues."""

    thread: Thread
    messages: Sequence[Message] = ()
    """The whole transcript; a store need not copy it if it never changes."""
    state: dict[str, StoredValue] = {}
    latest_run: RunRecord | None = None
    open_run: RunRecord | None = None
    run_state: dict[str, StoredValue] = {}
    """Run-scoped keys of the open run."""
    tickets: tuple[Ticket, ...] = ()
    """Open and decided tickets of the open run."""
    cancel_cause: str | None = None
    """Set if the open run has to be cancelled, or else the work under the claim."""


class DeleteStrategy(StrEnum):
    """What happens to the children of a deleted thread."""

    REJECT = "reject"
    DETACH = "detach"
    CASCADE = "cascade"


class CancelWanted(StorageError):
    """The run's cancel was acknowledged, so it cannot end otherwise; nothing was written."""

    code = "cancel_wanted"
    template = "Run '{run_id}' has to end as cancelled ({cause})."
    run_id: str
    cause: str


class DecidedMeanwhile(StorageError):
    """A message came instead of a decision, which was taken meanwhile; nothing was written."""

    code = "decided_meanwhile"
    retryable = True
    template = "Ticket '{ticket_id}' was decided meanwhile; look at the thread again."
    ticket_id: str


class CommitStore(Protocol):
    """Applies commits and returns consistent views."""

    async def checkout(self, thread_id: str) -> Checkout | None:
        """Read everything a run needs in one consistent view; None for an unknown thread."""
        ...

    async def commit(self, commit: Commit) -> CommitReceipt:
        """Apply a commit whole, or raise and change nothing.

        If the caller's task is cancelled during this call, the commit is applied or absent, never
        partial; `find_commit` tells which.

        Raises:
            VersionConflict: The thread is not at the expected version.
            DecidedMeanwhile: A message would replace a decision that was taken meanwhile.
            IdempotencyConflict: The commit id was used for other contents.
            LeaseLost: The fencing token is stale.
            ThreadClaimed: Another worker has a claim on the thread.
            InvalidTranscript: A tool call would not have exactly one result.
            InvalidRecord: An id is blank, used twice or of another thread; a parent is missing;
                the waiting state does not fit; an ended run would leave a ticket open.
            IllegalTransition: A run or a ticket would make an illegal move.
            AlreadyDecided: A ticket would get another decision.
            CancelWanted: The run would end otherwise, although its cancel was acknowledged.
            ThreadBusy: Another run of the thread has not ended.
            InvalidResume: A new run has the id of input that was sent to another thread.
            UnknownThread: A tenant's new run, dispatch or edit is for a thread that is not its own.
            CommitUnknown: The outcome is unknown.
        """
        ...

    async def find_commit(self, commit_id: str, thread_id: str) -> CommitReceipt | None:
        """Return the receipt of an applied commit, or None if it was never applied."""
        ...

    async def save_checkpoint(
        self, checkpoint: StreamCheckpoint, fencing_token: str | None = None
    ) -> None:
        """Store the text streamed so far; it replaces the run's earlier checkpoint.

        Raises:
            LeaseLost: The fencing token is stale.
        """
        ...

    async def find_checkpoint(self, run_id: str) -> StreamCheckpoint | None:
        """Return the checkpoint of a turn that was not finished, or None."""
        ...

    async def list_tool_records(self, run_id: str) -> tuple[ToolRecord, ...]:
        """Return the newest journal entry of each call of a run, in the order of their first entry.

        A call is identified by its step and its id: some models use the same ids in every step.
        """
        ...


class ThreadStore(Protocol):
    """Threads and their messages."""

    async def load_thread(self, thread_id: str) -> Thread | None:
        """Return a thread, or None."""
        ...

    async def find_claim_holder(self, thread_id: str) -> str | None:
        """Return the worker that has claimed a thread, or None."""
        ...

    async def save_thread(self, thread: Thread) -> Thread:
        """Create a thread, or change its lineage and metadata; pointers and version stay.

        Raises:
            UnknownThread: The thread exists and belongs to another tenant than the named one.
            InvalidRecord: The parent is missing, or the lineage would form a cycle.
        """
        ...

    async def delete_thread(
        self, thread_id: str, strategy: DeleteStrategy = DeleteStrategy.DETACH
    ) -> None:
        """Delete a thread and its records; commands in its outbox are still sent.

        In the same transaction, the parent of its open run is told that the run has ended, and
        reports that are still to be sent carry the record of their run. A delegate that has ended
        is reported once more while its parent run is open, because that run may be executed again
        and ask for it. Reports to a thread are deleted with it.

        Raises:
            RecordNotFound: There is no such thread.
            InvalidRecord: It has children and the strategy is `reject`.
        """
        ...

    async def list_threads(self, query: ThreadQuery) -> Page[Thread]:
        """List threads, most recently updated first, ties by id.

        A store may list a thread as it was up to a minute before its latest commit.
        """
        ...

    async def list_messages(self, thread_id: str, query: MessageQuery) -> Page[MessageRecord]:
        """List a thread's messages; an unknown thread has none."""
        ...


class RunStore(Protocol):
    """Run records and their tickets."""

    async def load_run(self, run_id: str) -> RunRecord | None:
        """Return a run, or None."""
        ...

    async def list_runs(self, query: RunQuery) -> Page[RunRecord]:
        """List runs by creation time, ties by id.

        A page may have fewer runs than its limit, or none, although another page follows: a store
        may bound how many runs it looks at for one page. Runs that begin meanwhile neither repeat
        nor hide others.
        """
        ...

    async def list_pinned_publications(self) -> frozenset[int]:
        """Return the publications of runs that have not ended."""
        ...

    async def count_open_runs(self, tenant_id: str | None = None) -> dict[str, int]:
        """Count the chats and tasks that have not ended, by status; absent means none."""
        ...

    async def find_ticket(self, ticket_id: str) -> Ticket | None:
        """Return a ticket, or None."""
        ...

    async def list_tickets(
        self, thread_id: str | None = None, *, tenant_id: str | None = None
    ) -> tuple[Ticket, ...]:
        """Return open tickets, oldest first, ties by id; with a tenant, those of its threads."""
        ...

    async def list_ticket_page(self, query: TicketQuery) -> Page[Ticket]:
        """List tickets by creation time, ties by id; the open ones unless the query says more."""
        ...

    async def list_run_tickets(self, thread_id: str, run_id: str) -> tuple[Ticket, ...]:
        """Return all tickets of a run, including decided and closed ones, oldest first."""
        ...

    async def decide(
        self,
        thread_id: str,
        run_id: str,
        decisions: Sequence[tuple[str, ToolCallResume]],
        then: RunDispatch | None = None,
    ) -> RunDispatch | None:
        """Write decisions to tickets of an open run, all or none, and queue the dispatch `then`.

        A ticket is decided only here, and only once, whichever process has the thread or sends the
        decision. A run that executes at the same time reads its decided tickets from here. A
        decision that was taken before, under the same id, changes nothing; if all were taken
        before, nothing is queued.

        Returns `then` as it was queued, or None if it was not queued.

        Raises:
            UnknownTicket: A ticket is not one of the run's.
            AlreadyDecided: A ticket was decided otherwise or closed, or its run is to be cancelled.
        """
        ...

    async def find_next_deadline(self) -> int | None:
        """Return the milliseconds until the next deadline of an open ticket; None if none has one.

        They are negative if it has passed.
        """
        ...


class EventStore(Protocol):
    """The canonical event log."""

    async def list_events(
        self, thread_id: str, *, after: int = 0, limit: int = 1000
    ) -> tuple[LoggedEvent, ...]:
        """Return the events after a sequence number, in order; 0 begins with the oldest kept.

        Raises:
            CursorExpired: Events after that number were purged.
        """
        ...

    async def list_outbox(
        self, *, limit: int = 100, pause_max_ms: int = NO_PAUSE_MAX
    ) -> tuple[OutboxEntry, ...]:
        """Return the entries that are due, in the order they were committed.

        An entry that is due later than the longest pause from now is due as well: the clock was set
        back after its last attempt.
        """
        ...

    async def find_outbox(self, entry_id: str) -> OutboxEntry | None:
        """Return an entry, due or not, dead or not; None if it was sent or never existed."""
        ...

    async def list_dead_outbox(
        self, thread_id: str | None = None, *, limit: int = 100
    ) -> tuple[OutboxEntry, ...]:
        """Return the dead entries of one thread or of all, in the order they were committed."""
        ...

    async def save_outbox(self, entry: OutboxEntry) -> bool:
        """Store the result of an attempt; False if the entry no longer exists."""
        ...

    async def delete_outbox(self, entry_ids: Sequence[str]) -> None:
        """Delete entries that were sent; unknown ones are ignored."""
        ...


class UsageStore(Protocol):
    """Usage by day, summed from runs that have ended; a commit does nothing for it."""

    async def fill_run_columns(self, limit: int = 200) -> int:
        """Make older runs known to all filters of lists, at most `limit` of them.

        Returns how many; 0 means that none is left.
        """
        ...

    async def count_usage(self, limit: int = 200) -> int:
        """Add ended runs to the usage of their days, at most `limit` of them, each once.

        Runs are counted in the order of their ends, `SETTLE_MS` later. Several processes may count
        at the same time; one that stops in between has counted all of its runs or none of them.
        Returns how many runs were looked at; 0 means that none is left, or another process counts.
        """
        ...

    async def list_usage(
        self, first_day: int, last_day: int, tenant_id: str | None = None
    ) -> "tuple[UsageDay, ...]":
        """Return the usage of the days between two, both included, by day, agent and model."""
        ...


class StateHistoryStore(Protocol):
    """What commits changed in state, kept with their logs and removed with them."""

    # A property: a type checker then takes a store's own property as well as an attribute.
    @property
    def keeps_state_history(self) -> bool:
        """Whether commits keep what they change; set at any time, for the commits after it."""
        ...

    @keeps_state_history.setter
    def keeps_state_history(self, is_kept: bool, /) -> None: ...

    async def fold_state(self, run_id: str, seq: int) -> "FoldedState":
        """Return the state of a run and its thread after the last commit up to an event.

        `seq` is the number of the event in the thread's log; with the run's `log_start` it is the
        state that the run found. An unknown run has none.
        """
        ...

    async def list_state_changes(self, run_id: str) -> "StateChanges":
        """Return which keys each commit of a run changed; an unknown run has changed none."""
        ...


class Store(
    CommitStore,
    ThreadStore,
    RunStore,
    EventStore,
    StateHistoryStore,
    MailboxStore,
    UsageStore,
    Protocol,
):
    """All storage ports of one store; `name` appears in errors and health reports."""

    name: str
    is_shared: bool
    """Whether other processes, or this one after a restart, can read its contents."""

    async def open(self) -> None:
        """Make the store ready; calling it twice is harmless."""
        ...

    async def close(self) -> None:
        """Release the resources of the store."""
        ...

    async def check_writable(self) -> None:
        """Write one small row and make it durable; skipped shortly after a commit.

        Raises:
            StorageError: The store is unreachable, full or read-only.
        """
        ...
