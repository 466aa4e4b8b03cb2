"""What threads and runs are told by tasks and by other agents: one form, made in one place.

`inbox_messages` is the only way from a payload to the messages that the model reads, whichever
boundary the payload crosses: a live inbox, a queued dispatch, or a foreign process.
"""

import re
from html import escape
from typing import Any

import msgspec

from awaken.contracts.errors import InvalidInput
from awaken.contracts.record import Record

from .content import encodable
from .message import Message, Role, Sender, SenderKind, Visibility, as_blocks
from .usage import TokenUsage

PAYLOAD_BYTES = 1024 * 1024
"""The largest payload that is taken in."""


class TaskEnded(Record, frozen=True, kw_only=True, tag_field="kind", tag="ended"):
    """A task has ended."""

    task_id: str
    status: str
    name: str | None = None
    result: Any = None
    error: str | None = None
    is_quiet: bool = False
    """Whether a thread at rest stays so: the task was cancelled with the run that started it."""
    usage: TokenUsage | None = None
    """What an agent's run has used."""


class TaskNews(Record, frozen=True, kw_only=True, tag_field="kind", tag="custom"):
    """A task says something while it goes on."""

    task_id: str
    event_type: str
    payload: Any = None


class AgentMessage(Record, frozen=True, kw_only=True, tag_field="kind", tag="agent_message"):
    """An agent wrote to another one."""

    content: str
    agent_id: str
    """Who wrote it."""
    thread_id: str
    run_id: str
    hops: int = 0
    """How many agents have written because another one wrote, since a person did."""


class PlainMessages(Record, frozen=True, kw_only=True, tag_field="kind", tag="messages"):
    """Messages as they are."""

    messages: tuple[Message, ...]


InboxPayload = TaskEnded | TaskNews | AgentMessage | PlainMessages


def inbox_messages(payload: Any) -> tuple[Message, ...]:
    """The messages that a payload stands for; one that was made elsewhere is checked first.

    Raises:
        InvalidInput: The payload is malformed, empty or too large; nothing of it is taken.
    """
    checked = _checked(payload)
    match checked:
        case PlainMessages(messages=messages):
            if not messages or any(it.role is not Role.USER for it in messages):
                raise _refused("it has no messages, or one that is not a user's")
            return messages
        case TaskEnded() as ended:
            sender = Sender(
                kind=SenderKind.TASK,
                task_id=ended.task_id,
                is_end=True,
                is_quiet=ended.is_quiet,
                usage=ended.usage,
            )
            return (_from_task(sender, ended.status, ended),)
        case TaskNews() as news:
            # A thread at rest stays so: it is read with whatever comes next.
            sender = Sender(kind=SenderKind.TASK, task_id=news.task_id, is_quiet=True)
            return (_from_task(sender, "custom", news),)
        case AgentMessage() as message:
            return (_from_agent(message),)


def _checked(payload: Any) -> InboxPayload:
    try:
        size = len(msgspec.json.encode(payload))
        # Converted also when it is one already: who made it may have put anything into it.
        known: InboxPayload = msgspec.convert(msgspec.to_builtins(payload), InboxPayload)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise _refused(str(error)) from error
    if size > PAYLOAD_BYTES:
        raise _refused(f"it is larger than {PAYLOAD_BYTES} bytes")
    return known


def _from_task(sender: Sender, kind: str, event: TaskEnded | TaskNews) -> Message:
    data = msgspec.to_builtins(event)
    data["kind"] = kind
    for name in ("status", "is_quiet", "usage"):
        data.pop(name, None)
    body = encodable(msgspec.json.encode(data).decode())
    text = (
        f"<background-task-event kind={_attribute(kind)} task_id={_attribute(event.task_id)}>\n"
        f"{_closed(body, 'background-task-event')}\n</background-task-event>"
    )
    return _internal(text, sender)


def _from_agent(message: AgentMessage) -> Message:
    attributes = f"from={_attribute(message.agent_id)} thread_id={_attribute(message.thread_id)}"
    text = (
        f"<agent-message {attributes}>\n"
        f"{_closed(encodable(message.content), 'agent-message')}\n</agent-message>"
    )
    sender = Sender(
        kind=SenderKind.AGENT,
        agent_id=message.agent_id,
        thread_id=message.thread_id,
        run_id=message.run_id,
        hops=message.hops,
    )
    return _internal(text, sender)


def _internal(text: str, sender: Sender) -> Message:
    return Message(
        role=Role.USER,
        content=as_blocks(text),
        visibility=Visibility.INTERNAL,
        sender=sender,
    )


def _closed(text: str, tag: str) -> str:
    """The text without anything that could end its frame: what is inside stays inside.

    However it is written: a model is less strict than a parser.
    """
    return re.sub(rf"<(?=\s*/\s*{tag})", r"<\\", text, flags=re.IGNORECASE)


def _refused(problem: str) -> InvalidInput:
    return InvalidInput(what="The inbox payload", problem=problem)


def _attribute(text: str) -> str:
    """A text as the value of an attribute; nothing in it can end the value or the line."""
    return f'"{escape(text).translate(_BREAKS)}"'


_BREAKS = {ord(it): f"&#{ord(it)};" for it in "\n\r\t"}
