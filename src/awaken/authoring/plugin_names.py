"""Checks objects that were passed as plugins."""

from awaken.contracts.plugins.plugin import Plugin


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
