"""Finds the plugins of a runtime by name, and opens and closes them with the runtime."""

import asyncio
import importlib
import logging
from collections.abc import Callable, Iterable, Mapping

from awaken.authoring.plugin_names import plugin_problem
from awaken.contracts.errors import InvalidSpec, PluginFailed
from awaken.contracts.plugins.plugin import Plugin
from awaken.runtime.resolution.registries import AgentSource
from awaken.runtime.resolution.registry import RegistryHandle

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
    except Exception as error:
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


class PluginLifecycle:
    """Opens plugins with their runtime and closes them with it. Implements `PluginHost`."""

    def __init__(self, registry: RegistryHandle) -> None:
        self._registry = registry
        self._opened: list[Plugin] = []

    def renew(self) -> None:
        """Resolve every agent again, because what a plugin registers has changed."""
        self._registry.update(lambda registries: registries)

    async def open(self) -> None:
        """Open every plugin that has a lifecycle.

        Raises:
            PluginFailed: One could not be opened; `close` closes it, and those opened before.
        """
        for plugin in self._list_with_lifecycle():
            self._opened.append(plugin)
            try:
                async with asyncio.timeout(OPEN_S):
                    await plugin.open(self)
            except Exception as error:
                problem = f"raised {type(error).__name__}: {error}"
                raise PluginFailed(what="open()", plugin=plugin.name, problem=problem) from error

    async def close(self) -> None:
        """Close them, the last one first; one that fails does not prevent the others."""
        while self._opened:
            plugin = self._opened.pop()
            try:
                async with asyncio.timeout(CLOSE_S):
                    await plugin.close()
            except Exception:
                logger.exception("Plugin '%s' could not be closed.", plugin.name)

    def _list_with_lifecycle(self) -> list[Plugin]:
        registries = self._registry.snapshot().registries
        known = [*registries.plugins.values()]
        known += [plugin for source in registries.agents.values() for plugin in source.plugins]
        distinct = {id(plugin): plugin for plugin in known}.values()
        return [plugin for plugin in distinct if has_lifecycle(plugin)]
