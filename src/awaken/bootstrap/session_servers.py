"""MCP servers of one client's session: started and closed with it, visible to its runs only.

They are not in the registry. They can ask neither users nor models.
"""

import logging
from collections.abc import Sequence
from typing import NoReturn

from awaken.contracts.clock import IdSource
from awaken.contracts.errors import Misuse
from awaken.contracts.tools.session_tools import SessionServer
from awaken.contracts.tools.tool import Tool, ToolDescriptor
from awaken.extensions.mcp.config import Http, McpServer, Stdio
from awaken.extensions.mcp.plugin import McpPlugin
from awaken.extensions.mcp.status import ServerState
from awaken.runtime.loop.session_tools import OpenSessions
from awaken.runtime.primitives.system import Uuid7Source

from .agent_runtime import AgentRuntime

logger = logging.getLogger(__name__)


class NoHost:
    """The host of a plugin that no agent is resolved with."""

    @property
    def memory(self) -> NoReturn:
        """Refuse: such a plugin has no runtime.

        Raises:
            Misuse: Always.
        """
        message = "A plugin without a runtime has no memory."
        raise Misuse(message)

    async def renew(self) -> None:
        """Do nothing: each run reads the servers' tools when it begins."""


class McpSession:
    """The servers of one session, while it is open."""

    def __init__(self, session_id: str, plugin: McpPlugin, sessions: OpenSessions) -> None:
        self.session_id = session_id
        self._plugin = plugin
        self._sessions = sessions

    def tools(self) -> Sequence[Tool]:
        """The tools that the servers offer now."""
        return self._plugin.tools()

    def descriptors(self) -> tuple[ToolDescriptor, ...]:
        """The descriptors of these tools, for a request."""
        return tuple(tool.descriptor for tool in self.tools())

    async def open(self) -> None:
        """Start the servers; one that does not answer is logged, and its tools are absent."""
        await self._plugin.open(NoHost())
        for status in self._plugin.status():
            if status.state is not ServerState.CONNECTED:
                text = "MCP server '%s' of a session is not connected: %s"
                logger.warning(text, status.name, status.last_error)
        self._sessions[self.session_id] = self.tools

    async def close(self) -> None:
        """Close the servers, and remove their tools from the session's runs."""
        self._sessions.pop(self.session_id, None)
        await self._plugin.close()


class SessionServers:
    """Opens the servers that a client names, under a new session id."""

    def __init__(self, sessions: OpenSessions, ids: IdSource) -> None:
        self._sessions = sessions
        self._ids = ids

    async def open(self, servers: Sequence[SessionServer]) -> McpSession:
        """Start the servers of a session.

        Raises:
            InvalidSpec: A server's settings are invalid, or the extra `mcp` is not installed.
            DuplicateRegistration: Two have the same name.
        """
        plugin = McpPlugin([_config(it) for it in servers])
        session = McpSession(self._ids.new_id(), plugin, self._sessions)
        try:
            await session.open()
        except BaseException:
            await session.close()
            raise
        return session


def session_servers_of(runtime: AgentRuntime) -> SessionServers:
    """Make the session servers of a runtime, for protocols that are served over a pipe."""
    return SessionServers(runtime.session_tools, Uuid7Source())


def _config(server: SessionServer) -> McpServer:
    transport: Stdio | Http
    if server.url is not None:
        # The client is the user's own program on this machine, and it may name local servers.
        transport = Http(url=server.url, headers=dict(server.headers), allow_private=True)
    else:
        env = dict(server.env)
        transport = Stdio(
            command=server.command or "", args=server.args, env={**env}, cwd=server.cwd
        )
    return McpServer(name=server.name, transport=transport, elicitation=False)
