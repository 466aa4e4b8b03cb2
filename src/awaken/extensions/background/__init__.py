"""Tools by which a model starts, watches and cancels background tasks, and writes to agents.

`BackgroundTasksPlugin` offers them; the work itself is behind `ToolContext.sub_runs`. Messages to
other threads leave through a `DurableMessageSink`, which `AgentRuntime(message_sink=...)` replaces.
"""

from awaken.contracts.tools.sub_runs import DurableMessageRequest, DurableMessageSink

from .messages import SEND_MESSAGE_TOOL_ID, MessageError, SendMessageReceipt, SendMessageTool
from .plugin import BackgroundTasksPlugin

__all__ = [
    "SEND_MESSAGE_TOOL_ID",
    "BackgroundTasksPlugin",
    "DurableMessageRequest",
    "DurableMessageSink",
    "MessageError",
    "SendMessageReceipt",
    "SendMessageTool",
]
