"""Decisions on suspended calls: all are checked together, then the calls continue.

A ticket gets one decision. Repeating it is harmless, a different one is refused.
"""

import logging
from collections.abc import Iterable, Sequence

import msgspec

from awaken.authoring.json_schemas import JsonSchema
from awaken.authoring.refusals import truncate_text
from awaken.contracts.errors import AlreadyDecided, InvalidInput, LimitExceeded
from awaken.contracts.lifecycle import Blocked, TicketStatus
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.plugins.loop_state import TOOL_CALL_STATES
from awaken.contracts.storage.dispatch import RunDispatch
from awaken.contracts.suspension.errors import ArgumentsChanged
from awaken.contracts.suspension.ticket_names import find_ticket
from awaken.contracts.suspension.tickets import (
    DEADLINE,
    DecisionAction,
    ResumeMode,
    Ticket,
    ToolCallResume,
    ToolCallState,
)
from awaken.contracts.suspension.verdicts import read_decision
from awaken.runtime.journal.outcomes import Finish, StepOutcome
from awaken.runtime.plugins.input_screens import look_at_decision
from awaken.runtime.run import Run
from awaken.runtime.spending.questions import apply_answer, spread_answers
from awaken.runtime.tools.batch import run_calls

logger = logging.getLogger(__name__)
_FRAME_BYTES = 1_000
"""What the record of an answer has besides what the decider gave."""


def check_decision(ticket: Ticket, decision: ToolCallResume, now_ms: int) -> bool:
    """Whether the decision still has to be taken; False when exactly this one was taken before.

    Raises:
        AlreadyDecided: The ticket was decided otherwise, closed, or has expired.
        ArgumentsChanged: The decision is on other arguments than the ticket's.
        InvalidInput: The decider is not allowed, the action or the mode is unknown, the result
            does not fit the ticket's schema, or `remember.pattern` is not a pattern.
    """
    if ticket.decision is not None and ticket.decision.is_same(decision):
        return False
    _check_words(decision)
    if ticket.status is not TicketStatus.OPEN:
        raise AlreadyDecided(ticket_id=ticket.ticket_id, status=ticket.status.value)
    if decision.decision_id == expiry_id(ticket.ticket_id):
        return _is_due(ticket, decision, now_ms)
    if ticket.expires_at is not None and now_ms > ticket.expires_at:
        raise AlreadyDecided(ticket_id=ticket.ticket_id, status="expired")
    if decision.arguments_hash not in (None, ticket.call_hash):
        raise ArgumentsChanged(ticket_id=ticket.ticket_id)
    if ticket.deciders is not None and decision.decided_by not in ticket.deciders:
        raise InvalidInput(what="The decision", problem="its decider may not decide this ticket")
    schema = ticket.suspension.response_schema
    if schema is not None and decision.action == DecisionAction.RESUME:
        violations = JsonSchema(schema, what="the response schema").violations(decision.result)
        if violations:
            raise InvalidInput(what="The decision's result", problem="; ".join(violations))
    if ticket.suspension.action.startswith("workflow:"):
        _check_size(decision)
    _check_pattern(decision)
    return True


def _check_size(decision: ToolCallResume) -> None:
    """Refuse what the journal of a workflow could not keep: its step would fail by it.

    Raises:
        LimitExceeded: It is too large.
    """
    # Only a decision on a step of a workflow needs it.
    from awaken.contracts.workflows.steps import RESULT_BYTES  # noqa: PLC0415

    parts = (decision.result, decision.arguments, decision.reason, decision.decided_by)
    size, limit = len(msgspec.json.encode(parts)), RESULT_BYTES - _FRAME_BYTES
    if size > limit:
        raise LimitExceeded(what="The decision in bytes", size=size, limit=limit)


def _check_words(decision: ToolCallResume) -> None:
    if decision.action not in tuple(DecisionAction):
        raise InvalidInput(what="The decision", problem="it neither resumes nor cancels")
    if decision.resume_mode not in (None, *ResumeMode):
        problem = f"its resume_mode is none of {', '.join(ResumeMode)}"
        raise InvalidInput(what="The decision", problem=problem)


def _check_pattern(decision: ToolCallResume) -> None:
    pattern = decision.remember.pattern if decision.remember is not None else None
    if pattern is None:
        return
    # Patterns run on RE2, which only a decision that has one must load.
    from awaken.patterns import PatternError, parse_pattern  # noqa: PLC0415

    try:
        parse_pattern(pattern)
    except PatternError as error:
        problem = truncate_text(f"at character {error.position}, {error.problem}")
        raise InvalidInput(what="remember.pattern", problem=problem) from error


def expiry_id(ticket_id: str) -> str:
    """The id of the decision that the runtime takes when a deadline has passed."""
    return f"expiry:{ticket_id}"


def _is_due(ticket: Ticket, decision: ToolCallResume, now_ms: int) -> bool:
    """Accept the runtime's own decision only after the deadline and as the ticket says."""
    if ticket.expires_at is None or now_ms <= ticket.expires_at:
        raise InvalidInput(what="The decision", problem="the ticket's deadline has not passed")
    is_own = decision.decided_by == DEADLINE and decision.action == ticket.on_expiry
    extras = (decision.result, decision.arguments, decision.resume_mode)
    if not is_own or any(it is not None for it in extras):
        # A client that guesses the id must not decide otherwise, nor in a decider's place.
        raise InvalidInput(what="The decision", problem="its id is reserved for the deadline")
    return True


