"""The question of a used-up soft budget, asked on every call that it holds back.

Each waiting call needs its own ticket; a decision on one of them applies to all.
"""

from collections.abc import Iterable

import msgspec

from awaken.contracts.lifecycle import Stopped, TicketStatus
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.models.budgets import BudgetExceeded
from awaken.contracts.plugins.plugin import Suspend
from awaken.contracts.suspension.tickets import (
    DecisionAction,
    PendingToolCall,
    SuspendTicket,
    Suspension,
    Ticket,
    ToolCallResume,
)
from awaken.runtime.plugins.loop_actions import LoopActions
from awaken.runtime.run import Run

from .ledgers import allowances, applicable, extend

ACTION = "budget"


async def question(run: Run, call: ToolCall, resume: ToolCallResume | None) -> Suspend | None:
    """Ask whether to go on when a soft budget is used up; None when the call may run."""
    soft = tuple(budget for budget in applicable(run) if budget.soft)
    if not soft or (resume is not None and resume.action is DecisionAction.CANCEL):
        return None
    used_up = [
        words for it in await allowances(run, soft) if (words := it.limit_reached) is not None
    ]
    if not used_up:
        return None
    names = ", ".join(used_up)
    suspension = Suspension(
        action=ACTION,
        message=f"A budget is used up ({names}). Continue with the same amount again?",
        parameters={"used_up": names},
    )
    pending = PendingToolCall(id=call.id, name=call.name, arguments=call.arguments)
    return Suspend(
        ticket=SuspendTicket(suspension=suspension, pending=pending, asked_by=LoopActions.name)
    )


async def apply_answer(run: Run) -> Stopped | None:
    """Apply the decision about used-up budgets: extend them, or return how the run ends."""
    decided = [it for it in _filter_questions(run.tickets.values()) if it.decision is not None]
    if not decided:
        return None
    for ticket in decided:
        if ticket.decision is not None and ticket.decision.action is DecisionAction.CANCEL:
            return Stopped(
                reason=BudgetExceeded(detail=ticket.suspension.parameters["used_up"]).reason
            )
    await extend(run, tuple(budget for budget in applicable(run) if budget.soft))
    return None


def spread_answers(tickets: Iterable[Ticket]) -> list[tuple[str, ToolCallResume]]:
    """The decisions for all open tickets that ask the same question as a decided ticket."""
    asked = _filter_questions(tickets)
    given = next((it.decision for it in asked if it.decision is not None), None)
    if given is None:
        return []
    return [
        (
            it.ticket_id,
            msgspec.structs.replace(given, decision_id=f"{given.decision_id}:{it.call_id}"),
        )
        for it in asked
        if it.status is TicketStatus.OPEN
    ]


def _filter_questions(tickets: Iterable[Ticket]) -> list[Ticket]:
    return [
        it for it in tickets if it.asked_by == LoopActions.name and it.suspension.action == ACTION
    ]
