"""Decisions on tickets, from any process: taken once, durable, and the run goes on by itself.

A run that waits gets its decisions and the dispatch that lets it go on in one commit. One that
executes somewhere gets them as input, which it takes in when its other calls are done.
"""

from collections.abc import Sequence

import msgspec

from awaken.contracts.bus import SignalKind
from awaken.contracts.dispatch import DispatchStatus, InputMode, RunDispatch
from awaken.contracts.errors import (
    AlreadyDecided,
    CommitUnknown,
    DedupeConflict,
    InvalidInput,
    ThreadClaimed,
    UnknownRun,
    UnknownTicket,
    VersionConflict,
)
from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.runs import DecisionReceipt, RunRecord, RunRequest
from awaken.contracts.storage import Commit
from awaken.contracts.suspension import DecisionAction, Ticket, ToolCallResume
from awaken.contracts.threads import Thread
from awaken.contracts.ticket_names import find_ticket
from awaken.contracts.verdicts import read_decision
from awaken.runtime.admission import check_id
from awaken.runtime.resume import check_decision

from .services import MailboxServices
from .submissions import TICKET_KEY, continuation, digest

Decision = tuple[str, ToolCallResume]
Taken = list[tuple[Ticket, ToolCallResume]]

TRIES_MAX = 100
"""How often others may be faster before we give up; every try is after somebody's success."""