def take_decisions(run: Run, decisions: Sequence[tuple[str, ToolCallResume]]) -> None:
    """Mark tickets as decided, all or none.

    Raises:
        UnknownTicket: A target fits no ticket of this run; nothing was marked.
        AmbiguousTicket: A target fits several tickets; nothing was marked.
        InvalidInput: A decision is not a clear answer; nothing was marked.
        AlreadyDecided: A ticket was decided otherwise; nothing was marked.
    """
    now = run.services.clock.now_ms()
    named = [(find_ticket(run.tickets.values(), target), given) for target, given in decisions]
    found = [(ticket, read_decision(ticket, given)) for ticket, given in named]
    fresh = [(ticket, given) for ticket, given in found if check_decision(ticket, given, now)]
    for ticket, decision in fresh:
        shown, _ = look_at_decision(run.agent.env, decision)
        given = stamp_decision(shown, now)
        decided = msgspec.structs.replace(
            ticket, status=TicketStatus.DECIDED, decision=given, updated_at=now
        )
        run.journal.tickets[decided.ticket_id] = decided
        _accept(run, decided)


def stamp_decision(decision: ToolCallResume, now_ms: int) -> ToolCallResume:
    """The decision as it is stored: a deadline must not depend on the decider's clock."""
    mode = None if decision.resume_mode is None else ResumeMode(decision.resume_mode)
    return msgspec.structs.replace(
        decision, action=DecisionAction(decision.action), resume_mode=mode, updated_at=now_ms
    )


def accept_decided(run: Run, stored: Iterable[Ticket]) -> None:
    """Apply the decisions on stored tickets to the run; decisions are stored only there."""
    for ticket in stored:
        known = run.tickets.get(ticket.call_id)
        is_same = known is not None and known.ticket_id == ticket.ticket_id
        if known is not None and is_same and known.decision is None and ticket.decision is not None:
            _accept(run, ticket)


def _accept(run: Run, decided: Ticket) -> None:
    run.tickets[decided.call_id] = decided
    # The call is executed again, and so are the hooks before it.
    run.step.hooked = run.step.hooked - {decided.call_id}
    run.state.update(TOOL_CALL_STATES, (ToolCallState.of(decided),))
    run.inbox.signal.ring()


def list_undecided(
    dispatch: RunDispatch, tickets: Iterable[Ticket]
) -> tuple[tuple[str, ToolCallResume], ...]:
    """The decisions of a dispatch that are not at their tickets: earlier versions only queued them.

    All others were taken when they were queued, and are found at their tickets.
    """
    opened = {ticket.ticket_id for ticket in tickets if ticket.decision is None}
    return tuple(it for it in dispatch.request.decisions if it[0] in opened)


def has_decided(run: Run) -> bool:
    """Whether a suspended call can continue."""
    return any(ticket.status is TicketStatus.DECIDED for ticket in run.tickets.values())


async def replay(run: Run) -> StepOutcome:
    """Continue the decided calls, through the same gates and the same pipeline as new ones."""
    await _share_answers(run)
    if (stopped := await apply_answer(run)) is not None:
        return Finish(termination=stopped)
    calls: list[ToolCall] = []
    resumes: dict[str, ToolCallResume] = {}
    for call_id in run.open_calls:
        ticket = run.tickets.get(call_id)
        if ticket is not None and ticket.decision is not None:
            # Screened here, because an operator's process has no agents and cannot screen it.
            decision, blocked = look_at_decision(run.agent.env, ticket.decision)
            if blocked is not None:
                return Finish(termination=Blocked(reason=blocked))
            calls.append(_build_resumed_call(ticket, decision))
            resumes[call_id] = decision
    return await run_calls(run, calls, resumes)


async def _share_answers(run: Run) -> None:
    """Store a ticket's decision also for the other tickets that ask the same question."""
    thread_id, run_id = run.identity.thread_id, run.identity.run_id
    while answers := spread_answers(run.tickets.values()):
        if run.journal.tickets:
            # A ticket is decided in the store, so it has to be there.
            await run.flush()
        try:
            await run.store.decide(thread_id, run_id, answers)
        except AlreadyDecided as error:
            # One of them has just been decided, and keeps that, or the run is being cancelled.
            logger.info("An answer is not shared in run '%s': %s", run_id, error)
        accept_decided(run, await run.store.list_run_tickets(thread_id, run_id))
        if spread_answers(run.tickets.values()) == answers:
            return


def _build_resumed_call(ticket: Ticket, decision: ToolCallResume) -> ToolCall:
    """The call as it was suspended, or with the arguments that the decider edited."""
    # Declining a call does not change its arguments.
    edited = decision.arguments if decision.action is DecisionAction.RESUME else None
    arguments = ticket.arguments if edited is None else edited
    return ToolCall(id=ticket.call_id, name=ticket.tool_name, arguments=arguments)
