"""Compiles managed configuration against the code of this process, and installs it.

The only place that knows providers, plugins, MCP servers and remote registries at once.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from awaken.contracts.config.compiler import AgentChange, CompiledConfig, EffectiveConfig
from awaken.contracts.errors import AwakenError
from awaken.contracts.models.budgets import Budget, OwnPrices, PriceList
from awaken.contracts.plugins.plugin import Plugin
from awaken.contracts.specs.remote_registries import RemoteRegistry
from awaken.extensions.mcp import McpPlugin, McpServer
from awaken.runtime.resolution.layers import ManagedLayer
from awaken.runtime.resolution.registries import RegistrySet

from .agent_forms import compare_snapshots
from .config_layers.agents import AT_ONCE, SourceCache, add_agents
from .config_layers.build import LayerBuild
from .config_layers.code_records import hash_code, read_code_layer
from .config_layers.models import ClientCache, add_models, add_providers
from .config_layers.plugins import MCP, PluginOpener, PluginShelf, check_remotes
from .config_layers.resolution_problems import describe_error, describe_warning
from .config_layers.scorers import check_scorers
from .config_layers.tools import ToolCache, add_tools
from .providers import Connections

WAITING_MAX = 32
"""How many compiled configurations may wait to be installed, kept or discarded."""


class CompiledLayer(ManagedLayer, frozen=True, kw_only=True):
    """A managed layer and what has to live beside it."""

    servers: tuple[McpServer, ...] = ()
    registries: tuple[RemoteRegistry, ...] = ()


class LayerSnapshot(Protocol):
    """A registry with one managed layer."""

    layer: ManagedLayer | None
    unusable: Mapping[str, AwakenError]
    """Why agents cannot run."""
    warnings: tuple[str, ...]


class ManagedRegistry(Protocol):
    """The registry, as far as a compiler needs it."""

    def snapshot(self) -> Any:
        """The current `LayerSnapshot`."""
        ...

    def snapshots(self) -> Iterator[Any]:
        """Every `LayerSnapshot` that runs hold, or may take without compiling it."""
        ...

    async def prepare(self, layer: ManagedLayer) -> Any:
        """Resolve the agents of a layer; nothing is installed, and no problem is raised."""
        ...

    async def install(self, snapshot: Any, publication: int | None = None) -> int:
        """Make a prepared snapshot the current one."""
        ...

    async def keep(self, snapshot: Any, publication: int | None = None) -> None:
        """Keep a prepared snapshot for pinned runs."""
        ...


class RemoteWatcher(Protocol):
    """Watches remote registries."""

    async def apply(self, remotes: Iterable[RemoteRegistry]) -> None:
        """Watch these and no others; waits for none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerParts:
    """The parts of a runtime that a compiler uses."""

    code: RegistrySet
    """What the code declares, without managed and discovered agents."""
    remotes: tuple[RemoteRegistry, ...]
    registry: ManagedRegistry
    plugins: PluginOpener
    discovery: RemoteWatcher
    connections: Connections
    prices: PriceList = field(default_factory=OwnPrices)


