"""Decisions on suspended calls: checked all together, then the calls go on.

A decision is taken once. The same one again is harmless, a different one is refused.
"""

from collections.abc import Iterable, Sequence

import jsonschema_rs
import msgspec

from awaken.contracts.errors import AlreadyDecided, InvalidInput, UnknownTicket
from awaken.contracts.lifecycle import (
    TICKET_TRANSITIONS,
    TicketStatus,
    ToolCallStatus,
    check_transition,
)
from awaken.contracts.loop_state import TOOL_CALL_STATES
from awaken.contracts.messages import ToolCall
from awaken.contracts.suspension import DecisionAction, Ticket, ToolCallResume, ToolCallState
from awaken.contracts.tool_results import ToolResult

from .outcomes import CONTINUE, SUSPEND, StepOutcome
from .run import Run
from .tool_calls.batch import run_calls
from .tool_calls.settle import write_result

DECLINED = "The call was declined."


def check_decision(ticket: Ticket, decision: ToolCallResume) -> bool:
    """Whether the decision still has to be taken; False when exactly this one was taken before.

    Raises:
        AlreadyDecided: The ticket was decided otherwise, closed, or has expired.
        InvalidInput: The decider is not allowed, or the result does not fit the ticket's schema.
    """
    taken = ticket.decision
    if taken is not None and taken.decision_id == decision.decision_id:
        return False
    if ticket.status is not TicketStatus.OPEN:
        raise AlreadyDecided(ticket_id=ticket.ticket_id, status=ticket.status.value)
    if ticket.expires_at is not None and decision.updated_at > ticket.expires_at:
        raise AlreadyDecided(ticket_id=ticket.ticket_id, status="expired")
    if ticket.deciders is not None and decision.decided_by not in ticket.deciders:
        raise InvalidInput(what="The decision", problem="its decider may not decide this ticket")
    schema = ticket.suspension.response_schema
    if schema is not None and decision.action is DecisionAction.RESUME:
        for error in jsonschema_rs.iter_errors(schema, decision.result):
            raise InvalidInput(what="The decision's result", problem=error.message)
    return True


def find_ticket(tickets: Iterable[Ticket], target: str) -> Ticket:
    """Find a ticket of one run by its own id, its suspension's id or its call's id.

    Raises:
        UnknownTicket: None fits.
    """
    known = list(tickets)
    for name in ("ticket_id", "call_id"):
        for ticket in known:
            if getattr(ticket, name) == target:
                return ticket
    for ticket in known:
        if ticket.suspension.id and ticket.suspension.id == target:
            return ticket
    raise UnknownTicket(ticket_id=target)


def take_decisions(run: Run, decisions: Sequence[tuple[str, ToolCallResume]]) -> None:
    """Mark tickets as decided, all or none.

    Raises:
        UnknownTicket: A target fits no ticket of this run; nothing was marked.
        AlreadyDecided: A ticket was decided otherwise; nothing was marked.
    """
    found = [(find_ticket(run.tickets.values(), target), given) for target, given in decisions]
    fresh = [(ticket, given) for ticket, given in found if check_decision(ticket, given)]
    for ticket, given in fresh:
        check_transition(
            TICKET_TRANSITIONS, f"Ticket '{ticket.ticket_id}'", ticket.status, TicketStatus.DECIDED
        )
        decided = msgspec.structs.replace(
            ticket, status=TicketStatus.DECIDED, decision=given, updated_at=given.updated_at
        )
        run.tickets[ticket.call_id] = decided
        run.journal.tickets.append(decided)
        run.state.update(TOOL_CALL_STATES, (_resuming(decided, given),))


def has_decided(run: Run) -> bool:
    """Whether some suspended call can go on."""
    return any(ticket.status is TicketStatus.DECIDED for ticket in run.tickets.values())


async def replay(run: Run) -> StepOutcome:
    """Let the decided calls go on, through the same gates and the same pipeline as new ones."""
    decided = [
        ticket
        for call_id in run.open_calls
        if (ticket := run.tickets.get(call_id)) and ticket.status is TicketStatus.DECIDED
    ]
    calls: list[ToolCall] = []
    resumes: dict[str, ToolCallResume] = {}
    for ticket in decided:
        assert ticket.decision is not None
        if ticket.decision.action is DecisionAction.CANCEL:
            _decline(run, ticket, ticket.decision)
        else:
            calls.append(_edited(run.open_calls[ticket.call_id], ticket.decision))
            resumes[ticket.call_id] = ticket.decision
    if calls:
        return await run_calls(run, calls, resumes)
    return SUSPEND if run.tickets else CONTINUE


def _decline(run: Run, ticket: Ticket, decision: ToolCallResume) -> None:
    call = run.open_calls[ticket.call_id]
    result = ToolResult(
        tool_name=call.name,
        data=decision.result,
        message=None if decision.result is not None else decision.reason or DECLINED,
        metadata={},
    )
    write_result(run, call, result, decision)


def _edited(call: ToolCall, decision: ToolCallResume) -> ToolCall:
    if decision.arguments is None:
        return call
    return ToolCall(id=call.id, name=call.name, arguments=decision.arguments)


def _resuming(ticket: Ticket, decision: ToolCallResume) -> ToolCallState:
    is_resumed = decision.action is DecisionAction.RESUME
    return ToolCallState(
        call_id=ticket.call_id,
        tool_name=ticket.tool_name,
        arguments=ticket.arguments,
        status=ToolCallStatus.RESUMING if is_resumed else ToolCallStatus.CANCELLED,
        updated_at=decision.updated_at,
        resume_mode=ticket.resume_mode,
        ticket_id=ticket.ticket_id,
        suspension_id=ticket.suspension.id or None,
        suspension_reason=ticket.suspension.action or None,
        resume_input=decision,
    )
