"""What a runtime reads of its store."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.messages.message import MessageRecord
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.queries import LIMIT_MAX, MessageQuery, Page, Q, RunQuery, at_cursor
from awaken.contracts.storage.store import Store
from awaken.contracts.suspension.tickets import Ticket
from awaken.contracts.tasks import TaskRecord

from .arguments import check_optional_text, check_text, convert_argument

if TYPE_CHECKING:
    from awaken.runtime.engine import RunEngine
    from awaken.services.control import RunControl

T = TypeVar("T")


class RunQueries:
    """The part of a runtime that reads runs, messages, tasks and tickets."""

    store: Store
    _engine: "RunEngine"
    _control: "RunControl"

    async def get_run(self, run_id: str) -> RunRecord:
        """Return the record of a run. A queued run has the record that it will start with.

        Args:
            run_id: The run.

        Raises:
            UnknownRun: There is no such run.
        """
        check_text("run_id", run_id)
        return await self._control.record(run_id)

    async def list_runs(
        self, thread_id: str | None = None, status: RunStatus | str | None = None
    ) -> tuple[RunRecord, ...]:
        """List runs, oldest first.

        Args:
            thread_id: Only the runs of this thread.
            status: Only the runs with this status.
        """
        check_optional_text("thread_id", thread_id)
        wanted = None if status is None else convert_argument("status", status, RunStatus)
        query = RunQuery(thread_id=thread_id, status=wanted, limit=LIMIT_MAX)
        return await _all_pages(self.store.list_runs, query)

    async def messages(
        self, thread_id: str, query: MessageQuery | None = None
    ) -> tuple[MessageRecord, ...]:
        """List the messages of a thread in order.

        Args:
            thread_id: The thread.
            query: Which page of the messages. None lists all of them.
        """
        check_text("thread_id", thread_id)
        if query is not None:
            wanted = convert_argument("query", query, MessageQuery)
            return (await self.store.list_messages(thread_id, wanted)).items
        list_messages = partial(self.store.list_messages, thread_id)
        return await _all_pages(list_messages, MessageQuery(limit=LIMIT_MAX))

    async def tasks(self, thread_id: str) -> tuple[TaskRecord, ...]:
        """List the background tasks that runs of a thread started, newest first.

        Args:
            thread_id: The thread.
        """
        check_text("thread_id", thread_id)
        return await self._engine.tasks.tasks_of(thread_id)

    async def tickets(self, thread_id: str | None = None) -> tuple[Ticket, ...]:
        """List the open tickets, oldest first.

        Args:
            thread_id: Only the tickets of this thread.
        """
        check_optional_text("thread_id", thread_id)
        return await self.store.list_tickets(thread_id)


async def _all_pages(fetch: Callable[[Q], Awaitable[Page[T]]], query: Q) -> tuple[T, ...]:
    found: list[T] = []
    while True:
        page = await fetch(query)
        found.extend(page.items)
        if page.next_cursor is None:
            return tuple(found)
        query = at_cursor(query, page.next_cursor)
