"""Tests providers, and shows and restarts what this process is connected to."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, NoReturn

from awaken.contracts.clock import Clock
from awaken.contracts.config.connections import (
    McpInventory,
    McpServerView,
    ProviderTest,
    RemoteView,
    ServerTool,
    ToolDrift,
)
from awaken.contracts.config.errors import UnknownConfigRecord
from awaken.contracts.errors import AwakenError, Misuse
from awaken.contracts.messages.message import user
from awaken.contracts.models.errors import ModelError
from awaken.contracts.models.inference import InferenceOverride, InferenceRequest, ModelClient
from awaken.contracts.models.model_specs import ModelSpec
from awaken.extensions.mcp import McpPlugin, ServerState, ServerStatus
from awaken.redaction import remove_secrets
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.services.discovery import Discovery

from .mcp_logins import McpLogins
from .providers import (
    ProviderClient,
    apply_base_url,
    find_key,
    find_missing_extra,
    find_missing_settings,
)

CALL_S = 30
INVENTORY_S = 10
ANSWER_TOKENS = 16
_SHOWN_CHARS = 500


class RuntimeConnections:
    """Implements `ConfigConnections` for one runtime."""

    def __init__(self, registry: RegistryHandle, discovery: Discovery, clock: Clock) -> None:
        self._registry = registry
        self._discovery = discovery
        self._clock = clock
        self._logins = McpLogins()

    async def test_provider(self, provider_id: str, *, is_called: bool) -> ProviderTest:
        """Check the settings of a provider; with `is_called` make one tiny call to it as well."""
        registries = self._registry.snapshot().registries
        client = registries.providers.get(provider_id)
        if client is None:
            raise UnknownConfigRecord(namespace="providers", record_id=provider_id)
        started, error = self._clock.monotonic_ms(), _find_setting_problem(client)
        if error is None and is_called:
            models = [it for it in registries.models.values() if isinstance(it, ModelSpec)]
            named = next((it for it in models if it.provider_id == provider_id), None)
            error = await _call(client, named)
        return ProviderTest(
            ok=error is None,
            latency_ms=self._clock.monotonic_ms() - started,
            network_tested=is_called,
            error=None if error is None else remove_secrets(error)[:_SHOWN_CHARS],
        )

    async def try_server(self, server: Any) -> str | None:
        """Connect to an MCP server that is not configured yet; returns why that failed, or None."""
        try:
            plugin = McpPlugin((server,))
            try:
                async with asyncio.timeout(server.connect_ms / 1000):
                    # It returns after the first try, whether that succeeded or not.
                    await plugin.open(_NoHost())
            except TimeoutError:
                return f"it is not connected after {server.connect_ms} ms"
            finally:
                (status,) = plugin.status()
                await plugin.close()
        except AwakenError as error:
            return remove_secrets(str(error))
        if status.state is ServerState.CONNECTED:
            return None
        return f"it is {status.state}: {status.last_error or 'no answer'}"

    def show_server(self, server_id: str) -> McpServerView:
        """Return the state of an MCP server."""
        return McpServerView(**_describe_server(self._find_status(server_id)))

    async def list_inventory(self, server_id: str) -> McpInventory:
        """Return an MCP server with everything that it offers; waits a few seconds at most."""
        status, plugin = self._find_status(server_id), self._find_plugin(server_id)
        async with asyncio.timeout(INVENTORY_S):
            offers = await plugin.list_offers(server_id)
        place = {"server_name": server_id, "transport_type": status.transport}
        shown = _describe_server(status)
        shown["tools"] = tuple(
            ServerTool(name=it.name, description=it.description) for it in offers.tools
        )
        prompts = [
            {
                "name": it.name,
                "description": it.description,
                "arguments": [
                    {"name": arg.name, "description": arg.description, "required": arg.required}
                    for arg in it.arguments
                ],
            }
            for it in offers.prompts
        ]
        return McpInventory(
            **shown,
            prompts=tuple({**place, "prompt": it} for it in prompts),
            resources=tuple({**place, "resource": it} for it in offers.resources),
        )

    async def restart_server(self, server_id: str) -> None:
        """Disconnect from an MCP server and connect again; waits for no connection."""
        self._find_status(server_id)
        await self._find_plugin(server_id).restart(server_id)

    async def begin_login(self, server_id: str, caller: str, redirect: str) -> str:
        """Begin a caller's login to an MCP server; returns the address for their browser."""
        self._find_status(server_id)
        return await self._logins.begin(self._find_plugin(server_id), server_id, caller, redirect)

    async def complete_login(self, server_id: str, caller: str, reply: Mapping[str, str]) -> None:
        """Complete the login that a caller began, with the query of the redirect."""
        self._find_status(server_id)
        await self._logins.complete(server_id, caller, reply)
        await self._find_plugin(server_id).restart(server_id)

    async def close_logins(self) -> None:
        """Give up the logins that wait."""
        await self._logins.close()

    def show_remote(self, registry_id: str) -> RemoteView:
        """Return the state of a remote registry."""
        for remote in self._discovery.remotes():
            if remote.name == registry_id:
                break
        else:
            raise UnknownConfigRecord(namespace="a2a-servers", record_id=registry_id)
        status = next(it for it in self._discovery.status() if it.name == registry_id)
        checked = status.checked_at_ms
        return RemoteView(
            connected=status.problem is None and status.fresh_at_ms is not None,
            card_url=remote.card_url,
            last_error=status.problem,
            agent_id=status.agent_id,
            checked_at=None if checked is None else checked // 1000,
            consecutive_failures=status.failures,
        )

    def _find_plugin(self, server_id: str) -> McpPlugin:
        plugin = self._registry.snapshot().registries.plugins.get(McpPlugin.name)
        if not isinstance(plugin, McpPlugin):
            raise UnknownConfigRecord(namespace="mcp-servers", record_id=server_id)
        return plugin

    def _find_status(self, server_id: str) -> ServerStatus:
        for status in self._find_plugin(server_id).status():
            if status.name == server_id:
                return status
        raise UnknownConfigRecord(namespace="mcp-servers", record_id=server_id)


