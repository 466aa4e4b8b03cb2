"""`awaken acp`: an editor talks to an agent over stdin and stdout."""

import asyncio
import sys
from typing import Annotated, Any, TextIO

import typer

from awaken import __version__
from awaken.bootstrap.session_servers import session_servers_of
from awaken.protocols.acp.sessions import Sessions
from awaken.protocols.acp.stdio import claim_stdout, load_sdk, serve, stdio_streams

from .command_context import StoreUrl
from .command_line import new_app
from .context_option import ContextJson, read_context
from .logs import with_logs
from .reports import report_errors
from .serve_targets import DRAIN_MS, AppPlace, DrainMs, ServeTarget, load_stdio_target
from .standard_input import check_input, check_pipes

app = new_app()


@app.command()
@with_logs()
def acp(
    app_place: AppPlace = None,
    agent_id: Annotated[
        str | None,
        typer.Option("--agent", help="The agent; absent: 'default', else the only agent."),
    ] = None,
    drain_ms: DrainMs = DRAIN_MS,
    store_url: StoreUrl = None,
    context: ContextJson = None,
) -> None:
    """Serve one agent over the Agent Client Protocol, until stdin ends.

    Nothing but the protocol is written to stdout. Sessions are threads of the store. A prompt
    that brings a context of its own does not get that of --context.
    """
    output = claim_stdout()
    with report_errors(is_json=False):
        load_sdk()
        check_input()
        check_pipes(sys.stdin.fileno(), output.fileno())
        given = read_context(context)
        served = load_stdio_target(app_place, store_url)
        asyncio.run(_serve(served, agent_id, given, drain_ms, output))


async def _serve(
    served: ServeTarget,
    agent_id: str | None,
    context: dict[str, Any] | None,
    drain_ms: int,
    output: TextIO,
) -> None:
    async with served.runtime as runtime:
        open_tools = session_servers_of(runtime).open
        view = runtime.view("local")
        sessions = Sessions(view, agent_id, __version__, open_tools, context=context)
        await sessions.check_context()
        await serve(sessions, await stdio_streams(output), lambda: runtime.drain(drain_ms))
