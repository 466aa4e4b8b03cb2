"""Agents as tools: a model asks another agent by calling it.

Knows how a delegate's answer, question or failure becomes a tool result; who runs the delegate,
and where, is the business of `ToolContext.sub_runs`.
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
from .results import json_form

DESCRIPTION_CHARACTERS = 100
"""How much of a delegate's instructions stands in for a description that it lacks."""
TIMEOUT_SECONDS = 24 * 60 * 60
"""A delegate has limits of its own; this one only ends what nobody waits for any more."""

_ID_CHARACTERS = 54  # What `agent_run_` leaves of the 64 that every model vendor takes.


class AgentTool(FunctionTool[..., Awaitable[ToolResult]]):
    """A tool that has another agent answer, and waits until it ended or needs something.

    A call that is run again, after a crash or with a decision, finds the delegate that it has
    started; it never starts a second one.
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
        super().__init__(self._asked, options)

    async def _asked(self, prompt: str, ctx: ToolContext) -> ToolResult:
        """Ask the agent, or pass a decision on to it when the call goes on.

        Args:
            prompt: What the agent should do. It sees nothing else of this conversation.
            ctx: The call.
        """
        return await delegated(Delegation(agent_id=self.agent_id, prompt=prompt), ctx)


async def delegated(delegation: Delegation, ctx: ToolContext) -> ToolResult:
    """Have another agent answer a call; what was decided on the call is passed on to it.

    The result is its answer, its question, or why it could not be asked.
    """
    ctx.progress(ProgressStatus.RUNNING)
    asked = msgspec.structs.replace(delegation, answer=ctx.resume)
    progress, message = ProgressStatus.FAILED, None
    try:
        answer = await ctx.sub_runs.delegate(asked)
        progress, message = _progress(answer.status), answer.message
        return _result(answer, asked.prompt, ctx)
    except (ExecutionBackendError, UsageError) as error:
        message = str(error)
        return ToolResult.error(ctx.tool_name, message, code=error.code)
    except asyncio.CancelledError:
        progress = ProgressStatus.CANCELLED
        raise
    finally:
        ctx.progress(progress, message)


def description_of(spec: AgentSpec | None) -> str:
    """What an agent says of itself, or else how its instructions begin."""
    if spec is None:
        return ""
    return spec.description.strip() or spec.system_prompt.strip()[:DESCRIPTION_CHARACTERS]


def delegate_tool_id(agent_id: str) -> str:
    """The id of an agent's tool; what a tool id may not have is replaced, always the same way."""
    slug = re.sub(r"[^A-Za-z0-9_-]", "_", agent_id)[:_ID_CHARACTERS]
    return f"agent_run_{slug}"


def _check_prompt(prompt: str) -> None:
    if not prompt.strip():
        message = "'prompt' must not be empty"
        raise ValueError(message)


def _progress(status: BackendRunStatus) -> ProgressStatus:
    match status:
        case BackendRunStatus.COMPLETED:
            return ProgressStatus.DONE
        case BackendRunStatus.CANCELLED:
            return ProgressStatus.CANCELLED
        case _:
            return ProgressStatus.PENDING if status.is_waiting else ProgressStatus.FAILED


def _result(answer: BackendRunResult, prompt: str, ctx: ToolContext) -> ToolResult:
    name, data = ctx.tool_name, _payload(answer)
    known = {"child_run_id": answer.run_id} if answer.run_id else {}
    if answer.status is BackendRunStatus.COMPLETED:
        return ToolResult(tool_name=name, data=data, metadata=known, usage=answer.usage)
    if answer.status.is_waiting:
        # What it has used is counted when it has ended, and then all of it.
        waiting = ToolResult.suspended(name, _ticket(answer, prompt, ctx))
        return msgspec.structs.replace(waiting, data=data, metadata=known)
    return ToolResult(
        tool_name=name,
        status=ToolStatus.ERROR,
        data=data,
        message=f"Agent '{answer.agent_id}' did not answer ({answer.shown_status}).",
        metadata={"code": f"delegate_{answer.status}", **known},
        usage=answer.usage,
    )


def _payload(answer: BackendRunResult) -> dict[str, Any]:
    # The text is the response already, and the raw answer is all of it once more.
    output = msgspec.structs.replace(answer.output, text=None, raw=None)
    return {
        "agent_id": answer.agent_id,
        "status": answer.shown_status,
        "response": answer.text,
        "output": json_form(output),
        "steps": answer.steps,
    }


def _ticket(answer: BackendRunResult, prompt: str, ctx: ToolContext) -> SuspendTicket:
    call_id = ctx.call_id.strip() or ctx.tool_name
    reason = answer.status.status_reason(answer.termination)
    asked = answer.tickets[0].suspension if len(answer.tickets) == 1 else Suspension()
    return SuspendTicket(
        suspension=Suspension(
            id=f"delegate_run:{answer.run_id}" if answer.run_id else "delegate_tool",
            action=f"agent_delegate:{reason}",
            message=answer.message or reason.replace("_", " "),
            parameters={
                "agent_id": answer.agent_id,
                "backend_status": answer.shown_status,
                "child_run_id": answer.run_id or None,
                "tool_call_id": call_id,
                **_questions(answer),
            },
            response_schema=asked.response_schema,
            choices=asked.choices,
        ),
        pending=PendingToolCall(id=call_id, name=ctx.tool_name, arguments={"prompt": prompt}),
        resume_mode=ResumeMode.PASS_DECISION_TO_TOOL,
        asks=asks_of_delegate(answer),
    )


def asks_of_delegate(answer: BackendRunResult) -> Asks:
    """What a delegate wants to hear: it is told what is decided on its caller's ticket."""
    match answer.tickets:
        case ():
            # It waits for a message, and is told whatever is said.
            return Asks.ANSWER
        case (asked,):
            return asked.asked
        case _:
            return Asks.EITHER


def _questions(answer: BackendRunResult) -> dict[str, Any]:
    """What the delegate asks: a decision is passed on only as long as it asks just that."""
    return {"ticket_ids": [it.ticket_id for it in answer.tickets]} if answer.tickets else {}
