"""Estimates of the memory that a decoded record takes."""

from sys import getsizeof
from typing import Any

import msgspec

from .content import Text
from .message import Message

_MESSAGE_BYTES = 800
_VALUE_BYTES = 64


def message_bytes(message: Message) -> int:
    """The estimated bytes of a message in memory."""
    size = _MESSAGE_BYTES
    for block in message.content:
        size += getsizeof(block.text) if type(block) is Text else value_bytes(block)
    for call in message.tool_calls or ():
        size += value_bytes(call.arguments)
    return size


def value_bytes(value: Any) -> int:
    """The estimated bytes of decoded JSON, or of a record with all its fields."""
    size, waiting = 0, [value]
    while waiting:
        it = waiting.pop()
        size += getsizeof(it) if isinstance(it, str) else _VALUE_BYTES
        if isinstance(it, dict):
            size += _VALUE_BYTES * len(it)
            waiting += it
            waiting += it.values()
        elif isinstance(it, list | tuple):
            waiting += it
        elif isinstance(it, msgspec.Struct):
            waiting += (getattr(it, name) for name in it.__struct_fields__)
    return size
