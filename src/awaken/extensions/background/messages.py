"""`send_message`: one tool by which agents write to each other.

A child reads the message in its running task; a parent or another agent is written to through
the durable sink. The caller does not choose the way.
"""

from collections.abc import Mapping
from typing import Any

from awaken.contracts.errors import AwakenError
from awaken.contracts.record import Record
from awaken.contracts.sub_runs import DurableMessageRequest
from awaken.contracts.tasks import TaskHasNoInbox, TaskNotFound, TaskNotOwned, TaskTerminated
from awaken.contracts.tool_context import ToolContext
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools import InvalidArguments, ToolDescriptor, ToolEffect, ToolOutput

from .config import check_offered, startable_agents
from .targets import Child, Parent, Peer, Target, relation_schema, target_of

NOT_FOUND = "recipient_not_found"
UNAVAILABLE = "recipient_unavailable"
DENIED = "permission_denied"

_CODES: Mapping[type[AwakenError], str] = {
    TaskNotFound: NOT_FOUND,
    TaskNotOwned: DENIED,
    TaskTerminated: UNAVAILABLE,
    TaskHasNoInbox: UNAVAILABLE,
}
_RELATIONS = ("parent", "child", "agent")
_TEXT = {"type": "string"}


class OutgoingMessage(Record, frozen=True, kw_only=True):
    """A message and whom it is for."""

    to: Target
    message: str


class SendMessageTool:
    """Writes to a child task, the parent, or the agent of another thread.

    The result is a receipt, also when the message was refused: `{message_id, status, error?}`.
    """

    def __init__(self) -> None:
        self.descriptor = ToolDescriptor(
            id="send_message",
            name="send_message",
            description="Send a message to a child task, parent agent, or team member.",
            parameters=_PARAMETERS,
            effect=ToolEffect.IDEMPOTENT,
        )

    def validate(self, arguments: Any) -> OutgoingMessage:
        """Return the message and its recipient.

        Raises:
            InvalidArguments: One of them is missing or incomplete.
        """
        to = target_of(arguments, "to", _RELATIONS)
        message = arguments.get("message")
        if not isinstance(message, str):
            raise InvalidArguments("missing 'message'")
        return OutgoingMessage(to=to, message=message)

    async def execute(self, arguments: OutgoingMessage, context: ToolContext) -> ToolOutput:
        """Send the message and return the receipt."""
        check_offered("send_message", context)
        try:
            receipt = await _sent(arguments, context)
        except AwakenError as error:
            receipt = _refused(_CODES.get(type(error)) or f"transport_failed: {error}")
        return ToolOutput(result=ToolResult.success(self.descriptor.id, receipt))


async def _sent(message: OutgoingMessage, context: ToolContext) -> dict[str, str]:
    match message.to:
        case Child(name=name):
            return await _told(name, message.message, context)
        case Parent():
            if context.run.parent_thread_id is None:
                return _refused(UNAVAILABLE)
            # Who reads it is inferred from the thread: the parent may have handed over since.
            recipient = Peer(thread_id=context.run.parent_thread_id)
            return await _posted(recipient, message.message, context)
        case Peer(agent_id=str(named)) if named not in startable_agents(context.agent):
            return _refused(DENIED)
        case Peer() as recipient:
            return await _posted(recipient, message.message, context)
        case _:
            return _refused(NOT_FOUND)


async def _told(name: str, text: str, context: ToolContext) -> dict[str, str]:
    task = await context.sub_runs.find_task(name)
    if task is None or task.status.is_terminal:
        return _refused(NOT_FOUND)
    return _accepted(await context.sub_runs.tell_task(task.task_id, text))


async def _posted(recipient: Peer, text: str, context: ToolContext) -> dict[str, str]:
    request = DurableMessageRequest(
        recipient_thread_id=recipient.thread_id,
        recipient_agent_id=recipient.agent_id,
        sender_agent_id=context.run.active_agent_id or context.run.agent_id,
        message=text,
    )
    return _accepted(await context.sub_runs.send_agent_message(request))


def _accepted(message_id: str) -> dict[str, str]:
    return {"message_id": message_id, "status": "accepted"}


def _refused(error: str) -> dict[str, str]:
    return {"message_id": "", "status": "failed", "error": error}


_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "to": {
            "oneOf": [
                relation_schema("parent"),
                relation_schema("child", name={**_TEXT, "description": "Task name or ID"}),
                relation_schema("agent", thread_id=_TEXT, agent_id=_TEXT, optional=["agent_id"]),
            ]
        },
        "message": _TEXT,
    },
    "required": ["to", "message"],
}
