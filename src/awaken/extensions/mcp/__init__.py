"""MCP servers as tools, skills and resources of agents.

Belongs here: connections to servers, their catalogues, calls, and what servers ask in return. Does
not: the protocol itself, which is the SDK's (extra `mcp`, loaded when a server is connected to).
"""

from awaken.outbound.credentials import ClientCredentials, Login

from .config import Http, InProcess, McpConfig, McpLimits, McpServer, Restart, Root, Stdio
from .errors import (
    QuestionLost,
    QuestionRefused,
    ServerFailed,
    ServerUnavailable,
    ToolDrifted,
    ToolRemoved,
)
from .plugin import McpPlugin
from .status import Drift, McpToolStatus, ServerState, ServerStatus

__all__ = [
    "ClientCredentials",
    "Drift",
    "Http",
    "InProcess",
    "Login",
    "McpConfig",
    "McpLimits",
    "McpPlugin",
    "McpServer",
    "McpToolStatus",
    "QuestionLost",
    "QuestionRefused",
    "Restart",
    "Root",
    "ServerFailed",
    "ServerState",
    "ServerStatus",
    "ServerUnavailable",
    "Stdio",
    "ToolDrifted",
    "ToolRemoved",
]
