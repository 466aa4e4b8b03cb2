"""The registry: specs as data, in immutable versioned snapshots.

A run pins one snapshot. Replacing the registry validates the whole candidate first; an invalid
one changes nothing.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from awaken.authoring.resolvers import AgentResolver, Written
from awaken.contracts.errors import AwakenError, InvalidSpec
from awaken.contracts.models.model_specs import ModelPool
from awaken.contracts.specs.remote_registries import AgentNotDiscovered

from .models import names, pool_routes
from .registries import RegistrySet
from .resolver import ResolvedAgent, resolve

logger = logging.getLogger(__name__)


Answers = Mapping[str, Written | None]
"""The host's answers by agent id; None if there is no such agent."""


class AgentHost(Protocol):
    """Finds agents that are not registered."""

    resolver: AgentResolver

    async def pin(self, current: "RegistrySnapshot", agent_id: str) -> "RegistrySnapshot":
        """The snapshot that a run of an agent keeps: it has the agent and those that it names.

        Raises:
            AgentResolverFailed: The host could not say whether there is such an agent.
        """
        ...

    async def find(self, pinned: "RegistrySnapshot", agent_id: str) -> Answers:
        """The answers for one more agent and those it names, by id; None if there is no such agent.

        Raises:
            AgentResolverFailed: The host could not say whether there is such an agent.
        """
        ...

    def extend(self, pinned: "RegistrySnapshot", answers: Answers) -> "RegistrySnapshot":
        """The snapshot with more agents; those that it already has are unchanged."""
        ...

    def last_seen(self, current: "RegistrySnapshot", agent_id: str) -> "RegistrySnapshot":
        """The snapshot with an agent's last known form; the host is not asked."""
        ...

    async def list_agents(self, current: "RegistrySnapshot") -> "RegistrySnapshot":
        """The registered agents and those that the host lists, for display, not for execution.

        Raises:
            AgentResolverFailed: The host could not list its agents.
        """
        ...


class RegistrySnapshot:
    """One version of the registry. Agents are resolved once and kept."""

    __slots__ = ("_resolved", "host", "publication", "registries", "version")

    def __init__(
        self,
        version: int,
        registries: RegistrySet,
        host: AgentHost | None = None,
        publication: int | None = None,
    ) -> None:
        self.version = version
        self.registries = registries
        self.host = host
        self.publication = publication
        """The publication of the managed configuration in it; None without one."""
        self._resolved: dict[str, ResolvedAgent] = {}

    def with_registries(self, registries: RegistrySet) -> "RegistrySnapshot":
        """The same version with agents of the host, which are checked when they are needed."""
        return RegistrySnapshot(self.version, registries, self.host, self.publication)

    def resolve(self, agent_id: str) -> ResolvedAgent:
        """Return the runnable agent, by its registered id or by an equivalent id.

        Raises:
            UnknownAgent: It is not registered, or its remote registry has not discovered it yet.
            AwakenError: It cannot be resolved; the error names what is missing.
        """
        if agent_id not in self._resolved:
            self._resolved[agent_id] = self._look_up(agent_id)
        return self._resolved[agent_id]

    def _look_up(self, agent_id: str) -> ResolvedAgent:
        registries = self.registries
        name, source = registries.name_of(agent_id), registries.remote_of(agent_id)
        if name != agent_id:
            return self.resolve(name)
        if source is not None and name not in registries.agents:
            raise AgentNotDiscovered(
                agent_id=agent_id,
                source=source,
                origin=registries.remotes[source],
                known=names(registries.agents),
            )
        return resolve(registries, name)

    def problems(self) -> list[str]:
        """Resolve every agent and pool and return the problems; each names its agent or pool."""
        found = []
        for model in self.registries.models.values():
            if isinstance(model, ModelPool):
                found += _pool_problems(self.registries, model)
        for agent_id in sorted(self.registries.agents):
            try:
                self.resolve(agent_id)
            except AwakenError as error:
                problem, who = str(error).rstrip("."), f"Agent '{agent_id}'"
                found.append(problem if problem.startswith(who) else f"{who}: {problem}")
        return found

    def diagnostics(self) -> list[str]:
        """Resolve every agent and return its warnings."""
        agents = map(self.resolve, sorted(self.registries.agents))
        return [oddity for agent in agents for oddity in agent.diagnostics]


class RegistryHandle:
    """The current snapshot, and the only way to replace it."""

    def __init__(self, registries: RegistrySet, host: AgentHost | None = None) -> None:
        self.host = host
        """Finds agents that are not registered; None without a resolver."""
        self._snapshot = _build_snapshot(1, registries, host)

    def snapshot(self) -> RegistrySnapshot:
        """Return the current snapshot; it stays valid after a replacement."""
        return self._snapshot

    async def pin(self, agent_id: str) -> RegistrySnapshot:
        """Return the snapshot that a run of an agent keeps; the host is asked for unknown agents.

        Raises:
            AgentResolverFailed: The host could not say whether there is such an agent.
        """
        if self.host is None:
            return self._snapshot
        return await self.host.pin(self._snapshot, agent_id)

    async def resolve(self, agent_id: str) -> ResolvedAgent:
        """Return the runnable agent that a run would use if it began now.

        Raises:
            UnknownAgent: There is no such agent.
            AgentResolverFailed: The host could not say whether there is one.
            AwakenError: It cannot be resolved; the error names what is missing.
        """
        return (await self.pin(agent_id)).resolve(agent_id)

    def last_seen(self, agent_id: str) -> RegistrySnapshot:
        """Return the current snapshot, with the last known form of an agent of the host."""
        if self.host is None:
            return self._snapshot
        return self.host.last_seen(self._snapshot, agent_id)

    async def list_agents(self) -> RegistrySnapshot:
        """Return the current snapshot, with the agents that the host lists.

        Raises:
            AgentResolverFailed: The host could not list its agents.
        """
        if self.host is None:
            return self._snapshot
        return await self.host.list_agents(self._snapshot)

    @property
    def version(self) -> int:
        """The current version; the first is 1."""
        return self._snapshot.version

    def replace(self, registries: RegistrySet) -> int:
        """Install a new set; returns its version.

        Raises:
            InvalidSpec: An agent in it cannot be resolved; the registry is unchanged.
        """
        self._snapshot = _build_snapshot(self._snapshot.version + 1, registries, self.host)
        return self._snapshot.version

    def update(self, change: Callable[[RegistrySet], RegistrySet]) -> int:
        """Install a changed copy of the current set; returns its version."""
        return self.replace(change(self._snapshot.registries))


def _pool_problems(registries: RegistrySet, pool: ModelPool) -> list[str]:
    try:
        pool_routes(registries, pool)
    except AwakenError as error:
        return [str(error).rstrip(".")]
    return []


def _build_snapshot(
    version: int, registries: RegistrySet, host: AgentHost | None
) -> RegistrySnapshot:
    snapshot = RegistrySnapshot(version, registries, host)
    problems = snapshot.problems()
    if problems:
        raise InvalidSpec(what="The registry", problem="; ".join(problems))
    for oddity in snapshot.diagnostics():
        logger.warning("%s", oddity)
    return snapshot
