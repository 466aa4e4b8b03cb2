"""Agents as tools: a model delegates to another agent by calling a tool.

This module converts a delegate's answer, question or failure into a tool result;
`ToolContext.sub_runs` runs the delegate.
"""

import asyncio
import re
from collections.abc import Awaitable
from typing import Any

import msgspec

from awaken.contracts.backend_results import BackendRunResult, BackendRunStatus
from awaken.contracts.backends.errors import ExecutionBackendError
from awaken.contracts.errors import UsageError
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.suspension.tickets import (
    Asks,
    PendingToolCall,
    ResumeMode,
    SuspendTicket,
    Suspension,
)
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.context import ProgressStatus, ToolContext
from awaken.contracts.tools.sub_runs import Delegation

from .functions import FunctionTool, ToolOptions
from .results import to_json_form

DESCRIPTION_CHARACTERS = 100
"""How much of a delegate's instructions replaces a missing description."""
TIMEOUT_SECONDS = 24 * 60 * 60
"""A delegate has its own limits; this timeout only ends abandoned calls."""

_ID_CHARACTERS = 54  # Model vendors accept 64 characters, and `agent_run_` takes ten of them.


class AgentTool(FunctionTool[..., Awaitable[ToolResult]]):
    """A tool that runs another agent and waits until its run ended or waits for input.

    A call that is run again, after a crash or with a decision, finds the delegate that it started
    before; it never starts a second one.
    """

    def __init__(self, agent_id: str, description: str) -> None:
        self.agent_id = agent_id
        options: ToolOptions = {
            "id": delegate_tool_id(agent_id),
            "description": description.strip() or f"Ask the agent '{agent_id}'.",
            "effect": "idempotent",
            "kind": "execute",
            "timeout": TIMEOUT_SECONDS,
            "check": _check_prompt,
        }
        super().__init__(self._ask_agent, options)

    async def _ask_agent(self, prompt: str, ctx: ToolContext) -> ToolResult:
        """Ask the agent, or pass a decision on to it when the call continues.

        Args:
            prompt: What the agent should do. It sees nothing else of this conversation.
            ctx: The call.
        """
        return await ask_delegate(Delegation(agent_id=self.agent_id, prompt=prompt), ctx)


async def ask_delegate(
    delegation: Delegation, ctx: ToolContext, arguments: dict[str, Any] | None = None
) -> ToolResult:
    """Run another agent for a tool call; a decision on the call is passed on to it.

    The result is the delegate's answer, its question, or why it could not be run. With `arguments`,
    those of a `Delegate`, its data is the answer alone.
    """
    ctx.progress(ProgressStatus.RUNNING)
    request = msgspec.structs.replace(delegation, answer=ctx.resume)
    progress, message = ProgressStatus.FAILED, None
    try:
        answer = await ctx.sub_runs.delegate(request)
        progress, message = _to_progress(answer.status), answer.message
        shown = {"prompt": request.prompt} if arguments is None else arguments
        result = _build_result(answer, shown, ctx)
        return result if arguments is None else _with_value(result, answer)
    except (ExecutionBackendError, UsageError) as error:
        message = str(error)
        return ToolResult.error(ctx.tool_name, message, code=error.code)
    except asyncio.CancelledError:
        progress = ProgressStatus.CANCELLED
        raise
    finally:
        ctx.progress(progress, message)


def description_of(spec: AgentSpec | None) -> str:
    """The description of an agent, or else the beginning of its instructions."""
    if spec is None:
        return ""
    return spec.description.strip() or spec.system_prompt.strip()[:DESCRIPTION_CHARACTERS]


def delegate_tool_id(agent_id: str) -> str:
    """The id of an agent's tool; characters that a tool id cannot have become underscores."""
    slug = re.sub(r"[^A-Za-z0-9_-]", "_", agent_id)[:_ID_CHARACTERS]
    return f"agent_run_{slug}"


