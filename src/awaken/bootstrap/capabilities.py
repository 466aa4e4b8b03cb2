"""Lists what agents may name in this process, for forms that edit them."""

import asyncio
import importlib
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.plugins.plugin import Plugin
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.extensions.mcp import McpPlugin
from awaken.extensions.skills import Skill, SkillsPlugin
from awaken.runtime.resolution.registries import RegistrySet
from awaken.runtime.resolution.registry import RegistryHandle
from awaken.runtime.switches import SERVER_MARK

from .config_kinds import SUPPORTED_ADAPTERS
from .config_layers.code_records import AGENT_PREFIX, PLUGIN_PREFIX, list_descriptors
from .plugins import GROUP, load_installed_plugins

logger = logging.getLogger(__name__)

OTHER_NAMES: Mapping[str, str] = {"deferred_tools": "ext-deferred-tools"}
"""The ids that plugins have in Awaken for Rust, where they differ."""
_BACKEND = {"kind": "awaken", "version": 1, "schema": {"type": "object"}}


class RuntimeCapabilities:
    """Implements `CapabilityLister` for one runtime."""

    def __init__(self, registry: RegistryHandle) -> None:
        self._registry = registry
        self._installed: dict[str, Plugin] | None = None

    async def list_capabilities(self) -> Mapping[str, Any]:
        """Return agents, tools, plugins, skills, models, providers, backends and adapters."""
        snapshot = self._registry.snapshot()
        registries = snapshot.registries
        if self._installed is None:
            # Reading the metadata of packages, and importing them, takes a while.
            self._installed = await asyncio.to_thread(_load_installed)
        own = {plugin.name: plugin for it in registries.agents.values() for plugin in it.plugins}
        plugins = {**self._installed, **own, **registries.plugins}
        withheld = registries.hidden | snapshot.unusable.keys()
        return {
            "agents": sorted(
                name
                for name, it in registries.agents.items()
                if it.spec.registry is None and name not in withheld
            ),
            "tools": _describe_tools(registries),
            "plugins": _describe_plugins(plugins),
            "skills": [_describe_skill(it) for it in _list_skills(registries.plugins.values())],
            "providers": [{"id": name} for name in sorted(registries.providers)],
            "backends": [_BACKEND],
            "supported_adapters": list(SUPPORTED_ADAPTERS),
        }


def _describe_tools(registries: RegistrySet) -> list[dict[str, Any]]:
    shown = {
        name: _show_tool(it, _read_source(source))
        for name, (it, source) in list_descriptors(registries).items()
    }
    for plugin in registries.plugins.values():
        if isinstance(plugin, McpPlugin):
            for tool in plugin.tools():
                made: ToolDescriptor = tool.descriptor
                server = made.metadata.get(SERVER_MARK)
                source = {"kind": "mcp"} if server is None else {"kind": "mcp", "id": server}
                shown[made.id] = _show_tool(made, source)
    return [shown[name] for name in sorted(shown) if name not in registries.disabled_tools]


def _show_tool(tool: ToolDescriptor, source: dict[str, str]) -> dict[str, Any]:
    return {
        "id": tool.id,
        "name": tool.name or tool.id,
        "description": tool.description or "",
        "source": source,
        "effect": tool.effect,
        "parameters_schema": tool.parameters,
    }


def _read_source(source: str) -> dict[str, str]:
    if source.startswith(PLUGIN_PREFIX):
        return {"kind": "plugin", "id": source.removeprefix(PLUGIN_PREFIX)}
    if source.startswith(AGENT_PREFIX):
        return {"kind": "builtin", "id": source.removeprefix(AGENT_PREFIX)}
    return {"kind": "builtin"}


def _describe_plugins(plugins: Mapping[str, Plugin]) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    for name, plugin in sorted(plugins.items()):
        schemas = [
            {
                "key": it.name,
                "schema": it.schema,
                "display_name": it.name.replace("_", " ").capitalize(),
                "default_value": {},
            }
            for it in plugin.config_sections()
        ]
        shown += [
            {"id": id_, "config_schemas": schemas}
            for id_ in dict.fromkeys((name, OTHER_NAMES.get(name, name)))
        ]
    return shown


def _list_skills(plugins: Iterable[Plugin]) -> list[Skill]:
    skills: list[Skill] = []
    for plugin in plugins:
        if isinstance(plugin, SkillsPlugin):
            skills += plugin.skills
        elif isinstance(plugin, McpPlugin):
            skills += plugin.skills().skills()
    return sorted(skills, key=lambda it: it.name)


def _describe_skill(skill: Skill) -> dict[str, Any]:
    return {
        "id": skill.name,
        "name": skill.name,
        "description": skill.description,
        "allowed_tools": skill.allowed_tools,
        "when_to_use": skill.when_to_use,
        "arguments": skill.arguments,
        "argument_hint": skill.argument_hint,
        "user_invocable": skill.user_invocable,
        "model_invocable": skill.model_invocable,
        "model_override": skill.model,
        "context": skill.context,
        "paths": skill.paths,
    }


def _load_installed() -> dict[str, Plugin]:
    """Make the plugins that installed packages offer; one that fails is left out."""
    offered = importlib.import_module("importlib.metadata").entry_points(group=GROUP)
    found: dict[str, Plugin] = {}
    for name in {it.name for it in offered}:
        try:
            found |= load_installed_plugins((name,), {}, ())
        except InvalidSpec:
            logger.warning("An installed plugin cannot be listed.", exc_info=True)
    return found
