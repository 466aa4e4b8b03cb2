"""The journal of a run collects what must become durable and writes commits; its inbox, input.

Nothing leaves the journal before the store has it. If the reply to a commit is lost, the journal
looks the commit up by its id; it never sends a commit twice blindly.
"""

import asyncio
from collections.abc import Callable, Sequence
from hashlib import blake2b

import msgspec

from awaken.contracts.clock import Clock
from awaken.contracts.errors import (
    AwakenError,
    IdempotencyConflict,
    LeaseLost,
    StorageError,
    StoreUnavailable,
    ThreadClaimed,
)
from awaken.contracts.events import AgentEvent, LoggedEvent
from awaken.contracts.messages.message import Message
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.storage.dispatch import Release, RunDispatch
from awaken.contracts.storage.store import (
    Commit,
    CommitReceipt,
    CommitStore,
    DecidedMeanwhile,
    OutboxEntry,
    ToolRecord,
    ToolRecordStatus,
)
from awaken.contracts.suspension.tickets import Ticket
from awaken.runtime.primitives.signals import Mutex, WakeSignal
from awaken.runtime.state.store import StateStore

from .leases import Lease
from .streams import EventFeed

FIRST_PAUSE_S = 0.05
"""The first pause before a store that is away is asked again; it doubles with each further one."""
LONGEST_PAUSE_S = 1.0
_WRITER_BYTES = 6
"""Writers of one run on one thread must differ; no others are compared."""


def name_writer(unique_id: str) -> str:
    """Make a short name for a writer of commits; each of its commits is stored with it."""
    return blake2b(unique_id.encode(), digest_size=_WRITER_BYTES).hexdigest()


