"""Messages in the form of the semantic conventions, redacted and bounded.

Binary content is described, never copied.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from awaken.contracts.messages.content import (
    Audio,
    Base64Source,
    ContentBlock,
    Document,
    Image,
    Text,
    Thinking,
    ToolResultContent,
    ToolUse,
    Video,
    text_of,
)
from awaken.contracts.messages.message import Message, Role, ToolCall
from awaken.contracts.models.inference import InferenceRequest, StopReason, StreamResult
from awaken.contracts.record import Record

from .redactor import CUT, Redactor

VALUE_TEXTS = 4
MESSAGES_TEXTS = 16
"""The size limits of a value and of a request's messages, in texts of full length."""
MESSAGES_CHARS_MIN = 1_024
TOOLS_MAX = 128
FINISH_REASONS = {
    StopReason.END_TURN: "stop",
    StopReason.STOP_SEQUENCE: "stop",
    StopReason.MAX_TOKENS: "length",
    StopReason.TOOL_USE: "tool_call",
}

Json = Any
_encode = msgspec.json.Encoder(enc_hook=str).encode


class ContentWriter(Record, frozen=True, kw_only=True):
    """Converts content to redacted and bounded JSON."""

    redactor: Redactor
    limit: int

    def value(self, value: Any) -> Json:
        """Arguments or a result; a large value becomes a cut text."""
        clean = self.redactor.value(value, self.limit)
        text = encode_json(clean)
        return clean if len(text) <= self.limit * VALUE_TEXTS else text[: self.limit] + CUT

    def system(self, request: InferenceRequest) -> Json:
        """The instructions of a request."""
        return [self._text(text) for text in request.system]

    def input(self, request: InferenceRequest) -> Json:
        """The latest messages of a request, as many as fit."""
        found: deque[Json] = deque()
        room = MESSAGES_CHARS_MIN + self.limit * MESSAGES_TEXTS
        for message in reversed(request.messages):
            written = {"role": message.role.value, "parts": list(self._message(message))}
            room -= len(encode_json(written))
            if room < 0:
                break
            found.appendleft(written)
        return list(found)

    def output(self, answer: StreamResult) -> Json:
        """The answer as one message."""
        parts = [*self._blocks(answer.content), *self._calls(answer.tool_calls)]
        reason = FINISH_REASONS.get(answer.stop_reason) if answer.stop_reason else None
        message = {"role": Role.ASSISTANT.value, "parts": parts, "finish_reason": reason or "stop"}
        return [message]

    def tools(self, request: InferenceRequest) -> Json:
        """The names of the tools that the model was offered."""
        return [{"type": "function", "name": tool.id} for tool in request.tools[:TOOLS_MAX]]

    def _message(self, message: Message) -> Iterator[Json]:
        if message.role is Role.TOOL:
            said = self.redactor.text(text_of(message.content), self.limit)
            yield {"type": "tool_call_response", "id": message.tool_call_id, "response": said}
            return
        yield from self._blocks(message.content)
        yield from self._calls(message.tool_calls or ())

    def _blocks(self, blocks: Iterable[ContentBlock]) -> Iterator[Json]:
        for block in blocks:
            match block:
                case Text(text=text):
                    yield self._text(text)
                case Thinking(thinking=text):
                    yield {"type": "reasoning", "content": self.redactor.text(text, self.limit)}
                case ToolUse(id=id_, name=name, input=arguments):
                    yield self._call(id_, name, arguments)
                case ToolResultContent(tool_use_id=id_, content=content):
                    said = self.redactor.text(text_of(content), self.limit)
                    yield {"type": "tool_call_response", "id": id_, "response": said}
                case Image() | Document() | Audio() | Video():
                    yield self._describe_bytes(block)

    def _calls(self, calls: Iterable[ToolCall]) -> Iterator[Json]:
        for call in calls:
            yield self._call(call.id, call.name, call.arguments)

    def _call(self, id_: str, name: str, arguments: Any) -> Json:
        return {"type": "tool_call", "id": id_, "name": name, "arguments": self.value(arguments)}

    def _text(self, text: str) -> Json:
        return {"type": "text", "content": self.redactor.text(text, self.limit)}

    def _describe_bytes(self, block: Image | Document | Audio | Video) -> Json:
        modality = type(block).__name__.lower()
        source = block.source
        if isinstance(source, Base64Source):
            kind = {"mime_type": source.media_type, "modality": modality}
            return {"type": "blob", **kind, "content": ""}
        uri = self.redactor.text(source.url, self.limit)
        return {"type": "uri", "mime_type": None, "modality": modality, "uri": uri}


def encode_json(value: Json) -> str:
    """Encode JSON as text, the only form that span attributes support."""
    return _encode(value).decode()
