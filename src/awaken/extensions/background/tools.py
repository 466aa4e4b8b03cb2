"""Tools that start tasks, show their status, and retry undelivered messages."""

from typing import Any

import msgspec

from awaken.authoring.functions import tool
from awaken.contracts.backends.errors import ExecutionBackendError
from awaken.contracts.errors import UsageError
from awaken.contracts.identity import normalize_id
from awaken.contracts.tasks import SUB_AGENT, TaskInfo, TaskNotFound, TaskRecord
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import InvalidArguments

from .config import check_offered, startable_agents

LISTED = 50
"""How many tasks, or messages, one answer names."""


async def _check_prompt(prompt: str) -> None:
    if not prompt.strip():
        message = "'prompt' must not be empty"
        raise ValueError(message)


@tool(effect="idempotent", kind="execute", check=_check_prompt)
async def spawn_agent(
    agent_id: str,
    prompt: str,
    ctx: ToolContext,
    name: str | None = None,
    description: str = "",
) -> Any:
    """Start one of your agents as a background task and go on without waiting for it.

    You get its result as a message.

    Args:
        agent_id: Which agent to start.
        prompt: What it should do. It sees nothing else of this conversation.
        ctx: The call.
        name: A short name to address the task by while it runs.
        description: What the task is for, in a few words.
    """
    check_offered("spawn_agent", ctx)
    startable = startable_agents(ctx.agent)
    if agent_id not in startable:
        raise InvalidArguments(f"agent_id must be one of: {', '.join(startable)}")
    task = TaskInfo(name=normalize_id(name), description=description, task_type=SUB_AGENT)
    try:
        record = await ctx.sub_runs.spawn_agent(agent_id, prompt, task)
    except (UsageError, ExecutionBackendError) as error:
        return ToolResult.error(ctx.tool_name, str(error), code=error.code)
    return {"task_id": record.task_id, "name": record.name, "status": record.status}


@tool(effect="none", kind="read")
async def task_status(ctx: ToolContext, name: str | None = None) -> Any:
    """See how your background tasks are: what runs, and what became of what has ended.

    Args:
        ctx: The call.
        name: The name or id of one task; without it all of them are listed, newest first.
    """
    check_offered("task_status", ctx)
    if (wanted := normalize_id(name)) is None:
        records = await ctx.sub_runs.list_tasks()
        shown = [_describe_task(record) for record in records[:LISTED]]
        return {"tasks": shown, "total": len(records)}
    task = await _find_task(wanted, ctx)
    if task is None:
        missing = TaskNotFound(task_id=wanted)
        return ToolResult.error(ctx.tool_name, str(missing), code=missing.code)
    return {"tasks": [_describe_task(task)], "total": 1}


@tool(effect="idempotent", kind="other")
async def recover_failed_messages(ctx: ToolContext, message_id: str | None = None) -> Any:
    """See which of your messages could not be delivered, or try one of them again.

    Args:
        ctx: The call.
        message_id: The message to try again; without it the undelivered ones are listed.
    """
    check_offered("recover_failed_messages", ctx)
    if (wanted := normalize_id(message_id)) is None:
        failed = await ctx.sub_runs.list_failed_messages()
        return {"messages": failed[:LISTED], "total": len(failed)}
    if await ctx.sub_runs.resend(wanted):
        return {"message_id": wanted, "status": "accepted"}
    return {"message_id": wanted, "status": "failed", "error": "message_not_found"}


async def _find_task(name: str, ctx: ToolContext) -> TaskRecord | None:
    """A task by its id or name; of several of one name the running one, else the newest."""
    if (found := await ctx.sub_runs.find_task(name)) is not None:
        return found
    return next((task for task in await ctx.sub_runs.list_tasks() if task.name == name), None)


def _describe_task(task: TaskRecord) -> dict[str, Any]:
    """The fields of a task that the model reads; the status also when it is the default."""
    fields = msgspec.to_builtins(task)
    shown = {field: fields[field] for field in _SHOWN_FIELDS if field in fields}
    return {"task_id": task.task_id, "status": task.status, **shown}


_SHOWN_FIELDS = (
    "name", "description", "task_type", "agent_id", "result", "error", "created_at",
    "completed_at",
)  # fmt: skip
