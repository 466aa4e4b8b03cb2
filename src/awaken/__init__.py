"""A server-side runtime for AI agents. See `awaken.AgentRuntime` for the front door.

A name is imported from its module when it is first used, so that `awaken --help` and a program that
needs one part do not load the whole runtime.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from awaken.authoring.agents import Agent
    from awaken.authoring.functions import tool
    from awaken.authoring.resolvers import AgentResolver
    from awaken.bootstrap.agent_runtime import AgentRuntime
    from awaken.contracts.errors import AwakenError, RunFailed
    from awaken.contracts.events import AgentEvent
    from awaken.contracts.messages.message import Message
    from awaken.contracts.models.budgets import Budget
    from awaken.contracts.models.model_specs import ModelPool, ModelSpec, PoolMember, ProviderSpec
    from awaken.contracts.phases import Phase
    from awaken.contracts.plugins.plugin import Plugin, PluginRegistrar
    from awaken.contracts.runs.records import RunRequest, RunResult
    from awaken.contracts.specs.agents import AgentSpec, RemoteEndpoint
    from awaken.contracts.specs.remote_registries import RemoteRegistry
    from awaken.contracts.state.keys import StateCommand, StateKey
    from awaken.contracts.tool_results import ToolResult
    from awaken.contracts.tools.context import ToolContext

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

_HOMES = {
    "Agent": "awaken.authoring.agents",
    "AgentEvent": "awaken.contracts.events",
    "AgentResolver": "awaken.authoring.resolvers",
    "AgentRuntime": "awaken.bootstrap.agent_runtime",
    "AgentSpec": "awaken.contracts.specs.agents",
    "AwakenError": "awaken.contracts.errors",
    "Budget": "awaken.contracts.models.budgets",
    "Message": "awaken.contracts.messages.message",
    "ModelPool": "awaken.contracts.models.model_specs",
    "ModelSpec": "awaken.contracts.models.model_specs",
    "Phase": "awaken.contracts.phases",
    "Plugin": "awaken.contracts.plugins.plugin",
    "PluginRegistrar": "awaken.contracts.plugins.plugin",
    "PoolMember": "awaken.contracts.models.model_specs",
    "ProviderSpec": "awaken.contracts.models.model_specs",
    "RemoteEndpoint": "awaken.contracts.specs.agents",
    "RemoteRegistry": "awaken.contracts.specs.remote_registries",
    "RunFailed": "awaken.contracts.errors",
    "RunRequest": "awaken.contracts.runs.records",
    "RunResult": "awaken.contracts.runs.records",
    "StateCommand": "awaken.contracts.state.keys",
    "StateKey": "awaken.contracts.state.keys",
    "ToolContext": "awaken.contracts.tools.context",
    "ToolResult": "awaken.contracts.tool_results",
    "tool": "awaken.authoring.functions",
}
"""The module that each public name is imported from."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    home = _HOMES.get(name)
    if home is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
