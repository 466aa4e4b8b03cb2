"""Routes of what a configuration connects to, and of what its agents may name."""

from awaken.contracts.config.audit import AuditAction
from awaken.managed.configuration import ManagedConfig
from awaken.transport.asgi import Bytes, Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall

from .bodies import TestQuery


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

    async def get_remote(self, call: RouteCall) -> Reply:
        """Get what the last read of a remote registry gave."""
        return as_json(self._connections.show_remote(call.path["registry_id"]))
