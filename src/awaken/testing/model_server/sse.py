"""Server-sent events as vendors write them, and the texts of what they are sent."""

from typing import Any

import msgspec

Json = dict[str, Any]

_encode = msgspec.json.Encoder().encode


def event(data: Json, name: str | None = None) -> bytes:
    """Return one event, with a line for its name if it has one."""
    head = b"" if name is None else b"event: %b\n" % name.encode()
    return b"%bdata: %b\n\n" % (head, _encode(data))


def texts(content: object) -> str:
    """The text of a message's content, which is a text or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part.get("text") or "" for part in parts if not part.get("thought"))
