"""Calls of tools that an operator has disabled: answered with an error, never executed."""

from awaken.contracts.messages.message import ToolCall
from awaken.contracts.suspension.tickets import DecisionAction, ToolCallResume
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import ToolOutput
from awaken.runtime.run import Run

from .execution import ToolExecution


def refuse_disabled(
    run: Run,
    call: ToolCall,
    resume: ToolCallResume | None,
    attempt: ToolExecution | None = None,
) -> ToolOutput | None:
    """Return the answer to a call of a disabled tool; None if the call may pass.

    A call whose result is known, and one that is cancelled, is not executed, and passes.
    """
    is_known = attempt is not None and attempt.output is not None
    if is_known or (resume is not None and resume.action is DecisionAction.CANCEL):
        return None
    tool = run.agent.tools.get(call.name)
    reason = run.services.switches.current.why_tool_disabled(
        call.name, None if tool is None else tool.descriptor
    )
    if reason is None:
        return None
    return ToolOutput(result=ToolResult.error_with_code(call.name, "tool_disabled", reason))
