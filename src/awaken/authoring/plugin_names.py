"""Checks objects that were passed as plugins, and names the agents in their configuration."""

from typing import Any

from awaken.contracts.plugins.plugin import Plugin
from awaken.contracts.specs.agents import AgentSpec


def plugin_problem(plugin: object) -> str | None:
    """Return why this cannot be used as a plugin, or None when it can."""
    if isinstance(plugin, type):
        return f"{plugin.__name__} is a class; pass an object: plugins=[{plugin.__name__}()]"
    if not isinstance(plugin, Plugin):
        return f"{plugin!r} is not a plugin; pass an object of a subclass of awaken.Plugin"
    name: object = plugin.name
    if not isinstance(name, str) or not name.strip():
        return f"give class {type(plugin).__name__} a `name`"
    return None


def name_agents(section: Any) -> Any:
    """Return JSON data of a section with the ids of agents in their place."""
    if isinstance(section, dict):
        return {name: name_agents(it) for name, it in section.items()}
    if isinstance(section, list | tuple):
        return [name_agents(it) for it in section]
    spec = getattr(section, "spec", None)
    return spec.id if isinstance(spec, AgentSpec) else section
