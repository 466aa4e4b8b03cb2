"""Token estimates of requests, without reading the whole history before every call."""

from collections.abc import Sequence

import msgspec

from awaken.contracts.messages.content import ContentBlock, Text, Thinking
from awaken.contracts.messages.message import Message
from awaken.contracts.models.inference import InferenceRequest, ModelTool
from awaken.runtime.context.estimate import (
    BYTES_PER_TOKEN,
    estimate_message_tokens,
    estimate_tool_tokens,
    text_bytes,
)

_FRAME_TOKENS = 32
_TOOLS_TOKENS = 600
"""What a provider writes before the tools of a request, or before its schema."""
_MESSAGE_TOKENS = 16
_MEDIA_TOKENS = 20_000
"""An image has at most a few thousand; a document more than that has more bytes."""
_encode = msgspec.json.Encoder().encode


def bound_prompt_tokens(request: InferenceRequest) -> int:
    """Return more tokens than a provider can count: no tokenizer makes two of one byte."""
    most = _FRAME_TOKENS + sum(map(text_bytes, request.system))
    if request.tools or request.output_schema is not None:
        most += _TOOLS_TOKENS + len(_encode(request.output_schema))
    for tool in request.tools:
        texts = text_bytes(tool.id) + text_bytes(tool.description)
        most += _MESSAGE_TOKENS + texts + len(_encode(tool.parameters))
    for message in request.messages:
        most += _MESSAGE_TOKENS + sum(map(_bound_block, message.content))
        for call in message.tool_calls or ():
            most += _MESSAGE_TOKENS + text_bytes(call.name) + len(_encode(call.arguments))
    return most


def _bound_block(block: ContentBlock) -> int:
    match block:
        case Text(text=text):
            return text_bytes(text)
        case Thinking(thinking=thinking):
            return text_bytes(thinking)
        case _:
            return max(_MEDIA_TOKENS, len(_encode(block)))


class PromptMeter:
    """Counts the tokens of a growing history: each time only the new messages are read."""

    __slots__ = ("_count", "_last", "_tokens", "_tool_tokens", "_tools")

    def __init__(self) -> None:
        self._count = 0
        self._last: Message | None = None
        self._tokens = 0
        self._tools: tuple[ModelTool, ...] = ()
        self._tool_tokens = 0

    def tokens(self, request: InferenceRequest) -> int:
        """Estimate the tokens of a request."""
        system = sum(map(text_bytes, request.system)) // BYTES_PER_TOKEN
        return system + self._of_tools(request.tools) + self._of_messages(request.messages)

    def _of_tools(self, tools: tuple[ModelTool, ...]) -> int:
        if tools is not self._tools:
            self._tools, self._tool_tokens = tools, estimate_tool_tokens(tools)
        return self._tool_tokens

    def _of_messages(self, messages: Sequence[Message]) -> int:
        counted = self._count
        if counted > len(messages) or (counted and messages[counted - 1] is not self._last):
            # Not the same history: it was cut, summarised, or extended at the front.
            counted = self._tokens = 0
        for index in range(counted, len(messages)):
            self._last = messages[index]
            self._tokens += estimate_message_tokens(self._last)
        self._count = len(messages)
        return self._tokens
