"""A server-side runtime for AI agents: declare an `Agent`, run it with an `AgentRuntime`.

This module has what a first app needs. The other public modules have the rest: `backends`,
`errors`, `events`, `messages`, `models`, `plugins`, `server`, `stores`, `testing`, `tools` and
`extensions.<name>`. Every other module is private. A name is imported from its module when it is
first used, so that `awaken --help` and a program that needs one part do not load everything.
"""

from typing import TYPE_CHECKING

from awaken._deferred_imports import defer_imports

if TYPE_CHECKING:
    from awaken.authoring.agents import (
        Agent,
    )
    from awaken.authoring.functions import (
        tool,
    )
    from awaken.authoring.resolvers import (
        AgentResolver,
        ListingResolver,
    )
    from awaken.authoring.run_contexts import (
        RunContext,
    )
    from awaken.authoring.typed_delegates import (
        Delegate,
    )
    from awaken.authoring.workflows import (
        workflow,
    )
    from awaken.bootstrap.agent_runtime import AgentRuntime
    from awaken.bootstrap.requests import (
        RunOptions,
    )
    from awaken.bootstrap.runtime_options import ManagedOptions, RuntimeOptions
    from awaken.contracts.clock import (
        Clock,
        IdSource,
    )
    from awaken.contracts.errors import (
        AwakenError,
        InvalidInput,
        RunFailed,
        ThreadBusy,
        UnknownAgent,
        UnknownRun,
        UnknownThread,
        UsageError,
    )
    from awaken.contracts.events import (
        AgentEvent,
        ErrorEvent,
        RunFinish,
        RunStart,
        StepEnd,
        StepStart,
        StreamReset,
        ToolCallDone,
        ToolCallReady,
    )
    from awaken.contracts.identity import (
        Adapter,
        RunIdentity,
        RunMode,
        RunOrigin,
    )
    from awaken.contracts.lifecycle import (
        BehaviorRequested,
        Blocked,
        Cancelled,
        Failed,
        NaturalEnd,
        RunStatus,
        Stopped,
        Suspended,
    )
    from awaken.contracts.messages.deltas import (
        ReasoningDelta,
        TextDelta,
        ToolCallDelta,
        ToolCallStart,
    )
    from awaken.contracts.messages.message import (
        Message,
        user,
    )
    from awaken.contracts.models.budgets import (
        Budget,
    )
    from awaken.contracts.models.inference import (
        ContextWindowPolicy,
    )
    from awaken.contracts.models.model_specs import (
        ModelPool,
        ModelSpec,
        PoolMember,
        ProviderSpec,
    )
    from awaken.contracts.phases import (
        Phase,
    )
    from awaken.contracts.plugins.plugin import (
        Plugin,
        PluginRegistrar,
    )
    from awaken.contracts.runs.records import (
        OnBusy,
        RunRequest,
        RunResult,
        SteerReceipt,
    )
    from awaken.contracts.secrets import (
        RedactedString,
    )
    from awaken.contracts.specs.agents import (
        AgentSpec,
        ConsecutiveErrors,
        ContentMatch,
        LoopDetection,
        MaxRounds,
        RemoteEndpoint,
        StopCondition,
        StopOnTool,
        Timeout,
        TokenBudget,
    )
    from awaken.contracts.specs.remote_registries import (
        RemoteRegistry,
    )
    from awaken.contracts.state.keys import (
        StateCommand,
        StateKey,
    )
    from awaken.contracts.storage.dispatch import (
        InputMode,
    )
    from awaken.contracts.storage.mailbox import (
        TenantLimits,
    )
    from awaken.contracts.suspension.tickets import (
        DecisionReceipt,
        SuspendTicket,
    )
    from awaken.contracts.tool_results import (
        ToolResult,
    )
    from awaken.contracts.tools.context import (
        ToolContext,
    )
    from awaken.contracts.tools.tool import (
        Retry,
        ToolError,
    )
    from awaken.contracts.tracing import (
        TraceContext,
    )
    from awaken.contracts.workflows.context import (
        WorkflowContext,
    )
    from awaken.mailbox.config import (
        MailboxConfig,
    )
    from awaken.mailbox.receipts import (
        SubmitReceipt,
    )
    from awaken.runtime.admission.handles import (
        RunHandle,
    )
    from awaken.runtime.limits import (
        Limits,
    )
    from awaken.transport.routes import (
        Access,
    )

