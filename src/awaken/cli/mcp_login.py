"""`awaken mcp-login`: an operator logs in to an MCP server that agents use."""

import asyncio
from collections.abc import Mapping
from typing import Annotated

import typer
from aiohttp import web
from yarl import URL

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.contracts.errors import InvalidInput
from awaken.extensions.mcp import McpPlugin

from .command_line import new_app
from .listen_address import ListenAddress, open_listener
from .managed_start import ManagedStart
from .output import plain, print_stdout
from .reports import report_errors
from .serve_targets import load_app_target

WAIT_S = 300
_ANOTHER = "This is not the expected login.\n"
_THANKS = "Done; continue in the terminal. You can close this page.\n"

app = new_app()


@app.command("mcp-login")
def mcp_login(
    app_place: Annotated[
        str, typer.Argument(metavar="APP", help="FILE.py with a runtime or agents.")
    ],
    server: Annotated[str, typer.Argument(metavar="SERVER", help="The MCP server's name.")],
    wait_s: Annotated[
        int, typer.Option("--wait-s", min=1, help="How long to wait for the browser.")
    ] = WAIT_S,
) -> None:
    """Log in to an MCP server whose `oauth` is a Login, and keep the login in its file.

    Prints an address to open in a browser on this machine. A running runtime finds the login.
    """
    with report_errors(is_json=False):
        served = load_app_target(app_place, None, ManagedStart(is_managed=False))
        asyncio.run(_login(_plugin_of(served.runtime, server), server, wait_s))
    print_stdout(f"Logged in to MCP server '{plain(server)}'.")


def _plugin_of(runtime: AgentRuntime, server: str) -> McpPlugin:
    registries = runtime.registry.snapshot().registries
    plugins = [*registries.plugins.values()]
    plugins += [it for source in registries.agents.values() for it in source.plugins]
    owners = {
        status.name: plugin
        for plugin in plugins
        if isinstance(plugin, McpPlugin)
        for status in plugin.status()
    }
    if server not in owners:
        known = ", ".join(map(plain, owners)) or "none"
        raise _login_error(server, f"it does not exist; known servers: {known}")
    return owners[server]


async def _login(plugin: McpPlugin, server: str, wait_s: int) -> None:
    browser = _Browser()
    try:
        async with asyncio.timeout(wait_s):
            await plugin.login(server, browser)
    except TimeoutError:
        raise _login_error(server, f"there was no login within {wait_s} s") from None
    if not browser.is_asked:
        raise _login_error(server, "it wants no login, or not before a tool is called")


def _login_error(server: str, problem: str) -> InvalidInput:
    return InvalidInput(what=f"MCP server '{plain(server)}'", problem=problem)


class _Browser:
    """Prints an address, and listens on the redirect address of the login."""

    is_asked = False

    async def __call__(self, url: str) -> Mapping[str, str]:
        """Wait for the redirect that belongs to this address; returns its query."""
        self.is_asked = True
        came: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        asked = URL(url).query
        redirect = URL(asked["redirect_uri"])

        async def receive(request: web.Request) -> web.Response:
            if came.done() or request.query.get("state") != asked["state"]:
                return web.Response(status=400, text=_ANOTHER)
            came.set_result(dict(request.query))
            return web.Response(text=_THANKS)

        serving = web.Application()
        serving.router.add_get(redirect.path, receive)
        runner = web.AppRunner(serving, access_log=None, shutdown_timeout=1)
        await runner.setup()
        try:
            place = ListenAddress(redirect.host or "", redirect.port or 0)
            await web.SockSite(runner, open_listener(place)).start()
            print_stdout(f"Open this address in a browser on this machine:\n\n  {plain(url)}\n")
            return await came
        finally:
            await runner.cleanup()