class Decider:
    """Takes decisions durably."""

    def __init__(self, services: MailboxServices) -> None:
        self._services = services
        self._store = services.store

    async def decide(self, decisions: Sequence[Decision]) -> tuple[DecisionReceipt, ...]:
        """Take decisions on tickets of one run, all or none, and let the run go on.

        On a run that executes elsewhere they are taken one by one.

        Raises:
            InvalidInput: There is no decision, or one is malformed or not allowed.
            UnknownTicket: A ticket does not exist, or belongs to another run than the first.
            AlreadyDecided: A ticket was decided otherwise, closed, or has expired.
        """
        _check_decisions(decisions)
        first = await self._store.find_ticket(decisions[0][0])
        if first is None:
            raise UnknownTicket(ticket_id=decisions[0][0])
        await self.take(first.thread_id, first.run_id, decisions)
        return tuple(
            DecisionReceipt(
                ticket_id=ticket_id,
                run_id=first.run_id,
                thread_id=first.thread_id,
                decision_id=given.decision_id,
            )
            for ticket_id, given in decisions
        )

    async def take(
        self,
        thread_id: str,
        run_id: str,
        decisions: Sequence[Decision],
        request: RunRequest | None = None,
    ) -> RunDispatch | None:
        """Take decisions on tickets of one run; `request` has what else the run should get.

        Returns the dispatch that carries them, or None when all of them were taken before.

        Raises:
            StorageError: Others keep writing first, or the store does not answer.
        """
        _check_decisions(decisions)
        for _ in range(TRIES_MAX - 1):
            try:
                return await self._try(thread_id, run_id, decisions, request)
            except (VersionConflict, CommitUnknown):
                # Look again: it may have been the same decision.
                continue
        return await self._try(thread_id, run_id, decisions, request)

    async def _try(
        self,
        thread_id: str,
        run_id: str,
        decisions: Sequence[Decision],
        request: RunRequest | None,
    ) -> RunDispatch | None:
        # The version first: whatever is read after it and changes makes the commit fail.
        thread = await self._store.load_thread(thread_id)
        run = await self._store.load_run(run_id)
        if thread is None or run is None:
            raise UnknownRun(run_id=run_id)
        fresh = await self._untaken(run, decisions)
        if not fresh:
            return None
        wanted = request or continuation(run)
        if run.is_resumable_waiting:
            try:
                return await self._commit(thread, fresh, wanted)
            except ThreadClaimed:
                # Perhaps because of another decision, which lets the run go on already.
                fresh = await self._untaken(run, decisions)
        return await self._send(thread, fresh, wanted) if fresh else None

    async def _untaken(self, run: RunRecord, decisions: Sequence[Decision]) -> Taken:
        """Check decisions on one run; returns those that were not taken before."""
        now = await self._store.now_ms()
        sent = await self._sent(run)
        fresh: Taken = []
        for target, sent_one in decisions:
            ticket = await self._ticket(run, target)
            given = read_decision(ticket, sent_one)
            if not check_decision(ticket, given, now):
                continue
            queued = sent.get(ticket.ticket_id)
            if queued is None:
                # Stamped here: a deadline must not depend on the clock of whoever decides.
                action = DecisionAction(given.action)
                taken = msgspec.structs.replace(given, action=action, updated_at=now)
                fresh.append((ticket, taken))
            elif queued != given.decision_id:
                raise _decided(ticket)
        return fresh

    async def _sent(self, run: RunRecord) -> dict[str, str]:
        """The decisions that a run has been sent and has not taken yet, as ids by ticket."""
        inputs = await self._store.list_inputs(run.thread_id)
        newest = await self._store.find_dispatch_of_run(run.run_id)
        if newest is not None and newest.status is DispatchStatus.CLAIMED:
            # Somebody is about to continue the run with it.
            inputs = (*inputs, newest)
        return {
            ticket_id: given.decision_id
            for dispatch in inputs
            for ticket_id, given in dispatch.request.decisions
        }

    async def _ticket(self, run: RunRecord, target: str) -> Ticket:
        """The ticket of an id; inside a run its call names it as well, if only one is open."""
        ticket = await self._store.find_ticket(target)
        if ticket is None:
            tickets = await self._store.list_run_tickets(run.thread_id, run.run_id)
            ticket = find_ticket(tickets, target)
        if ticket.run_id != run.run_id:
            raise UnknownTicket(ticket_id=target)
        return ticket

    async def _commit(self, thread: Thread, taken: Taken, request: RunRequest) -> RunDispatch:
        """Mark the tickets and queue the continuation, if nobody has written meanwhile."""
        now = self._services.clock.now_ms()
        # No dedupe key: that a ticket is decided once makes the continuation come once.
        dispatch = self._dispatch(request, taken, f"@{thread.version}")
        tickets = tuple(
            msgspec.structs.replace(
                ticket, status=TicketStatus.DECIDED, decision=given, updated_at=now
            )
            for ticket, given in taken
        )
        await self._store.commit(
            Commit(
                commit_id=self._services.ids.new_id(),
                thread_id=thread.id,
                expected_version=thread.version,
                committed_at=now,
                tickets=tickets,
                enqueued=(dispatch,),
            )
        )
        await self._services.tell(SignalKind.DISPATCH_QUEUED, thread.id, dispatch.run_id)
        return dispatch

    async def _send(self, thread: Thread, taken: Taken, request: RunRequest) -> RunDispatch:
        """Queue decisions for whoever executes the run, or for whoever goes on with it."""
        sent: RunDispatch | None = None
        for ticket, given in taken:
            decided = msgspec.structs.replace(request, decisions=((ticket.ticket_id, given),))
            stored = await self._send_one(decided, (ticket, given), thread.version)
            sent = sent or stored
            # What the run gets besides the decisions, it gets once.
            request = msgspec.structs.replace(request, messages=())
        assert sent is not None
        await self._check_taken(taken)
        await self._services.tell(SignalKind.CONTROL, sent.thread_id, sent.run_id)
        await self._services.tell(SignalKind.DISPATCH_QUEUED, sent.thread_id, sent.run_id)
        return sent

    async def _send_one(
        self, request: RunRequest, taken: tuple[Ticket, ToolCallResume], version: int
    ) -> RunDispatch:
        """Queue one decision, unless another one on the same ticket is on its way.

        Raises:
            AlreadyDecided: Another one is.
        """
        ticket, _ = taken
        key = f"{TICKET_KEY}{ticket.ticket_id}"
        # The second name is for a ticket whose first decision came to nothing.
        for suffix in ("", f"@{version}"):
            dispatch = self._dispatch(request, [taken], suffix)
            keyed = msgspec.structs.replace(dispatch, dedupe_key=f"{key}{suffix}")
            try:
                stored = await self._store.enqueue(keyed)
            except DedupeConflict:
                run = await self._store.load_run(ticket.run_id)
                if run is None or ticket.ticket_id in await self._sent(run):
                    break
                continue
            if stored.status is DispatchStatus.ACKED or not stored.status.is_terminal:
                return stored
        raise _decided(ticket)

    async def _check_taken(self, taken: Taken) -> None:
        """Refuse decisions that came after others on the same tickets; the run drops them.

        Raises:
            AlreadyDecided: Another decision was taken while this one was sent.
        """
        for ticket, given in taken:
            now = await self._store.find_ticket(ticket.ticket_id)
            decided = None if now is None else now.decision
            if decided is not None and decided.decision_id != given.decision_id:
                raise _decided(ticket)

    def _dispatch(self, request: RunRequest, taken: Taken, suffix: str) -> RunDispatch:
        """The dispatch of a decision has the same name whoever sends it, so that it comes once."""
        named = digest([(ticket.ticket_id, given.decision_id) for ticket, given in taken])
        dispatch_id = f"decided:{named}{suffix}"
        return RunDispatch(
            dispatch_id=dispatch_id,
            thread_id=request.thread_id or "",
            run_id=request.continue_run_id or "",
            request=msgspec.structs.replace(request, dispatch_id=dispatch_id),
            mode=InputMode.RESUME,
            request_hash=named,
            max_attempts=self._services.config.max_attempts,
        )


def _check_decisions(decisions: Sequence[Decision]) -> None:
    if not decisions:
        raise InvalidInput(what="decisions", problem="there are none")
    for ticket_id, given in decisions:
        check_id("ticket_id", ticket_id)
        check_id("decision_id", given.decision_id)
    digest([given for _, given in decisions])


def _decided(ticket: Ticket) -> AlreadyDecided:
    return AlreadyDecided(ticket_id=ticket.ticket_id, status=TicketStatus.DECIDED.value)