__all__ = [
    "Access",
    "Adapter",
    "Agent",
    "AgentEvent",
    "AgentResolver",
    "AgentRuntime",
    "AgentSpec",
    "AwakenError",
    "BehaviorRequested",
    "Blocked",
    "Budget",
    "Cancelled",
    "Clock",
    "ConsecutiveErrors",
    "ContentMatch",
    "ContextWindowPolicy",
    "DecisionReceipt",
    "Delegate",
    "ErrorEvent",
    "Failed",
    "IdSource",
    "InputMode",
    "InvalidInput",
    "Limits",
    "ListingResolver",
    "LoopDetection",
    "MailboxConfig",
    "ManagedOptions",
    "MaxRounds",
    "Message",
    "ModelPool",
    "ModelSpec",
    "NaturalEnd",
    "OnBusy",
    "Phase",
    "Plugin",
    "PluginRegistrar",
    "PoolMember",
    "ProviderSpec",
    "ReasoningDelta",
    "RedactedString",
    "RemoteEndpoint",
    "RemoteRegistry",
    "Retry",
    "RunContext",
    "RunFailed",
    "RunFinish",
    "RunHandle",
    "RunIdentity",
    "RunMode",
    "RunOptions",
    "RunOrigin",
    "RunRequest",
    "RunResult",
    "RunStart",
    "RunStatus",
    "RuntimeOptions",
    "StateCommand",
    "StateKey",
    "SteerReceipt",
    "StepEnd",
    "StepStart",
    "StopCondition",
    "StopOnTool",
    "Stopped",
    "StreamReset",
    "SubmitReceipt",
    "SuspendTicket",
    "Suspended",
    "TenantLimits",
    "TextDelta",
    "ThreadBusy",
    "Timeout",
    "TokenBudget",
    "ToolCallDelta",
    "ToolCallDone",
    "ToolCallReady",
    "ToolCallStart",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "TraceContext",
    "UnknownAgent",
    "UnknownRun",
    "UnknownThread",
    "UsageError",
    "WorkflowContext",
    "tool",
    "user",
    "workflow",
]
__version__ = "0.1.0"

