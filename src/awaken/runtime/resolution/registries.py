"""Everything that an agent can name, as plain data: the input of the resolve pipeline."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from awaken.authoring.output import OutputType
from awaken.contracts.backends.backend import ExecutionBackend, ExecutionBackendFactory
from awaken.contracts.models.budgets import Budget
from awaken.contracts.models.inference import ModelClient
from awaken.contracts.models.model_specs import ModelPool, ModelSpec
from awaken.contracts.plugins.plugin import Plugin
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.specs.remote_registries import LOCAL_NAME
from awaken.contracts.tools.tool import Tool

if TYPE_CHECKING:
    from awaken.authoring.instructions import InstructionsFunction
    from awaken.authoring.run_contexts import ContextType
    from awaken.authoring.workflows import Workflow


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSource:
    """A spec with what belongs to this agent only: its own tools, plugins, model and output."""

    spec: AgentSpec
    tools: Mapping[str, Tool] = field(default_factory=dict)
    plugins: tuple[Plugin, ...] = ()
    model: ModelClient | ModelSpec | ModelPool | None = None
    output: OutputType | None = None
    context: "ContextType | None" = None
    instructions: "InstructionsFunction | None" = None
    """Makes the instructions of each run, unless the spec has a text."""
    workflow: "Workflow | None" = None
    """The function of steps that its runs execute instead of asking a model."""
    written: Any = None
    """The agent as its developer declared it, if it was declared in this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySet:
    """Everything that an agent can name, by id.

    Agents of a remote registry are registered as `registry/agent`. A plain id is looked up among
    the local agents first, then in each remote registry; `local/agent` is always a local agent.
    """

    agents: Mapping[str, AgentSource] = field(default_factory=dict)
    tools: Mapping[str, Tool] = field(default_factory=dict)
    models: Mapping[str, ModelSpec | ModelPool] = field(default_factory=dict)
    providers: Mapping[str, ModelClient] = field(default_factory=dict)
    plugins: Mapping[str, Plugin] = field(default_factory=dict)
    backends: Mapping[str, ExecutionBackend | ExecutionBackendFactory] = field(default_factory=dict)

    everywhere: tuple[str, ...] = ()
    """The plugins that every agent has, before its own."""
    local_name: str = LOCAL_NAME
    """The registry name of the agents of this process."""
    remotes: Mapping[str, str] = field(default_factory=dict)
    """The origins of the remote registries by name, in the lookup order of plain ids."""
    hidden: frozenset[str] = frozenset()
    """Agents that no new run may take; runs that began before continue."""
    disabled_tools: frozenset[str] = frozenset()
    """Tools that no agent has, whatever offers them."""
    budgets: tuple[Budget, ...] = ()
    """Limits of spending for every run, besides those that the runtime was given."""
    is_open: bool = False
    """Whether unknown agents may be named: the host's resolver is asked when they are needed."""

    def name_of(self, agent_id: str) -> str:
        """The id under which an agent is registered; an unknown id is returned unchanged."""
        if agent_id in self.agents:
            return agent_id
        source, has_source, name = agent_id.partition("/")
        if not has_source:
            candidates = [f"{remote}/{agent_id}" for remote in self.remotes]
        else:
            is_local = source == self.local_name and self.remote_of(name) is None
            candidates = [name] if is_local else []
        return next((it for it in candidates if it in self.agents), agent_id)

    def knows(self, agent_id: str) -> bool:
        """Whether an id names an agent, or a remote registry that may have it."""
        return self.name_of(agent_id) in self.agents or self.remote_of(agent_id) is not None

    def local_id(self, agent_id: str) -> str:
        """The id of a local agent without the prefix of the local registry."""
        source, has_source, name = agent_id.partition("/")
        return name if has_source and source == self.local_name else agent_id

    def remote_of(self, agent_id: str) -> str | None:
        """The remote registry that an id names; its agents may be named before discovery."""
        source, has_source, _ = agent_id.partition("/")
        return source if has_source and source in self.remotes else None

    def agent_ids(self) -> tuple[str, ...]:
        """Every agent with the name of its registry, sorted."""
        return tuple(
            sorted(
                it if self.remote_of(it) is not None else f"{self.local_name}/{it}"
                for it in self.agents
            )
        )

    def with_agent(self, source: AgentSource) -> "RegistrySet":
        """Return the set with one agent added or replaced."""
        return replace(self, agents={**self.agents, source.spec.id: source})