class LastWrite(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What belongs only to the commit with which a run ends or begins to wait."""

    event: AgentEvent
    outbox: tuple[OutboxEntry, ...]
    release: Release | None
    enqueued: tuple[RunDispatch, ...] = ()


class CommitWatchers(msgspec.Struct, frozen=True, eq=False):
    """Called once a commit of a run is durable, or can be no more; they must not raise."""

    commits: list[Callable[[Commit], None]] = []
    """Called for every commit."""
    outbox: list[Callable[[], None]] = []
    """Called when a commit has outbox entries."""
    lost_leases: list[Callable[[], None]] = []
    """Called when a run has stopped because its commits are refused: another process has it."""

    def notify(self, commit: Commit) -> None:
        """Call the watchers that the commit concerns."""
        for watch in self.commits:
            watch(commit)
        if commit.outbox:
            for wake in self.outbox:
                wake()


class Inbox(msgspec.Struct, eq=False):
    """Messages sent to a run while it executes; it takes them in between two steps.

    A bounded queue that refuses messages rather than losing them.
    """

    limit: int
    messages: tuple[Message, ...] = ()
    _signal: WakeSignal | None = None
    _is_closed: bool = False

    def put(self, messages: Sequence[Message]) -> bool:
        """Accept the messages, all or none; False when closed, full, or without messages."""
        if self._is_closed or not messages or len(self.messages) + len(messages) > self.limit:
            return False
        self.messages += tuple(messages)
        self.signal.ring()
        return True

    @property
    def signal(self) -> WakeSignal:
        """Wakes a waiting run when input arrives; created when first used."""
        if self._signal is None:
            self._signal = WakeSignal()
        return self._signal

    def drain(self) -> tuple[Message, ...]:
        """Remove and return all waiting messages, in order."""
        taken, self.messages = self.messages, ()
        return taken

    def close(self) -> tuple[Message, ...]:
        """Accept no more messages; return those that the run did not take in."""
        self._is_closed = True
        taken, self.messages = self.messages, ()
        return taken


class Journal(msgspec.Struct, kw_only=True, eq=False):
    """The pending changes of one run on one thread.

    Events are of two kinds. Readers have already seen events that are added to `events`. Events
    passed to `announce` reach readers only after their commit, because they claim durability.
    """

    thread_id: str
    writer: str
    """The first part of the ids of its commits."""
    version: int
    """The thread's version after the latest commit."""
    event_seq: int
    store: CommitStore
    clock: Clock
    feed: EventFeed
    watchers: CommitWatchers
    messages: list[Message] = []
    events: list[AgentEvent] = []
    """Kept for the log; readers have seen them, unless they are announced."""
    tool_records: tuple[ToolRecord, ...] = ()
    tickets: dict[str, Ticket] = {}
    """The latest form of each ticket that changed, by its id."""
    absorbed: tuple[str, ...] = ()
    """Queued dispatches whose input is part of the pending changes."""
    outbox: tuple[OutboxEntry, ...] = ()
    """Commands for outside of the thread."""
    lease: Lease | None = None
    on_claimed: Callable[[], None] | None = None
    """Called once the commit that takes the thread is durable."""
    closed_by: AwakenError | None = None
    """Why nothing may be written any more; None while writing is allowed."""
    announced: list[AgentEvent] | tuple[()] = ()
    """Shown to readers once the next commit is durable; later events queue behind them."""
    in_flight: Commit | None = None
    """A commit whose reply has not arrived."""
    _last: LastWrite | None = None
    """The last words of the commit in flight, if it is the last commit."""
    _state: dict[str, StoredValue | None] = {}
    _run_state: dict[str, StoredValue | None] = {}
    _writing: Mutex = msgspec.field(default_factory=Mutex)

    def announce(self, event: AgentEvent, *, is_logged: bool = True) -> None:
        """Show an event to readers once the next commit is durable."""
        if is_logged:
            self.events.append(event)
        if self.announced:
            # In place: a tool may show thousands of events while a commit is on its way.
            self.announced += [event]
        else:
            self.announced = [event]

    def list_shown_events(self) -> list[AgentEvent]:
        """Return events that readers have seen and that are not durable yet."""
        waiting = {id(event) for event in self.announced}
        return [event for event in self.events if id(event) not in waiting]

    @property
    def has_run_state(self) -> bool:
        """Whether run-scoped state is pending that no commit has written yet."""
        return bool(self._run_state)

    async def flush(
        self,
        state: StateStore,
        record: Callable[[int], RunRecord | None],
        last: LastWrite | None = None,
    ) -> None:
        """Write everything pending as one commit, then show what was announced.

        `record` is called with the time when the commit is built, so that a flush that had to wait
        for another one never writes an older record. The last words are part of this commit only
        and never become pending, so no other commit can include them.

        While a lease is held, a store that is away is waited for: see `Lease.patience_ms`.

        Raises:
            StorageError: The store refused; everything stays pending.
            LeaseLost: Another process has the thread; nothing can be written any more.
            ThreadClaimed: Another process has the thread; nothing was written.
        """
        while self._writing.is_held:
            await self._writing.wait()
        self._writing.is_held = True
        try:
            if self.closed_by is not None:
                raise self.closed_by
            sent, was_last = self.in_flight, self._last is not None
            if sent is not None and await self._resolve(sent) and was_last:
                # The last commit is written: this run no longer holds the thread.
                return
            now = self.clock.now_ms()
            run = record(now)
            if state.changed:
                thread_changes, run_changes = state.take_changes()
                # New mappings: commits that were sent keep theirs.
                self._state = {**self._state, **thread_changes}
                self._run_state = {**self._run_state, **run_changes}
            await self._write(self._commit(now, run, last), last)
        finally:
            self._writing.is_held = False
            if self._writing.is_awaited:
                self._writing.release()

    async def write_tool_records(self) -> None:
        """Write the pending results of the tool journal and nothing else.

        A tool call whose intent is still pending was not executed; another process may do it.

        Raises:
            StorageError: The store refused.
        """
        while self._writing.is_held:
            await self._writing.wait()
        self._writing.is_held = True
        try:
            if self.in_flight is not None:
                await self._resolve(self.in_flight)
            finished = ToolRecordStatus.FINISHED
            self.tool_records = tuple(
                it for it in self.tool_records if it.kind or it.status is finished
            )
            if self.tool_records:
                await self._write(self._tool_commit())
        finally:
            self._writing.release()

    def close(self, error: AwakenError) -> None:
        """Refuse every flush from now on with an error; the first error is kept."""
        self.closed_by = self.closed_by or error

    async def settle(self) -> None:
        """Find out whether the store has a commit whose reply never arrived."""
        if self.in_flight is None:
            return
        while self._writing.is_held:
            await self._writing.wait()
        self._writing.is_held = True
        try:
            if self.in_flight is not None:
                await self._resolve(self.in_flight)
        finally:
            self._writing.release()

    async def _write(self, commit: Commit, last: LastWrite | None = None) -> None:
        self.in_flight, self._last = commit, last
        try:
            self._apply_receipt(commit, await self.store.commit(commit))
        except IdempotencyConflict:
            # Another commit was written under this id; its receipt does not apply to this one.
            raise
        except StorageError as error:
            self._check_refused(error)
            lease = self.lease
            is_held = lease is not None and lease.claim is None and lease.patience_ms > 0
            if is_held and self.closed_by is None and isinstance(error, StoreUnavailable):
                await self._write_later(commit, last)
            # The store may have written the commit, and only its reply was lost.
            elif not await self._resolve(commit):
                raise

    def _check_refused(self, error: StorageError) -> None:
        """Write nothing more if the store has refused a commit for good.

        Another process has the thread, or a decision has changed it, so this run's view of the
        thread is out of date.
        """
        is_taken = self.lease is not None and isinstance(error, LeaseLost | ThreadClaimed)
        if is_taken or isinstance(error, DecidedMeanwhile):
            self.in_flight = None
            self.close(error)
            raise error

    async def _write_later(self, commit: Commit, last: LastWrite | None) -> None:
        """Write a commit when the store answers again; the lease keeps the thread meanwhile.

        Raises:
            StorageError: The store refused, or was away for longer than the lease lasts.
            AwakenError: The journal was closed: the lease is lost, or the process stops.
        """
        assert self.lease is not None
        end, pause_s = self.clock.monotonic_ms() + self.lease.patience_ms, FIRST_PAUSE_S
        while True:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            if self.closed_by is not None:
                raise self.closed_by
            try:
                # Only its reply may have been lost.
                if not await self._resolve(commit):
                    self.in_flight, self._last = commit, last
                    self._apply_receipt(commit, await self.store.commit(commit))
            except StoreUnavailable:
                if self.clock.monotonic_ms() >= end:
                    raise
            except StorageError as error:
                self._check_refused(error)
                raise
            else:
                return

    async def _resolve(self, commit: Commit) -> bool:
        """Whether the store has the commit; if so, it counts as written."""
        receipt = await self.store.find_commit(commit.commit_id, self.thread_id)
        if receipt is not None:
            self._apply_receipt(commit, receipt)
        self.in_flight = None
        return receipt is not None

    def _tool_commit(self) -> Commit:
        return Commit(
            commit_id=f"{self.writer}:{self.version + 1}",
            thread_id=self.thread_id,
            expected_version=self.version,
            committed_at=self.clock.now_ms(),
            fencing_token=self.lease.token if self.lease is not None else None,
            tool_records=self.tool_records,
        )

    def _commit(self, now: int, run: RunRecord | None, last: LastWrite | None) -> Commit:
        events, outbox, lease = tuple(self.events), self.outbox, self.lease
        token = claim = release = None
        if last is not None:
            events, outbox, release = (*events, last.event), (*outbox, *last.outbox), last.release
        if lease is not None and not (lease.claim is not None and release is not None):
            token, claim = lease.token, lease.claim
        else:
            # A run whose only commit is its last one never takes the thread.
            release = None
        commit = Commit(
            commit_id=f"{self.writer}:{self.version + 1}",
            thread_id=self.thread_id,
            expected_version=self.version,
            committed_at=now,
            messages=tuple(self.messages),
            run=run,
            state=self._state,
            run_state=self._run_state,
            tool_records=self.tool_records,
            events=events,
            outbox=outbox,
            fencing_token=token,
            claim=claim,
            release=release,
        )
        enqueued = () if last is None else last.enqueued
        if not (self.tickets or self.absorbed or enqueued):
            return commit
        # Apart, because of more than 15 keywords Python makes a dict first.
        tickets = tuple(self.tickets.values())
        return msgspec.structs.replace(
            commit, tickets=tickets, absorbed=self.absorbed, enqueued=enqueued
        )

    def _apply_receipt(self, commit: Commit, receipt: CommitReceipt) -> None:
        last, self.in_flight, self._last = self._last, None, None
        self.version = receipt.version
        self.event_seq = receipt.event_seq
        # Changes that were added during the write stay pending for the next commit.
        events = len(commit.events)
        del self.events[: events if last is None else events - 1]
        if commit.messages:
            del self.messages[: len(commit.messages)]
        if commit.tool_records:
            self.tool_records = self.tool_records[len(commit.tool_records) :]
        if commit.absorbed:
            self.absorbed = self.absorbed[len(commit.absorbed) :]
        if self.outbox:
            sent = len(commit.outbox)
            self.outbox = self.outbox[sent if last is None else sent - len(last.outbox) :]
        for ticket in commit.tickets:
            if self.tickets[ticket.ticket_id] is ticket:
                del self.tickets[ticket.ticket_id]
        if commit.state:
            self._state = {}
        if commit.run_state:
            self._run_state = {}
        if self.lease is not None and commit.claim is not None:
            self.lease.claim = None
            if self.on_claimed is not None:
                self.on_claimed()
        if commit.outbox or self.watchers.commits:
            self.watchers.notify(commit)
        if self.announced:
            if self.feed.readers or self.events:
                self._show_durable(commit.events, receipt.event_seq)
            else:
                self.announced = ()
        if last is not None and self.feed.readers:
            self.feed.emit(LoggedEvent(seq=receipt.event_seq, event=last.event))

    def _show_durable(self, written: tuple[AgentEvent, ...], last: int) -> None:
        """Show announced events, up to the first that is not durable yet.

        Logged events are shown with their place in the log, which is a reader's cursor.
        """
        waiting = {id(event) for event in self.events} if self.events else ()
        announced, self.announced = self.announced, ()
        places = {id(event): seq for seq, event in enumerate(written, last - len(written) + 1)}
        for place, event in enumerate(announced):
            if id(event) in waiting:
                self.announced = [*announced[place:]]
                return
            seq = places.get(id(event))
            self.feed.emit(event if seq is None else LoggedEvent(seq=seq, event=event))