_HOMES = {
    "Access": "awaken.transport.routes",
    "Adapter": "awaken.contracts.identity",
    "Agent": "awaken.authoring.agents",
    "AgentEvent": "awaken.contracts.events",
    "AgentResolver": "awaken.authoring.resolvers",
    "AgentRuntime": "awaken.bootstrap.agent_runtime",
    "AgentSpec": "awaken.contracts.specs.agents",
    "AwakenError": "awaken.contracts.errors",
    "BehaviorRequested": "awaken.contracts.lifecycle",
    "Blocked": "awaken.contracts.lifecycle",
    "Budget": "awaken.contracts.models.budgets",
    "Cancelled": "awaken.contracts.lifecycle",
    "Clock": "awaken.contracts.clock",
    "ConsecutiveErrors": "awaken.contracts.specs.agents",
    "ContentMatch": "awaken.contracts.specs.agents",
    "ContextWindowPolicy": "awaken.contracts.models.inference",
    "DecisionReceipt": "awaken.contracts.suspension.tickets",
    "Delegate": "awaken.authoring.typed_delegates",
    "ErrorEvent": "awaken.contracts.events",
    "Failed": "awaken.contracts.lifecycle",
    "IdSource": "awaken.contracts.clock",
    "InputMode": "awaken.contracts.storage.dispatch",
    "InvalidInput": "awaken.contracts.errors",
    "Limits": "awaken.runtime.limits",
    "ListingResolver": "awaken.authoring.resolvers",
    "LoopDetection": "awaken.contracts.specs.agents",
    "MailboxConfig": "awaken.mailbox.config",
    "ManagedOptions": "awaken.bootstrap.runtime_options",
    "MaxRounds": "awaken.contracts.specs.agents",
    "Message": "awaken.contracts.messages.message",
    "ModelPool": "awaken.contracts.models.model_specs",
    "ModelSpec": "awaken.contracts.models.model_specs",
    "NaturalEnd": "awaken.contracts.lifecycle",
    "OnBusy": "awaken.contracts.runs.records",
    "Phase": "awaken.contracts.phases",
    "Plugin": "awaken.contracts.plugins.plugin",
    "PluginRegistrar": "awaken.contracts.plugins.plugin",
    "PoolMember": "awaken.contracts.models.model_specs",
    "ProviderSpec": "awaken.contracts.models.model_specs",
    "ReasoningDelta": "awaken.contracts.messages.deltas",
    "RedactedString": "awaken.contracts.secrets",
    "RemoteEndpoint": "awaken.contracts.specs.agents",
    "RemoteRegistry": "awaken.contracts.specs.remote_registries",
    "Retry": "awaken.contracts.tools.tool",
    "RunContext": "awaken.authoring.run_contexts",
    "RunFailed": "awaken.contracts.errors",
    "RunFinish": "awaken.contracts.events",
    "RunHandle": "awaken.runtime.admission.handles",
    "RunIdentity": "awaken.contracts.identity",
    "RunMode": "awaken.contracts.identity",
    "RunOptions": "awaken.bootstrap.requests",
    "RunOrigin": "awaken.contracts.identity",
    "RunRequest": "awaken.contracts.runs.records",
    "RunResult": "awaken.contracts.runs.records",
    "RunStart": "awaken.contracts.events",
    "RunStatus": "awaken.contracts.lifecycle",
    "RuntimeOptions": "awaken.bootstrap.runtime_options",
    "StateCommand": "awaken.contracts.state.keys",
    "StateKey": "awaken.contracts.state.keys",
    "SteerReceipt": "awaken.contracts.runs.records",
    "StepEnd": "awaken.contracts.events",
    "StepStart": "awaken.contracts.events",
    "StopCondition": "awaken.contracts.specs.agents",
    "StopOnTool": "awaken.contracts.specs.agents",
    "Stopped": "awaken.contracts.lifecycle",
    "StreamReset": "awaken.contracts.events",
    "SubmitReceipt": "awaken.mailbox.receipts",
    "SuspendTicket": "awaken.contracts.suspension.tickets",
    "Suspended": "awaken.contracts.lifecycle",
    "TenantLimits": "awaken.contracts.storage.mailbox",
    "TextDelta": "awaken.contracts.messages.deltas",
    "ThreadBusy": "awaken.contracts.errors",
    "Timeout": "awaken.contracts.specs.agents",
    "TokenBudget": "awaken.contracts.specs.agents",
    "ToolCallDelta": "awaken.contracts.messages.deltas",
    "ToolCallDone": "awaken.contracts.events",
    "ToolCallReady": "awaken.contracts.events",
    "ToolCallStart": "awaken.contracts.messages.deltas",
    "ToolContext": "awaken.contracts.tools.context",
    "ToolError": "awaken.contracts.tools.tool",
    "ToolResult": "awaken.contracts.tool_results",
    "TraceContext": "awaken.contracts.tracing",
    "UnknownAgent": "awaken.contracts.errors",
    "UnknownRun": "awaken.contracts.errors",
    "UnknownThread": "awaken.contracts.errors",
    "UsageError": "awaken.contracts.errors",
    "WorkflowContext": "awaken.contracts.workflows.context",
    "tool": "awaken.authoring.functions",
    "user": "awaken.contracts.messages.message",
    "workflow": "awaken.authoring.workflows",
}
"""The module that each name is imported from."""

if not TYPE_CHECKING:  # Type checkers see the imports above, and refuse every other name.
    __getattr__, __dir__ = defer_imports(__name__, _HOMES)
