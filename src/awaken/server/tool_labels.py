"""The names of tools that metrics tell apart: registered ones, never what models or clients say."""

from awaken.contracts.errors import AwakenError
from awaken.contracts.tools.tool import UNKNOWN_TOOL
from awaken.runtime.resolution.registry import RegistryHandle, RegistrySnapshot

_ASKING = "tool:"


class ToolLabels:
    """Labels by the tools that are registered now, with any agent."""

    __slots__ = ("_names", "_registry", "_seen")

    def __init__(self, registry: RegistryHandle) -> None:
        self._registry = registry
        self._seen: RegistrySnapshot | None = None
        self._names: frozenset[str] = frozenset()

    def label_tool(self, name: str) -> str:
        """The name if it is registered, else `unknown`."""
        snapshot = self._registry.snapshot()
        if snapshot is not self._seen:
            self._seen, self._names = snapshot, _registered_names(snapshot)
        return name if name in self._names else UNKNOWN_TOOL

    def label_action(self, action: str) -> str:
        """What a suspended call waits for; a tool in it is named as `label_tool` does."""
        if not action.startswith(_ASKING):
            return action
        return _ASKING + self.label_tool(action.removeprefix(_ASKING))


def _registered_names(snapshot: RegistrySnapshot) -> frozenset[str]:
    names: set[str] = set()
    for agent_id in snapshot.registries.agents:
        try:
            names.update(snapshot.resolve(agent_id).tools)
        except AwakenError:
            # Such an agent runs nothing, so that none of its tools is ever called.
            continue
    return frozenset(names)
