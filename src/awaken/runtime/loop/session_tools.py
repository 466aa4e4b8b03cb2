"""Tools of a client's session in its runs: alive while the session is open in this process."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from awaken.contracts.runs.records import RunRequest
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import Tool, ToolDescriptor, ToolEffect, ToolError, ToolOutput
from awaken.runtime.resolution.resolver import ResolvedAgent

OpenSessions = dict[str, Callable[[], Sequence[Tool]]]
"""What the sessions of this process offer now, by session."""


class SessionEnded(ToolError):
    """The tool belongs to a client's session that is not open in this process."""

    code = "session_ended"


class EndedSessionTool:
    """A tool whose session is gone: the model still knows it, and every call says so."""

    def __init__(self, descriptor: ToolDescriptor) -> None:
        # No code is behind it, so that it may be asked again.
        self.descriptor = msgspec.structs.replace(descriptor, effect=ToolEffect.NONE)

    def validate(self, arguments: Any) -> Any:
        """Return the arguments as they are."""
        return arguments

    async def execute(self, arguments: Any, context: ToolContext) -> ToolOutput:
        """Refuse the call.

        Raises:
            SessionEnded: Always.
        """
        tool_id = self.descriptor.id
        message = f"tool '{tool_id}' came with a session that has ended; load the session again"
        raise SessionEnded(message)


def equip_agent(agent: ResolvedAgent, request: RunRequest, sessions: OpenSessions) -> ResolvedAgent:
    """Return the agent with the tools and the output type that the request brings.

    Tools of the request's session are added to those of the agent, which stay.
    """
    if request.frontend_tools:
        agent = agent.with_frontend_tools(request.frontend_tools)
    if request.output_schema is not None:
        agent = agent.with_output(request.output_schema)
    if not request.session_tools:
        return agent
    offer = sessions.get(request.session_id or "")
    live = {it.descriptor.id: it for it in (() if offer is None else offer())}
    return agent.with_tools(_choose_tools(request.session_tools, live))


def _choose_tools(descriptors: Iterable[ToolDescriptor], live: dict[str, Tool]) -> list[Tool]:
    return [live.get(it.id) or EndedSessionTool(it) for it in descriptors]
