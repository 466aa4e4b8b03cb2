"""The plugin: its keys, tool, hooks and section."""

from collections.abc import Mapping, Sequence

from awaken.contracts.identity import RunIdentity
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import CONTEXT_MESSAGES, RemoveContext
from awaken.contracts.plugins.plugin import ConfigSection, Plugin, PluginRegistrar
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.state.keys import StateCommand
from awaken.contracts.tools.tool import ToolDescriptor

from .catalog import DeferredCatalog, catalog_of
from .config import SECTION, DeferredToolsConfig
from .hooks import HIDE_DEFERRED, LIST_KEY, WantedTools, begin_turn, hide_deferred, note_call
from .state import HIDDEN_TOOLS, LOADED_TOOLS, TOOL_USE
from .tools import tool_search
from .usage_profile import LEARNED, learn


class DeferredToolsPlugin(Plugin):
    """Leaves tools out of an agent's requests until its model searches for them."""

    name = "deferred_tools"

    def register(self, registrar: PluginRegistrar) -> None:
        """Register `ToolSearch` and the hooks of every step."""
        for key in (LOADED_TOOLS, TOOL_USE, HIDDEN_TOOLS):
            registrar.key(key)
        registrar.profile_key(LEARNED)
        registrar.tool(tool_search)
        registrar.action(HIDE_DEFERRED, hide_deferred)
        registrar.hook(Phase.BEFORE_INFERENCE, begin_turn)
        registrar.hook(Phase.BEFORE_TOOL_EXECUTE, note_call)
        registrar.observer(Phase.RUN_END, learn)

    def config_sections(self) -> Sequence[ConfigSection]:
        """The section `deferred_tools`."""
        return (ConfigSection.of(SECTION, DeferredToolsConfig),)

    def prepare(self, agent: AgentSpec, tools: Mapping[str, ToolDescriptor]) -> DeferredCatalog:
        """Decide once which tools are deferred, and what they cost."""
        return catalog_of(agent, tools)

    def activate(self, run: RunIdentity, agent: AgentSpec) -> WantedTools:
        """Make the cache of one run for its wanted patterns."""
        return WantedTools()

    def on_deactivate(self) -> StateCommand:
        """Remove the list: the next agent has other tools."""
        return StateCommand().update(CONTEXT_MESSAGES, RemoveContext(key=LIST_KEY))
