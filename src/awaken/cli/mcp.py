"""`awaken mcp`: an MCP client talks to agents over stdin and stdout."""

import asyncio
import importlib
import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from typing import Any

from awaken.contracts.errors import RefusedInput
from awaken.protocols.mcp.protocol import MISSING_EXTRA
from awaken.services.view import TenantView

from .command_context import StoreUrl
from .command_line import new_app
from .context_option import ContextJson, read_context
from .logs import with_logs
from .reports import report_errors
from .serve_targets import DRAIN_MS, AppPlace, DrainMs, ServeTarget, load_stdio_target
from .standard_input import check_input

app = new_app()

ServeStdio = Callable[[TenantView, dict[str, Any] | None], Awaitable[None]]


@app.command()
@with_logs()
def mcp(
    app_place: AppPlace = None,
    drain_ms: DrainMs = DRAIN_MS,
    store_url: StoreUrl = None,
    context: ContextJson = None,
) -> None:
    """Serve agents as tools over the Model Context Protocol, until stdin ends.

    Nothing but the protocol is written to stdout. Threads of the store are resources. A call
    that brings a context of its own does not get that of --context.
    """
    with report_errors(is_json=False):
        check_input()
        serve, given = _load_server(), read_context(context)
        with redirect_stdout(sys.stderr):
            served = load_stdio_target(app_place, store_url)
        asyncio.run(_serve(served, serve, given, drain_ms))


async def _serve(
    served: ServeTarget, serve: ServeStdio, context: dict[str, Any] | None, drain_ms: int
) -> None:
    async with served.runtime as runtime:
        await serve(runtime.view("local"), context)
        await runtime.drain(drain_ms)


def _load_server() -> ServeStdio:
    try:
        module = importlib.import_module("awaken.protocols.mcp.agents")
    except ModuleNotFoundError as error:
        raise RefusedInput(what="mcp", problem=MISSING_EXTRA) from error
    serve: ServeStdio = module.serve_stdio
    return serve
