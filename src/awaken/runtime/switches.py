"""Kill switches as executing runs see them: compiled once, replaced by one assignment.

Nothing switched is one object, `NO_SWITCHES`: code on the way of every run compares with it, which
costs no call.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from awaken.contracts.errors import AgentPaused
from awaken.contracts.tools.tool import ToolDescriptor

if TYPE_CHECKING:
    # Most programs switch nothing, and load none of the configuration.
    from awaken.contracts.config.heads import Switch

SERVER_MARK = "mcp.server"
"""The metadata of a tool that names the MCP server it comes from."""
DISABLED = "disabled by the operator"
_NONE: frozenset[str] = frozenset()


class CompiledSwitches(msgspec.Struct, frozen=True, kw_only=True):
    """What is switched off now."""

    agents: frozenset[str] = _NONE
    """Paused agents."""
    is_all_paused: bool = False
    tools: frozenset[str] = _NONE
    models: frozenset[str] = _NONE
    providers: frozenset[str] = _NONE
    servers: frozenset[str] = _NONE
    """Disabled MCP servers."""
    reasons: Mapping[tuple[str, str], str] = {}
    """By the kind of a switch and its id."""

    def is_paused(self, agent_id: str) -> bool:
        """Whether an agent must take no step."""
        return self.is_all_paused or agent_id in self.agents

    def check_agent(self, agent_id: str) -> None:
        """Refuse to start a run of a paused agent.

        Raises:
            AgentPaused: With the operator's reason.
        """
        if self.is_paused(agent_id):
            raise AgentPaused(agent_id=agent_id, reason=self.pause_reason(agent_id))

    def pause_reason(self, agent_id: str) -> str:
        """Return why an agent is paused, in the operator's words."""
        own = self.reasons.get(("agent", agent_id))
        return own or self.reasons.get(("all", "*"), "")

    def why_tool_disabled(self, tool_id: str, descriptor: ToolDescriptor | None) -> str | None:
        """Return what to answer a call of a disabled tool with; None if it is not disabled."""
        if tool_id in self.tools:
            return f"{DISABLED}: {self.reasons.get(('tool', tool_id), '')}"
        if not self.servers or descriptor is None:
            return None
        server = descriptor.metadata.get(SERVER_MARK)
        if server not in self.servers:
            return None
        return f"{DISABLED}: {self.reasons.get(('mcp-server', server), '')}"

    def is_model_disabled(self, model_id: str, provider_id: str) -> bool:
        """Whether a model must not be asked, by its own switch or by that of its provider."""
        return model_id in self.models or provider_id in self.providers


NO_SWITCHES = CompiledSwitches()
"""Nothing is switched off."""


def compile_switches(switches: "Iterable[Switch]") -> CompiledSwitches:
    """Compile the switches of a head; without any this is `NO_SWITCHES` itself."""
    reasons = {(it.kind.value, it.id): it.reason for it in switches}
    if not reasons:
        return NO_SWITCHES

    def list_ids(kind: str) -> frozenset[str]:
        return frozenset(id_ for of, id_ in reasons if of == kind)

    return CompiledSwitches(
        agents=list_ids("agent"),
        is_all_paused=bool(list_ids("all")),
        tools=list_ids("tool"),
        models=list_ids("model"),
        providers=list_ids("provider"),
        servers=list_ids("mcp-server"),
        reasons=reasons,
    )


class SwitchBoard:
    """The switches of one runtime, as it last heard of them."""

    __slots__ = ("_watchers", "current", "releases")

    def __init__(self) -> None:
        self.current: CompiledSwitches = NO_SWITCHES
        self.releases = 0
        """How often a change has released agents: then runs that were paused go on."""
        self._watchers: list[Callable[[], None]] = []

    def apply(self, switches: "Iterable[Switch]") -> None:
        """Replace all switches; runs see them at their next step, tool call or model call."""
        before, after = self.current, compile_switches(switches)
        if after == before:
            return
        self.current = after
        is_any_less = before.is_all_paused and not after.is_all_paused
        if is_any_less or before.agents - after.agents:
            self.releases += 1
        for watcher in tuple(self._watchers):
            watcher()

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call a function after every change; returns a function that ends this."""
        self._watchers.append(watcher)

        def stop() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return stop
