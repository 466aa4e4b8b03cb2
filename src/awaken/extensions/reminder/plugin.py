"""The plugin: what it declares."""

from collections.abc import Iterable, Mapping, Sequence

from awaken.contracts.phases import Phase
from awaken.contracts.plugins import ConfigSection, Plugin, PluginRegistrar
from awaken.contracts.specs import AgentSpec
from awaken.contracts.state import StateCommand
from awaken.contracts.tools import ToolDescriptor

from .config import SECTION, ReminderConfig, ReminderRule
from .hooks import note, remind
from .rules import Reminders, compiled
from .state import DUE


class ReminderPlugin(Plugin):
    """Tells a model what the operator wants it to mind after certain results of tools.

    `rules` are those of every agent with this plugin; the agent's section adds its own.
    """

    name = "reminder"

    def __init__(self, rules: Iterable[ReminderRule] = ()) -> None:
        self._rules = tuple(rules)

    def register(self, registrar: PluginRegistrar) -> None:
        """Look at every result, and speak before the next request."""
        registrar.key(DUE)
        registrar.hook(Phase.AFTER_TOOL_EXECUTE, note)
        registrar.hook(Phase.BEFORE_INFERENCE, remind)

    def config_sections(self) -> Sequence[ConfigSection]:
        """The section `reminder`."""
        return (ConfigSection.of(SECTION, ReminderConfig),)

    def prepare(self, agent: AgentSpec, tools: Mapping[str, ToolDescriptor]) -> Reminders:
        """Compile the rules, so that a wrong one is refused before any run."""
        own = agent.config(SECTION, ReminderConfig).rules
        return compiled((*self._rules, *own), agent.id, tools)

    def on_deactivate(self) -> StateCommand:
        """Take along what was not said yet: the next agent has its own rules."""
        return StateCommand().clear(DUE)
