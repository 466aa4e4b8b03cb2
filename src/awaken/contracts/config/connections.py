"""Ports for what a configuration connects to, and for what its agents may name.

Fields and units of the replies are those of Awaken for Rust: times are seconds.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from awaken.contracts.record import Record, always


class ProviderTest(Record, frozen=True, kw_only=True):
    """Whether a provider can be used here; without a call only its settings are known."""

    ok: bool
    latency_ms: int
    network_tested: bool
    error: str | None = None


class ServerTool(Record, frozen=True, kw_only=True):
    """A tool that an MCP server offers."""

    name: str
    description: str | None = None


class ToolDrift(Record, frozen=True, kw_only=True):
    """A tool that differs from its pinned version; `offered` as its pin accepts it."""

    tool: str
    pinned: str
    offered: str


class McpServerView(Record, frozen=True, kw_only=True):
    """The state of the connection of this process to an MCP server."""

    connected: bool
    state: str
    last_error: str | None = None
    tools: tuple[ServerTool, ...] = always(())
    consecutive_failures: int = always(0)
    last_attempt_at: int | None = None
    last_success_at: int | None = None
    reconnecting: bool
    permanently_failed: bool
    session_generation: int = always(0)
    transport_reconnect_count: int = always(0)
    last_init_at: int | None = None
    protocol_version: str | None = None
    problems: tuple[str, ...] = ()
    """Which of its tools cannot be used, and why."""
    drift: tuple[ToolDrift, ...] = ()


class McpInventory(McpServerView, frozen=True, kw_only=True):
    """A server with everything that it offers."""

    prompts: tuple[dict[str, Any], ...] = always(())
    resources: tuple[dict[str, Any], ...] = always(())


class LoginPage(Record, frozen=True, kw_only=True):
    """Where a person logs in to an MCP server."""

    address: str


class RemoteView(Record, frozen=True, kw_only=True):
    """What the last read of a remote registry gave."""

    connected: bool
    card_url: str
    last_error: str | None = None
    card: dict[str, Any] | None = None
    agent_id: str | None = None
    """The agent that is registered, as `registry/agent`."""
    checked_at: int | None = None
    consecutive_failures: int = always(0)


class ConfigConnections(Protocol):
    """The connections of this process to what its configuration names.

    Every method raises UnknownConfigRecord if this process has nothing of that name.
    """

    async def test_provider(self, provider_id: str, *, is_called: bool) -> ProviderTest:
        """Check the settings of a provider; with `is_called` make one tiny call to it as well."""
        ...

    async def try_server(self, server: Any) -> str | None:
        """Connect to an MCP server that is not configured yet; returns why that failed, or None.

        It waits for `connect_ms` of the server at most, and disconnects again.
        """
        ...

    def show_server(self, server_id: str) -> McpServerView:
        """Return the state of an MCP server."""
        ...

    async def list_inventory(self, server_id: str) -> McpInventory:
        """Return an MCP server with everything that it offers; waits a few seconds at most."""
        ...

    async def restart_server(self, server_id: str) -> None:
        """Disconnect from an MCP server and connect again; waits for no connection."""
        ...

    async def begin_login(self, server_id: str, caller: str, redirect: str) -> str:
        """Begin a caller's login to an MCP server; returns the address for their browser.

        `redirect` is where the browser comes back to. A login that waits is given up.

        Raises:
            AwakenError: The server has no login or wants none, or a server refuses.
        """
        ...

    async def complete_login(self, server_id: str, caller: str, reply: Mapping[str, str]) -> None:
        """Complete the login that a caller began, with the query of the redirect.

        The login is stored, and the connection to the server is made anew.

        Raises:
            InvalidInput: No login of this caller waits for this reply.
            AwakenError: The login failed.
        """
        ...

    async def close_logins(self) -> None:
        """Give up the logins that wait."""
        ...

    def show_remote(self, registry_id: str) -> RemoteView:
        """Return the state of a remote registry."""
        ...


class CapabilityLister(Protocol):
    """Lists what agents may name in this process."""

    async def list_capabilities(self) -> Mapping[str, Any]:
        """Return agents, tools, plugins, skills, models, providers, backends and adapters."""
        ...


class ConfigReader(Protocol):
    """The configuration, for callers that may read it: specs of agents are in HTTP form."""

    async def list_agent_specs(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the spec of every agent, by its id."""
        ...

    async def find_agent_spec(self, agent_id: str) -> Mapping[str, Any]:
        """Return the spec of an agent; empty if the configuration does not know it."""
        ...

    async def is_not_live(self, publication: int) -> bool:
        """Whether new runs do not take a publication by themselves.

        Raises:
            UnknownPublication: There is none of that number.
        """
        ...

    async def find_live(self) -> int | None:
        """Return the live publication; None before the first one."""
        ...

    async def preview_agent(self, body: Mapping[str, Any], actor: str) -> tuple[str, int]:
        """Write an ephemeral publication of one agent in HTTP form; returns its id and the number.

        Raises:
            ConfigError: It is malformed, or does not compile.
        """
        ...
