"""Deadlines of tickets: who may decide before them, and who after."""

import asyncio
from typing import Any

import pytest

from awaken import ToolContext, tool
from awaken.contracts.errors import AlreadyDecided, InvalidInput
from awaken.contracts.lifecycle import TicketStatus
from awaken.contracts.suspension.tickets import (
    DecisionAction,
    SuspendTicket,
    Ticket,
    ToolCallResume,
)
from awaken.runtime.suspension.resume import check_decision
from awaken.testing.scripted_model import ToolCalls

from .worlds import runtime_of

TICKET = Ticket(
    ticket_id="k",
    thread_id="t",
    run_id="r",
    call_id="c",
    tool_name="x",
    expires_at=100,
    on_expiry=DecisionAction.CANCEL,
    deciders=("alice",),
)


def expiry(**fields: Any) -> ToolCallResume:
    base = {"decision_id": "expiry:k", "action": DecisionAction.CANCEL, "decided_by": "deadline"}
    return ToolCallResume(**(base | fields))


def test_the_passed_deadline_decides_although_it_is_nobody_who_may() -> None:
    assert check_decision(TICKET, expiry(), 101)


def test_the_same_expiry_again_is_harmless() -> None:
    decided = Ticket(
        ticket_id="k",
        thread_id="t",
        run_id="r",
        call_id="c",
        tool_name="x",
        status=TicketStatus.DECIDED,
        decision=expiry(),
        expires_at=100,
    )
    assert not check_decision(decided, expiry(), 200)


@pytest.mark.parametrize("now", [0, 100])
def test_before_the_deadline_nobody_can_say_that_it_has_passed(now: int) -> None:
    with pytest.raises(InvalidInput, match="deadline"):
        check_decision(TICKET, expiry(), now)


def test_after_the_deadline_nobody_else_can_decide() -> None:
    with pytest.raises(AlreadyDecided, match="expired"):
        check_decision(TICKET, ToolCallResume(decision_id="1", decided_by="alice"), 101)


@pytest.mark.parametrize(
    "wrong",
    [
        {"action": DecisionAction.RESUME},
        {"decided_by": "mallory"},
        {"result": "yes"},
        {"arguments": {"amount": 1}},
    ],
)
def test_whoever_guesses_the_id_of_the_expiry_cannot_decide_otherwise(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="its id is reserved"):
        check_decision(TICKET, expiry(**wrong), 101)


def test_a_ticket_says_what_is_decided_when_its_deadline_passes() -> None:
    @tool
    async def ask(ctx: ToolContext) -> SuspendTicket:
        return SuspendTicket(expires_at=5, on_expiry=DecisionAction.RESUME)

    async def scenario() -> Ticket:
        runtime = runtime_of(script=[ToolCalls([("ask", {})])], tools=[ask])
        (ticket,) = (await runtime.run("a", "hi")).tickets
        return ticket

    ticket = asyncio.run(scenario())
    assert (ticket.expires_at, ticket.on_expiry) == (5, DecisionAction.RESUME)
