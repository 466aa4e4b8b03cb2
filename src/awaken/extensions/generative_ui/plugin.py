"""The plugin: its tools, and the instructions about A2UI."""

from collections.abc import Mapping, Sequence

from awaken.contracts.errors import InvalidPluginConfig, KeyCodecError
from awaken.contracts.messages.context_messages import ContextMessage, system_context
from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import ADD_CONTEXT_MESSAGE, TOOL_FILTER, ToolFilter
from awaken.contracts.plugins.plugin import (
    BeforeInferenceContext,
    ConfigSection,
    Plugin,
    PluginRegistrar,
)
from awaken.contracts.record import Record
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.state.keys import StateCommand
from awaken.contracts.tools.tool import ToolDescriptor

from .config import SECTION, GenerativeUiConfig, config_of, config_problem, withheld_tools
from .prompts import a2ui_instructions
from .state import SURFACES
from .tools import RenderA2uiTool, render_json_ui, render_openui


class PreparedLanguage(Record, frozen=True, kw_only=True):
    """The instructions of an agent, built once for all steps."""

    withheld: tuple[str, ...]
    message: ContextMessage | None


class GenerativeUiPlugin(Plugin):
    """Lets an agent show interfaces: A2UI directly, and two formats that a delegate writes."""

    name = "generative-ui"

    def register(self, registrar: PluginRegistrar) -> None:
        """Register the tools and the state key of the surfaces."""
        registrar.key(SURFACES)
        for it in (RenderA2uiTool(), render_json_ui, render_openui):
            registrar.tool(it)
        registrar.hook(Phase.BEFORE_INFERENCE, _instruct)

    def config_sections(self) -> Sequence[ConfigSection]:
        """The section `generative_ui`."""
        return (ConfigSection.of(SECTION, GenerativeUiConfig),)

    def prepare(self, agent: AgentSpec, tools: Mapping[str, ToolDescriptor]) -> PreparedLanguage:
        """Build the instructions of the agent.

        Raises:
            InvalidPluginConfig: A delegate is missing, or a component is invalid.
        """
        try:
            config = config_of(agent)
        except KeyCodecError as error:
            problem: str | None = error.problem
        else:
            problem = config_problem(agent, config)
        if problem is not None:
            raise InvalidPluginConfig(section=SECTION, agent_id=agent.id, problem=problem)
        text = a2ui_instructions(config) if config.a2ui else ""
        message = system_context(SECTION, text) if text else None
        return PreparedLanguage(withheld=withheld_tools(config), message=message)


async def _instruct(context: BeforeInferenceContext) -> StateCommand | None:
    prepared: PreparedLanguage = context.prepared
    command = StateCommand()
    if prepared.withheld:
        command = command.update(TOOL_FILTER, ToolFilter(excluded=prepared.withheld))
    if prepared.message is not None and "render_a2ui" in context.tool_ids:
        command = command.schedule(ADD_CONTEXT_MESSAGE, prepared.message)
    return None if command.is_empty else command
