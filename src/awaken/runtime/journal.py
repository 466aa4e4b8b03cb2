"""The journal of a run: collects what must become durable and writes it as commits.

Nothing leaves the journal before the store has it. A commit whose reply was lost is looked up by
its id; it is never sent twice blindly.
"""

import asyncio

from awaken.contracts.clock import Clock
from awaken.contracts.errors import IdempotencyConflict, StorageError
from awaken.contracts.events import AgentEvent
from awaken.contracts.messages import Message
from awaken.contracts.runs import RunRecord
from awaken.contracts.state import StoredValue
from awaken.contracts.storage import Commit, CommitReceipt, CommitStore, ToolRecord
from awaken.contracts.suspension import Ticket
from awaken.contracts.threads import Thread

from .state.store import StateStore
from .streams import EventFeed


class Journal:
    """The pending changes of one run on one thread.

    Events are of two kinds. `record` keeps an event that readers have seen already; `announce`
    keeps one that readers get only after its commit, because it claims to be durable.
    """

    __slots__ = (
        "_announced", "_clock", "_feed", "_in_flight", "_lock", "_run_state", "_state", "_store",
        "event_seq", "events", "messages", "thread_id", "tickets", "tool_records", "version",
        "writer",
    )  # fmt: skip

    def __init__(
        self, store: CommitStore, clock: Clock, feed: EventFeed, thread: Thread, writer: str
    ) -> None:
        self.thread_id = thread.id
        self.writer = writer
        self.version = thread.version
        self.event_seq = 0
        self.messages: list[Message] = []
        self.events: list[AgentEvent] = []
        self.tool_records: list[ToolRecord] = []
        self.tickets: dict[str, Ticket] = {}
        """The latest form of each ticket that changed, by its id."""
        self._state: dict[str, StoredValue | None] = {}
        self._run_state: dict[str, StoredValue | None] = {}
        self._announced: list[AgentEvent] = []
        self._store = store
        self._clock = clock
        self._feed = feed
        self._lock = asyncio.Lock()
        self._in_flight: Commit | None = None

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

    async def flush(self, state: StateStore, run: RunRecord | None = None) -> None:
        """Write everything pending as one commit, then show what was announced.

        Raises:
            StorageError: The store refused; everything stays pending.
        """
        await self._lock.acquire()
        try:
            if self._in_flight is not None:
                await self._resolve(self._in_flight)
            if state.changed:
                self._collect(state)
            await self._write(self._commit(run))
        finally:
            self._lock.release()

    async def settle(self) -> None:
        """Find out what became of a commit whose reply never came."""
        if self._in_flight is None:
            return
        async with self._lock:
            if self._in_flight is not None:
                await self._resolve(self._in_flight)

    async def _write(self, commit: Commit) -> None:
        self._in_flight = commit
        try:
            self._applied(commit, await self._store.commit(commit))
        except IdempotencyConflict:
            # Something else was written under this id; its receipt is not ours.
            raise
        except StorageError:
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

    def _commit(self, run: RunRecord | None) -> Commit:
        return Commit(
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
            events=tuple(self.events),
        )

    def _applied(self, commit: Commit, receipt: CommitReceipt) -> None:
        self._in_flight = None
        self.version = receipt.version
        self.event_seq = receipt.event_seq
        # Whatever was added while the store was busy stays for the next commit.
        del self.messages[: len(commit.messages)]
        del self.events[: len(commit.events)]
        del self.tool_records[: len(commit.tool_records)]
        for ticket in commit.tickets:
            if self.tickets[ticket.ticket_id] is ticket:
                del self.tickets[ticket.ticket_id]
        self._state.clear()
        self._run_state.clear()
        self._show_durable()

    def _show_durable(self) -> None:
        """Show what was announced, up to the first event that is not durable yet."""
        waiting = {id(event) for event in self.events} if self.events else ()
        announced, self._announced = self._announced, []
        for place, event in enumerate(announced):
            if id(event) in waiting:
                self._announced = announced[place:]
                return
            self._feed.emit(event)
