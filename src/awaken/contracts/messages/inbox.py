"""Messages to threads and runs from tasks and from other agents: one form, built in one place.

`inbox_messages` is the only way from a payload to the messages that the model reads, whichever
boundary the payload crosses: a live inbox, a queued dispatch, or a foreign process.
"""

import re
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidInput
from awaken.contracts.record import Record

from .content import replace_surrogates
from .message import (
    Message,
    MessageMetadata,
    Role,
    Sender,
    SenderKind,
    TokenUsage,
    Visibility,
    as_blocks,
)

PAYLOAD_BYTES = 1024 * 1024
"""The largest payload that is accepted."""


class TaskEnded(Record, frozen=True, kw_only=True, tag_field="kind", tag="ended"):
    """A task has ended."""

    task_id: str
    status: str
    name: str | None = None
    result: Any = None
    error: str | None = None
    is_quiet: bool = False
    """Whether it wakes no idle thread: the task was cancelled with the run that started it."""
    usage: TokenUsage | None = None
    """The usage of the task, if it was an agent's run."""


class TaskUpdate(Record, frozen=True, kw_only=True, tag_field="kind", tag="custom"):
    """A task reports something while it is running."""

    task_id: str
    event_type: str
    payload: Any = None


class AgentMessage(Record, frozen=True, kw_only=True, tag_field="kind", tag="agent_message"):
    """An agent sent a message to another agent."""

    content: str
    agent_id: str
    """The agent that sent it."""
    thread_id: str
    run_id: str
    hops: int = 0
    """How many agent messages in a row caused this one, since a person's last message."""


class PlainMessages(Record, frozen=True, kw_only=True, tag_field="kind", tag="messages"):
    """Messages as they are."""

    messages: tuple[Message, ...]


InboxPayload = TaskEnded | TaskUpdate | AgentMessage | PlainMessages


def inbox_messages(payload: Any) -> tuple[Message, ...]:
    """Convert a payload into messages; the payload is validated first.

    Raises:
        InvalidInput: The payload is malformed, empty or too large; nothing of it is used.
    """
    checked = _decode_payload(payload)
    match checked:
        case PlainMessages(messages=messages):
            if not messages or any(it.role is not Role.USER for it in messages):
                raise _invalid_payload("it has no messages, or one that is not a user's")
            # Code wrote them, whatever they claim.
            unknown = MessageMetadata(user_id="")
            return tuple(msgspec.structs.replace(it, metadata=unknown) for it in messages)
        case TaskEnded() as ended:
            sender = Sender(
                kind=SenderKind.TASK,
                task_id=ended.task_id,
                is_end=True,
                is_quiet=ended.is_quiet,
                usage=ended.usage,
            )
            return (_build_task_message(sender, ended.status, ended),)
        case TaskUpdate() as update:
            # It does not wake an idle thread: the agent reads it with the next input.
            sender = Sender(kind=SenderKind.TASK, task_id=update.task_id, is_quiet=True)
            return (_build_task_message(sender, "custom", update),)
        case AgentMessage() as message:
            return (_build_agent_message(message),)


def _decode_payload(payload: Any) -> InboxPayload:
    try:
        size = len(msgspec.json.encode(payload))
        # Converted even if it already has the type: a struct does not validate its own fields.
        known: InboxPayload = msgspec.convert(msgspec.to_builtins(payload), InboxPayload)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise _invalid_payload(str(error)) from error
    if size > PAYLOAD_BYTES:
        raise _invalid_payload(f"it is larger than {PAYLOAD_BYTES} bytes")
    return known


def _build_task_message(sender: Sender, kind: str, event: TaskEnded | TaskUpdate) -> Message:
    data = msgspec.to_builtins(event)
    data["kind"] = kind
    for name in ("status", "is_quiet", "usage"):
        data.pop(name, None)
    body = replace_surrogates(msgspec.json.encode(data).decode())
    text = (
        f"<background-task-event kind={_quote(kind)} task_id={_quote(event.task_id)}>\n"
        f"{_escape_end_tag(body, 'background-task-event')}\n</background-task-event>"
    )
    return _build_internal(text, sender)


def _build_agent_message(message: AgentMessage) -> Message:
    attributes = f"from={_quote(message.agent_id)} thread_id={_quote(message.thread_id)}"
    text = (
        f"<agent-message {attributes}>\n"
        f"{_escape_end_tag(replace_surrogates(message.content), 'agent-message')}\n</agent-message>"
    )
    sender = Sender(
        kind=SenderKind.AGENT,
        agent_id=message.agent_id,
        thread_id=message.thread_id,
        run_id=message.run_id,
        hops=message.hops,
    )
    return _build_internal(text, sender)


def _build_internal(text: str, sender: Sender) -> Message:
    return Message(
        role=Role.USER,
        content=as_blocks(text),
        visibility=Visibility.INTERNAL,
        sender=sender,
    )


def _escape_end_tag(text: str, tag: str) -> str:
    """Escape every end tag in the text, so that the text cannot close its own frame.

    All spellings count, because a model is less strict than a parser.
    """
    return re.sub(rf"<(?=\s*/\s*{tag})", r"<\\", text, flags=re.IGNORECASE)


def _invalid_payload(problem: str) -> InvalidInput:
    return InvalidInput(what="The inbox payload", problem=problem)


def _quote(text: str) -> str:
    """Quote a text as an attribute; nothing in it can end the value or the line."""
    return f'"{text.translate(_ESCAPED)}"'


_ESCAPED = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        '"': "&quot;",
        "'": "&#x27;",
        "\n": "&#10;",
        "\r": "&#13;",
        "\t": "&#9;",
    }
)
