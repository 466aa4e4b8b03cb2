"""What a request brings for its run: its options, and the tools of a client's session.

The tools are usable while the session is open in this process.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from awaken.contracts.plugins.loop_state import REQUEST_OPTIONS, RequestOptions
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import Tool, ToolDescriptor, ToolEffect, ToolError, ToolOutput
from awaken.runtime.resolution.resolver import ResolvedAgent
from awaken.runtime.state.store import StateStore

OpenSessions = dict[str, Callable[[], Sequence[Tool]]]
"""Returns the current tools of each session of this process, by session id."""


class SessionEnded(ToolError):
    """The tool belongs to a client's session that is not open in this process."""

    code = "session_ended"


class EndedSessionTool:
    """Stands for a tool whose session has ended: the model still sees it, every call fails."""

    def __init__(self, descriptor: ToolDescriptor) -> None:
        # No code runs, so a call is safe to repeat.
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
    """Return the agent with the tools and the output type of the request.

    Tools of the request's session are added to those of the agent.
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


def keep_options(request: RunRequest, state: StateStore) -> RunRequest:
    """Keep the request's options in the run's state, so that they still hold after a resume."""
    kept = state.get(REQUEST_OPTIONS)
    asked = RequestOptions(
        overrides=request.overrides,
        frontend_tools=request.frontend_tools,
        output_schema=request.output_schema,
        budgets=request.budgets,
        budget_group=request.budget_group,
        session_tools=request.session_tools,
    )
    if asked == kept:
        return request
    overrides = asked.overrides or kept.overrides
    tools = asked.frontend_tools or kept.frontend_tools
    schema = asked.output_schema or kept.output_schema
    # A request that resumes a run cannot remove the run's budgets.
    budgets = kept.budgets or asked.budgets
    group = kept.budget_group or asked.budget_group
    options = RequestOptions(
        overrides=overrides,
        frontend_tools=tools,
        output_schema=schema,
        budgets=budgets,
        budget_group=group,
        session_tools=asked.session_tools or kept.session_tools,
    )
    state.update(REQUEST_OPTIONS, options)
    return msgspec.structs.replace(
        request,
        overrides=overrides,
        frontend_tools=tools,
        output_schema=schema,
        budgets=budgets,
        budget_group=group,
        session_tools=options.session_tools,
    )
