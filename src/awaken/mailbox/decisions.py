"""Decisions on tickets, from any process: taken once and durable; the run then continues.

The store writes a decision to its ticket together with the dispatch that continues the run. A run
that executes finds the decision there when its other calls are done.
"""

from collections.abc import Sequence

from awaken.contracts.errors import CommitUnknown, InvalidInput, UnknownRun, UnknownTicket
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.suspension.ticket_names import find_ticket
from awaken.contracts.suspension.tickets import DecisionReceipt, Ticket, ToolCallResume
from awaken.runtime.journal.request_checks import check_id
from awaken.runtime.suspension.decisions import build_resume_dispatch, receipts_of, write_decisions

from .services import MailboxServices
from .submissions import continuation, digest

Decision = tuple[str, ToolCallResume]

TRIES_MAX = 5
"""How often to try again if the store does not know whether a decision was written."""


class Decider:
    """Takes decisions durably."""

    def __init__(self, services: MailboxServices) -> None:
        self._services = services
        self._store = services.store

    async def decide(
        self, decisions: Sequence[Decision]
    ) -> tuple[tuple[DecisionReceipt, ...], RunDispatch | None]:
        """Take decisions on tickets of one run, all or none, and continue the run.

        Also returns the dispatch that was queued, or None if all were taken before.

        Raises:
            InvalidInput: There is no decision, or one is malformed or not allowed.
            UnknownTicket: A ticket does not exist, or belongs to another run than the first.
            AlreadyDecided: A ticket has another decision, is closed, or has expired.
        """
        _check_decisions(decisions)
        first = await self._store.find_ticket(decisions[0][0])
        if first is None:
            raise UnknownTicket(ticket_id=decisions[0][0])
        queued = await self.take(first.run_id, decisions)
        return receipts_of(first, decisions), queued

    async def take(
        self, run_id: str, decisions: Sequence[Decision], request: RunRequest | None = None
    ) -> RunDispatch | None:
        """Take decisions on tickets of one run; `request` may carry other input for the run.

        Returns the dispatch that carries them, or None if all of them were taken before.

        Raises:
            StorageError: The store does not answer.
        """
        _check_decisions(decisions)
        run = await self._store.load_run(run_id)
        if run is None:
            raise UnknownRun(run_id=run_id)
        services = self._services
        dispatch_id = f"decided:{services.ids.new_id()}"
        max_attempts = services.config.max_attempts
        then = build_resume_dispatch(request or continuation(run), dispatch_id, max_attempts)
        queued = await self._write(run, decisions, then)
        if queued is not None:
            await services.announce_input(queued)
        return queued

    async def _write(
        self, run: RunRecord, decisions: Sequence[Decision], then: RunDispatch
    ) -> RunDispatch | None:
        for _ in range(TRIES_MAX):
            named = [(await self._find_ticket(run, target), given) for target, given in decisions]
            try:
                return await write_decisions(self._store, self._services.clock, named, then)
            except CommitUnknown:
                # If the dispatch is in the store, the decisions were written with it.
                if (queued := await self._store.find_dispatch(then.dispatch_id)) is not None:
                    return queued
        return await write_decisions(self._store, self._services.clock, named, then)

    async def _find_ticket(self, run: RunRecord, target: str) -> Ticket:
        """Return the ticket with an id; the id of its call works too, if only one is open."""
        ticket = await self._store.find_ticket(target)
        if ticket is None:
            tickets = await self._store.list_run_tickets(run.thread_id, run.run_id)
            ticket = find_ticket(tickets, target)
        if ticket.run_id != run.run_id:
            raise UnknownTicket(ticket_id=target)
        return ticket


def _check_decisions(decisions: Sequence[Decision]) -> None:
    if not decisions:
        raise InvalidInput(what="decisions", problem="there are none")
    for ticket_id, given in decisions:
        check_id("ticket_id", ticket_id)
        check_id("decision_id", given.decision_id)
    digest([given for _, given in decisions])
