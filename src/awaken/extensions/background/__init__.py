"""Tools by which a model starts, inspects and cancels background tasks, and messages agents.

`BackgroundTasksPlugin` registers them; `ToolContext.sub_runs` does the work. Messages to other
threads are sent through a `DurableMessageSink`, which `AgentRuntime(message_sink=...)` replaces.
"""

from awaken.contracts.tools.sub_runs import DurableMessageRequest, DurableMessageSink

from .config import BackgroundTasksConfig
from .messages import SEND_MESSAGE_TOOL_ID, MessageError, SendMessageReceipt, SendMessageTool
from .plugin import BackgroundTasksPlugin

__all__ = [
    "SEND_MESSAGE_TOOL_ID",
    "BackgroundTasksConfig",
    "BackgroundTasksPlugin",
    "DurableMessageRequest",
    "DurableMessageSink",
    "MessageError",
    "SendMessageReceipt",
    "SendMessageTool",
]
