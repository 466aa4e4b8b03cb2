"""Finds the plugins of a runtime by name, and opens and closes them with the runtime."""

import asyncio
import importlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from awaken.authoring.functions import is_interruption
from awaken.authoring.plugin_names import plugin_problem
from awaken.contracts.errors import InvalidSpec, Misuse, PluginFailed
from awaken.contracts.plugins.plugin import Plugin
from awaken.runtime.resolution.registries import AgentSource
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.resolution.snapshots import RegistrySnapshot

if TYPE_CHECKING:
    from awaken.contracts.memory.access import MemoryAccess

FindMemory = Callable[[], "MemoryAccess"]
logger = logging.getLogger(__name__)

GROUP = "awaken.extensions"
"""The entry point group of installed plugins: callables without arguments that make one."""
OPEN_S = 30
CLOSE_S = 10


def load_installed_plugins(
    wanted: Iterable[str], known: Mapping[str, Plugin], sources: Iterable[AgentSource]
) -> dict[str, Plugin]:
    """Load plugins that agents name, that were not passed, and that installed packages offer.

    Raises:
        InvalidSpec: A package's plugin cannot be made, or is not a plugin.
    """
    agents = list(sources)
    names = {*wanted, *(name for source in agents for name in source.spec.plugin_ids)}
    own = {plugin.name for source in agents for plugin in source.plugins}
    missing = names - known.keys() - own
    if not missing:
        return {}
    # Imported on demand: most programs pass their plugins themselves.
    offered = importlib.import_module("importlib.metadata").entry_points(group=GROUP)
    return {it.name: _make_plugin(it.name, it.load) for it in offered if it.name in missing}


def _make_plugin(name: str, load: Callable[[], Callable[[], Plugin]]) -> Plugin:
    what = f"The installed plugin '{name}'"
    try:
        plugin = load()()
    except BaseException as error:
        if is_interruption(error):
            raise
        problem = f"it could not be made: {type(error).__name__}: {error}"
        raise InvalidSpec(what=what, problem=problem) from error
    if (wrong := plugin_problem(plugin)) is not None:
        raise InvalidSpec(what=what, problem=wrong)
    if plugin.name != name:
        raise InvalidSpec(what=what, problem=f"it calls itself '{plugin.name}'")
    return plugin


def has_lifecycle(plugin: Plugin) -> bool:
    """Whether a plugin has to be opened or closed."""
    return type(plugin).open is not Plugin.open or type(plugin).close is not Plugin.close


class _PluginHost:
    """The host of one plugin. Implements `PluginHost`."""

    def __init__(
        self, registry: RegistryHandle, plugin: Plugin, find_memory: FindMemory | None
    ) -> None:
        self._registry = registry
        self._plugin = plugin
        self._find_memory = find_memory

    @property
    def memory(self) -> "MemoryAccess":
        """Facts and documents of the runtime's store."""
        if self._find_memory is None:
            message = "There is no memory here: no runtime is open."
            raise Misuse(message)
        return self._find_memory()

    async def renew(self) -> None:
        """Resolve the plugin's agents again, because what the plugin registers has changed."""
        await self._registry.renew(self._plugin)


class PluginLifecycle:
    """Opens plugins with their runtime, or when configuration names them, and closes them."""

    def __init__(self, registry: RegistryHandle, find_memory: FindMemory | None = None) -> None:
        self._registry = registry
        self._find_memory = find_memory
        self._opened: list[Plugin] = []
        self._changing = asyncio.Lock()

    async def open(self) -> None:
        """Open every plugin of the registry that has a lifecycle.

        Raises:
            PluginFailed: One could not be opened, and is closed; `close` closes the others.
        """
        await self.ensure(_plugins_of(self._registry.snapshot()))

    async def ensure(self, plugins: Iterable[Plugin]) -> None:
        """Open those plugins that have a lifecycle and are not open.

        Raises:
            PluginFailed: One could not be opened in time, and is closed; others stay open.
        """
        async with self._changing:
            for plugin in plugins:
                if has_lifecycle(plugin) and not _has(self._opened, plugin):
                    await self._open(plugin)

    async def release(self, plugins: Iterable[Plugin]) -> None:
        """Close those plugins that no snapshot uses: neither new runs nor pinned ones need them."""
        async with self._changing:
            used = [it for snapshot in self._registry.snapshots() for it in _plugins_of(snapshot)]
            for plugin in plugins:
                if _has(self._opened, plugin) and not _has(used, plugin):
                    self._opened = [it for it in self._opened if it is not plugin]
                    await _close_plugin(plugin)

    async def close(self) -> None:
        """Close them, the last one first; one that fails does not prevent the others."""
        while self._opened:
            await _close_plugin(self._opened.pop())

    async def _open(self, plugin: Plugin) -> None:
        # In the list while it opens: a runtime that is closed meanwhile closes it, too.
        self._opened.append(plugin)
        try:
            async with asyncio.timeout(OPEN_S):
                await plugin.open(_PluginHost(self._registry, plugin, self._find_memory))
        except BaseException as error:
            if is_interruption(error):
                raise
            self._opened = [it for it in self._opened if it is not plugin]
            await _close_plugin(plugin)
            problem = f"raised {type(error).__name__}: {error}"
            raise PluginFailed(what="open()", plugin=plugin.name, problem=problem) from error


async def _close_plugin(plugin: Plugin) -> None:
    try:
        async with asyncio.timeout(CLOSE_S):
            await plugin.close()
    except BaseException as error:
        if is_interruption(error):
            raise
        logger.exception("Plugin '%s' could not be closed.", plugin.name)


def _plugins_of(snapshot: RegistrySnapshot) -> list[Plugin]:
    """The plugins that the agents of a snapshot have or may name, each once."""
    registries = snapshot.registries
    known = [*registries.plugins.values()]
    known += [plugin for source in registries.agents.values() for plugin in source.plugins]
    return [*{id(plugin): plugin for plugin in known}.values()]


def _has(plugins: Iterable[Plugin], plugin: Plugin) -> bool:
    # Not `in`: a plugin may define its own equality.
    return any(it is plugin for it in plugins)
