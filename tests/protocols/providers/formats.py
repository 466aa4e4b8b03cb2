"""The four wire formats, what is asked of them, and what was heard, in one form for all readers."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from awaken.contracts.messages.content import Base64Source, Image, Text, Thinking, UrlSource
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.messages.message import Message, ToolCall, assistant, tool_answer, user
from awaken.contracts.models.errors import ModelError
from awaken.contracts.models.inference import (
    Alive,
    CallSignature,
    InferenceRequest,
    ModelEvent,
    ModelTool,
    Stop,
    StopReason,
    ThinkingSignature,
    TokenUsage,
    UsageReport,
)
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.secrets import RedactedString
from awaken.outbound.pool import HttpPool
from awaken.providers.anthropic.codec import AnthropicCodec
from awaken.providers.gemini.codec import GeminiCodec
from awaken.providers.http.client import HttpModelClient
from awaken.providers.openai_chat.codec import OpenAiChatCodec
from awaken.providers.openai_responses.codec import OpenAiResponsesCodec
from awaken.testing import Reasoning, ToolCalls, Turn
from awaken.testing.model_server import FakeModelServer, ModelRequest

CODECS: dict[str, Callable[..., Any]] = {
    "openai_chat": OpenAiChatCodec,
    "openai_responses": OpenAiResponsesCodec,
    "anthropic": AnthropicCodec,
    "gemini": GeminiCodec,
}
PATIENCE_S = 30

USAGE = TokenUsage(
    prompt_tokens=1000,
    completion_tokens=300,
    total_tokens=1300,
    cache_read_tokens=600,
    cache_creation_tokens=100,
    thinking_tokens=120,
)
CALLS = ToolCalls(
    [
        ("weather", {"city": "Zürich", "days": [1, 2.5, None], "deep": {"a": {"b": True}}}),
        ("now", {}),
        ("weather", {"city": '"quoted" \\ 🙂', "days": []}, "an-id_of-its_own"),
    ],
    split=7,
)
ANSWERS = {
    "text": Turn(["Grü", "ße, ", "🙂 \n\n data: x", "\u2028 end"], usage=USAGE),
    "reasoning": Turn("So.", reasoning=Reasoning("Let me\nsee", "c2lnbmVk"), usage=USAGE),
    "sealed reasoning": Turn("So.", reasoning=Reasoning("", "c2VhbGVk"), usage=USAGE),
    "calls": Turn("I look.", calls=CALLS, usage=USAGE),
    "reasoned calls": Turn(reasoning=Reasoning("hm", "c2lnbmVk"), calls=CALLS, usage=USAGE),
    "too long": Turn("Once upon a", stop=StopReason.MAX_TOKENS, usage=USAGE),
    "nothing": Turn(usage=USAGE),
}


@dataclass
class Heard:
    """An answer as its reader understood it."""

    text: str = ""
    reasoning: str = ""
    signatures: list[str] = field(default_factory=list)
    """Of the reasoning and of calls, in the order in which they came."""
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    """Id, name and arguments."""
    stop: StopReason | None = None
    usage: TokenUsage | None = None


def heard(events: Iterable[ModelEvent]) -> Heard:
    """What a run would make of these events."""
    found, arguments = Heard(), {}
    for event in events:
        match event:
            case TextDelta(delta=piece):
                found.text += piece
            case ReasoningDelta(delta=piece):
                found.reasoning += piece
            case ToolCallStart(id=call_id, name=name):
                arguments[call_id] = (name, [])
            case ToolCallDelta(id=call_id, args_delta=piece):
                arguments[call_id][1].append(piece)
            case ThinkingSignature(signature=str(signature), origin="openai_responses"):
                # Our own note of the whole item; what the vendor signed is one of its fields.
                found.signatures += filter(None, [json.loads(signature).get("encrypted_content")])
            case ThinkingSignature(signature=str(signature)) | CallSignature(signature=signature):
                found.signatures.append(signature)
            case UsageReport(usage=usage):
                assert found.usage is None, "usage is told twice"
                found.usage = usage
            case Stop(reason=reason):
                assert found.stop is None, "the answer stops twice"
                found.stop = reason
    found.calls = [
        (call_id, name, json.loads("".join(pieces) or "{}"))
        for call_id, (name, pieces) in arguments.items()
    ]
    return found


def message_of(events: Iterable[ModelEvent]) -> Message:
    """The assistant's message that a run would keep."""
    events = list(events)
    found = heard(events)
    signed = {event.id: event.signature for event in events if isinstance(event, CallSignature)}
    content: list[Any] = []
    for event in events:
        last = content[-1] if content else None
        match event:
            case TextDelta(delta=piece):
                content.append(piece if not isinstance(last, str) else content.pop() + piece)
            case ReasoningDelta(delta=piece):
                content.append([piece] if not isinstance(last, list) else [*content.pop(), piece])
            case ThinkingSignature(signature=signature, origin=origin):
                text = "".join(content.pop()) if isinstance(last, list) else ""
                if text or signature:
                    block = Thinking(thinking=text, signature=signature, origin=origin)
                    content.append(block)
    blocks = [_block(part) for part in content]
    calls = [
        ToolCall(id=call_id, name=name, arguments=arguments, signature=signed.get(call_id))
        for call_id, name, arguments in found.calls
    ]
    return assistant(blocks, calls)


