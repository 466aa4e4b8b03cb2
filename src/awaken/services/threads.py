"""A tenant's threads: what belongs to others does not exist for it."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.dispatch import RunDispatch
from awaken.contracts.errors import CursorInvalid, InvalidInput, UnknownThread
from awaken.contracts.events import LoggedEvent
from awaken.contracts.messages import Message, MessageRecord
from awaken.contracts.queries import (
    AnyQuery,
    DispatchQuery,
    MessageQuery,
    Page,
    ThreadQuery,
    page_of,
)
from awaken.contracts.record import Record
from awaken.contracts.storage import Commit, DeleteStrategy, Store
from awaken.contracts.suspension import Ticket
from awaken.contracts.tenancy import namespace_of, stored_id
from awaken.contracts.threads import Thread

from .naming import shown

T = TypeVar("T")


class ThreadEdit(Record, frozen=True, kw_only=True):
    """Changes to a thread; what is unset stays, None clears, `custom` is merged by key."""

    title: str | msgspec.UnsetType | None = msgspec.UNSET
    resource_id: str | msgspec.UnsetType | None = msgspec.UNSET
    parent_thread_id: str | msgspec.UnsetType | None = msgspec.UNSET
    custom: Mapping[str, Any] = {}


class ThreadView:
    """The threads of one tenant, and what is kept with them."""

    __slots__ = ("_clock", "_ids", "_namespace", "_store", "tenant_id")

    def __init__(self, store: Store, clock: Clock, ids: IdSource, tenant_id: str | None) -> None:
        self.tenant_id = tenant_id
        self._namespace = namespace_of(tenant_id)
        """What every stored id of the tenant begins with; clients neither give nor see it."""
        self._store = store
        self._clock = clock
        self._ids = ids

    def new_id(self) -> str:
        """An id for something new."""
        return self._ids.new_id()

    def stored(self, given: str) -> str:
        """The stored form of an id of a thread or a run, for what is kept beside them."""
        return stored_id(self._namespace, given)

    def now_ms(self) -> int:
        """The time."""
        return self._clock.now_ms()

    async def thread(self, thread_id: str) -> Thread:
        """A thread.

        Raises:
            UnknownThread: There is none, or it belongs to somebody else.
        """
        thread = await self.find_thread(thread_id)
        if thread is None:
            raise UnknownThread(thread_id=thread_id)
        return thread

    async def find_thread(self, thread_id: str) -> Thread | None:
        """A thread, or None when there is none.

        Raises:
            UnknownThread: It belongs to somebody else.
        """
        thread = await self._store.load_thread(self.stored(thread_id))
        if thread is not None and self.tenant_id not in (None, thread.tenant_id):
            raise UnknownThread(thread_id=thread_id)
        return self._shown(thread)

    async def threads(self, query: ThreadQuery) -> Page[Thread]:
        """List threads, most recently updated first."""
        query = msgspec.structs.replace(query, tenant_id=self.tenant_id)
        wanted = query
        if query.parent_id is not None:
            wanted = msgspec.structs.replace(query, parent_id=self.stored(query.parent_id))
        return self._page(await self._store.list_threads(wanted), query)

    async def create_thread(self, edit: ThreadEdit, thread_id: str | None = None) -> Thread:
        """Make a thread.

        Raises:
            InvalidInput: A thread of that id exists.
            InvalidRecord: The parent is missing.
        """
        new_id = self.stored(thread_id or self.new_id())
        if await self._store.load_thread(new_id) is not None:
            raise InvalidInput(what="thread id", problem=f"'{thread_id}' is taken")
        blank = Thread(id=new_id, tenant_id=self.tenant_id)
        return await self._save(blank, edit)

    async def begin_thread(self, history: Sequence[Message]) -> Thread:
        """Make a thread that begins with a history from elsewhere; nothing of it is executed.

        Raises:
            InvalidTranscript: A tool call in it does not have exactly one result.
        """
        now = self.now_ms()
        thread = Thread(id=self.stored(self.new_id()), tenant_id=self.tenant_id).touched(now)
        named = [msgspec.structs.replace(message, id=self.new_id()) for message in history]
        commit = Commit(
            commit_id=self.new_id(),
            thread_id=thread.id,
            expected_version=0,
            committed_at=now,
            thread=thread,
            messages=tuple(named),
        )
        await self._store.commit(commit)
        return self._shown(thread)

    async def edit_thread(self, thread_id: str, edit: ThreadEdit) -> Thread:
        """Change a thread's lineage and metadata.

        Raises:
            UnknownThread: There is none, or it belongs to somebody else.
            InvalidInput: The parent is missing, or is not the client's to choose.
            InvalidRecord: The lineage would form a cycle.
        """
        thread = await self.thread(thread_id)
        if edit.parent_thread_id not in (msgspec.UNSET, thread.parent_thread_id):
            await self._check_movable(thread)
        return await self._save(thread, edit)

    async def delete_thread(self, thread_id: str, strategy: DeleteStrategy) -> None:
        """Delete a thread and everything of it."""
        await self.thread(thread_id)
        await self._store.delete_thread(self.stored(thread_id), strategy)

    async def messages(self, thread_id: str, query: MessageQuery) -> Page[MessageRecord]:
        """List a thread's messages."""
        await self.thread(thread_id)
        wanted = query
        if query.run_id is not None:
            wanted = msgspec.structs.replace(query, run_id=self.stored(query.run_id))
        return self._page(await self._store.list_messages(self.stored(thread_id), wanted), query)

    async def events(self, thread_id: str, after: int, limit: int) -> tuple[LoggedEvent, ...]:
        """A page of a thread's log.

        Raises:
            CursorInvalid: The log is not as long.
            CursorExpired: Events after that place were purged.
        """
        check_cursor(after, await self.thread(thread_id))
        stored = self.stored(thread_id)
        return self._shown(await self._store.list_events(stored, after=after, limit=limit))

    async def tickets(self, thread_id: str | None = None) -> tuple[Ticket, ...]:
        """The open tickets of a thread, or of all threads, oldest first."""
        if thread_id is not None:
            await self.thread(thread_id)
            thread_id = self.stored(thread_id)
        return self._shown(await self._store.list_tickets(thread_id, tenant_id=self.tenant_id))

    async def dispatches(self, query: DispatchQuery) -> Page[RunDispatch]:
        """List what was queued on a thread, oldest first."""
        await self.thread(query.thread_id or "")
        wanted = msgspec.structs.replace(query, thread_id=self.stored(query.thread_id or ""))
        return self._page(await self._store.list_dispatches(wanted), query)

    async def _save(self, thread: Thread, edit: ThreadEdit) -> Thread:
        parent = edit.parent_thread_id
        if isinstance(parent, str) and parent.strip():
            await self._check_parent(parent.strip())
        metadata = msgspec.structs.replace(
            thread.metadata,
            title=_edited(edit.title, thread.metadata.title),
            custom={**thread.metadata.custom, **edit.custom},
        )
        above = _edited(parent, thread.parent_thread_id)
        changed = msgspec.structs.replace(
            thread,
            id=self.stored(thread.id),
            resource_id=_edited(edit.resource_id, thread.resource_id),
            parent_thread_id=self.stored(above.strip()) if above and above.strip() else None,
            metadata=metadata,
        )
        return self._shown(await self._store.save_thread(changed.touched(self.now_ms())))

    async def _check_movable(self, thread: Thread) -> None:
        """Refuse to move a thread that was made for a run below another one.

        Whoever cancels the run above it finds it there.
        """
        made_for = await self._store.load_run(self.stored(thread.id))
        if made_for is not None and made_for.parent_run_id is not None:
            above = self._shown(made_for).parent_run_id
            problem = f"thread '{thread.id}' belongs to run '{above}' above it"
            raise InvalidInput(what="parent_thread_id", problem=problem)

    async def _check_parent(self, parent_id: str) -> None:
        try:
            await self.thread(parent_id)
        except UnknownThread as error:
            message = f"parent thread not found: {parent_id}"
            raise InvalidInput(message, what="parent_thread_id", problem=message) from error

    def _shown(self, value: T) -> T:
        return shown(self._namespace, value)

    def _page(self, page: Page[T], query: AnyQuery) -> Page[T]:
        """A page as the tenant sees it, with cursors of the query as the tenant asked it."""
        return page_of(self._shown(page.items), page.total, query) if self._namespace else page

    async def _is_own(self, thread_id: str) -> bool:
        thread = await self._store.load_thread(thread_id)
        return thread is not None and thread.tenant_id == self.tenant_id


def _edited(new: str | msgspec.UnsetType | None, old: str | None) -> str | None:
    return old if new is msgspec.UNSET else new


def check_cursor(cursor: int, thread: Thread) -> None:
    """Refuse a cursor that is no place in the thread's log.

    Raises:
        CursorInvalid: It is negative or ahead of the log.
    """
    if not 0 <= cursor <= thread.event_seq:
        raise CursorInvalid(problem=f"the log ends at {thread.event_seq}")
