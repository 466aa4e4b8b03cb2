"""The MCP server for the agents of a view: tools, tasks, resources, log level, and stdio."""

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stdout
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from awaken.contracts.errors import AwakenError, UnknownAgent
from awaken.services.view import TenantView
from awaken.transport.routes import Access

from .callers import Caller, Context, Link, caller_of
from .calls import INPUT_SCHEMA, AgentCall, find_input_schema, forget, handle_cancelled
from .protocol import McpSettings
from .resources import list_templates, list_threads, read_thread
from .results import OUTPUT_SCHEMA, refusal
from .tasks import (
    TASKS,
    TaskParams,
    cancel_task,
    get_task,
    may_be_task,
    new_task,
    update_task,
)

Answer = types.CallToolResult | types.InputRequiredResult | dict[str, Any]


async def serve_stdio(view: TenantView, context: dict[str, Any] | None = None) -> None:
    """Serve the process's own stdin and stdout until the client closes them.

    The client that started the process may do everything. `context` is the context of runs whose
    call brings none.
    """
    server = agent_server(McpSettings(), Caller(view, frozenset(Access), Link(), context))
    async with stdio_server() as (read, write):
        # Otherwise stdout buffers what tools print, and writes it after the protocol has ended.
        with redirect_stdout(sys.stderr):
            await server.run(read, write, server.create_initialization_options())


def agent_server(settings: McpSettings, pipe: Caller | None = None) -> Server[Any]:
    """Make a server for any number of clients; `pipe` is the caller of requests over stdio."""

    @asynccontextmanager
    async def lifespan(_: Server[Any]) -> AsyncIterator[Any]:
        yield pipe

    # The package imports this module, so its version is read only when it is needed.
    version: str = importlib.import_module("awaken").__version__
    server: Server[Any] = Server(
        "awaken",
        version=version,
        lifespan=lifespan,
        get_tool_input_schema=lambda _: INPUT_SCHEMA,
        on_list_tools=_list_agents,
        on_list_resources=list_threads,
        on_list_resource_templates=list_templates,
        on_read_resource=read_thread,
    )
    add, call = server.add_request_handler, partial(_call_agent, settings.patience_ms / 1000)
    add("tools/call", types.CallToolRequestParams, call)
    add("logging/setLevel", types.SetLevelRequestParams, _set_level)
    add("tasks/get", TaskParams, get_task)
    add("tasks/update", TaskParams, update_task)
    add("tasks/cancel", TaskParams, cancel_task)
    server.extensions[TASKS] = {}
    note = types.CancelledNotificationParams
    server.add_notification_handler("notifications/cancelled", note, handle_cancelled)
    return server


async def _list_agents(
    ctx: Context, _params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    """List the current agents as tools."""
    tools = [
        types.Tool(
            name=agent_id,
            description=agent.spec.description or f"Talk to the agent '{agent_id}'.",
            input_schema=find_input_schema(agent),
            output_schema=OUTPUT_SCHEMA,
            # Beside `_meta.context`, which a call has.
            _meta=None if agent.context is None else {"context_schema": agent.context.schema},
        )
        for agent_id, agent in (await caller_of(ctx).view.agents()).items()
    ]
    return types.ListToolsResult(tools=tools)


async def _call_agent(
    patience_s: float, ctx: Context, params: types.CallToolRequestParams
) -> Answer:
    try:
        await caller_of(ctx).view.agent(params.name)
    except UnknownAgent as error:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}") from error
    except AwakenError as error:
        return refusal(error, caller_of(ctx).view.tenant_id)
    try:
        answer = await _answer(AgentCall(ctx, params), ctx, patience_s)
    except AwakenError as error:
        answer = refusal(error, caller_of(ctx).view.tenant_id)
    except Exception:
        forget(ctx)
        raise
    forget(ctx)
    return answer


async def _answer(call: AgentCall, ctx: Context, patience_s: float) -> Answer:
    run_id = await call.begin()
    try:
        async with asyncio.timeout(patience_s if may_be_task(ctx) else None):
            return await call.finish(run_id)
    except TimeoutError:
        return new_task(await caller_of(ctx).view.run(run_id))


async def _set_level(ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
    caller_of(ctx).link.log_level = params.level
    return types.EmptyResult()
