"""The tickets of a SQL store: one method for each method of the port."""

from collections.abc import Sequence
from functools import partial

from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.queries import Page, TicketQuery
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume

from . import lists, queries
from .decisions import decide
from .session import Database, SqlSession


class SqlTickets:
    """The part of the store that keeps suspended calls and the decisions on them."""

    _database: Database

    async def find_ticket(self, ticket_id: str) -> Ticket | None:
        """Return a ticket, or None."""

        async def work(session: SqlSession) -> Ticket | None:
            found = await queries.list_tickets(session, "find_ticket", ticket_id)
            return found[0] if found else None

        return await self._database.read_row(work)

    async def list_tickets(
        self, thread_id: str | None = None, *, tenant_id: str | None = None
    ) -> tuple[Ticket, ...]:
        """Return the open tickets, oldest first."""

        async def work(session: SqlSession) -> tuple[Ticket, ...]:
            read = partial(queries.list_readable_tickets, session)
            if thread_id is not None:
                return await read("list_open_tickets_of", thread_id, tenant_id)
            if tenant_id is not None:
                return await read("list_tenant_tickets", tenant_id)
            return await read("list_open_tickets")

        return await self._database.read_row(work)

    async def list_ticket_page(self, query: TicketQuery) -> Page[Ticket]:
        """List tickets by creation time, ties by id."""
        return await self._database.read(partial(lists.list_tickets, query=query))

    async def decide(
        self,
        thread_id: str,
        run_id: str,
        decisions: Sequence[tuple[str, ToolCallResume]],
        then: RunDispatch | None = None,
    ) -> RunDispatch | None:
        """Write decisions to tickets, all or none; see `RunStore.decide`."""
        place = (thread_id, run_id)
        return await self._database.write(
            partial(decide, place=place, decisions=decisions, then=then)
        )

    async def find_next_deadline(self) -> int | None:
        """Return how many milliseconds are left until the next deadline of an open ticket."""

        async def find(session: SqlSession) -> int | None:
            row = await session.one("find_next_deadline")
            due = None if row is None else row[0]
            return None if due is None else int(due) - (await session.now()).wall_ms

        return await self._database.read_row(find)

    async def list_run_tickets(self, thread_id: str, run_id: str) -> tuple[Ticket, ...]:
        """Return all tickets of a run, oldest first."""

        async def work(session: SqlSession) -> tuple[Ticket, ...]:
            return await queries.list_tickets(session, "list_run_tickets", thread_id, run_id)

        return await self._database.read_row(work)
