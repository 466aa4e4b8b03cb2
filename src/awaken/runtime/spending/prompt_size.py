"""Token estimates of requests, without reading the whole history before every call."""

from collections.abc import Sequence

from awaken.contracts.messages.message import Message
from awaken.contracts.models.inference import InferenceRequest, ModelTool
from awaken.runtime.context.estimate import (
    BYTES_PER_TOKEN,
    estimate_message_tokens,
    estimate_tool_tokens,
    text_bytes,
)


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
