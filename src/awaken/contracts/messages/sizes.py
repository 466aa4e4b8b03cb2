"""How much memory a decoded record takes, roughly."""

from sys import getsizeof
from typing import Any

import msgspec

from .content import Text
from .message import Message

_MESSAGE_BYTES = 800
_VALUE_BYTES = 64


def message_bytes(message: Message) -> int:
    """What a message takes, with its texts as they are held."""
    size = _MESSAGE_BYTES
    for block in message.content:
        size += getsizeof(block.text) if type(block) is Text else value_bytes(block)
    for call in message.tool_calls or ():
        size += value_bytes(call.arguments)
    return size


def value_bytes(value: Any) -> int:
    """What JSON takes once it is decoded, or a record with everything in it."""
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