class _NoHost:
    """The host of a plugin that no agent has: nothing depends on its tools."""

    @property
    def memory(self) -> NoReturn:
        """Refuse: such a plugin has no runtime.

        Raises:
            Misuse: Always.
        """
        message = "A plugin without a runtime has no memory."
        raise Misuse(message)

    async def renew(self) -> None:
        """Do nothing."""


def _find_setting_problem(client: ModelClient) -> str | None:
    """Return what prevents a call of a provider, as far as that is known without one."""
    if not isinstance(client, ProviderClient):
        return None
    try:
        spec = apply_base_url(client.spec)
        if (extra := find_missing_extra(spec)) is not None:
            return f"its adapter needs the extra '{extra}'"
        if variables := find_missing_settings(spec):
            return f"a setting is missing: set {' or '.join(variables)}"
        find_key(spec)
    except (AwakenError, ModelError) as error:
        return str(error)
    return None


async def _call(client: ModelClient, model: ModelSpec | None) -> str | None:
    """Make one tiny call; returns why it failed, or None."""
    if model is None:
        return "no model names the provider, so that there is none to call"
    request = InferenceRequest(
        upstream_model=model.upstream_model,
        messages=(user("Say ok."),),
        overrides=InferenceOverride(max_tokens=ANSWER_TOKENS),
    )
    try:
        async with asyncio.timeout(CALL_S), aclosing(client.stream(request)) as events:
            async for _ in events:
                pass
    except TimeoutError:
        return f"no answer within {CALL_S} s"
    except (AwakenError, ModelError) as error:
        return str(error) or type(error).__name__
    return None


def _describe_server(status: ServerStatus) -> dict[str, Any]:
    state, since = status.state, status.since_ms // 1000
    is_connected = state is ServerState.CONNECTED
    return {
        "connected": is_connected,
        "state": state.value,
        "last_error": status.last_error,
        "tools": tuple(ServerTool(name=it.name) for it in status.tools),
        "consecutive_failures": status.attempts,
        "last_attempt_at": None if state is ServerState.DISABLED else since,
        "last_success_at": since if is_connected else None,
        "reconnecting": state in (ServerState.CONNECTING, ServerState.RECONNECTING),
        "permanently_failed": state is ServerState.FAILED,
        "session_generation": status.generation,
        "transport_reconnect_count": max(status.generation - 1, 0),
        "last_init_at": since if is_connected else None,
        "protocol_version": status.protocol_version,
        "problems": status.problems,
        "drift": tuple(
            ToolDrift(tool=it.tool, pinned=it.pinned, offered=it.offered) for it in status.drift
        ),
    }
