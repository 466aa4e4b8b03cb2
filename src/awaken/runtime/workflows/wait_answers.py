"""What a step gets that has waited: an event, a decision, or that its time is over."""

import math
from collections.abc import Iterable, Mapping

import msgspec

from awaken.contracts.messages.message import ToolCall
from awaken.contracts.suspension.tickets import (
    DEADLINE,
    DecisionAction,
    SuspendTicket,
    Ticket,
    ToolCallResume,
)
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import ToolOutput
from awaken.contracts.workflows.steps import StepKind, read_path

from .event_queue import WaitingEvent
from .step_errors import DECLINED, TIMED_OUT
from .step_journal import WorkflowStep


def build_answer(
    step: WorkflowStep, event: WaitingEvent | None, resume: ToolCallResume | None
) -> ToolResult:
    """Return the result of a step that waited."""
    name = step.name
    is_no = resume is not None and resume.action is DecisionAction.CANCEL
    if step.kind is StepKind.APPROVE and resume is not None:
        data = {
            "is_approved": not is_no,
            "decided_by": resume.decided_by,
            "reason": resume.reason,
            "result": resume.arguments if resume.result is None else resume.result,
        }
        return ToolResult(tool_name=name, data=data)
    if event is not None:
        known = {"event_id": event.message_id}
        return ToolResult(tool_name=name, data=event.payload, metadata=known)
    if is_no:
        return ToolResult.error(name, "no event came in time", code=TIMED_OUT)
    return ToolResult(tool_name=name, data=None)


def read_refusal(name: str, output: ToolOutput, resume: ToolCallResume | None) -> ToolOutput:
    """A call that a person declined, or that no answer came for in time, fails its step."""
    if resume is None or resume.action is not DecisionAction.CANCEL:
        return output
    code = TIMED_OUT if resume.decided_by == DEADLINE else DECLINED
    text = resume.reason or "The call was declined."
    return ToolOutput(result=ToolResult.error(name, text, code=code))


def limit_wait(output: ToolOutput, due_ms: int) -> ToolOutput:
    """Let the ticket of a call end with the timeout of its step."""
    wanted = output.result.suspension or SuspendTicket()
    expires_at = due_ms if wanted.expires_at is None else min(due_ms, wanted.expires_at)
    wanted = msgspec.structs.replace(wanted, expires_at=expires_at, on_expiry=DecisionAction.CANCEL)
    result = msgspec.structs.replace(output.result, suspension=wanted)
    return msgspec.structs.replace(output, result=result)


def edit_call(call: ToolCall, resume: ToolCallResume | None) -> ToolCall:
    """Return a call with the arguments that a decider gave it."""
    if resume is None or resume.arguments is None or resume.action is not DecisionAction.RESUME:
        return call
    return ToolCall(id=call.id, name=call.name, arguments=resume.arguments)


def sort_answers(paths: Iterable[str], tickets: Mapping[str, Ticket]) -> list[str]:
    """Return the paths of steps in the order in which they are answered: when due, then by path.

    `tickets` are those of the run, by call id. A decision of a person counts from when it was
    made. What is not decided comes last.
    """
    due: dict[str, int] = {}
    for call_id, ticket in tickets.items():
        if ticket.decision is not None:
            is_timer = ticket.decision.decided_by == DEADLINE
            known = ticket.expires_at if is_timer else ticket.updated_at
            due[read_path(call_id)] = known or 0

    def rank(path: str) -> tuple[float, tuple[int, ...]]:
        return due.get(path, math.inf), tuple(map(int, path.split(".")))

    return sorted(paths, key=rank)
