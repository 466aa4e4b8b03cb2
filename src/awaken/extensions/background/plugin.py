"""The plugin: five tools, of which an agent gets those that its section allows."""

from collections.abc import Sequence

from awaken.contracts.phases import Phase
from awaken.contracts.plugins.loop_state import TOOL_FILTER, ToolFilter
from awaken.contracts.plugins.plugin import (
    BeforeInferenceContext,
    ConfigSection,
    Plugin,
    PluginRegistrar,
)
from awaken.contracts.state.keys import StateCommand
from awaken.contracts.tools.tool import Tool

from .cancel_task import CancelTaskTool
from .config import SECTION, BackgroundTasksConfig, withheld_tools
from .messages import SendMessageTool
from .tools import recover_failed_messages, spawn_agent, task_status

_TOOLS: tuple[Tool, ...] = (
    spawn_agent,
    task_status,
    CancelTaskTool(),
    SendMessageTool(),
    recover_failed_messages,
)


class BackgroundTasksPlugin(Plugin):
    """Lets an agent start other agents in the background and exchange messages with them."""

    name = "background_tasks"

    def register(self, registrar: PluginRegistrar) -> None:
        """Register the tools, and hide those that the agent's section withholds."""
        for tool in _TOOLS:
            registrar.tool(tool)
        registrar.hook(Phase.BEFORE_INFERENCE, _hide_withheld)

    def config_sections(self) -> Sequence[ConfigSection]:
        """The section `background_tasks`."""
        return (ConfigSection.of(SECTION, BackgroundTasksConfig, agent_fields=("agents",)),)


async def _hide_withheld(context: BeforeInferenceContext) -> StateCommand | None:
    withheld = tuple(withheld_tools(context.agent))
    return StateCommand().update(TOOL_FILTER, ToolFilter(excluded=withheld)) if withheld else None
