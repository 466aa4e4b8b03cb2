"""Runs as tasks (SEP-2663): a call that takes long is answered with a task, which is its run.

A task is as durable as a run: any process answers for it, as long as its thread exists.
"""

from datetime import UTC, datetime
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import Field

from awaken.contracts.errors import UnknownRun
from awaken.contracts.lifecycle import Cancelled, Failed, RunStatus
from awaken.contracts.messages.message import user
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.storage.dispatch import InputMode
from awaken.contracts.workflows.waits import describe_wait
from awaken.services.workflows import list_waits

from .callers import Context, caller_of, is_stateless
from .calls import build_input_requests, decide, open_tickets
from .forms import decisions_of, may_ask, message_form, message_in, select_askable
from .results import question_of, result_of

TASKS = "io.modelcontextprotocol/tasks"
_POLL_MS = 500
_BROKEN = ("dead_letter", "internal_error", "provider_broken")
"""Errors of the server: a run that no worker could start, or a bug of it or of a model client.

Other errors are results."""


class TaskParams(types.RequestParams):
    """The task, and for an update the answers to its questions."""

    task_id: str
    input_responses: dict[str, Any] = Field(default_factory=dict)


def may_be_task(ctx: Context) -> bool:
    """Whether the client accepts a task as the answer."""
    capabilities = ctx.session.client_capabilities
    declared = (capabilities.extensions if capabilities is not None else None) or {}
    return is_stateless(ctx) and TASKS in declared


def new_task(record: RunRecord) -> dict[str, Any]:
    """The answer to a call that takes long."""
    return {"resultType": "task", **_task(record, "working")}


async def get_task(ctx: Context, params: TaskParams) -> dict[str, Any]:
    """Get a task, with its result, its error, or its questions."""
    record = await _run_of(ctx, params)
    match record.status, record.termination:
        case RunStatus.DONE, Cancelled():
            return _task(record, "cancelled")
        case RunStatus.DONE, Failed(message=message, code=code) if code in _BROKEN:
            return _task(record, "failed", error={"code": types.INTERNAL_ERROR, "message": message})
        case RunStatus.DONE, _:
            return _task(record, "completed", result=_plain(result_of(record, ())))
        case RunStatus.WAITING, _ if not record.awaits_tasks:
            return await _describe_waiting(ctx, record)
    return _task(record, "working")


async def update_task(ctx: Context, params: TaskParams) -> dict[str, Any]:
    """Store the answers to a task's questions; unknown ones are ignored."""
    record = await _run_of(ctx, params)
    view = caller_of(ctx).view
    if record.awaits_message and may_ask(ctx):
        if said := message_in(params.input_responses.get(record.run_id)):
            request = RunRequest(thread_id=record.thread_id, messages=(user(said),))
            await view.send(request, InputMode.RESUME)
        return {}
    forms = select_askable(ctx, await open_tickets(view, record))
    await decide(view, record, decisions_of(forms, params.input_responses))
    return {}


async def cancel_task(ctx: Context, params: TaskParams) -> dict[str, Any]:
    """Cancel a task durably; a task that has ended does not change."""
    record = await _run_of(ctx, params)
    await caller_of(ctx).view.cancel_run(record.run_id)
    return {}


async def _run_of(ctx: Context, params: TaskParams) -> RunRecord:
    if not is_stateless(ctx):
        raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
    if not may_be_task(ctx):
        required: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        why = f"Client did not declare required extension '{TASKS}'"
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, why, required)
    name = ctx.request.headers.get("mcp-name") if ctx.request is not None else params.task_id
    if name != params.task_id:
        raise MCPError(types.HEADER_MISMATCH, "The Mcp-Name header is not the task's id")
    try:
        return await caller_of(ctx).run(params.task_id)
    except UnknownRun as error:
        raise MCPError(types.INVALID_PARAMS, "Unknown task", {"taskId": params.task_id}) from error


async def _describe_waiting(ctx: Context, record: RunRecord) -> dict[str, Any]:
    if record.awaits_message:
        question = question_of(record)
        if not may_ask(ctx):
            return _task(record, "working", statusMessage=question)
        form = _plain(types.ElicitRequest(params=message_form(question)))
        return _task(record, "input_required", inputRequests={record.run_id: form})
    tickets = await open_tickets(caller_of(ctx).view, record)
    forms = select_askable(ctx, tickets)
    if not forms:
        waits = await list_waits(caller_of(ctx).view, record)
        if waits and not tickets:
            text = " ".join(map(describe_wait, waits))
            return _task(record, "working", statusMessage=text)
        ids = ", ".join(ticket.ticket_id for ticket in tickets)
        return _task(record, "working", statusMessage=f"Another client must decide on: {ids}")
    requests = {name: _plain(request) for name, request in build_input_requests(forms).items()}
    return _task(record, "input_required", inputRequests=requests)


def _task(record: RunRecord, status: str, **more: Any) -> dict[str, Any]:
    return {
        "taskId": record.run_id,
        "status": status,
        "createdAt": _moment(record.created_at),
        "lastUpdatedAt": _moment(record.updated_at),
        "ttlMs": None,
        "pollIntervalMs": _POLL_MS,
        **more,
    }


def _plain(value: Any) -> Any:
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
