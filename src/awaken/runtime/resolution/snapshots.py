"""A snapshot: one version of everything that agents can name, with its agents resolved.

A run pins one snapshot, which never changes under it.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol

import msgspec

from awaken.authoring.resolvers import AgentResolver, Written
from awaken.contracts.errors import AwakenError, UnknownAgent
from awaken.contracts.models.model_specs import ModelPool
from awaken.contracts.specs.remote_registries import AgentNotDiscovered
from awaken.contracts.tools.tool import Tool

from .layers import ManagedLayer
from .models import names, pool_routes
from .registries import RegistrySet
from .resolver import ResolvedAgent, resolve

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

    __slots__ = (
        "__weakref__", "_base", "_resolved", "host", "layer", "problems", "publication",
        "registries", "revision", "unusable", "version", "warnings",
    )  # fmt: skip

    def __init__(
        self,
        version: int,
        registries: RegistrySet,
        host: AgentHost | None = None,
        layer: ManagedLayer | None = None,
        revision: int = 0,
    ) -> None:
        self.version = version
        self.registries = registries
        self.host = host
        self.layer = layer
        """The managed configuration in it; None without one."""
        self.publication = None if layer is None else layer.publication
        """The publication of the managed configuration in it; None without one."""
        self.revision = revision
        """The revision of the code, the discovered agents and the plugins in it."""
        self.problems: Mapping[str, AwakenError] = {}
        """Why agents could not be resolved, by agent id."""
        self.unusable: Mapping[str, AwakenError] = {}
        """Why agents cannot run: their own problem, or that of an agent that they need."""
        self.warnings: tuple[str, ...] = ()
        """What is odd about its agents and pools, but prevents nothing."""
        self._base: RegistrySnapshot | None = None
        self._resolved: dict[str, ResolvedAgent] = {}

    def with_registries(self, registries: RegistrySet) -> "RegistrySnapshot":
        """The same version with agents of the host, which are checked when they are needed."""
        made = RegistrySnapshot(self.version, registries, self.host, self.layer, self.revision)
        made.publication, made.unusable = self.publication, self.unusable
        # A run that holds it keeps its publication.
        made._base = self._base or self
        return made

    def with_publication(self, no: int) -> "RegistrySnapshot":
        """The same agents under the number that their configuration was given."""
        if self.publication == no or self.layer is None:
            return self
        layer = msgspec.structs.replace(self.layer, publication=no)
        made = RegistrySnapshot(self.version, self.registries, self.host, layer, self.revision)
        made.problems, made.unusable, made.warnings = self.problems, self.unusable, self.warnings
        made._resolved = dict(self._resolved)
        return made

    def resolve(self, agent_id: str) -> ResolvedAgent:
        """Return the runnable agent, by its registered id or by an equivalent id.

        Raises:
            UnknownAgent: It is not registered, or its remote registry has not discovered it yet.
            AgentUnusable: The managed configuration has it, and it cannot be resolved here.
            AwakenError: It cannot be resolved; the error names what is missing.
        """
        if agent_id not in self._resolved:
            self._resolved[agent_id] = self._look_up(agent_id)
        return self._resolved[agent_id]

    def equip_tool(self, tool: Tool) -> Tool:
        """Return a tool that no agent declares as runs of this snapshot have it."""
        return tool

    def name_child_world(self, world: str, call_id: str) -> str:
        """Return the world of a run below a call: what is below a world is never in reality."""
        return f"{world}/{call_id.replace('/', '%2F')}"

    def _look_up(self, agent_id: str) -> ResolvedAgent:
        registries = self.registries
        name, source = registries.name_of(agent_id), registries.remote_of(agent_id)
        if name != agent_id:
            return self.resolve(name)
        if name in self.unusable:
            raise _make_unusable(name, self.unusable[name])
        if source is not None and name not in registries.agents:
            raise AgentNotDiscovered(
                agent_id=agent_id,
                source=source,
                origin=registries.remotes[source],
                known=names(registries.agents),
            )
        return resolve(registries, name)

    def check_start(self, agent_id: str) -> None:
        """Refuse a new run of an agent that is hidden; its earlier runs continue.

        Raises:
            UnknownAgent: It is hidden.
        """
        hidden = self.registries.hidden
        if agent_id in hidden:
            known = (name for name in self.registries.agents if name not in hidden)
            raise UnknownAgent(agent_id=agent_id, known=names(dict.fromkeys(known)))

    def usable_agents(self) -> tuple[str, ...]:
        """The registered agents that can run."""
        return tuple(name for name in self.registries.agents if name not in self.unusable)

    def resolve_all(
        self, before: "RegistrySnapshot | None" = None, renewed: frozenset[int] = frozenset()
    ) -> Iterator[bool]:
        """Resolve every agent; those that no change concerns are taken from an earlier snapshot.

        Yields after each agent whether it was resolved. Problems are collected, not raised.

        Args:
            before: The earlier snapshot. None resolves every agent.
            renewed: The ids (`id()`) of plugins that register something else since then.
        """
        earlier: Mapping[str, ResolvedAgent] = {}
        if before is not None and before._resolved:  # noqa: SLF001
            # Imported on demand: most programs never change their registry.
            from .changes import Changes  # noqa: PLC0415

            earlier = before._resolved  # noqa: SLF001
            changes = Changes(before.registries, self.registries, renewed)
        problems: dict[str, AwakenError] = {}
        for agent_id in sorted(self.registries.agents):
            known = earlier.get(agent_id)
            if known is not None and not changes.concern(agent_id, known):
                self._resolved[agent_id] = known
                yield False
                continue
            try:
                self._resolved[agent_id] = resolve(self.registries, agent_id)
            except AwakenError as error:
                problems[agent_id] = error
            yield True
        self.problems = problems
        self.unusable = self._spread(problems) if problems or self.layer is not None else {}
        self.warnings = (*self.pool_problems(), *self._list_oddities())

    def _spread(self, problems: Mapping[str, AwakenError]) -> Mapping[str, AwakenError]:
        """Add the agents that the configuration rules out, and those that need an unusable one."""
        # Only a process with managed configuration needs these errors.
        from awaken.contracts.config.errors import AgentUnusable  # noqa: PLC0415

        declared = {} if self.layer is None else self.layer.unusable
        found: dict[str, AwakenError] = {
            **problems,
            **{name: AgentUnusable(agent_id=name, problem=it) for name, it in declared.items()},
        }
        callers: dict[str, list[str]] = {}
        for name, source in self.registries.agents.items():
            for delegate in source.spec.delegates:
                callers.setdefault(self.registries.name_of(delegate), []).append(name)
        waiting = [*found]
        while waiting:
            delegate = waiting.pop()
            for name in callers.get(delegate, ()):
                if name not in found:
                    problem = f"its delegate '{delegate}' cannot be used"
                    found[name] = AgentUnusable(agent_id=name, problem=problem)
                    waiting.append(name)
        for name in found:
            self._resolved.pop(name, None)
        return found

    def pool_problems(self) -> tuple[str, ...]:
        """What is wrong with pools, whether an agent uses them or not."""
        pools = (it for it in self.registries.models.values() if isinstance(it, ModelPool))
        return tuple(problem for pool in pools for problem in _pool_problems(self.registries, pool))

    def _list_oddities(self) -> Iterator[str]:
        for agent_id in sorted(self.registries.agents):
            agent = self._resolved.get(agent_id)
            if agent is not None:
                yield from agent.diagnostics


class CurrentSnapshot:
    """Finds the snapshot that a run takes: the current one, or that of its publication."""

    def __init__(self, snapshot: RegistrySnapshot, host: AgentHost | None) -> None:
        self.host = host
        """Finds agents that are not registered; None without a resolver."""
        self._snapshot = snapshot

    def snapshot(self) -> RegistrySnapshot:
        """Return the current snapshot; it stays valid after a replacement."""
        return self._snapshot

    @property
    def version(self) -> int:
        """The current version; the first is 1."""
        return self._snapshot.version

    async def pin(self, agent_id: str, publication: int | None = None) -> RegistrySnapshot:
        """Return the snapshot that a run of an agent keeps; the host is asked for unknown agents.

        Args:
            agent_id: The agent.
            publication: The publication that the run is pinned to. None: what is current.

        Raises:
            UnknownPublication: There is no such publication.
            AgentResolverFailed: The host could not say whether there is such an agent.
        """
        snapshot = self._snapshot
        if publication is not None and publication != snapshot.publication:
            snapshot = await self._find_publication(publication)
        if self.host is None:
            return snapshot
        return await self.host.pin(snapshot, agent_id)

    async def resolve(self, agent_id: str, publication: int | None = None) -> ResolvedAgent:
        """Return the runnable agent that a run would use if it began now, or on a publication.

        Raises:
            UnknownAgent: There is no such agent.
            UnknownPublication: There is no such publication.
            AgentResolverFailed: The host could not say whether there is one.
            AwakenError: It cannot be resolved; the error names what is missing.
        """
        return (await self.pin(agent_id, publication)).resolve(agent_id)

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

    async def _find_publication(self, no: int) -> RegistrySnapshot:
        raise NotImplementedError


def describe_problems(problems: Mapping[str, AwakenError]) -> list[str]:
    """The problems of agents as texts; each names its agent."""
    found = []
    for agent_id, error in problems.items():
        problem, who = str(error).rstrip("."), f"Agent '{agent_id}'"
        found.append(problem if problem.startswith(who) else f"{who}: {problem}")
    return found


def _make_unusable(agent_id: str, error: AwakenError) -> AwakenError:
    from awaken.contracts.config.errors import AgentUnusable  # noqa: PLC0415 - as above

    # A new error for each caller: a raised one gathers tracebacks.
    problem = error.problem if isinstance(error, AgentUnusable) else str(error)
    return AgentUnusable(agent_id=agent_id, problem=problem)


def _pool_problems(registries: RegistrySet, pool: ModelPool) -> list[str]:
    try:
        pool_routes(registries, pool)
    except AwakenError as error:
        return [str(error).rstrip(".")]
    return []
