"""The plugin: after a tool result it adds the triggered reminders to the next request."""

from collections.abc import Iterable, Mapping, Sequence

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import ADD_CONTEXT_MESSAGE
from awaken.contracts.plugins.plugin import (
    AfterToolExecuteContext,
    ConfigSection,
    Plugin,
    PluginRegistrar,
)
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.state.keys import StateCommand
from awaken.contracts.tools.tool import ToolDescriptor
from awaken.patterns import call_of

from .config import SECTION, ReminderConfig, ReminderRule
from .rules import Reminders, compile_rules


class ReminderPlugin(Plugin):
    """Gives a model the operator's reminders after certain tool results.

    `rules` apply to every agent with this plugin; the agent's section adds its own.

    Raises:
        InvalidSpec: One of them is not a rule.
    """

    name = "reminder"

    def __init__(self, rules: Iterable[ReminderRule] = ()) -> None:
        self._rules = _check_rules(rules)

    def register(self, registrar: PluginRegistrar) -> None:
        """Check every tool result."""
        registrar.hook(Phase.AFTER_TOOL_EXECUTE, _remind)

    def config_sections(self) -> Sequence[ConfigSection]:
        """The section `reminder`."""
        return (ConfigSection.of(SECTION, ReminderConfig),)

    def prepare(self, agent: AgentSpec, tools: Mapping[str, ToolDescriptor]) -> Reminders:
        """Compile the rules, so that an invalid one is refused before any run."""
        own = agent.config(SECTION, ReminderConfig).rules
        return compile_rules((*self._rules, *own), agent.id, tools)


async def _remind(context: AfterToolExecuteContext) -> StateCommand:
    """Add the reminders that a result triggers to the next request; the loop applies cooldowns."""
    reminders: Reminders = context.prepared
    call = call_of(context.call.name, context.call.arguments)
    command = StateCommand()
    for message in reminders.find_due(call, context.result):
        command = command.schedule(ADD_CONTEXT_MESSAGE, message)
    return command


def _check_rules(rules: object) -> tuple[ReminderRule, ...]:
    given = tuple(rules) if isinstance(rules, Iterable) else (rules,)
    for it in given:
        if not isinstance(it, ReminderRule):
            problem = f"a rule is a ReminderRule, not {type(it).__name__}"
            raise InvalidSpec(what="ReminderPlugin", problem=problem)
    return given
