"""What an agent may do with background tasks and messages: its section `background_tasks`."""

from typing import ClassVar, Literal, get_args

from awaken.contracts.record import StrictRecord
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import ToolDenied

SECTION = "background_tasks"
ToolName = Literal[
    "spawn_agent", "task_status", "cancel_task", "send_message", "recover_failed_messages"
]
TOOL_NAMES: tuple[ToolName, ...] = get_args(ToolName)


class BackgroundTasksConfig(StrictRecord, frozen=True, kw_only=True):
    """Which tools an agent has, and which agents it may start."""

    section: ClassVar[str] = SECTION

    tools: tuple[ToolName, ...] = TOOL_NAMES
    agents: tuple[str, ...] | None = None
    """Agents that may be started as tasks; absent: the agent's delegates."""


def startable_agents(agent: AgentSpec) -> tuple[str, ...]:
    """The agents that an agent may start as tasks."""
    named = agent.config(SECTION, BackgroundTasksConfig).agents
    return agent.delegates if named is None else named


def withheld_tools(agent: AgentSpec) -> tuple[ToolName, ...]:
    """The tools of this plugin that an agent may not use, or has no use for."""
    offered = agent.config(SECTION, BackgroundTasksConfig).tools
    return tuple(
        name
        for name in TOOL_NAMES
        if name not in offered or (name == "spawn_agent" and not startable_agents(agent))
    )


def check_offered(name: ToolName, context: ToolContext) -> None:
    """Refuse a call of a withheld tool: a model may call a tool that it was not shown.

    Raises:
        ToolDenied: The tool is withheld from the agent.
    """
    if name in withheld_tools(context.agent):
        raise ToolDenied(f"agent '{context.agent.id}' may not use '{name}'")
