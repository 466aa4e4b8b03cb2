"""What goes wrong with servers, as errors that a model reads and programs can tell apart."""

from awaken.contracts.tools.tool import ToolError

LOST = (
    "its question was lost with the process; the call is not repeated, it may have had its effect"
)
EXPIRED = "the server has ended the session"


class ServerUnavailable(ToolError):
    """The server cannot be called now; nothing was sent, or it is not known to have arrived."""

    code = "mcp_server_unavailable"


class ServerFailed(ToolError):
    """The server answered with an error, or with something that is no answer."""

    code = "mcp_server_failed"


class ToolDrifted(ToolError):
    """The tool is not what it was when it was pinned; somebody has to accept the change."""

    code = "mcp_tool_drifted"


class ToolRemoved(ToolError):
    """The server does not offer the tool any more."""

    code = "mcp_tool_removed"


class QuestionLost(ToolError):
    """Whoever asked is gone; the call is not repeated, because it may have had its effect."""

    code = "mcp_question_lost"


class QuestionRefused(ToolError):
    """The server asked for something that it may not have."""

    code = "mcp_question_refused"
