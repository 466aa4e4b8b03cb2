"""Errors and warnings of the resolution of agents, as problems with paths."""

import re
from typing import Any

from awaken.contracts.config.compiler import ConfigProblem
from awaken.contracts.errors import AwakenError, InvalidPluginConfig, UnknownReference

_FIELDS = {
    "provider": "model_id",
    "model": "model_id",
    "plugin": "plugin_ids",
    "agent": "delegates",
    "backend": "endpoint/backend",
    "MCP server": "sections/mcp/servers",
}
_OWNER = re.compile(r"(Agent|Pool) '([^']+)'")
_NAMESPACES = {"Agent": "agents", "Pool": "model-pools"}


def describe_error(agent_id: str, error: AwakenError) -> ConfigProblem:
    """Return the problem of an agent that could not be resolved."""
    path = f"agents/{agent_id}"
    known: tuple[str, ...] = ()
    match error:
        case InvalidPluginConfig(section=str(section)):
            path = f"{path}/sections/{section}"
        case UnknownReference(kind=str(kind)):
            path = f"{path}/{_FIELDS[kind]}" if kind in _FIELDS else path
            known = _split_names(error.known)
    message = getattr(error, "problem", "") if error.code == "agent_unusable" else str(error)
    return ConfigProblem(path=path, code=error.code, message=message or str(error), known=known)


def describe_warning(warning: str) -> ConfigProblem:
    """Return the diagnostic of a warning; its path is that of the record that it names first."""
    found = _OWNER.search(warning)
    path = f"{_NAMESPACES[found[1]]}/{found[2]}" if found is not None else ""
    is_pattern = warning.rstrip(".").endswith("matches nothing")
    code = "pattern_matches_nothing" if is_pattern else "warning"
    return ConfigProblem(path=path, code=code, message=warning)


def _split_names(known: Any) -> tuple[str, ...]:
    names = str(known).split(", ")
    return () if names == ["none"] else tuple(names)
