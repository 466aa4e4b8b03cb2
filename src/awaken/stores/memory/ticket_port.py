"""The tickets of the memory store: one method for each method of the port."""

from collections.abc import Sequence

from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume

from .decisions import decide
from .queues import Queues
from .tables import Tables


class MemoryTickets:
    """The part of the store that keeps suspended calls and the decisions on them."""

    _tables: Tables
    _queues: Queues

    async def find_ticket(self, ticket_id: str) -> Ticket | None:
        """Return a ticket, or None."""
        return self._tables.tickets.get(ticket_id)

    async def list_tickets(
        self, thread_id: str | None = None, *, tenant_id: str | None = None
    ) -> tuple[Ticket, ...]:
        """Return the open tickets, oldest first."""
        tickets, threads = self._tables.open_tickets.values(), self._tables.threads
        found = [ticket for ticket in tickets if thread_id in (None, ticket.thread_id)]
        if tenant_id is not None:
            found = [it for it in found if threads[it.thread_id].shown.tenant_id == tenant_id]
        return tuple(sorted(found, key=lambda ticket: (ticket.created_at, ticket.ticket_id)))

    async def decide(
        self,
        thread_id: str,
        run_id: str,
        decisions: Sequence[tuple[str, ToolCallResume]],
        then: RunDispatch | None = None,
    ) -> RunDispatch | None:
        """Write decisions to tickets, all or none; see `RunStore.decide`."""
        return decide(self._tables, self._queues, (thread_id, run_id), decisions, then)

    async def list_run_tickets(self, thread_id: str, run_id: str) -> tuple[Ticket, ...]:
        """Return all tickets of a run, oldest first."""
        thread = self._tables.threads.get(thread_id)
        ids = () if thread is None else thread.ticket_ids
        known = [self._tables.tickets[ticket_id] for ticket_id in ids]
        found = [ticket for ticket in known if ticket.run_id == run_id]
        return tuple(sorted(found, key=lambda ticket: (ticket.created_at, ticket.ticket_id)))
