"""Tool names as metric labels: only registered tools, never names from models or clients."""

from awaken.contracts.errors import AwakenError
from awaken.contracts.tools.tool import UNKNOWN_TOOL
from awaken.runtime.resolution.registry import RegistryHandle, RegistrySnapshot

_TOOL_ACTION = "tool:"


class ToolLabels:
    """Makes labels from the tools that any agent has registered now."""

    __slots__ = ("_names", "_registry", "_seen")

    def __init__(self, registry: RegistryHandle) -> None:
        self._registry = registry
        self._seen: RegistrySnapshot | None = None
        self._names: frozenset[str] = frozenset()

    def label_tool(self, name: str) -> str:
        """The name if it is registered, else `unknown`."""
        snapshot = self._registry.snapshot()
        if snapshot is not self._seen:
            self._seen, self._names = snapshot, _list_tool_names(snapshot)
        return name if name in self._names else UNKNOWN_TOOL

    def label_action(self, action: str) -> str:
        """The action that a suspended call waits for; a tool in it goes through `label_tool`."""
        if not action.startswith(_TOOL_ACTION):
            return action
        return _TOOL_ACTION + self.label_tool(action.removeprefix(_TOOL_ACTION))


def _list_tool_names(snapshot: RegistrySnapshot) -> frozenset[str]:
    names: set[str] = set()
    for agent_id in snapshot.registries.agents:
        try:
            names.update(snapshot.resolve(agent_id).tools)
        except AwakenError:
            # An agent that does not resolve never runs, so none of its tools is called.
            continue
    return frozenset(names)
