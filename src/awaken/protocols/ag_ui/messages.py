"""Converts stored messages to AG-UI messages."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from awaken.contracts.messages import content
from awaken.contracts.messages.message import Message, Role, ToolCall, Visibility

WireMessage = dict[str, Any]

_encode = msgspec.json.Encoder().encode


def wire_messages(messages: Iterable[Message]) -> list[WireMessage]:
    """Convert the messages that a client may see; reasoning comes before its answer."""
    shown = [it for it in messages if it.visibility is Visibility.ALL]
    return [wire for i, it in enumerate(shown) for wire in _wire(it, it.id or f"message:{i}")]


def json_text(value: Any) -> str:
    """Return text as it is, anything else as JSON."""
    return value if isinstance(value, str) else _encode(value).decode()


def arguments_text(arguments: Any) -> str:
    """The arguments of a call as text; None is an empty object."""
    return "{}" if arguments is None else json_text(arguments)


def build_reasoning_id(message_id: str, number: int) -> str:
    """The id of one reasoning block of an answer, in streams and in the history."""
    return f"{message_id}:reasoning:{number}"


def _wire(message: Message, id_: str) -> Iterator[WireMessage]:
    thoughts = [it for it in message.content if isinstance(it, content.Thinking)]
    for number, it in enumerate(thoughts):
        signed = {"encryptedValue": it.signature} if it.signature else {}
        named = {"id": build_reasoning_id(id_, number), "role": "reasoning"}
        yield {**named, "content": it.thinking, **signed}
    wire: WireMessage = {"id": id_, "role": message.role}
    if message.text or not message.tool_calls:
        wire["content"] = message.text
    if message.role in (Role.USER, Role.TOOL):
        parts = [part for it in message.content for part in _parts(it)]
        wire["content"] = parts if any(it["type"] != "text" for it in parts) else message.text
    if message.role is Role.TOOL:
        wire["toolCallId"] = message.tool_call_id or ""
    if message.tool_calls:
        wire["toolCalls"] = [_call(it) for it in message.tool_calls]
    yield wire


def _call(call: ToolCall) -> WireMessage:
    function = {"name": call.name, "arguments": arguments_text(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _parts(block: content.ContentBlock) -> Iterator[WireMessage]:
    match block:
        case content.Text(text=text):
            yield {"type": "text", "text": text}
        case content.Image() | content.Audio() | content.Video() | content.Document():
            yield {"type": block.__struct_config__.tag, "source": _source(block.source)}


def _source(source: content.Source) -> WireMessage:
    if isinstance(source, content.Base64Source):
        return {"type": "data", "value": source.data, "mimeType": source.media_type}
    return {"type": "url", "value": source.url}
