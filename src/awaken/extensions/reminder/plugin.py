"""The plugin: what it declares."""

from collections.abc import Iterable, Mapping, Sequence

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.plugin import ConfigSection, Plugin, PluginRegistrar
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tools.tool import ToolDescriptor

from .config import SECTION, ReminderConfig, ReminderRule
from .hooks import remind
from .rules import Reminders, compiled


class ReminderPlugin(Plugin):
    """Tells a model what the operator wants it to mind after certain results of tools.

    `rules` are those of every agent with this plugin; the agent's section adds its own.

    Raises:
        InvalidSpec: One of them is no rule.
    """

    name = "reminder"

    def __init__(self, rules: Iterable[ReminderRule] = ()) -> None:
        self._rules = _given(rules)

    def register(self, registrar: PluginRegistrar) -> None:
        """Look at every result."""
        registrar.hook(Phase.AFTER_TOOL_EXECUTE, remind)

    def config_sections(self) -> Sequence[ConfigSection]:
        """The section `reminder`."""
        return (ConfigSection.of(SECTION, ReminderConfig),)

    def prepare(self, agent: AgentSpec, tools: Mapping[str, ToolDescriptor]) -> Reminders:
        """Compile the rules, so that a wrong one is refused before any run."""
        own = agent.config(SECTION, ReminderConfig).rules
        return compiled((*self._rules, *own), agent.id, tools)


def _given(rules: object) -> tuple[ReminderRule, ...]:
    given = tuple(rules) if isinstance(rules, Iterable) else (rules,)
    for it in given:
        if not isinstance(it, ReminderRule):
            problem = f"a rule is a ReminderRule, not {type(it).__name__}"
            raise InvalidSpec(what="ReminderPlugin", problem=problem)
    return given
