"""Rough token estimates, made locally without a provider."""

from collections.abc import Iterable

import msgspec

from awaken.contracts.messages.content import Text, Thinking
from awaken.contracts.messages.message import Message
from awaken.contracts.models.inference import ModelTool

BYTES_PER_TOKEN = 4
_MESSAGE_TOKENS = 4
_TOOL_TOKENS = 10
_OTHER_BLOCK_BYTES = 50

_encode = msgspec.json.Encoder().encode


def estimate_tokens(messages: Iterable[Message]) -> int:
    """Estimate several messages; no messages have no tokens."""
    return sum(map(estimate_message_tokens, messages))


def estimate_message_tokens(message: Message) -> int:
    """Estimate one message: its texts, its reasoning, its calls, and a little for the rest."""
    size = 0
    for block in message.content:
        if type(block) is Text:
            size += text_bytes(block.text)
        elif type(block) is Thinking:
            size += text_bytes(block.thinking)
        else:
            size += _OTHER_BLOCK_BYTES
    for call in message.tool_calls or ():
        size += text_bytes(call.name) + len(_encode(call.arguments))
    return _MESSAGE_TOKENS + size // BYTES_PER_TOKEN


def estimate_tool_tokens(tools: Iterable[ModelTool]) -> int:
    """Estimate the descriptions of tools with their schemas."""
    return sum(
        (text_bytes(tool.id) + text_bytes(tool.description) + len(_encode(tool.parameters)))
        // BYTES_PER_TOKEN
        + _TOOL_TOKENS
        for tool in tools
    )


def text_bytes(text: str) -> int:
    """Return the length in UTF-8: in most scripts a character is more than a quarter token."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
