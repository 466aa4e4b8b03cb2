"""What differs between two registry sets, and which agents that concerns.

An agent that no change concerns keeps its resolved form. Things are compared by identity.
"""

from collections.abc import Mapping
from typing import Any

from awaken.authoring.delegates import description_of

from .registries import AgentSource, RegistrySet
from .resolver import ResolvedAgent, match_patterns, named_agents


class Changes:
    """The names that another set gives another meaning, by kind."""

    __slots__ = (
        "_after", "_agents", "_backends", "_before", "_has_removed", "_is_general", "_models",
        "_plugins", "_providers", "_renewed", "_tools",
    )  # fmt: skip

    def __init__(
        self, before: RegistrySet, after: RegistrySet, renewed: frozenset[int] = frozenset()
    ) -> None:
        """Compare two sets.

        Args:
            before: The set with which agents were resolved.
            after: The set with which they are needed.
            renewed: The ids (`id()`) of plugins that register something else since.
        """
        self._before, self._after, self._renewed = before, after, renewed
        self._is_general = _general(before) != _general(after)
        self._agents = _differing(before.agents, after.agents)
        self._has_removed = any(name not in after.agents for name in self._agents)
        self._models = _differing(before.models, after.models)
        self._providers = _differing(before.providers, after.providers)
        self._plugins = _differing(before.plugins, after.plugins)
        self._backends = _differing(before.backends, after.backends)
        switched = before.disabled_tools ^ after.disabled_tools
        self._tools = _differing(before.tools, after.tools) | switched

    def concern(self, agent_id: str, agent: ResolvedAgent) -> bool:
        """Whether an agent that was resolved with the earlier set must be resolved again."""
        if self._is_general or agent_id in self._agents:
            return True
        source = self._after.agents[agent_id]
        return (
            self._concern_plugins(agent)
            or self._concern_models(agent)
            or self._concern_tools(source, agent)
            or self._concern_backend(agent)
            # Last: it reads the sections of the agent's plugins, which are the same here.
            or self._concern_named(agent_id, agent)
        )

    def _concern_plugins(self, agent: ResolvedAgent) -> bool:
        if self._renewed and any(id(plugin) in self._renewed for plugin in agent.env.plugins):
            return True
        return bool(self._plugins) and any(it.name in self._plugins for it in agent.env.plugins)

    def _concern_models(self, agent: ResolvedAgent) -> bool:
        if not (self._models or self._providers) or not agent.is_local:
            return False
        members = agent.pool.members if agent.pool is not None else ()
        return (
            agent.spec.model_id in self._models
            or any(member.model_id in self._models for member in members)
            or any(route.spec.provider_id in self._providers for route in agent.models)
        )

    def _concern_tools(self, source: AgentSource, agent: ResolvedAgent) -> bool:
        if not self._tools:
            return False
        spec = agent.spec
        if spec.allowed_tools is None or spec.delegates:
            # Every tool may be offered, or may collide with the tool of a delegate.
            return True
        if not self._tools.isdisjoint(source.tools) or not self._tools.isdisjoint(agent.env.tools):
            return True
        patterns = (*spec.allowed_tools, *(spec.excluded_tools or ()))
        return bool(match_patterns(self._tools, patterns)[0])

    def _concern_backend(self, agent: ResolvedAgent) -> bool:
        if not self._backends:
            return False
        endpoint = agent.spec.endpoint
        return ("local" if endpoint is None else endpoint.backend) in self._backends

    def _concern_named(self, agent_id: str, agent: ResolvedAgent) -> bool:
        spec = agent.spec
        if not self._agents or not (spec.delegates or spec.sections):
            return False
        if any(map(self._is_described_anew, spec.delegates)):
            return True
        if not self._has_removed:
            return False
        return not all(map(self._after.knows, named_agents(self._after, agent_id)))

    def _is_described_anew(self, delegate: str) -> bool:
        before, after = self._before.name_of(delegate), self._after.name_of(delegate)
        return before != after or _describe(self._before, before) != _describe(self._after, after)


def _general(registries: RegistrySet) -> tuple[Any, ...]:
    """What every agent depends on."""
    return (
        registries.everywhere,
        registries.local_name,
        (*registries.remotes,),
        registries.is_open,
    )


def _differing(before: Mapping[str, object], after: Mapping[str, object]) -> frozenset[str]:
    if before is after:
        return frozenset()
    names = before.keys() | after.keys()
    return frozenset(name for name in names if before.get(name) is not after.get(name))


def _describe(registries: RegistrySet, name: str) -> str | None:
    source = registries.agents.get(name)
    return None if source is None else description_of(source.spec)
