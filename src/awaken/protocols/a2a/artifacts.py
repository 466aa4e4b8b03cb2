"""Artifacts of a task besides its answer: files, URLs and data of tools, structured output.

A tool makes an artifact by returning content blocks (`Image`, `Document`, `Audio`, `Video`), alone
or in a list, or through MCP. A document of JSON is a data part. Other results are not shown.
"""

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from awaken.contracts.messages import content
from awaken.contracts.messages.message import Message, Role

Payload = dict[str, Any]
PARTS_MAX = 100
"""How many parts an artifact may have; the rest is left out."""
_MEDIA = ("image", "document", "audio", "video", "resource", "resource_link")
_Block = content.Image | content.Document | content.Audio | content.Video


def tool_artifact(message_id: str, tool_name: str, data: Any) -> Payload | None:
    """The artifact of a tool's result; None when the result is only for the model."""
    parts = list(_parts(data))[:PARTS_MAX]
    if not parts:
        return None
    return {"artifactId": message_id, "name": tool_name, "parts": parts}


def output_artifact(value: Any) -> Payload:
    """The answer of an agent that answers in a type."""
    part = {"data": value, "mediaType": "application/json"}
    return {"artifactId": "output", "name": "output", "parts": [part]}


def list_artifacts(messages: Sequence[Message]) -> list[Payload]:
    """List the artifacts of the tool results among a task's messages."""
    names = {it.id: it.name for message in messages for it in message.tool_calls or ()}
    found = []
    for message in messages:
        text = message.text if message.role is Role.TOOL else ""
        # Only a text that may contain a block is decoded.
        if text[:1] not in ("{", "[") or '"type":' not in text:
            continue
        try:
            data = msgspec.json.decode(text)
        except msgspec.DecodeError:
            continue
        name = names.get(message.tool_call_id or "", "tool")
        found.append(tool_artifact(message.id or "", name, data))
    return [it for it in found if it is not None]


def block_part(block: content.ContentBlock) -> Payload | None:
    """Convert a block to a part; None for a block that clients do not see."""
    match block:
        case content.Text(text=text) if text:
            return {"text": text}
        case content.Image() | content.Audio() | content.Video() | content.Document():
            title = block.title if isinstance(block, content.Document) else None
            named = {"filename": title} if title else {}
            if isinstance(block.source, content.UrlSource):
                return {"url": block.source.url, **named}
            return _bytes_part(block.source.data, block.source.media_type) | named
        case _:
            return None


def _parts(data: Any) -> Iterator[Payload]:
    items = data.get("content", data) if isinstance(data, dict) else data
    blocks = items if isinstance(items, list) else [items]
    if not any(isinstance(it, dict) and it.get("type") in _MEDIA for it in blocks[:PARTS_MAX]):
        return
    for block in blocks[:PARTS_MAX]:
        part = _part(block) if isinstance(block, dict) else None
        if part is not None:
            yield part


def _part(block: dict[str, Any]) -> Payload | None:
    match block:
        case {"type": "text", "text": str(text)} if text:
            return {"text": text}
        case {"type": "resource_link", "uri": str(uri)}:
            return {"url": uri} | _link_fields(block)
        case {"type": "resource", "resource": {"blob": str(data), **rest}}:
            return _bytes_part(data, str(rest.get("mimeType") or "application/octet-stream"))
        case {"type": "image" | "audio", "data": str(data), "mimeType": str(kind)}:
            return _bytes_part(data, kind)
    try:
        return block_part(msgspec.convert(block, _Block))
    except msgspec.ValidationError:
        return None


def _link_fields(block: dict[str, Any]) -> Payload:
    fields = {"mediaType": block.get("mimeType"), "filename": block.get("name")}
    return {name: it for name, it in fields.items() if isinstance(it, str) and it}


def _bytes_part(data: str, kind: str) -> Payload:
    if kind == "application/json" or kind.endswith("+json"):
        try:
            return {"data": msgspec.json.decode(base64.b64decode(data)), "mediaType": kind}
        except (msgspec.DecodeError, binascii.Error, ValueError):
            pass
    return {"raw": data, "mediaType": kind}
