"""The journal of a run: collects what must become durable and writes it as commits.

Nothing leaves the journal before the store has it. A commit whose reply was lost is looked up by
its id; it is never sent twice blindly.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from awaken.contracts.clock import Clock
from awaken.contracts.errors import (
    AwakenError,
    IdempotencyConflict,
    LeaseLost,
    StorageError,
    ThreadClaimed,
)
from awaken.contracts.events import AgentEvent, LoggedEvent
from awaken.contracts.messages.message import Message
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import Thread
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.storage.dispatch import Release
from awaken.contracts.storage.store import (
    Commit,
    CommitReceipt,
    CommitStore,
    DecidedMeanwhile,
    OutboxEntry,
    ToolRecord,
)
from awaken.contracts.suspension.tickets import Ticket
from awaken.runtime.state.store import StateStore

from .leases import Lease
from .streams import EventFeed


@dataclass(slots=True, frozen=True, eq=False)
class LastWords:
    """What belongs to the commit with which a run ends or begins to wait, and to no other."""

    event: AgentEvent
    orders: tuple[OutboxEntry, ...]
    release: Release | None


class Journal:
    """The pending changes of one run on one thread.

    Events are of two kinds. `record` keeps an event that readers have seen already; `announce`
    keeps one that readers get only after its commit, because it claims to be durable.
    """

    __slots__ = (
        "_announced", "_clock", "_feed", "_in_flight", "_last", "_lock", "_run_state", "_state",
        "_store", "_watchers", "absorbed", "closed_by", "event_seq", "events", "lease", "messages",
        "on_claimed", "outbox", "thread_id", "tickets", "tool_records", "version", "writer",
    )  # fmt: skip

    def __init__(
        self,
        store: CommitStore,
        clock: Clock,
        feed: EventFeed,
        thread: Thread,
        writer: str,
        watchers: Sequence[Callable[[Commit], None]] = (),
    ) -> None:
        self.thread_id = thread.id
        self.writer = writer
        self.version = thread.version
        self.event_seq = thread.event_seq
        self.messages: list[Message] = []
        self.events: list[AgentEvent] = []
        self.tool_records: list[ToolRecord] = []
        self.tickets: dict[str, Ticket] = {}
        """The latest form of each ticket that changed, by its id."""
        self.absorbed: list[str] = []
        """Queued dispatches whose input is among what is pending."""
        self.outbox: list[OutboxEntry] = []
        """What is asked for outside of the thread."""
        self.lease: Lease | None = None
        self.on_claimed: Callable[[], None] | None = None
        """Called once the commit that takes the thread is durable."""
        self._watchers = watchers
        """Told of every commit once it is durable."""
        self.closed_by: AwakenError | None = None
        """Why nothing may be written any more."""
        self._state: dict[str, StoredValue | None] = {}
        self._run_state: dict[str, StoredValue | None] = {}
        self._announced: list[AgentEvent] = []
        self._store = store
        self._clock = clock
        self._feed = feed
        self._lock = asyncio.Lock()
        self._in_flight: Commit | None = None
        self._last: LastWords | None = None
        """Those of the commit in flight, if it is the last one."""

    def record(self, event: AgentEvent) -> None:
        """Keep an event for the log; readers have seen it."""
        self.events.append(event)

    def announce(self, event: AgentEvent, *, is_logged: bool = True) -> None:
        """Show an event to readers once the next commit is durable."""
        if is_logged:
            self.events.append(event)
        self._announced.append(event)

    @property
    def has_announcements(self) -> bool:
        """Whether events wait for the next commit; later ones must queue behind them."""
        return bool(self._announced)

    def shown_events(self) -> list[AgentEvent]:
        """Events that readers have seen and that are not durable yet."""
        waiting = {id(event) for event in self._announced}
        return [event for event in self.events if id(event) not in waiting]

    @property
    def has_run_state(self) -> bool:
        """Whether run-scoped state waits that a commit before did not bring in."""
        return bool(self._run_state)

    async def flush(
        self,
        state: StateStore,
        record: Callable[[], RunRecord | None],
        last: LastWords | None = None,
    ) -> None:
        """Write everything pending as one commit, then show what was announced.

        The record is asked for when the commit is made, so that a flush that had to wait for
        another one never writes an older record than that. The last words go along with the
        commit that they are given for, and never become pending: no other one can take them.

        Raises:
            StorageError: The store refused; everything stays pending.
            LeaseLost: Somebody else has the thread; nothing can be written any more.
            ThreadClaimed: Somebody else has the thread; nothing was written.
        """
        await self._lock.acquire()
        try:
            if self.closed_by is not None:
                raise self.closed_by
            sent, was_last = self._in_flight, self._last is not None
            if sent is not None and await self._resolve(sent) and was_last:
                # The last word was said: the thread is not ours any more.
                return
            run = record()
            if state.changed:
                self._collect(state)
            await self._write(self._commit(run, last), last)
        finally:
            self._lock.release()

    async def write_tool_records(self) -> None:
        """Write the pending entries of the tool journal and nothing else.

        Raises:
            StorageError: The store refused.
        """
        async with self._lock:
            if self._in_flight is not None:
                await self._resolve(self._in_flight)
            if self.tool_records:
                await self._write(self._tool_commit())

    def close(self, error: AwakenError) -> None:
        """Refuse every flush from now on with an error; the first one stays."""
        self.closed_by = self.closed_by or error

    async def settle(self) -> None:
        """Find out what became of a commit whose reply never came."""
        if self._in_flight is None:
            return
        async with self._lock:
            if self._in_flight is not None:
                await self._resolve(self._in_flight)

    async def _write(self, commit: Commit, last: LastWords | None = None) -> None:
        self._in_flight, self._last = commit, last
        try:
            self._applied(commit, await self._store.commit(commit))
        except IdempotencyConflict:
            # Something else was written under this id; its receipt is not ours.
            raise
        except StorageError as error:
            is_refused = self.lease is not None and isinstance(error, LeaseLost | ThreadClaimed)
            if is_refused or isinstance(error, DecidedMeanwhile):
                # Refused for good: whoever has the thread, or has decided, says what becomes of
                # it, and what this run knows of it is not true any more.
                self._in_flight = None
                self.close(error)
                raise
            # The store may have taken the commit, and only its reply was lost.
            if not await self._resolve(commit):
                raise

    async def _resolve(self, commit: Commit) -> bool:
        """Whether the store has the commit; if so, it counts as written."""
        receipt = await self._store.find_commit(commit.commit_id, self.thread_id)
        if receipt is not None:
            self._applied(commit, receipt)
        self._in_flight = None
        return receipt is not None

    def _collect(self, state: StateStore) -> None:
        thread_changes, run_changes = state.take_changes()
        self._state.update(thread_changes)
        self._run_state.update(run_changes)

    def _tool_commit(self) -> Commit:
        return Commit(
            commit_id=f"{self.writer}:{self.version + 1}",
            thread_id=self.thread_id,
            expected_version=self.version,
            committed_at=self._clock.now_ms(),
            fencing_token=self.lease.token if self.lease is not None else None,
            tool_records=tuple(self.tool_records),
        )

    def _commit(self, run: RunRecord | None, last: LastWords | None) -> Commit:
        events, orders = ((last.event,), last.orders) if last is not None else ((), ())
        commit = Commit(
            commit_id=f"{self.writer}:{self.version + 1}",
            thread_id=self.thread_id,
            expected_version=self.version,
            committed_at=self._clock.now_ms(),
            messages=tuple(self.messages),
            run=run,
            state=self._state.copy(),
            run_state=self._run_state.copy(),
            tool_records=tuple(self.tool_records),
            tickets=tuple(self.tickets.values()) if self.tickets else (),
            events=(*self.events, *events),
            absorbed=tuple(self.absorbed),
            outbox=(*self.outbox, *orders),
        )
        if self.lease is None:
            return commit
        return self._held(commit, self.lease, None if last is None else last.release)

    def _held(self, commit: Commit, lease: Lease, release: Release | None) -> Commit:
        """The commit as the holder of a lease writes it."""
        if lease.claim is not None and release is not None:
            # A run whose only commit is its last one never takes the thread.
            return commit
        return msgspec.structs.replace(
            commit, fencing_token=lease.token, claim=lease.claim, release=release
        )

    def _applied(self, commit: Commit, receipt: CommitReceipt) -> None:
        last, self._in_flight, self._last = self._last, None, None
        self.version = receipt.version
        self.event_seq = receipt.event_seq
        # Whatever was added while the store was busy stays for the next commit.
        events, orders = len(commit.events), len(commit.outbox)
        if last is not None:
            events, orders = events - 1, orders - len(last.orders)
        del self.messages[: len(commit.messages)]
        del self.events[:events]
        del self.tool_records[: len(commit.tool_records)]
        del self.absorbed[: len(commit.absorbed)]
        del self.outbox[:orders]
        for ticket in commit.tickets:
            if self.tickets[ticket.ticket_id] is ticket:
                del self.tickets[ticket.ticket_id]
        if commit.state:
            self._state.clear()
        if commit.run_state:
            self._run_state.clear()
        if self.lease is not None:
            self._applied_held(commit, self.lease)
        for watch in self._watchers:
            watch(commit)
        if self._announced:
            self._show_durable(commit.events, receipt.event_seq)
        if last is not None:
            self._feed.emit(LoggedEvent(seq=receipt.event_seq, event=last.event))

    def _applied_held(self, commit: Commit, lease: Lease) -> None:
        if commit.claim is not None:
            lease.claim = None
            if self.on_claimed is not None:
                self.on_claimed()

    def _show_durable(self, written: tuple[AgentEvent, ...], last: int) -> None:
        """Show what was announced, up to the first event that is not durable yet.

        What is in the log is shown with its place there, which is a reader's cursor.
        """
        waiting = {id(event) for event in self.events} if self.events else ()
        announced, self._announced = self._announced, []
        places = {id(event): seq for seq, event in enumerate(written, last - len(written) + 1)}
        for place, event in enumerate(announced):
            if id(event) in waiting:
                self._announced = announced[place:]
                return
            seq = places.get(id(event))
            self._feed.emit(event if seq is None else LoggedEvent(seq=seq, event=event))
