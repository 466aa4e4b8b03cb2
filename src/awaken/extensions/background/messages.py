"""`send_message`: one tool by which agents send messages to each other.

A message to a child goes to its running task; a message to a parent or another agent goes through
the durable sink. The model does not choose the transport.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

import msgspec

from awaken.authoring.refusals import truncate_text
from awaken.contracts.errors import AwakenError, UnknownAgent
from awaken.contracts.record import Record
from awaken.contracts.tasks import TaskHasNoInbox, TaskNotFound, TaskNotOwned, TaskTerminated
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.sub_runs import DurableMessageRequest
from awaken.contracts.tools.tool import InvalidArguments, ToolDescriptor, ToolEffect, ToolOutput
from awaken.redaction import remove_secrets

from .config import check_offered, startable_agents
from .targets import Child, MessagePeer, Parent, Target, relation_schema, target_of

SEND_MESSAGE_TOOL_ID = "send_message"


class MessageError(StrEnum):
    """Why a message was not sent; `transport_failed` is followed by the sink's error."""

    RECIPIENT_NOT_FOUND = "recipient_not_found"
    PERMISSION_DENIED = "permission_denied"
    RECIPIENT_UNAVAILABLE = "recipient_unavailable"
    TRANSPORT_FAILED = "transport_failed"


class SendMessageReceipt(Record, frozen=True, kw_only=True):
    """The result that the model reads: the message was accepted or refused."""

    message_id: str
    """Empty if it was refused."""
    status: Literal["accepted", "failed"]
    error: str | None = None
    detail: str | None = None
    """The delivery guarantee; of a refused message what to do instead."""


_CODES: Mapping[type[AwakenError], MessageError] = {
    TaskNotFound: MessageError.RECIPIENT_NOT_FOUND,
    TaskNotOwned: MessageError.PERMISSION_DENIED,
    TaskTerminated: MessageError.RECIPIENT_UNAVAILABLE,
    TaskHasNoInbox: MessageError.RECIPIENT_UNAVAILABLE,
}
_RELATIONS = ("parent", "child", "agent")
_TEXT = {"type": "string"}
_NAMELESS = "without agent_id the message goes to the agent of the thread"


class OutgoingMessage(Record, frozen=True, kw_only=True):
    """A message and its recipient."""

    to: Target
    message: str


class SendMessageTool:
    """Sends a message to a child task, the parent, or the agent of another thread.

    The result is a `SendMessageReceipt`, also when the message was refused.
    """

    def __init__(self) -> None:
        self.descriptor = ToolDescriptor(
            id=SEND_MESSAGE_TOOL_ID,
            name=SEND_MESSAGE_TOOL_ID,
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
            receipt = await _send(arguments, context)
        except AwakenError as error:
            receipt = _describe_refusal(error)
        data = msgspec.to_builtins(receipt)
        return ToolOutput(result=ToolResult.success(self.descriptor.id, data))


async def _send(message: OutgoingMessage, context: ToolContext) -> SendMessageReceipt:
    match message.to:
        case Child(name=name):
            return await _tell_child(name, message.message, context)
        case Parent():
            if context.run.parent_thread_id is None:
                detail = "no other agent started this run"
                return _make_error(MessageError.RECIPIENT_UNAVAILABLE, detail)
            # The thread determines the agent: the parent may have handed over since.
            recipient = MessagePeer(thread_id=context.run.parent_thread_id)
            return await _send_to_thread(recipient, message.message, context)
        case MessagePeer(agent_id=str(named)) if named not in startable_agents(context.agent):
            return _make_error(MessageError.PERMISSION_DENIED, _describe_way_out(context))
        case MessagePeer() as recipient:
            return await _send_to_thread(recipient, message.message, context)
        case _:
            return _make_error(MessageError.RECIPIENT_NOT_FOUND)


async def _tell_child(name: str, text: str, context: ToolContext) -> SendMessageReceipt:
    task = await context.sub_runs.find_task(name)
    if task is None or task.status.is_terminal:
        detail = "no running task of yours has that name or id; `task_status` lists your tasks"
        return _make_error(MessageError.RECIPIENT_NOT_FOUND, detail)
    message_id = await context.sub_runs.tell_task(task.task_id, text)
    return _make_receipt(message_id, "the task reads it before its next step, if it has not ended")


async def _send_to_thread(
    recipient: MessagePeer, text: str, context: ToolContext
) -> SendMessageReceipt:
    sub_runs = context.sub_runs
    request = DurableMessageRequest(
        recipient_thread_id=recipient.thread_id,
        recipient_agent_id=recipient.agent_id,
        sender_agent_id=context.run.active_agent_id or context.run.agent_id,
        message=text,
    )
    message_id = await sub_runs.send_agent_message(request)
    return _make_receipt(
        message_id, _describe_promise(recipient, is_foreign=sub_runs.has_own_transport)
    )


def _describe_promise(recipient: MessagePeer, *, is_foreign: bool) -> str:
    """The delivery guarantee."""
    if is_foreign:
        return "handed to the transport of this application"
    if recipient.agent_id is None:
        return "the agent of that thread reads it once, while it works or as a new turn"
    return f"'{recipient.agent_id}' reads it once, as soon as the thread is free for that agent"


def _describe_way_out(context: ToolContext) -> str:
    own = context.agent.id
    if named := ", ".join(f"'{it}'" for it in startable_agents(context.agent)):
        allowed = f"as agent_id '{own}' may name {named}"
    else:
        allowed = f"'{own}' may name no agent_id"
    return truncate_text(f"{allowed}; {_NAMELESS}")


def _make_receipt(message_id: str, promise: str) -> SendMessageReceipt:
    return SendMessageReceipt(message_id=message_id, status="accepted", detail=promise)


def _make_error(error: str, detail: str | None = None) -> SendMessageReceipt:
    return SendMessageReceipt(message_id="", status="failed", error=error, detail=detail)


def _describe_refusal(error: AwakenError) -> SendMessageReceipt:
    if isinstance(error, UnknownAgent):
        # The text of this error names every registered agent.
        return _make_error(MessageError.RECIPIENT_NOT_FOUND, f"there is no such agent; {_NAMELESS}")
    said = truncate_text(remove_secrets(str(error)))
    if (code := _CODES.get(type(error))) is not None:
        return _make_error(code, said)
    return _make_error(f"{MessageError.TRANSPORT_FAILED}: {said}")


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
