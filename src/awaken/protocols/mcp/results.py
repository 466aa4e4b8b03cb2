"""Converts the state of a run to the result of a tool call."""

from collections.abc import Sequence
from typing import Any

from mcp_types import CallToolResult, TextContent

from awaken.contracts.errors import AwakenError
from awaken.contracts.lifecycle import Blocked, Cancelled, Failed, RunStatus, Stopped
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.suspension.tickets import Ticket
from awaken.contracts.workflows.waits import describe_wait
from awaken.transport.problems import hide_problem_namespace, to_http_error

_STATUSES = ["completed", "failed", "cancelled", "waiting", "running"]
OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "run_id": {"type": "string"},
        "thread_id": {"type": "string", "description": "Pass it again to go on talking."},
        "status": {"enum": _STATUSES},
        "ticket_ids": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["run_id", "thread_id", "status"],
}


def result_of(
    record: RunRecord, tickets: Sequence[Ticket], waits: Sequence[Ticket] = ()
) -> CallToolResult:
    """The answer of a run, or why there is none yet."""
    status, text = _status_and_text(record, tickets, waits)
    known = {"run_id": record.run_id, "thread_id": record.thread_id, "status": status}
    asked = {"ticket_ids": [ticket.ticket_id for ticket in tickets]} if tickets else {}
    is_error = status in ("failed", "cancelled")
    content = [TextContent(text=text)]
    return CallToolResult(content=[*content], structured_content=known | asked, is_error=is_error)


def refusal(error: AwakenError, tenant_id: str | None) -> CallToolResult:
    """The result of a refused call, with a text that a model can act on."""
    problem = hide_problem_namespace(to_http_error(error), tenant_id)
    return CallToolResult(content=[TextContent(text=problem.message)], is_error=True)


def question_of(record: RunRecord) -> str:
    """The question of a run that waits for a message."""
    wanted = (record.waiting.question or record.waiting.message) if record.waiting else None
    return record.final_output or f"Run '{record.run_id}' waits for a message: {wanted}."


def _status_and_text(
    record: RunRecord, tickets: Sequence[Ticket], waits: Sequence[Ticket]
) -> tuple[str, str]:
    run = f"Run '{record.run_id}'"
    if record.awaits_message:
        return "waiting", question_of(record)
    if record.status is RunStatus.WAITING and not record.awaits_tasks:
        if waits and not tickets:
            return "waiting", " ".join(map(describe_wait, waits))
        asked = [f"{it.ticket_id} ({it.suspension.message or it.tool_name})" for it in tickets]
        return "waiting", f"{run} waits for a decision on: {'; '.join(asked)}"
    if record.status is not RunStatus.DONE:
        return "running", f"{run} continues; this call does not follow it any more."
    return _end(record)


def _end(record: RunRecord) -> tuple[str, str]:
    match record.termination:
        case Failed(message=why) | Blocked(reason=why):
            return "failed", f"The run failed: {why}"
        case Cancelled(cause=cause):
            return "cancelled", f"The run was cancelled ({cause})."
        case Stopped(reason=stopped) if not record.final_output:
            return "completed", f"(stopped: {stopped.code})"
    return "completed", record.final_output or "(no response)"
