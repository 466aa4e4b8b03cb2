"""What the memory store keeps, and nothing about when it may change.

Per-commit data is appended, never copied: history that readers want in another form (a `Thread`,
a `LoggedEvent`, a `MessageRecord`) is built when they ask for it. Few containers per thread hold
other containers, so that the garbage collector has little to look at in a store of many threads.
"""

from awaken.contracts.errors import IdempotencyConflict
from awaken.contracts.events import AgentEvent
from awaken.contracts.messages import Message
from awaken.contracts.record import Record
from awaken.contracts.runs import RunRecord
from awaken.contracts.state import StoredValue
from awaken.contracts.storage import Commit, CommitReceipt, OutboxEntry, ToolRecord
from awaken.contracts.suspension import Ticket
from awaken.contracts.threads import Thread, ThreadMetadata

OpenCalls = dict[str, tuple[str, ...]]
"""Calls without a result, each with the open or decided tickets that it waits on."""


class AppliedCommit(Record, frozen=True, kw_only=True):
    """One commit that was applied: its receipt, its time and the run it belongs to."""

    receipt: CommitReceipt
    committed_at: int
    run_id: str | None


class StoredThread:
    """One thread and everything of it."""

    __slots__ = (
        "applied",
        "events",
        "last_commit",
        "latest_run",
        "live_tickets",
        "message_ids",
        "messages",
        "open_calls",
        "open_run",
        "outbox",
        "run_ids",
        "run_state",
        "shown",
        "state",
        "ticket_ids",
        "updated_at",
        "version",
    )

    def __init__(self, shown: Thread) -> None:
        self.shown = shown
        """Lineage, metadata and pointers; `view` adds what every commit changes."""
        self.version = 0
        self.updated_at = shown.metadata.updated_at
        self.messages: list[Message] = []
        self.message_ids: dict[str | None, None] = {}
        self.open_calls: OpenCalls = {}
        """Tool calls without a result, in call order."""
        self.state: dict[str, StoredValue] = {}
        self.events: list[AgentEvent] = []
        self.outbox: tuple[OutboxEntry, ...] = ()
        self.run_ids: tuple[str, ...] = ()
        self.latest_run: RunRecord | None = None
        self.open_run: RunRecord | None = None
        self.run_state: dict[str, StoredValue] = {}
        """Run-scoped keys of the open run; gone when it ends."""
        self.ticket_ids: tuple[str, ...] = ()
        self.live_tickets: dict[str, Ticket] = {}
        """Open and decided tickets of the open run; gone when it ends."""
        self.applied: dict[str, AppliedCommit] = {}
        """Every commit by its id, in the order of the versions they made."""
        self.last_commit: Commit | None = None
        """Kept whole, to compare a retry with."""

    def view(self) -> Thread:
        """Return the thread as readers see it."""
        shown, metadata, latest = self.shown, self.shown.metadata, self.latest_run
        return Thread(
            id=shown.id,
            resource_id=shown.resource_id,
            parent_thread_id=shown.parent_thread_id,
            metadata=ThreadMetadata(
                created_at=metadata.created_at,
                updated_at=self.updated_at,
                title=metadata.title,
                custom=metadata.custom,
            ),
            active_run_id=shown.active_run_id,
            open_run_id=shown.open_run_id,
            latest_run_id=shown.latest_run_id,
            latest_run_updated_at=0 if latest is None else latest.updated_at,
            version=self.version,
            message_count=len(self.messages),
        )

    def receipt(self, commit_id: str) -> CommitReceipt | None:
        """Return the receipt of an applied commit, or None."""
        applied = self.applied.get(commit_id)
        return None if applied is None else applied.receipt

    def receipt_again(self, commit: Commit) -> CommitReceipt:
        """Answer a commit whose id was applied before.

        The contents of the last commit are compared whole; of an older one only the version it
        expected is left to compare, so that memory per commit stays small.

        Raises:
            IdempotencyConflict: The id was used for other contents.
        """
        receipt = self.applied[commit.commit_id].receipt
        if receipt.version == self.version:
            is_same = self.last_commit == commit
        else:
            is_same = commit.expected_version == receipt.version - 1
        if not is_same:
            raise IdempotencyConflict(commit_id=commit.commit_id)
        return receipt


class Tables:
    """All threads, and what must be found without knowing the thread."""

    __slots__ = ("fences", "open_tickets", "runs", "threads", "tickets", "tool_records")

    def __init__(self) -> None:
        self.threads: dict[str, StoredThread] = {}
        self.runs: dict[str, RunRecord] = {}
        self.tickets: dict[str, Ticket] = {}
        self.open_tickets: dict[str, Ticket] = {}
        self.tool_records: dict[str, dict[tuple[int, str], ToolRecord]] = {}
        """By run, then by step and call id: some models use the same call ids in every step."""
        self.fences: dict[str, str] = {}

    def remove(self, thread_id: str) -> None:
        """Forget a thread and everything of it."""
        thread = self.threads.pop(thread_id)
        self.fences.pop(thread_id, None)
        for run_id in thread.run_ids:
            del self.runs[run_id]
            self.tool_records.pop(run_id, None)
        for ticket_id in thread.ticket_ids:
            del self.tickets[ticket_id]
            self.open_tickets.pop(ticket_id, None)
