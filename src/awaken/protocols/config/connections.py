"""Routes of what a configuration connects to, and of what its agents may name."""

import msgspec

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.config.connections import LoginPage
from awaken.contracts.config.errors import UnknownConfigRecord
from awaken.contracts.errors import AwakenError, InvalidInput
from awaken.managed.configuration import ManagedConfig
from awaken.outbound.credentials import is_confidential
from awaken.redaction import remove_secrets
from awaken.transport.asgi import Bytes, Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall

from .bodies import LoginReply, TestQuery

RETURN_PATH = "/console/mcp-login"
"""The page of the console that an authorization server sends the browser back to."""


class ConnectionRoutes:
    """The operations on connections of this process."""

    def __init__(self, managed: ManagedConfig) -> None:
        self._managed = managed
        self._connections = managed.inspection.connections

    async def list_capabilities(self, _call: RouteCall) -> Reply:
        """List what agents may name: tools, plugins, skills, models, providers and namespaces."""
        found = await self._managed.inspection.capabilities.list_capabilities()
        models = await self._managed.records.list_records("models")
        kinds = self._managed.parts.kinds
        return as_json(
            {
                **found,
                "models": [it.wire for it in models if not it.meta.is_hidden],
                "namespaces": [
                    {"namespace": name, "schema": kinds[name].wire_schema} for name in sorted(kinds)
                ],
            }
        )

    async def test_provider(self, call: RouteCall) -> Reply:
        """Test whether a provider can be used here; `call=true` makes one tiny call."""
        query: TestQuery = call.query
        provider_id = call.path["provider_id"]
        return as_json(await self._connections.test_provider(provider_id, is_called=query.call))

    async def get_server(self, call: RouteCall) -> Reply:
        """Get the state of the connection to an MCP server."""
        return as_json(self._connections.show_server(call.path["server_id"]))

    async def get_inventory(self, call: RouteCall) -> Reply:
        """List the tools, prompts and resources of an MCP server."""
        server_id = call.path["server_id"]
        try:
            return as_json(await self._connections.list_inventory(server_id))
        except TimeoutError:
            message = f"MCP server '{server_id}' did not answer in time."
            raise HttpError(504, "server_timeout", message) from None

    async def restart_server(self, call: RouteCall) -> Reply:
        """Disconnect from an MCP server and connect again."""
        server_id = call.path["server_id"]
        self._connections.show_server(server_id)
        await self._managed.audit.record(
            AuditAction.RESTART,
            f"mcp-servers/{server_id}",
            actor=call.actor,
            ip=call.client,
            request_id=call.request_id or None,
        )
        await self._connections.restart_server(server_id)
        return Bytes(202)

    async def begin_login(self, call: RouteCall) -> Reply:
        """Begin a login to an MCP server; its reply comes to the console that asked for it."""
        server_id, redirect = call.path["server_id"], _find_redirect(call)
        try:
            address = await self._connections.begin_login(server_id, _caller_of(call), redirect)
        except (InvalidInput, UnknownConfigRecord):
            raise
        except AwakenError as error:
            raise HttpError(502, "login_failed", remove_secrets(str(error))) from None
        return as_json(LoginPage(address=address))

    async def complete_login(self, call: RouteCall) -> Reply:
        """Complete the login to an MCP server that the caller began, and connect with it."""
        server_id, reply = call.path["server_id"], call.body
        assert isinstance(reply, LoginReply)
        given = {it: value for it, value in msgspec.to_builtins(reply).items() if value is not None}
        try:
            await self._connections.complete_login(server_id, _caller_of(call), given)
        except (InvalidInput, UnknownConfigRecord):
            raise
        except AwakenError as error:
            raise HttpError(502, "login_failed", remove_secrets(str(error))) from None
        await self._managed.audit.record(
            AuditAction.LOGIN,
            f"mcp-servers/{server_id}",
            actor=call.actor,
            ip=call.client,
            request_id=call.request_id or None,
        )
        return Bytes(204)

    async def get_remote(self, call: RouteCall) -> Reply:
        """Get what the last read of a remote registry gave."""
        return as_json(self._connections.show_remote(call.path["registry_id"]))


def _find_redirect(call: RouteCall) -> str:
    """Where the browser comes back to: the console that sent the request, and no other place.

    Raises:
        HttpError: The request is not from a page, or the page's address is not confidential.
    """
    origin = call.headers.get("origin", "")
    is_own = origin.partition("://")[2].lower() == call.headers.get("host", "").lower()
    if not is_own or not is_confidential(origin):
        message = "A login begins on a page of this server's console, over https or on this machine"
        raise HttpError(400, "no_console", f"{message}; or use `awaken mcp-login`.")
    return f"{origin}{call.scope.get('root_path', '')}{RETURN_PATH}"


def _caller_of(call: RouteCall) -> str:
    """Who a login belongs to: the token, and its tenant."""
    return f"{call.principal.tenant_id or ''}/{call.principal.id}"
