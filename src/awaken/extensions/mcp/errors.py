"""Errors of servers: a model reads their text, and programs distinguish their codes."""

from awaken.contracts.tools.tool import ToolError

LOST = (
    "its question was lost with the process; the call is not repeated, it may have had its effect"
)
EXPIRED = "the server has ended the session"


class ServerUnavailable(ToolError):
    """The server cannot be called now; nothing was sent, or it is unknown whether it arrived."""

    code = "mcp_server_unavailable"


class ServerFailed(ToolError):
    """The server answered with an error, or with a malformed answer."""

    code = "mcp_server_failed"


class ToolDrifted(ToolError):
    """The tool differs from its pinned version; the operator has to accept the change."""

    code = "mcp_tool_drifted"


class ToolRemoved(ToolError):
    """The server no longer offers the tool."""

    code = "mcp_tool_removed"


class QuestionLost(ToolError):
    """The call that asked is gone; it is not repeated, because it may have had its effect."""

    code = "mcp_question_lost"


class QuestionRefused(ToolError):
    """The server's question is not allowed."""

    code = "mcp_question_refused"