async def _check_prompt(prompt: str) -> None:
    if not prompt.strip():
        message = "'prompt' must not be empty"
        raise ValueError(message)


def _to_progress(status: BackendRunStatus) -> ProgressStatus:
    match status:
        case BackendRunStatus.COMPLETED:
            return ProgressStatus.DONE
        case BackendRunStatus.CANCELLED:
            return ProgressStatus.CANCELLED
        case _:
            return ProgressStatus.PENDING if status.is_waiting else ProgressStatus.FAILED


def _with_value(result: ToolResult, answer: BackendRunResult) -> ToolResult:
    """The result with the answer alone as its data."""
    if answer.status is not BackendRunStatus.COMPLETED:
        return result
    if answer.output.data is None:
        return msgspec.structs.replace(result, data=answer.text, message=answer.text)
    return msgspec.structs.replace(result, data=answer.output.data)


def _build_result(answer: BackendRunResult, arguments: Any, ctx: ToolContext) -> ToolResult:
    name, data = ctx.tool_name, _build_payload(answer)
    known = {"child_run_id": answer.run_id} if answer.run_id else {}
    if answer.status is BackendRunStatus.COMPLETED:
        return ToolResult(tool_name=name, data=data, metadata=known, usage=answer.usage)
    if answer.status.is_waiting:
        # Its whole usage is counted once, when it has ended.
        waiting = ToolResult.from_ticket(name, _build_ticket(answer, arguments, ctx))
        return msgspec.structs.replace(waiting, data=data, metadata=known)
    return ToolResult(
        tool_name=name,
        status=ToolStatus.ERROR,
        data=data,
        message=f"Agent '{answer.agent_id}' did not answer ({answer.status_text}).",
        metadata={"code": f"delegate_{answer.status}", **known},
        usage=answer.usage,
    )


def _build_payload(answer: BackendRunResult) -> dict[str, Any]:
    # The response already has the text, and the raw answer would repeat everything.
    output = msgspec.structs.replace(answer.output, text=None, raw=None, data=None)
    return {
        "agent_id": answer.agent_id,
        "status": answer.status_text,
        "response": answer.text,
        "output": to_json_form(output),
        "steps": answer.steps,
    }


def _build_ticket(answer: BackendRunResult, arguments: Any, ctx: ToolContext) -> SuspendTicket:
    call_id = ctx.call_id.strip() or ctx.tool_name
    reason = answer.status.status_reason(answer.termination)
    question = answer.tickets[0].suspension if len(answer.tickets) == 1 else Suspension()
    return SuspendTicket(
        suspension=Suspension(
            id=f"delegate_run:{answer.run_id}" if answer.run_id else "delegate_tool",
            action=f"agent_delegate:{reason}",
            message=answer.message or reason.replace("_", " "),
            parameters={
                "agent_id": answer.agent_id,
                "backend_status": answer.status_text,
                "child_run_id": answer.run_id or None,
                "tool_call_id": call_id,
                **_list_questions(answer),
            },
            response_schema=question.response_schema,
            choices=question.choices,
        ),
        pending=PendingToolCall(id=call_id, name=ctx.tool_name, arguments=arguments),
        resume_mode=ResumeMode.PASS_DECISION_TO_TOOL,
        asks=asks_of_delegate(answer),
    )


def asks_of_delegate(answer: BackendRunResult) -> Asks:
    """The kind of a delegate's question; the decision on the caller's ticket is passed on to it."""
    match answer.tickets:
        case ():
            # It waits for a message, so any answer is passed on.
            return Asks.ANSWER
        case (ticket,):
            return ticket.question_kind
        case _:
            return Asks.EITHER


def _list_questions(answer: BackendRunResult) -> dict[str, Any]:
    """The delegate's open tickets: a decision is passed on only while exactly these are open."""
    return {"ticket_ids": [it.ticket_id for it in answer.tickets]} if answer.tickets else {}
