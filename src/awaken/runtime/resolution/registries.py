"""What can be named, as plain data: the input of the resolve pipeline."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from awaken.authoring.output import OutputType
from awaken.contracts.backends import ExecutionBackend
from awaken.contracts.inference import ModelClient
from awaken.contracts.models import ModelPool, ModelSpec
from awaken.contracts.plugins import Plugin
from awaken.contracts.specs import AgentSpec
from awaken.contracts.tools import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSource:
    """A spec with what belongs to this agent alone: its own tools, plugins, model and output."""

    spec: AgentSpec
    tools: Mapping[str, Tool] = field(default_factory=dict)
    plugins: tuple[Plugin, ...] = ()
    model: ModelClient | ModelSpec | ModelPool | None = None
    output: OutputType | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySet:
    """Everything that can be named, by id."""

    agents: Mapping[str, AgentSource] = field(default_factory=dict)
    tools: Mapping[str, Tool] = field(default_factory=dict)
    models: Mapping[str, ModelSpec | ModelPool] = field(default_factory=dict)
    providers: Mapping[str, ModelClient] = field(default_factory=dict)
    plugins: Mapping[str, Plugin] = field(default_factory=dict)
    backends: Mapping[str, ExecutionBackend] = field(default_factory=dict)

    def with_agent(self, source: AgentSource) -> "RegistrySet":
        """Return the set with one agent added or replaced."""
        return replace(self, agents={**self.agents, source.spec.id: source})

    def without_agent(self, agent_id: str) -> "RegistrySet":
        """Return the set without an agent."""
        return replace(
            self, agents={name: kept for name, kept in self.agents.items() if name != agent_id}
        )
