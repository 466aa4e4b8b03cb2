"""MCP servers as tools, skills and resources of agents.

Belongs here: connections to servers, their catalogues, calls, and the servers' own questions. Does
not: the protocol itself, which the SDK implements (extra `mcp`, loaded at the first connection).
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
