"""The layers of a registry: what the code declares, what is managed, what was discovered.

Each layer is replaced by its owner alone; `compose` is the one place where they become a set.
"""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from awaken.contracts.models.budgets import Budget
from awaken.contracts.models.inference import ModelClient
from awaken.contracts.models.model_specs import ModelPool, ModelSpec
from awaken.contracts.plugins.plugin import Plugin
from awaken.contracts.tools.tool import Tool

from .registries import AgentSource, RegistrySet


class ManagedLayer(msgspec.Struct, frozen=True, kw_only=True):
    """What a publication adds to the code, or replaces in it. Every mapping is by id.

    An entry with the id of one of the code replaces it; the compiler has merged the two.
    """

    publication: int | None = None
    agents: Mapping[str, AgentSource] = {}
    hidden: frozenset[str] = frozenset()
    """Agents that no new run may take; runs that began before continue."""
    models: Mapping[str, ModelSpec | ModelPool] = {}
    providers: Mapping[str, ModelClient] = {}
    plugins: Mapping[str, Plugin] = {}
    tools: Mapping[str, Tool] = {}
    """Tools of the code with another description."""
    disabled_tools: frozenset[str] = frozenset()
    """Tools that no agent has."""
    remotes: Mapping[str, str] = {}
    """Origins of the remote registries that are managed, by name."""
    budgets: tuple[Budget, ...] = ()
    """Limits of spending besides those that the runtime was given."""
    unusable: Mapping[str, str] = {}
    """Agents that cannot be used in this process, and why."""


class DiscoveredLayer(msgspec.Struct, frozen=True, kw_only=True):
    """Agents that remote registries have shown, as `registry/agent`."""

    agents: Mapping[str, AgentSource] = {}
    remotes: Mapping[str, str] = {}
    """Origins of the registries that have shown them, by name."""

    def with_agent(self, source: AgentSource, registry: str, origin: str) -> "DiscoveredLayer":
        """Return the layer with a registry's agent in place of its earlier agents."""
        prefix = f"{registry}/"
        kept = {name: it for name, it in self.agents.items() if not name.startswith(prefix)}
        return DiscoveredLayer(
            agents={**kept, source.spec.id: source},
            remotes={**self.remotes, registry: origin},
        )

    def without_registry(self, registry: str) -> "DiscoveredLayer":
        """Return the layer without a registry and its agents."""
        prefix = f"{registry}/"
        return DiscoveredLayer(
            agents={name: it for name, it in self.agents.items() if not name.startswith(prefix)},
            remotes={name: it for name, it in self.remotes.items() if name != registry},
        )


def compose(
    code: RegistrySet, managed: ManagedLayer | None, discovered: DiscoveredLayer
) -> RegistrySet:
    """Return the set of all layers; the layers themselves stay as they are."""
    if managed is None:
        if not discovered.agents:
            return code
        return replace(
            code,
            agents={**code.agents, **discovered.agents},
            remotes={**code.remotes, **discovered.remotes},
        )
    return replace(
        code,
        agents={**code.agents, **managed.agents, **discovered.agents},
        hidden=managed.hidden,
        models={**code.models, **managed.models},
        providers={**code.providers, **managed.providers},
        plugins={**code.plugins, **managed.plugins},
        tools={**code.tools, **managed.tools},
        disabled_tools=managed.disabled_tools,
        remotes={**code.remotes, **managed.remotes, **discovered.remotes},
        budgets=managed.budgets,
    )
