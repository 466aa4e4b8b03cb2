"""A tenant's threads; for a tenant, objects of other tenants do not exist."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.errors import CursorInvalid, InvalidInput, RefusedInput, UnknownThread
from awaken.contracts.events import LoggedEvent
from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.messages.message import Message, MessageRecord
from awaken.contracts.record import StrictRecord
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.runs.threads import NewestBranch, Thread
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.keysets import rename_cursors, rename_keys
from awaken.contracts.storage.queries import (
    AnyQuery,
    DispatchQuery,
    K,
    MessageQuery,
    Page,
    RunQuery,
    ThreadQuery,
    TicketQuery,
    page_of,
)
from awaken.contracts.storage.store import Commit, DeleteStrategy, Store
from awaken.contracts.suspension.tickets import Asks, Ticket
from awaken.contracts.tenancy import add_namespace, namespace_of, remove_namespace
from awaken.runtime.admission.forks import Fork, fork_thread
from awaken.runtime.plugins.input_screens import Seen

from .request_limits import check_history, check_metadata
from .tenant_ids import hide_namespace

T = TypeVar("T")


class ThreadEdit(StrictRecord, frozen=True, kw_only=True):
    """Changes to a thread; an unset field stays, None clears, `custom` is merged by key."""

    title: str | msgspec.UnsetType | None = msgspec.UNSET
    resource_id: str | msgspec.UnsetType | None = msgspec.UNSET
    parent_thread_id: str | msgspec.UnsetType | None = msgspec.UNSET
    custom: Mapping[str, Any] = {}


class ThreadView:
    """The threads of one tenant, with their messages, events, tickets and dispatches."""

    __slots__ = ("_clock", "_ids", "_namespace", "_screen_history", "_store", "tenant_id")

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: IdSource,
        tenant_id: str | None,
        screen_history: Callable[[RunRequest, Sequence[Message]], Awaitable[Seen]],
    ) -> None:
        self._screen_history = screen_history
        self.tenant_id = tenant_id
        self._namespace = "" if tenant_id is None else namespace_of(tenant_id)
        """The prefix of every stored id of the tenant; clients neither send nor see it."""
        self._store = store
        self._clock = clock
        self._ids = ids

    def new_id(self) -> str:
        """Make a new id."""
        return self._ids.new_id()

    def add_namespace(self, given: str) -> str:
        """The stored form of an id of a thread or a run."""
        return add_namespace(self._namespace, given)

    def now_ms(self) -> int:
        """The time."""
        return self._clock.now_ms()

    async def thread(self, thread_id: str) -> Thread:
        """A thread.

        Raises:
            UnknownThread: There is none, or it belongs to another tenant.
        """
        return self._hide_namespace(await self._load(thread_id))

    async def find_thread(self, thread_id: str) -> Thread | None:
        """A thread, or None when there is none.

        Raises:
            UnknownThread: It belongs to another tenant.
        """
        return self._hide_namespace(await self._find(thread_id))

    async def threads(self, query: ThreadQuery) -> Page[Thread]:
        """List threads, most recently updated first."""
        query = msgspec.structs.replace(query, tenant_id=self.tenant_id)
        wanted = query
        if query.parent_id is not None:
            wanted = msgspec.structs.replace(query, parent_id=self.add_namespace(query.parent_id))
        return self._page(await self._store.list_threads(wanted), query)

    async def create_thread(self, edit: ThreadEdit, thread_id: str | None = None) -> Thread:
        """Make a thread.

        Raises:
            InvalidInput: A thread of that id exists.
            InvalidRecord: The parent is missing.
        """
        new_id = self.add_namespace(thread_id or self.new_id())
        if await self._store.load_thread(new_id) is not None:
            raise InvalidInput(what="thread id", problem=f"'{thread_id}' is taken")
        blank = Thread(id=new_id, tenant_id=self.tenant_id)
        return await self._save(blank, edit)

    async def begin_thread(self, history: Sequence[Message], request: RunRequest) -> RunRequest:
        """Make a thread that begins with a client's history; returns the request for it.

        Nothing in the history is executed. It is input like any other: if the agent's screens
        block something in it, the requested run ends as blocked.

        Raises:
            UnknownAgent: The agent is not registered.
            InvalidContext: The request's context does not fit the agent.
            InvalidTranscript: A tool call in it does not have exactly one result.
            PluginFailed: A screen failed; nothing was written.
            LimitExceeded: It is too long.
        """
        check_history(history)
        messages, blocked = await self._screen_history(request, history)
        now = self.now_ms()
        thread = Thread(id=self.add_namespace(self.new_id()), tenant_id=self.tenant_id).touch(now)
        named = [msgspec.structs.replace(message, id=self.new_id()) for message in messages]
        commit = Commit(
            commit_id=self.new_id(),
            thread_id=thread.id,
            expected_version=0,
            committed_at=now,
            thread=thread,
            messages=tuple(named),
        )
        await self._store.commit(commit)
        return msgspec.structs.replace(
            request,
            thread_id=remove_namespace(self._namespace, thread.id),
            blocked=request.blocked or blocked,
        )

    async def fork(self, thread_id: str, fork: Fork) -> Thread:
        """Make a thread that begins with the messages of another one, up to a message.

        Raises:
            UnknownThread: There is none, or it belongs to another tenant.
            RecordNotFound: The thread has no such message.
        """
        source = await self._load(thread_id)
        branch = await fork_thread(self._store, self._clock, self._ids, source.id, fork)
        return self._hide_namespace(branch)

    async def find_branch(self, chat_id: str) -> Thread | None:
        """Find the thread that a client means by the id of its chat: its newest branch.

        Raises:
            UnknownThread: It belongs to another tenant.
        """
        thread = await self.find_thread(chat_id)
        if thread is None or thread.newest_branch is None:
            return thread
        # If the branch was deleted, the chat is its first thread again.
        return await self.find_thread(thread.newest_branch.thread_id) or thread

    async def branch(self, chat_id: str) -> Thread:
        """The thread that a client means by the id of its chat; see `find_branch`.

        Raises:
            UnknownThread: There is none, or it belongs to another tenant.
        """
        thread = await self.find_branch(chat_id)
        if thread is None:
            raise UnknownThread(thread_id=chat_id)
        return thread

    async def set_newest_branch(self, chat_id: str, branch_id: str) -> None:
        """Make a branch the thread that a client's chat id means from now on.

        Raises:
            UnknownThread: There is no such chat, or it belongs to another tenant.
        """
        chat = await self._load(chat_id)
        number = 1 if chat.newest_branch is None else chat.newest_branch.number + 1
        newest = NewestBranch(number=number, thread_id=self.add_namespace(branch_id))
        await self._store.save_thread(msgspec.structs.replace(chat, newest_branch=newest))

    async def edit_thread(self, thread_id: str, edit: ThreadEdit) -> Thread:
        """Change a thread's lineage and metadata.

        Raises:
            UnknownThread: There is none, or it belongs to another tenant.
            InvalidInput: The parent is missing, or the client may not change it.
            InvalidRecord: The lineage would form a cycle.
        """
        thread = await self._load(thread_id)
        known = self._hide_namespace(thread)
        if edit.parent_thread_id not in (msgspec.UNSET, known.parent_thread_id):
            await self._check_movable(known)
        return await self._save(thread, edit)

    async def delete_thread(self, thread_id: str, strategy: DeleteStrategy) -> None:
        """Delete a thread with everything that belongs to it."""
        await self.thread(thread_id)
        await self._store.delete_thread(self.add_namespace(thread_id), strategy)

    async def messages(self, thread_id: str, query: MessageQuery) -> Page[MessageRecord]:
        """List a thread's messages."""
        await self.thread(thread_id)
        wanted = query
        if query.run_id is not None:
            wanted = msgspec.structs.replace(query, run_id=self.add_namespace(query.run_id))
        return self._page(
            await self._store.list_messages(self.add_namespace(thread_id), wanted), query
        )

    async def events(self, thread_id: str, after: int, limit: int) -> tuple[LoggedEvent, ...]:
        """A page of a thread's log.

        Raises:
            CursorInvalid: The log does not reach that far.
            CursorExpired: Events after that position were purged.
        """
        check_cursor(after, await self.thread(thread_id))
        stored = self.add_namespace(thread_id)
        return self._hide_namespace(await self._store.list_events(stored, after=after, limit=limit))

    async def tickets(self, thread_id: str | None = None) -> tuple[Ticket, ...]:
        """The open tickets of a thread, or of all threads, oldest first.

        Without those of workflows that sleep or wait for an event: no person decides them.
        """
        if thread_id is not None:
            await self.thread(thread_id)
            thread_id = self.add_namespace(thread_id)
        found = await self._store.list_tickets(thread_id, tenant_id=self.tenant_id)
        return self._hide_namespace(tuple(it for it in found if _asks_person(it)))

    async def ticket_page(self, query: TicketQuery) -> Page[Ticket]:
        """List tickets by creation time, the open ones unless the query says more.

        Without those of workflows that sleep or wait for an event: no person decides them. Their
        number is known for open tickets only; of others the total is None if there are some.

        Raises:
            UnknownThread: The query names a thread that does not exist, or is another tenant's.
        """
        if query.thread_id is not None:
            await self.thread(query.thread_id)
        query = msgspec.structs.replace(query, tenant_id=self.tenant_id)
        wanted = self._store_query(query)
        if query.run_id is not None:
            wanted = msgspec.structs.replace(wanted, run_id=self.add_namespace(query.run_id))
        page = await self._store.list_ticket_page(wanted)
        asked = tuple(it for it in page.items if _asks_person(it))
        total = page.total
        if total is not None and (len(asked) < len(page.items) or total > len(page.items)):
            total = await self._count_asked(wanted, total, len(page.items) - len(asked))
        page = msgspec.structs.replace(page, items=asked, total=total)
        return self._keyset_page(page, query)

    async def _count_asked(self, query: TicketQuery, total: int, hidden: int) -> int | None:
        """Count the tickets of a query that people decide."""
        if query.status is not TicketStatus.OPEN:
            return None if hidden else total
        found = await self._store.list_tickets(query.thread_id, tenant_id=query.tenant_id)
        return sum(_asks_person(it) and query.run_id in (None, it.run_id) for it in found)

    async def run_tickets(self, thread_id: str, run_id: str) -> tuple[Ticket, ...]:
        """Every ticket of a run, also those that were decided or closed, oldest first."""
        thread = await self._load(thread_id)
        found = await self._store.list_run_tickets(thread.id, self.add_namespace(run_id))
        return self._hide_namespace(
            tuple(sorted(found, key=lambda it: (it.created_at, it.ticket_id)))
        )

    async def dispatches(self, query: DispatchQuery) -> Page[RunDispatch]:
        """List what was queued on a thread, oldest first."""
        await self.thread(query.thread_id or "")
        wanted = msgspec.structs.replace(query, thread_id=self.add_namespace(query.thread_id or ""))
        return self._page(await self._store.list_dispatches(wanted), query)

    async def _load(self, thread_id: str) -> Thread:
        """A thread as it is stored; see `thread`."""
        thread = await self._find(thread_id)
        if thread is None:
            raise UnknownThread(thread_id=thread_id)
        return thread

    async def _find(self, thread_id: str) -> Thread | None:
        """A thread as it is stored; see `find_thread`."""
        thread = await self._store.load_thread(self.add_namespace(thread_id))
        if thread is not None and self.tenant_id not in (None, thread.tenant_id):
            raise UnknownThread(thread_id=thread_id)
        return thread

    async def _save(self, thread: Thread, edit: ThreadEdit) -> Thread:
        parent = edit.parent_thread_id
        if isinstance(parent, str) and parent.strip():
            await self._check_parent(parent.strip())
        metadata = msgspec.structs.replace(
            thread.metadata,
            title=_apply_edit(edit.title, thread.metadata.title),
            custom={**thread.metadata.custom, **edit.custom},
        )
        check_metadata(metadata)
        above = _apply_edit(parent, thread.parent_thread_id)
        changed = msgspec.structs.replace(
            thread,
            resource_id=_apply_edit(edit.resource_id, thread.resource_id),
            parent_thread_id=self.add_namespace(above.strip()) if above and above.strip() else None,
            metadata=metadata,
        )
        return self._hide_namespace(await self._store.save_thread(changed.touch(self.now_ms())))

    async def _check_movable(self, thread: Thread) -> None:
        """Refuse to move a thread that was made for a child run.

        Cancelling the parent run finds the child through the thread's parent.
        """
        made_for = await self._store.load_run(self.add_namespace(thread.id))
        if made_for is not None and made_for.parent_run_id is not None:
            above = self._hide_namespace(made_for).parent_run_id
            problem = f"thread '{thread.id}' belongs to run '{above}' above it"
            raise InvalidInput(what="parent_thread_id", problem=problem)

    async def _check_parent(self, parent_id: str) -> None:
        try:
            await self.thread(parent_id)
        except UnknownThread as error:
            problem = f"parent thread not found: {parent_id}"
            raise RefusedInput(what="parent_thread_id", problem=problem) from error

    def _hide_namespace(self, value: T) -> T:
        return hide_namespace(self._namespace, value)

    def _page(self, page: Page[T], query: AnyQuery) -> Page[T]:
        """The page as the tenant sees it; its cursors are for the tenant's own query."""
        return (
            page_of(self._hide_namespace(page.items), page.total or 0, query, damaged=page.damaged)
            if self._namespace
            else page
        )

    def _store_query(self, query: K) -> K:
        """The query with its thread and the ids of its keys in stored form."""
        if not self._namespace:
            return query
        thread_id = None if query.thread_id is None else self.add_namespace(query.thread_id)
        wanted = msgspec.structs.replace(query, thread_id=thread_id)
        # Ids of tickets have no namespace.
        has_namespace = type(query) is RunQuery
        return rename_keys(wanted, self.add_namespace) if has_namespace else wanted

    def _keyset_page(self, page: Page[T], query: K) -> Page[T]:
        """The page as the tenant sees it; its cursors are for the tenant's own query."""
        if not self._namespace:
            return page
        shown = msgspec.structs.replace(page, items=self._hide_namespace(page.items))
        return rename_cursors(shown, query, partial(remove_namespace, self._namespace))

    async def _is_own(self, thread_id: str) -> bool:
        thread = await self._store.load_thread(thread_id)
        return thread is not None and thread.tenant_id == self.tenant_id


def _apply_edit(new: str | msgspec.UnsetType | None, old: str | None) -> str | None:
    return old if new is msgspec.UNSET else new


def _asks_person(ticket: Ticket) -> bool:
    return ticket.question_kind is not Asks.EVENT


def check_cursor(cursor: int, thread: Thread) -> None:
    """Refuse a cursor that is not a position in the thread's log.

    Raises:
        CursorInvalid: It is negative or ahead of the log.
    """
    if not 0 <= cursor <= thread.event_seq:
        raise CursorInvalid(problem=f"the log ends at {thread.event_seq}")
