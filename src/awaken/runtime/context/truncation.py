"""Shortening a history that is too long: by the ends of tool outputs, and by old messages."""

from collections.abc import Sequence

import msgspec

from awaken.contracts.messages.content import ContentBlock, Text
from awaken.contracts.messages.message import Message, Role

from .estimate import BYTES_PER_TOKEN, text_bytes

PREVIEW_TOKENS = 2048
"""Of a longer text only the beginning is sent."""
PREVIEW_CHARS = 1600
PREVIEW_LINE_BREAKS = 24


def truncate_output(message: Message) -> Message:
    """Return a tool's message with previews of its long texts; any other message unchanged."""
    return preview_message(message) if message.role is Role.TOOL else message


def preview_message(message: Message) -> Message:
    """Return the message with previews of its long texts; unchanged when it has none."""
    if not any(map(_is_long, message.content)):
        return message
    blocks = tuple(_preview(block) if _is_long(block) else block for block in message.content)
    return msgspec.structs.replace(message, content=blocks)


def _is_long(block: ContentBlock) -> bool:
    if type(block) is not Text or len(block.text) < PREVIEW_TOKENS:
        # Short enough even with four bytes for every character.
        return False
    return text_bytes(block.text) // BYTES_PER_TOKEN >= PREVIEW_TOKENS


def _preview(block: ContentBlock) -> Text:
    assert type(block) is Text
    text = block.text
    lines = text[:PREVIEW_CHARS].split("\n")
    shown = "\n".join(lines[:PREVIEW_LINE_BREAKS])
    tokens = text_bytes(text) // BYTES_PER_TOKEN
    notice = (
        f"[Preview: the whole text has about {tokens} tokens; its first {len(shown)} characters "
        "are shown]"
    )
    return Text(text=f"{shown}\n{notice}")


def split_point(
    messages: Sequence[Message], tokens: Sequence[int], budget: int, min_recent: int
) -> int:
    """Return where to cut so that the rest fits the budget; `tokens` has those of each message.

    The last `min_recent` messages stay even if they do not fit, and so does a call whose result
    stays.
    """
    start = max(0, len(messages) - max(0, min_recent))
    left = budget - sum(tokens[start:])
    while start > 0 and tokens[start - 1] <= left:
        start -= 1
        left -= tokens[start]
    if start == len(messages):
        return start
    while start > 0 and messages[start].role is Role.TOOL:
        start -= 1
    return start
