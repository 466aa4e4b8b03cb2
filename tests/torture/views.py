"""A thread as it lies in a store: through the ports, and in the rows below them."""

from typing import Protocol

from awaken.contracts.errors import CorruptRecord
from awaken.contracts.events import LoggedEvent
from awaken.contracts.messages.message import MessageRecord, Role
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.queries import LIMIT_MAX, DispatchQuery, MessageQuery
from awaken.contracts.storage.store import CommitReceipt, Store

from .history import digest


class Rows(Record, frozen=True, kw_only=True):
    """What the rows say that the ports do not show."""

    receipts: tuple[CommitReceipt, ...] = ()
    """Of all commits that are kept, by their version."""
    event_seq: int = 0
    purged_seq: int = 0
    message_numbers: tuple[int, ...] = ()
    claim_token: str | None = None
    claim_dispatch: str | None = None
    queued: int = 0


class Evidence(Protocol):
    """A store that a crash left behind, to be read only."""

    store: Store

    async def rows(self, thread_id: str) -> Rows:
        """The rows of a thread that exists."""
        ...


class ThreadView(Record, frozen=True, kw_only=True):
    """One thread, whole."""

    thread: Thread
    messages: tuple[MessageRecord, ...]
    events: tuple[LoggedEvent, ...]
    dispatches: tuple[RunDispatch, ...]
    state: dict[str, str]
    """Digests by key."""
    open_run: RunRecord | None
    ticketed: frozenset[str]
    """Calls that the open run has a ticket for."""
    rows: Rows

    @property
    def message_ids(self) -> set[str]:
        """Ids of all messages."""
        return {it.message_id for it in self.messages}

    @property
    def unanswered(self) -> list[str]:
        """Calls at the end of the transcript that have no result."""
        answered: set[str | None] = set()
        for record in reversed(self.messages):
            if record.message.role is not Role.TOOL:
                return [it.id for it in record.message.tool_calls or () if it.id not in answered]
            answered.add(record.message.tool_call_id)
        return []


async def view_of(evidence: Evidence, thread_id: str) -> ThreadView | None:
    """Read a thread; None when there is none."""
    store = evidence.store
    found = await store.checkout(thread_id)
    if found is None:
        return None
    return ThreadView(
        thread=found.thread,
        messages=await _messages(store, thread_id),
        events=await _events(store, thread_id),
        dispatches=await _dispatches(store, thread_id),
        state={name: digest(value.data) for name, value in found.state.items()},
        open_run=found.open_run,
        ticketed=frozenset(ticket.call_id for ticket in found.tickets),
        rows=await evidence.rows(thread_id),
    )


async def _messages(store: Store, thread_id: str) -> tuple[MessageRecord, ...]:
    found: list[MessageRecord] = []
    while True:
        query = MessageQuery(limit=LIMIT_MAX, offset=len(found))
        page = await store.list_messages(thread_id, query)
        found += page.items
        if not page.items or len(found) >= page.total:
            return tuple(found)


async def _events(store: Store, thread_id: str) -> tuple[LoggedEvent, ...]:
    found: list[LoggedEvent] = []
    while page := await store.list_events(thread_id, after=found[-1].seq if found else 0):
        found += page
    return tuple(found)


async def _dispatches(store: Store, thread_id: str) -> tuple[RunDispatch, ...]:
    found: list[RunDispatch] = []
    while True:
        query = DispatchQuery(thread_id=thread_id, limit=LIMIT_MAX, offset=len(found))
        page = await store.list_dispatches(query)
        if page.damaged:
            raise CorruptRecord(what="A dispatch", problem="a list leaves it out")
        found += page.items
        if not page.items or len(found) >= page.total:
            return tuple(found)
