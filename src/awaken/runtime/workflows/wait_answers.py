"""What a step gets that has waited: an event, a decision, or that its time is over."""

from awaken.contracts.messages.message import ToolCall
from awaken.contracts.suspension.tickets import DecisionAction, ToolCallResume
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.workflows.steps import StepKind

from .event_queue import WaitingEvent
from .step_errors import TIMED_OUT
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


def edit_call(call: ToolCall, resume: ToolCallResume | None) -> ToolCall:
    """Return a call with the arguments that a decider gave it."""
    if resume is None or resume.arguments is None or resume.action is not DecisionAction.RESUME:
        return call
    return ToolCall(id=call.id, name=call.name, arguments=resume.arguments)
