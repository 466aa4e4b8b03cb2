"""An inference request as the JSON of Converse. Pure; the same request gives the same bytes."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from awaken.contracts.messages.content import (
    Audio,
    ContentBlock,
    Document,
    Image,
    Text,
    Thinking,
    ToolResultContent,
    ToolUse,
    Video,
)
from awaken.contracts.messages.message import Message, Role
from awaken.contracts.models.errors import InvalidRequest
from awaken.contracts.models.inference import (
    Effort,
    EffortBudget,
    InferenceOverride,
    InferenceRequest,
    ModelTool,
)
from awaken.providers.http.call_ids import CLAUDE_IDS
from awaken.providers.http.claude import claude_thinking, is_loop_unreasoned
from awaken.providers.http.codec import WireRequest
from awaken.providers.http.encoding_cache import EncodedMessages, EncodedParts
from awaken.providers.http.schemas import NO_PARAMETERS, is_any_object, strict_schema
from awaken.providers.http.turns import (
    FIRST_WORDS,
    join_turns,
    make_call_ids_distinct,
    order_results,
)

from .decode import ORIGIN, REDACTED
from .media import media_block

_CACHE_POINT = {"cachePoint": {"type": "default"}}
_CACHE_BYTES = b"," + msgspec.json.encode(_CACHE_POINT)
_OPENED = {
    "user": b'{"role":"user","content":[',
    "assistant": b'{"role":"assistant","content":[',
}
_FIRST_WORDS = msgspec.json.encode({"text": FIRST_WORDS})
_TOP_LEVEL = (
    "additionalModelResponseFieldPaths",
    "guardrailConfig",
    "outputConfig",
    "performanceConfig",
    "promptVariables",
    "requestMetadata",
    "serviceTier",
)
_Fields = dict[str, Any]


class ConverseEncoder:
    """Builds requests; the wire form of a message is cached with the message."""

    __slots__ = ("_enforces_schema", "_messages", "_tools")

    def __init__(self, *, enforces_schema: bool = False) -> None:
        self._enforces_schema = enforces_schema
        self._messages = EncodedMessages(_message)
        self._tools: EncodedParts[tuple[ModelTool, ...]] = EncodedParts(_tools)

    def encode(self, request: InferenceRequest) -> WireRequest:
        """Build the request; messages come last, so that a longer request has this one as prefix.

        Raises:
            InvalidRequest: Converse cannot express a part of it.
        """
        try:
            body = self._body(request)
        except (TypeError, ValueError, RecursionError) as error:
            message = f"the request cannot be written as JSON: {error}"
            raise InvalidRequest(message) from error
        path = f"/model/{quote(request.upstream_model, safe='')}/converse-stream"
        return WireRequest(path=path, body=body)

    def _body(self, request: InferenceRequest) -> bytes:
        options = dict((request.overrides or InferenceOverride()).provider_options or {})
        choice = options.pop("toolChoice", None) or _choice(request.tool_choice)
        is_known = request.output_schema is not None and not is_any_object(request.output_schema)
        is_native = self._enforces_schema and is_known
        fields = _settings(request, options, is_native=is_native)
        if system := _system(request, is_native=is_native):
            fields["system"] = system
        head = msgspec.json.encode(fields)[:-1]
        parts = [head, b"," if fields else b""]
        if tools := self._tools.of(request.tools) or _tools(_find_used_tools(request.messages)):
            point = _CACHE_BYTES if _caches(request) == "all" else b""
            chosen = b"" if choice is None else b',"toolChoice":' + msgspec.json.encode(choice)
            parts += [b'"toolConfig":{"tools":[', tools, point, b"]", chosen, b"},"]
        parts += [b'"messages":[', self._turns(request), b"]}"]
        return b"".join(parts)

    def _turns(self, request: InferenceRequest) -> bytes:
        """Join consecutive messages of one role into turns: Converse wants alternating roles."""
        messages, of = make_call_ids_distinct(order_results(request.messages)), self._messages.of
        pieces = [of(message) for message in messages]
        turns = join_turns(pieces, _OPENED, _FIRST_WORDS)
        if not turns or not _caches(request):
            return turns
        encoded = zip(reversed(messages), reversed(pieces), strict=True)
        last = next(message for message, (_, blocks) in encoded if blocks)
        return turns[:-2] + _CACHE_BYTES + b"]}" if _may_mark(last) else turns


def _choice(wanted: str | None) -> _Fields | None:
    """Encode the tool choice; Converse cannot express `none`, so it is left to the model."""
    if wanted is None or wanted == "none":
        return None
    return {"any": {}} if wanted == "required" else {"tool": {"name": wanted}}


def _caches(request: InferenceRequest) -> str:
    """Return where the model accepts cache points; elsewhere they would be refused."""
    if not request.enable_prompt_cache:
        return ""
    if _is_claude(request.upstream_model):
        return "all"
    return "messages" if "amazon.nova" in request.upstream_model else ""


def _is_claude(model: str) -> bool:
    return "anthropic." in model


def _may_mark(message: Message) -> bool:
    """Whether a cache point may follow: Converse refuses it after a document or a video."""
    return bool(message.tool_calls) or not isinstance(message.content[-1], Document | Video)


def _settings(request: InferenceRequest, options: _Fields, *, is_native: bool) -> _Fields:
    asked = request.overrides or InferenceOverride()
    inference = {
        "maxTokens": asked.max_tokens,
        "temperature": asked.temperature,
        "topP": asked.top_p,
        **options.pop("inferenceConfig", {}),
    }
    model_fields, output = _effort(request, asked)
    if is_native:
        schema = {
            "name": "answer",
            "schema": msgspec.json.encode(strict_schema(request.output_schema)).decode(),
        }
        output["textFormat"] = {"type": "json_schema", "structure": {"jsonSchema": schema}}
    top = {name: options.pop(name) for name in _TOP_LEVEL if name in options}
    model_fields |= options.pop("additionalModelRequestFields", {}) | options
    fields = {
        "additionalModelRequestFields": model_fields,
        "inferenceConfig": {name: value for name, value in inference.items() if value is not None},
        **top,
        "outputConfig": output | top.get("outputConfig", {}),
    }
    return {name: value for name, value in fields.items() if value}


def _effort(request: InferenceRequest, asked: InferenceOverride) -> tuple[_Fields, _Fields]:
    """Return the fields that the wanted effort adds to the model's fields and to the output's."""
    effort, model = asked.reasoning_effort, request.upstream_model
    if effort is None:
        return {}, {}
    if _is_claude(model):
        thinking, level = claude_thinking(effort, model, asked.max_tokens)
        is_budget = thinking is not None and "budget_tokens" in thinking
        if is_budget and is_loop_unreasoned(
            request.messages, lambda it: bool(_encode_reasoning(it))
        ):
            thinking = None
        return {"thinking": thinking} if thinking else {}, {"effort": level} if level else {}
    if isinstance(effort, EffortBudget):
        message = f"'{model}' takes no budget of reasoning tokens: name an effort"
        raise InvalidRequest(message)
    return {}, {} if effort is Effort.NONE else {"effort": effort}


def _system(request: InferenceRequest, *, is_native: bool) -> list[_Fields]:
    texts = [*request.system]
    if request.output_schema is not None and not is_native:
        schema = msgspec.json.encode(request.output_schema).decode()
        texts.append(f"Answer with nothing but JSON that fits this JSON Schema:\n{schema}")
    blocks: list[_Fields] = [{"text": text} for text in texts if text.strip()]
    return [*blocks, _CACHE_POINT] if blocks and _caches(request) else blocks


def _find_used_tools(messages: Sequence[Message]) -> tuple[ModelTool, ...]:
    """Declare the tools that the conversation uses: Converse refuses calls without any tools."""
    names = {call.name: None for message in messages for call in message.tool_calls or ()}
    return tuple(
        ModelTool(id=name, description="No longer available.", parameters={"type": "object"})
        for name in names
    )


def _tools(tools: tuple[ModelTool, ...]) -> bytes:
    specs = [
        {
            "toolSpec": {
                "name": tool.id,
                **({"description": tool.description} if tool.description else {}),
                "inputSchema": {"json": tool.parameters or NO_PARAMETERS},
            }
        }
        for tool in tools
    ]
    return msgspec.json.encode(specs)[1:-1]


def _message(message: Message) -> tuple[str, bytes]:
    """Return the role and the blocks of a message; empty if nothing can be sent."""
    match message.role:
        case Role.TOOL:
            return "user", _join_blocks([_result(message.tool_call_id or "", message.content)])
        case Role.SYSTEM:
            text = message.text
            return "user", _join_blocks([_text(f"<system>\n{text}\n</system>" if text else "")])
        case Role.USER:
            return "user", _join_blocks([_block(block) for block in message.content])
        case Role.ASSISTANT:
            known = {block.id for block in message.content if isinstance(block, ToolUse)}
            calls = [call for call in message.tool_calls or () if call.id not in known]
            blocks = [_block(block) for block in message.content]
            return "assistant", _join_blocks(
                [*blocks, *(_call(call.id, call.name, call.arguments) for call in calls)]
            )


def _join_blocks(blocks: Sequence[_Fields | None]) -> bytes:
    return msgspec.json.encode([block for block in blocks if block is not None])[1:-1]


def _block(block: ContentBlock) -> _Fields | None:
    match block:
        case Text(text=text):
            return _text(text)
        case Image() | Document() | Audio() | Video():
            return media_block(block)
        case Thinking():
            return _encode_reasoning(block)
        case ToolUse(id=call_id, name=name, input=arguments):
            return _call(call_id, name, arguments)
        case ToolResultContent(tool_use_id=call_id, content=content):
            return _result(call_id, content)


def _text(text: str) -> _Fields | None:
    """Encode text; Converse refuses blank text."""
    return {"text": text} if text.strip() else None


def _encode_reasoning(block: Thinking) -> _Fields | None:
    if block.origin != ORIGIN or block.signature is None:
        return None
    if block.signature.startswith(REDACTED):
        return {"reasoningContent": {"redactedContent": block.signature.removeprefix(REDACTED)}}
    signed = {"text": block.thinking, "signature": block.signature}
    return {"reasoningContent": {"reasoningText": signed}}


def _call(call_id: str, name: str, arguments: Any) -> _Fields:
    given = {} if arguments is None else arguments
    taken = given if isinstance(given, dict) else {"value": given}
    return {"toolUse": {"toolUseId": CLAUDE_IDS(call_id), "name": name, "input": taken}}


def _result(call_id: str, content: tuple[ContentBlock, ...]) -> _Fields:
    blocks = [made for block in content if (made := _block(block)) is not None]
    return {"toolResult": {"toolUseId": CLAUDE_IDS(call_id), "content": blocks}}
