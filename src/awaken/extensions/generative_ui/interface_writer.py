"""Has a delegate write an interface, and shows it while the delegate writes.

The delegate's run is durable: cancelling the calling run cancels it, and a repeated call finds it
again. The result is read from the whole answer, so that it is the same whether or not events were
received while the delegate wrote it.
"""

from collections.abc import Callable

import msgspec

from awaken.authoring.delegates import asks_of_delegate
from awaken.contracts.backend_results import BackendRunResult, BackendRunStatus
from awaken.contracts.backends.errors import ExecutionBackendError
from awaken.contracts.errors import UsageError
from awaken.contracts.events import AgentEvent, StepStart, StreamReset
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.record import Record
from awaken.contracts.suspension.tickets import PendingToolCall, SuspendTicket, Suspension
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.sub_runs import Delegation

from .readers import Interface, InterfaceReader


class Writing(Record, frozen=True, kw_only=True):
    """What to write, which agent writes it, and how it is read and shown."""

    agent_id: str
    prompt: str
    """The request of the model."""
    rules: str
    """The instructions of the format."""
    activity_type: str
    new_reader: Callable[[], InterfaceReader]


async def write_interface(
    writing: Writing, ctx: ToolContext
) -> tuple[Interface | None, ToolResult]:
    """Have the interface written; returns it with a result to complete, or None and the error."""
    preview = _Preview(writing, ctx)
    prompt = f"{writing.rules}\n\n## What to show\n\n{writing.prompt}"
    delegation = Delegation(agent_id=writing.agent_id, prompt=prompt, answer=ctx.resume)
    try:
        answer = await ctx.sub_runs.delegate(delegation, preview.on_event)
    except (ExecutionBackendError, UsageError) as error:
        return None, ToolResult.error(ctx.tool_name, str(error), code=error.code)
    if answer.status.is_waiting:
        return None, ToolResult.from_ticket(ctx.tool_name, _ticket(answer, writing, ctx))
    known = {"child_run_id": answer.run_id}
    result = ToolResult(tool_name=ctx.tool_name, metadata=known, usage=answer.usage)
    if answer.status is not BackendRunStatus.COMPLETED:
        problem = f"Agent '{answer.agent_id}' did not answer ({answer.status_text})."
        return None, _make_failure(result, f"delegate_{answer.status}", problem)
    reader = writing.new_reader()
    reader.feed(answer.text)
    interface = reader.finish()
    if interface.problem is not None:
        advice = f"{interface.problem}. Ask again, and say what was wrong"
        return None, _make_failure(result, "invalid_interface", f"Nothing can be shown: {advice}.")
    ctx.report_activity(writing.activity_type, interface.content)
    return interface, result


class _Preview:
    """Shows the part of the interface that can be read so far."""

    def __init__(self, writing: Writing, ctx: ToolContext) -> None:
        self._writing = writing
        self._ctx = ctx
        self._reader = writing.new_reader()
        self._is_shown = False

    def on_event(self, event: AgentEvent) -> None:
        match event:
            case TextDelta(delta=delta):
                self._read(delta)
            case StepStart() | StreamReset():
                # Only the last answer counts, and a reset discards what was streamed of it.
                self._reader = self._writing.new_reader()
                if self._is_shown:
                    self._ctx.report_activity(self._writing.activity_type, self._reader.preview)

    def _read(self, text: str) -> None:
        before = None if self._is_shown else self._reader.preview
        changes = self._reader.feed(text)
        if not changes:
            return
        if before is not None:
            self._ctx.report_activity(self._writing.activity_type, before)
            self._is_shown = True
        self._ctx.report_activity_delta(self._writing.activity_type, changes)


def _make_failure(result: ToolResult, code: str, message: str) -> ToolResult:
    metadata = {"code": code, **result.metadata}
    return msgspec.structs.replace(
        result, status=ToolStatus.ERROR, message=message, metadata=metadata
    )


def _ticket(answer: BackendRunResult, writing: Writing, ctx: ToolContext) -> SuspendTicket:
    reason = answer.status.status_reason(answer.termination)
    asked = answer.tickets[0].suspension if len(answer.tickets) == 1 else Suspension()
    return SuspendTicket(
        suspension=Suspension(
            id=f"delegate_run:{answer.run_id}",
            action=f"agent_delegate:{reason}",
            message=answer.message or reason.replace("_", " "),
            parameters={
                "agent_id": answer.agent_id,
                "backend_status": answer.status_text,
                "child_run_id": answer.run_id,
                "tool_call_id": ctx.call_id,
                "ticket_ids": [it.ticket_id for it in answer.tickets],
            },
            response_schema=asked.response_schema,
            choices=asked.choices,
        ),
        pending=PendingToolCall(
            id=ctx.call_id, name=ctx.tool_name, arguments={"prompt": writing.prompt}
        ),
        asks=asks_of_delegate(answer),
    )
