"""Tools that a client runs: the call is suspended, and the decision is its result."""

from typing import Any

import msgspec

from awaken.contracts.suspension.tickets import (
    PendingToolCall,
    ResumeMode,
    SuspendTicket,
    Suspension,
)
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.tool import ToolDescriptor, ToolEffect, ToolOutput

from .schema_tools import ArgumentSchema


class FrontEndTool:
    """A tool that suspends every call until a client answers it.

    Its effect is `none` whatever the descriptor says, because no code runs here.
    """

    def __init__(self, descriptor: ToolDescriptor) -> None:
        self.descriptor = msgspec.structs.replace(descriptor, effect=ToolEffect.NONE)
        self._schema = ArgumentSchema(descriptor.parameters)

    def validate(self, arguments: Any) -> Any:
        """Return the arguments as they are; null means none.

        Raises:
            InvalidArguments: They do not fit the schema.
        """
        return self._schema.validate(arguments)

    async def execute(self, arguments: Any, context: ToolContext) -> ToolOutput:
        """Return the decision's result, or suspend the call until there is one."""
        tool_id = self.descriptor.id
        if context.resume is not None:
            return ToolOutput(result=ToolResult.from_decision(tool_id, context.resume))
        return ToolOutput(
            result=ToolResult.from_ticket(tool_id, self._build_ticket(arguments, context))
        )

    def _build_ticket(self, arguments: Any, context: ToolContext) -> SuspendTicket:
        tool_id = self.descriptor.id
        return SuspendTicket(
            suspension=Suspension(
                action=f"tool:{tool_id}",
                parameters=arguments,
            ),
            pending=PendingToolCall(id=context.call_id, name=tool_id, arguments=arguments),
            resume_mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT,
        )
