"""The tickets of the memory store: one method for each method of the port."""

from collections.abc import Sequence

from awaken.contracts.clock import Clock
from awaken.contracts.errors import UnknownTicket
from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.storage.queries import Page, TicketQuery
from awaken.contracts.suspension.tickets import Ticket, ToolCallResume
from awaken.stores.rules.tickets import decide_tickets, update_live_tickets

from .commits import apply_ticket
from .queues import Queues
from .tables import StoredThread, Tables


class MemoryTickets:
    """The part of the store that keeps suspended calls and the decisions on them."""

    _tables: Tables
    clock: Clock
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

    async def list_ticket_page(self, query: TicketQuery) -> Page[Ticket]:
        """List tickets by creation time, ties by id."""
        from awaken.contracts.storage.keysets import list_rows, ticket_key  # noqa: PLC0415

        tables, threads = self._tables, self._tables.threads
        is_open = query.status is TicketStatus.OPEN
        fits = [
            it
            for it in (tables.open_tickets if is_open else tables.tickets).values()
            if query.status in (None, it.status)
            and query.run_id in (None, it.run_id)
            and query.thread_id in (None, it.thread_id)
            and query.tenant_id in (None, threads[it.thread_id].shown.tenant_id)
        ]
        return list_rows(fits, query, ticket_key)

    async def decide(
        self,
        thread_id: str,
        run_id: str,
        decisions: Sequence[tuple[str, ToolCallResume]],
        then: RunDispatch | None = None,
    ) -> RunDispatch | None:
        """Write decisions to tickets, all or none; see `RunStore.decide`.

        A decision is written to the ticket itself, whether or not its thread is claimed.
        """
        tables, thread = self._tables, self._tables.threads.get(thread_id)
        if thread is None:
            raise UnknownTicket(ticket_id=decisions[0][0])
        sent = _list_sent(tables, thread)
        decided = decide_tickets(thread, tables.tickets, run_id, decisions, sent)
        for ticket in decided:
            apply_ticket(tables, thread, ticket)
        update_live_tickets(thread, decided, thread.open_run)
        return self._queues.add(then) if decided and then is not None else None

    async def find_next_deadline(self) -> int | None:
        """Return how many milliseconds are left until the next deadline of an open ticket."""
        tickets = self._tables.open_tickets.values()
        due = min((it.expires_at for it in tickets if it.expires_at is not None), default=None)
        return None if due is None else due - self.clock.now_ms()

    async def list_run_tickets(self, thread_id: str, run_id: str) -> tuple[Ticket, ...]:
        """Return all tickets of a run, oldest first."""
        thread = self._tables.threads.get(thread_id)
        ids = () if thread is None else thread.ticket_ids
        known = [self._tables.tickets[ticket_id] for ticket_id in ids]
        found = [ticket for ticket in known if ticket.run_id == run_id]
        return tuple(sorted(found, key=lambda ticket: (ticket.created_at, ticket.ticket_id)))


def _list_sent(tables: Tables, thread: StoredThread) -> list[RunDispatch]:
    """List the queued dispatches of a thread and the one that is executed there."""
    ids = [entry[2] for entry in thread.queue]
    if thread.claim is not None and thread.claim.dispatch_id is not None:
        ids.append(thread.claim.dispatch_id)
    return [tables.dispatches[dispatch_id] for dispatch_id in ids]
