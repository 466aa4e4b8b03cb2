"""Converts the messages of a turn to the one message that is sent."""

import mimetypes
from collections.abc import Iterator, Sequence
from typing import Any

from awaken.contracts.backends.errors import BackendExecutionFailed
from awaken.contracts.identity import derive_id
from awaken.contracts.messages import content
from awaken.contracts.messages.message import Message

from .config import NAME

OUTPUT_MODES = ("text/plain", "application/json", "application/octet-stream")
Payload = dict[str, Any]


def turn_messages(new: Sequence[Message], whole: Sequence[Message]) -> list[Message]:
    """The messages that this turn sends: the new ones, or all if there are none."""
    return [message for message in new or whole if message.is_for_agent]


def message_id_of(run_id: str, messages: Sequence[Message]) -> str:
    """The id of the turn's message: the same for every attempt and every process."""
    return derive_id(run_id, NAME, *(message.id or "" for message in messages))


def parts_of(messages: Sequence[Message]) -> list[Payload]:
    """The content of the messages as parts of the protocol.

    Raises:
        BackendExecutionFailed: The messages have no content.
    """
    parts = [part for message in messages for block in message.content for part in _parts(block)]
    if not parts:
        raise BackendExecutionFailed(problem="no user message content to send")
    return parts


def _parts(block: content.ContentBlock) -> Iterator[Payload]:
    match block:
        case content.Text(text=text) if text:
            yield {"text": text}
        case content.Image() | content.Audio() | content.Video() | content.Document():
            title = block.title if isinstance(block, content.Document) else None
            yield _file(block.source) | ({"filename": title} if title else {})
        case _:
            return


def _file(source: content.Source) -> Payload:
    if isinstance(source, content.Base64Source):
        return {"raw": source.data, "mediaType": source.media_type}
    path = source.url.partition("?")[0].partition("#")[0]
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return {"url": source.url, "mediaType": kind}
