"""The handoff plugin: one tool, by which an agent hands the conversation over.

The active agent is kept in the thread's state, so that the next run that names no agent uses it
as well.
"""

from collections.abc import Mapping

from awaken.authoring.functions import tool
from awaken.contracts.errors import InvalidSpec
from awaken.contracts.plugins.loop_state import ACTIVE_AGENT
from awaken.contracts.plugins.plugin import Plugin, PluginRegistrar
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import InvalidArguments, Tool


class HandoffPlugin(Plugin):
    """Lets an agent hand over to the agents named in `to`, each with a hint when to do so.

    Raises:
        InvalidSpec: `to` names no agent.
    """

    name = "agent_handoff"

    def __init__(self, to: Mapping[str, str]) -> None:
        if not to:
            raise InvalidSpec(what="HandoffPlugin", problem="it names no agent to hand over to")
        self._tool = _transfer_tool(dict(to))

    def register(self, registrar: PluginRegistrar) -> None:
        """Register the tool."""
        registrar.tool(self._tool)


def _transfer_tool(to: dict[str, str]) -> Tool:
    choices = "; ".join(f"{agent_id}: {hint}" for agent_id, hint in to.items())

    @tool(
        effect="idempotent",
        description=f"Hand the conversation over to another agent. Agents: {choices}",
    )
    async def transfer_to_agent(agent_id: str, ctx: ToolContext) -> str:
        if agent_id not in to:
            raise InvalidArguments(f"agent_id must be one of {', '.join(to)}")
        ctx.state.set(ACTIVE_AGENT, agent_id)
        return f"Transferred to {agent_id}."

    return transfer_to_agent
