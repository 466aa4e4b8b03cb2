"""Tools: how they are declared, what they are given, what they return, and how they suspend.

`tool` makes one of a function, `SchemaTool` of a JSON schema; `Tool` is the protocol behind both.
A tool suspends its call with a `SuspendTicket`, and a decision answers with a `ToolCallResume`.
"""

from awaken.authoring.delegates import (
    AgentTool,
)
from awaken.authoring.frontend import (
    FrontEndTool,
)
from awaken.authoring.functions import (
    FunctionTool,
    ReconcilingTool,
    ToolOptions,
    tool,
)
from awaken.authoring.schema_tools import (
    SchemaTool,
)
from awaken.contracts.lifecycle import (
    TicketStatus,
    ToolCallStatus,
)
from awaken.contracts.suspension.permissions import (
    PermissionScope,
    Remember,
    ToolBehavior,
)
from awaken.contracts.suspension.tickets import (
    Asks,
    DecisionAction,
    PendingToolCall,
    ResumeMode,
    SuspendTicket,
    Suspension,
    Ticket,
    ToolCallOutcome,
    ToolCallResume,
)
from awaken.contracts.tasks import (
    TaskContext,
    TaskFate,
    TaskInfo,
    TaskRecord,
    TaskStatus,
)
from awaken.contracts.tool_results import (
    ToolResult,
    ToolStatus,
)
from awaken.contracts.tools.context import (
    ProgressStatus,
    ToolCallProgress,
    ToolContext,
    ToolState,
)
from awaken.contracts.tools.sub_runs import (
    Delegation,
    FailedMessage,
    SubRuns,
)
from awaken.contracts.tools.tool import (
    Reconcilable,
    Tool,
    ToolDescriptor,
    ToolEffect,
    ToolKind,
    ToolOutput,
)
from awaken.contracts.workflows.steps import (
    ApprovalAnswer,
    StepRetry,
)

__all__ = [
    "AgentTool",
    "ApprovalAnswer",
    "Asks",
    "DecisionAction",
    "Delegation",
    "FailedMessage",
    "FrontEndTool",
    "FunctionTool",
    "PendingToolCall",
    "PermissionScope",
    "ProgressStatus",
    "Reconcilable",
    "ReconcilingTool",
    "Remember",
    "ResumeMode",
    "SchemaTool",
    "StepRetry",
    "SubRuns",
    "SuspendTicket",
    "Suspension",
    "TaskContext",
    "TaskFate",
    "TaskInfo",
    "TaskRecord",
    "TaskStatus",
    "Ticket",
    "TicketStatus",
    "Tool",
    "ToolBehavior",
    "ToolCallOutcome",
    "ToolCallProgress",
    "ToolCallResume",
    "ToolCallStatus",
    "ToolContext",
    "ToolDescriptor",
    "ToolEffect",
    "ToolKind",
    "ToolOptions",
    "ToolOutput",
    "ToolResult",
    "ToolState",
    "ToolStatus",
    "tool",
]