def _block(part: Any) -> Any:
    match part:
        case str():
            return Text(text=part)
        case list():
            return Thinking(thinking="".join(part))
    return part


def asking(*messages: Message, model: str = "some-model", **fields: Any) -> InferenceRequest:
    return InferenceRequest(upstream_model=model, messages=messages or (user("hi"),), **fields)


@asynccontextmanager
async def client_of(
    url: str,
    wire: str,
    *,
    key: str = "sk-test",
    timeout_ms: int = 10_000,
    options: dict[str, Any] | None = None,
) -> AsyncIterator[HttpModelClient]:
    """Our client at an address, as a provider of that wire format."""
    codec, pool = CODECS[wire](options or {}), HttpPool()
    base_url = url + urlsplit(codec.base_url).path
    secret = RedactedString(key)
    spec = ProviderSpec(
        id="fake", adapter=wire, base_url=base_url, api_key=secret, timeout_ms=timeout_ms
    )
    try:
        yield HttpModelClient(spec, codec, pool, lambda: secret)
    finally:
        await pool.close()


async def listen(client: HttpModelClient, request: InferenceRequest) -> list[ModelEvent]:
    """Everything that was said; signs of life are not."""
    events = [event async for event in client.stream(request)]
    return [event for event in events if not isinstance(event, Alive)]


async def outcome(
    client: HttpModelClient, request: InferenceRequest
) -> tuple[list[ModelEvent], ModelError | None]:
    """What was streamed, and the error that ended it; any other exception is passed on."""
    events: list[ModelEvent] = []
    try:
        async for event in client.stream(request):
            if not isinstance(event, Alive):
                events.append(event)
    except ModelError as error:
        return events, error
    return events, None


def answered(wire: str, answers: Any, request: InferenceRequest | None = None) -> list[ModelEvent]:
    """Ask the fake vendor once."""

    async def ask() -> list[ModelEvent]:
        async with FakeModelServer(answers) as server, client_of(server.url, wire) as client:
            return await listen(client, request or asking())

    return play(ask())


def play(work: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end, bounded; nothing may be left that still runs or is not closed."""

    async def watched() -> Any:
        result = await asyncio.wait_for(work, PATIENCE_S)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"still running: {left}"
        return result

    result = asyncio.run(watched())
    gc.collect()
    return result


CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "array", "items": {}}},
    "required": ["city"],
    "additionalProperties": False,
}
PICTURE = "iVBORw0KGgo="
TOOLS = (
    ModelTool(id="weather", description="The weather of a city.", parameters=CITY),
    ModelTool(id="now", description="The time.", parameters={"type": "object", "properties": {}}),
)
HISTORY = (
    user(
        [
            Text(text="What is this?"),
            Image(source=Base64Source(media_type="image/png", data=PICTURE)),
            Image(source=UrlSource(url="https://example.org/a.png")),
        ]
    ),
    assistant(
        "I look.",
        [
            ToolCall(id="c1", name="weather", arguments={"city": "Zürich"}),
            ToolCall(id="c2", name="now", arguments={}),
        ],
    ),
    tool_answer("c1", "rain"),
    tool_answer("c2", "noon"),
    user("And?"),
)


def sent(wire: str, request: InferenceRequest, **options: Any) -> ModelRequest:
    """The request as the vendor gets it from us."""

    async def ask() -> ModelRequest:
        async with FakeModelServer(["ok"]) as server:
            async with client_of(server.url, wire, options=options) as client:
                await listen(client, request)
            return server.requests[0]

    return play(ask())


def known_fields(body: dict[str, Any], types: type) -> dict[str, Any]:
    """What is left of a body when a vendor's SDK takes the fields that its types know."""
    return _as_json(_adapter(types).validate_python(body))


# Kept: lists are read only when somebody iterates, and then the adapter must still be there.
@cache
def _adapter(types: type) -> TypeAdapter[Any]:
    return TypeAdapter(types)


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_json(field) for name, field in value.items()}
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return value
    return [_as_json(item) for item in value]
