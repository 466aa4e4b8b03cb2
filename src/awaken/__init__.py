"""A server-side runtime for AI agents. See `awaken.AgentRuntime` for the front door."""

from awaken.authoring.agents import Agent
from awaken.authoring.functions import tool
from awaken.authoring.resolvers import AgentResolver
from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.contracts.budgets import Budget
from awaken.contracts.errors import AwakenError, RunFailed
from awaken.contracts.events import AgentEvent
from awaken.contracts.messages import Message
from awaken.contracts.models import ModelPool, ModelSpec, PoolMember, ProviderSpec
from awaken.contracts.phases import Phase
from awaken.contracts.plugins import Plugin, PluginRegistrar
from awaken.contracts.remote_registries import RemoteRegistry
from awaken.contracts.runs import RunRequest, RunResult
from awaken.contracts.specs import AgentSpec, RemoteEndpoint
from awaken.contracts.state import StateCommand, StateKey
from awaken.contracts.tool_context import ToolContext
from awaken.contracts.tool_results import ToolResult

__all__ = [
    "Agent",
    "AgentEvent",
    "AgentResolver",
    "AgentRuntime",
    "AgentSpec",
    "AwakenError",
    "Budget",
    "Message",
    "ModelPool",
    "ModelSpec",
    "Phase",
    "Plugin",
    "PluginRegistrar",
    "PoolMember",
    "ProviderSpec",
    "RemoteEndpoint",
    "RemoteRegistry",
    "RunFailed",
    "RunRequest",
    "RunResult",
    "StateCommand",
    "StateKey",
    "ToolContext",
    "ToolResult",
    "tool",
]
__version__ = "0.1.0"