class RuntimeConfigCompiler:
    """Implements `ConfigCompiler` for one runtime.

    Records that did not change since the last compilation keep their objects, so that the registry
    resolves only the agents that a change concerns.
    """

    def __init__(self, parts: CompilerParts) -> None:
        self._parts = parts
        self._code = read_code_layer(parts.code, parts.remotes)
        self._code_hashes: Mapping[str, str] | None = None
        self._clients = ClientCache(parts.connections)
        self._tools = ToolCache()
        self._sources = SourceCache()
        self._specs: dict[tuple[str, str], tuple[str, Any]] = {}
        self._shelf = PluginShelf(parts.plugins)
        self._waiting: dict[int, tuple[CompiledLayer, Any]] = {}
        """Layers that are compiled and not installed, with their snapshots, by `id()`."""
        self._turn = asyncio.Lock()

    def code_records(self) -> Mapping[str, Mapping[str, Any]]:
        """The records that the code of this process declares, as specs, by namespace and id.

        Vendors that the code only knows are no records: a record of that id configures them.
        """
        return self._code.records

    def code_hashes(self) -> Mapping[str, str]:
        """Hashes of the agents and tools of the code, by `agents/id` and `tools/id`.

        The code does not change while its process runs: they are made once, because each record of
        a list asks for them.
        """
        if self._code_hashes is None:
            self._code_hashes = hash_code(self._code)
        return self._code_hashes

    async def compile(self, config: EffectiveConfig) -> CompiledConfig:
        """Compile a configuration; nothing is installed, and problems are collected, not raised."""
        async with self._turn:
            build = LayerBuild(self._code, await self._keep_specs(config))
            build.check_owners()
            await asyncio.sleep(0)
            await add_providers(build, self._clients)
            add_models(build, self._parts.prices)
            add_tools(build, self._tools)
            check_remotes(build)
            check_scorers(build)
            await asyncio.sleep(0)
            await self._shelf.add_plugins(build)
            await asyncio.sleep(0)
            await add_agents(build, self._sources)
            layer = _finish_layer(build)
            snapshot = await self._parts.registry.prepare(layer)
            self._wait(layer, snapshot)
        problems = [*build.problems]
        for agent_id, error in snapshot.unusable.items():
            if agent_id not in build.unusable:
                problems.append(describe_error(agent_id, error))
        warnings = map(describe_warning, snapshot.warnings)
        return CompiledConfig(
            config=config,
            layer=layer,
            problems=tuple(problems),
            diagnostics=(*build.diagnostics, *warnings),
            unusable={
                **{name: str(error) for name, error in snapshot.unusable.items()},
                **build.unusable,
            },
        )

    async def install(self, compiled: CompiledConfig) -> None:
        """Make a compiled configuration the one that new runs take.

        Servers and registries are connected afterwards; one that cannot be reached refuses nothing.
        """
        async with self._turn:
            snapshot = await self._take(compiled)
            await self._parts.registry.install(snapshot, compiled.config.publication)
            await self._reconcile()

    async def keep(self, compiled: CompiledConfig) -> None:
        """Keep a compiled configuration for runs that are pinned to its publication."""
        async with self._turn:
            snapshot = await self._take(compiled)
            await self._parts.registry.keep(snapshot, compiled.config.publication)
            await self._reconcile()

    async def discard(self, compiled: CompiledConfig) -> None:
        """Close what only this configuration needs; one that is installed or kept needs it."""
        async with self._turn:
            self._waiting.pop(id(compiled.layer), None)
            await self._reconcile()

    async def list_changes(self, compiled: CompiledConfig) -> tuple[AgentChange, ...]:
        """List the agents that differ from those that new runs take now, sorted by id."""
        _, snapshot = self._waiting.get(id(compiled.layer), (None, None))
        if snapshot is None:
            snapshot = await self._parts.registry.prepare(compiled.layer)
        return await compare_snapshots(self._parts.registry.snapshot(), snapshot)

    async def _keep_specs(self, config: EffectiveConfig) -> EffectiveConfig:
        """Return the configuration with the earlier objects of specs that did not change."""
        records: dict[str, dict[str, Any]] = {}
        seen: dict[tuple[str, str], tuple[str, Any]] = {}
        for namespace, found in config.records.items():
            records[namespace] = {}
            for name, record in found.items():
                hash_, spec = self._specs.get((namespace, name), ("", None))
                if hash_ == record.hash and spec is not None:
                    record = msgspec.structs.replace(record, spec=spec)
                seen[namespace, name] = (record.hash, record.spec)
                records[namespace][name] = record
                if len(seen) % AT_ONCE == 0:
                    await asyncio.sleep(0)
        self._specs = seen
        return msgspec.structs.replace(config, records=records)

    def _wait(self, layer: CompiledLayer, snapshot: Any) -> None:
        self._waiting[id(layer)] = (layer, snapshot)
        if len(self._waiting) > WAITING_MAX:
            del self._waiting[next(iter(self._waiting))]

    async def _take(self, compiled: CompiledConfig) -> Any:
        """Return the snapshot of a compiled configuration."""
        _, snapshot = self._waiting.pop(id(compiled.layer), (None, None))
        if snapshot is None:
            snapshot = await self._parts.registry.prepare(compiled.layer)
        return snapshot

    async def _reconcile(self) -> None:
        """Have the servers, registries and plugins that some snapshot needs, and no others."""
        registry = self._parts.registry
        layers = [it.layer for it in registry.snapshots()]
        # What new runs take comes last, and wins where a name has changed its meaning.
        layers.append(registry.snapshot().layer)
        alive = [it for it in layers if isinstance(it, CompiledLayer)]
        waiting = [layer for layer, _ in self._waiting.values()]
        servers = {it.name: it for layer in alive for it in layer.servers}
        remotes = {it.name: it for layer in alive for it in layer.registries}
        await self._apply_servers(alive, servers.values())
        await self._parts.discovery.apply((*self._code.remotes, *remotes.values()))
        used = [*alive, *waiting]
        await self._shelf.release_unused(it for layer in used for it in layer.plugins.values())
        self._clients.prune({id(it) for layer in used for it in layer.providers.values()})

    async def _apply_servers(
        self, alive: Iterable[CompiledLayer], servers: Iterable[McpServer]
    ) -> None:
        """Give the servers to the MCP plugin: that of the code, or the one that was made."""
        plugins: dict[str, Plugin] = {**self._code.registries.plugins}
        for layer in alive:
            plugins |= layer.plugins
        plugin = plugins.get(MCP)
        if isinstance(plugin, McpPlugin):
            await plugin.apply((*self._code.servers, *servers))


class CompilerOnly(RuntimeConfigCompiler):
    """Compiles and installs nothing: no server is started, and no registry is contacted."""

    async def install(self, compiled: CompiledConfig) -> None:
        """Close what the configuration opened: nothing runs here."""
        await self.discard(compiled)

    async def keep(self, compiled: CompiledConfig) -> None:
        """Close what the configuration opened: nothing runs here."""
        await self.discard(compiled)


def _finish_layer(build: LayerBuild) -> CompiledLayer:
    agents = build.config.records.get("agents", {})
    remotes: list[RemoteRegistry] = [it.spec for it in build.records("a2a-servers").values()]
    budgets: list[Budget] = [it.spec.budget for it in build.records("budgets").values()]
    return CompiledLayer(
        publication=build.config.publication,
        agents=build.agents,
        hidden=frozenset(name for name, it in agents.items() if it.is_hidden),
        models=build.models,
        providers=build.providers,
        plugins=build.plugins,
        tools=build.tools,
        disabled_tools=frozenset(build.disabled_tools),
        remotes={it.name: it.origin for it in remotes},
        budgets=tuple(budgets),
        unusable=build.unusable,
        servers=tuple(it.spec for it in build.records("mcp-servers").values()),
        registries=tuple(remotes),
    )
