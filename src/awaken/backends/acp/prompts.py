"""Converts messages to a prompt, as far as the agent supports their content."""

from collections.abc import Iterable, Iterator
from typing import Any

from awaken.contracts.backends import errors as errors
from awaken.contracts.messages import content
from awaken.contracts.messages.message import Message
from awaken.contracts.record import Record

Block = dict[str, Any]


class PromptAbilities(Record, frozen=True, kw_only=True, rename="camel"):
    """What a prompt may hold besides text and links."""

    image: bool = False
    audio: bool = False
    embedded_context: bool = False


def prompt_of(messages: Iterable[Message], abilities: PromptAbilities) -> list[Block]:
    """The prompt blocks of the user's messages.

    Raises:
        BackendExecutionFailed: The messages have no content.
        RemoteUnsupported: The agent does not accept a kind of content.
    """
    said = (message for message in messages if message.is_for_agent)
    blocks = [it for message in said for it in _blocks(message, abilities)]
    if not blocks:
        raise errors.BackendExecutionFailed(problem="no user message content to send")
    return blocks


def _blocks(message: Message, abilities: PromptAbilities) -> Iterator[Block]:
    for block in message.content:
        match block:
            case content.Text():
                yield {"type": "text", "text": content.replace_surrogates(block.text)}
            case content.Image() | content.Audio() | content.Document() | content.Video():
                yield _file(block, abilities)


def _file(
    block: content.Image | content.Audio | content.Document | content.Video,
    abilities: PromptAbilities,
) -> Block:
    source = block.source
    title = block.title if isinstance(block, content.Document) else None
    if not isinstance(source, content.Base64Source):
        name = title or source.url.rstrip("/").rpartition("/")[2]
        return {"type": "resource_link", "uri": source.url, "name": name}
    if isinstance(block, content.Image) and abilities.image:
        return {"type": "image", "data": source.data, "mimeType": source.media_type}
    if isinstance(block, content.Audio) and abilities.audio:
        return {"type": "audio", "data": source.data, "mimeType": source.media_type}
    if not abilities.embedded_context:
        kind = type(block).__name__.lower()
        raise errors.RemoteUnsupported(
            problem=f"the coding agent takes no {kind}; give it a link instead"
        )
    uri = f"attachment:{title or type(block).__name__.lower()}"
    file = {"uri": uri, "mimeType": source.media_type, "blob": source.data}
    return {"type": "resource", "resource": file}
