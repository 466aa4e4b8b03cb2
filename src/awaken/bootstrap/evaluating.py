"""The runtime in which `awaken.evals.evaluate` tries agents."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .agent_runtime import AgentRuntime

if TYPE_CHECKING:
    from awaken.authoring.agents import Agent
    from awaken.contracts.specs.agents import AgentSpec


def build_runtime(
    agents: "Iterable[Agent | AgentSpec] | AgentRuntime", options: Mapping[str, Any]
) -> AgentRuntime:
    """Build a runtime of agents, or of those of a runtime that is not open, in memory."""
    fixed = {"store": None, "history": "full", **options}
    if isinstance(agents, AgentRuntime):
        return agents.with_options(**fixed)
    return AgentRuntime(agents, **fixed)
