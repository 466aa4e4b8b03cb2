"""What a waiting run gets in a replay: the decisions and messages that the recorded run got."""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from awaken.contracts.evals.recordings import RecordedCall, RecordedDecision, RecordedStep
from awaken.contracts.evals.replays import ReplaySpec
from awaken.contracts.evals.worlds import OnQuestion, PlannedDecision
from awaken.contracts.messages.message import Message
from awaken.contracts.suspension.tickets import DecisionAction, Ticket, ToolCallResume

from .recorded_tools import is_subset

FindCall = Callable[[Ticket], RecordedCall | None]
"""Returns the recorded call that the call of a ticket is matched with."""


class NextInput(msgspec.Struct, frozen=True):
    """What continues a waiting run."""

    decisions: tuple[tuple[str, ToolCallResume], ...] = ()
    messages: tuple[Message, ...] = ()
    agent_id: str | None = None
    """The agent that the messages named."""


def choose_input(
    spec: ReplaySpec,
    tickets: Iterable[Ticket],
    step: RecordedStep | None,
    steps: Mapping[int, RecordedStep],
    find_call: FindCall | None = None,
) -> NextInput | None:
    """Return what continues a run that waits in a recorded step; None if it goes on waiting.

    Planned decisions come first, then those of the recording, in the groups in which they took
    effect, then a message that came instead of a decision, then `on_question`. A recorded decision
    is found by the id of its call, or with `find_call`: a live model gives its calls other ids.
    """
    waiting = [it for it in tickets if it.decision is None]
    planned = [(it.ticket_id, find_planned(spec.decisions, it)) for it in waiting]
    if given := tuple((name, it) for name, it in planned if it is not None):
        return NextInput(given)
    after = None if step is None else steps.get(step.n + 1)
    matched = [(it, find_call(it) if find_call else _find_call(step, it)) for it in waiting]
    known = {it.ticket_id: found for it, call in matched if (found := find_recorded(call, it))}
    if known:
        first = min(it.activation for it in known.values())
        chosen = {
            ticket_id: it.decision
            for ticket_id, it in known.items()
            if it.activation == first and it.decision is not None
        }
        is_last = len(chosen) == len(waiting) and not any(asks_more(c, it) for it, c in matched)
        if is_last and after is not None and after.resumed_as is not None:
            # A message that came with the decision may have named another agent.
            return NextInput(tuple(chosen.items()), after.inputs, after.resumed_as)
        return NextInput(tuple(chosen.items()))
    if after is not None and after.inputs:
        return NextInput((), after.inputs, after.resumed_as)
    if spec.on_question is OnQuestion.STOP or not waiting:
        return None
    action = DecisionAction.RESUME
    if spec.on_question is OnQuestion.DENY:
        action = DecisionAction.CANCEL
    return NextInput(
        tuple((it.ticket_id, build_decision(it, action, result=True)) for it in waiting)
    )


def is_settled(step: RecordedStep | None, tickets: Iterable[Ticket]) -> bool:
    """Whether all questions are decided, and the recorded calls of the step asked no other one.

    A message that came instead of the next decision would come too early.
    """
    return all(
        it.decision is not None and not asks_more(_find_call(step, it), it) for it in tickets
    )


def asks_more(call: RecordedCall | None, ticket: Ticket) -> bool:
    """Whether a recorded call asked another question after that of a ticket."""
    return call is not None and len(call.decisions) > len(ticket.answered) + 1


def find_planned(planned: Iterable[PlannedDecision], ticket: Ticket) -> ToolCallResume | None:
    """Return the first planned decision that fits the call of a ticket."""
    for it in planned:
        is_fit = it.when is None or is_subset(it.when, ticket.arguments)
        if it.tool == ticket.tool_name and is_fit:
            return build_decision(ticket, it.action, it.result)
    return None


def build_decision(ticket: Ticket, action: DecisionAction, result: object) -> ToolCallResume:
    """Return a decision on a ticket, under an id that follows from it."""
    is_taken = action is DecisionAction.RESUME
    return ToolCallResume(
        decision_id=f"world {ticket.ticket_id}", action=action, result=result if is_taken else None
    )


def _find_call(step: RecordedStep | None, ticket: Ticket) -> RecordedCall | None:
    calls = () if step is None else step.calls
    asked = ticket.call_id, ticket.tool_name
    return next((it for it in calls if (it.id, it.tool) == asked), None)


def find_recorded(call: RecordedCall | None, ticket: Ticket) -> RecordedDecision | None:
    """Return the recorded decision on the question of a ticket, if it was decided."""
    place = len(ticket.answered)
    if call is None or place >= len(call.decisions):
        return None
    found = call.decisions[place]
    is_same = found.question.asked_by == ticket.asked_by
    is_taken = found.decision is not None and found.activation > 0
    return found if is_same and is_taken else None
