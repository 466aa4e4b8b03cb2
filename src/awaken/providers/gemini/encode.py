"""Requests in the Gemini format. Pure."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from awaken.contracts.messages.content import (
    Audio,
    Base64Source,
    ContentBlock,
    Document,
    Image,
    Source,
    Text,
    Thinking,
    ToolUse,
    Video,
    text_of,
)
from awaken.contracts.messages.message import Message, Role, ToolCall
from awaken.contracts.models.errors import InvalidRequest
from awaken.contracts.models.inference import (
    Effort,
    EffortBudget,
    InferenceOverride,
    InferenceRequest,
    ModelTool,
    ReasoningEffort,
)
from awaken.contracts.record import Record
from awaken.providers.http.call_ids import make_id_fitter
from awaken.providers.http.options import put_options
from awaken.providers.http.schemas import NO_PARAMETERS, is_any_object
from awaken.providers.http.turns import format_notice

ORIGIN = "gemini"
USER, MODEL, RESULTS = "user", "model", "results"
_RESERVED = frozenset({"contents", "tools", "systemInstruction"})
_UNSIGNED = "skip_thought_signature_validator"
"""The vendor's signature for calls that it did not make; without it the request is refused."""
_LEVELS = {
    Effort.NONE: "LOW",
    Effort.LOW: "LOW",
    Effort.MEDIUM: "MEDIUM",
    Effort.HIGH: "HIGH",
    Effort.MAX: "HIGH",
}
_BUDGETS = {Effort.LOW: 1_024, Effort.MEDIUM: 8_192, Effort.HIGH: 24_576, Effort.MAX: 24_576}
_LEAST_PRO_BUDGET = 128
# Families with levels of their own: the first accept MINIMAL, the last refuses MEDIUM.
_TAKES_MINIMAL = ("gemini-3-flash", "gemini-3.1-flash", "gemini-3.5-flash")
_TAKES_NO_MEDIUM = "gemini-3-pro"
_MEDIA_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "heic": "image/heic",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "ogg": "audio/ogg",
    "flac": "audio/flac",
    "m4a": "audio/mp4",
    "mp4": "video/mp4",
    "mov": "video/quicktime",
    "webm": "video/webm",
}

_ids = make_id_fitter(r"[a-zA-Z0-9_.:-]{1,128}")
_json = msgspec.json.Encoder().encode


def parameters(request: InferenceRequest, system: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a request before its tools and messages."""
    overrides = request.overrides or InferenceOverride()
    body: dict[str, Any] = {}
    if config := _generation(request, overrides):
        body["generationConfig"] = config
    if request.tool_choice is not None:
        body["toolConfig"] = {"functionCallingConfig": _choice(request.tool_choice)}
    put_options(body, overrides.provider_options, _RESERVED)
    if parts := [{"text": text} for text in system if text]:
        body["systemInstruction"] = {"parts": parts}
    return body


def _choice(wanted: str) -> dict[str, Any]:
    if wanted in ("none", "required"):
        return {"mode": "NONE" if wanted == "none" else "ANY"}
    return {"mode": "ANY", "allowedFunctionNames": [wanted]}


def _generation(request: InferenceRequest, overrides: InferenceOverride) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if overrides.temperature is not None:
        config["temperature"] = overrides.temperature
    if overrides.top_p is not None:
        config["topP"] = overrides.top_p
    if overrides.max_tokens is not None:
        config["maxOutputTokens"] = overrides.max_tokens
    if request.output_schema is not None:
        config["responseMimeType"] = "application/json"
        if not is_any_object(request.output_schema):
            config["responseJsonSchema"] = request.output_schema
    if overrides.reasoning_effort is not None:
        config["thinkingConfig"] = _encode_effort(
            overrides.reasoning_effort, request.upstream_model
        )
    return config


def _encode_effort(effort: ReasoningEffort, model: str) -> dict[str, Any]:
    shown = {"includeThoughts": True}
    name = model.rpartition("/")[2]
    if isinstance(effort, EffortBudget):
        budget = max(effort.budget, _least_budget(name))
        return {**(shown if effort.budget else {}), "thinkingBudget": budget}
    if effort is not Effort.NONE:
        return {**shown, **_amount(effort, name)}
    return _amount(effort, name)


def _least_budget(name: str) -> int:
    return _LEAST_PRO_BUDGET if "pro" in name else 0


def _amount(effort: Effort, name: str) -> dict[str, Any]:
    """Encode an effort: a token budget for models before the third generation, else a level."""
    if name.startswith(("gemini-1", "gemini-2")):
        return {"thinkingBudget": _BUDGETS.get(effort, _least_budget(name))}
    if effort is Effort.NONE and name.startswith(_TAKES_MINIMAL):
        return {"thinkingLevel": "MINIMAL"}
    if effort is Effort.MEDIUM and name.startswith(_TAKES_NO_MEDIUM):
        return {"thinkingLevel": "HIGH"}
    return {"thinkingLevel": _LEVELS[effort]}


def encode_tools(tools: tuple[ModelTool, ...]) -> bytes:
    """Encode the tools as function declarations."""
    made = [
        {
            "name": tool.id,
            "description": tool.description,
            "parametersJsonSchema": tool.parameters or NO_PARAMETERS,
        }
        for tool in tools
    ]
    return _json([{"functionDeclarations": made}])


class EncodedMessage(Record, frozen=True, kw_only=True):
    """The wire form of a message."""

    piece: tuple[str, bytes]
    """The role, and the parts separated by commas; `%b` in a result stands for its name."""
    called: dict[str, bytes] | None = None
    """The functions it calls, by the id of the call."""
    answered: str | None = None
    """The call whose result it is."""


def encode_message(message: Message, origin: str = ORIGIN) -> EncodedMessage:
    """Encode a message, with reasoning of this origin only.

    Raises:
        InvalidRequest: The format cannot express a block.
    """
    match message.role:
        case Role.TOOL:
            call_id = message.tool_call_id or ""
            return EncodedMessage(piece=(RESULTS, _result(call_id, message)), answered=call_id)
        case Role.SYSTEM:
            return EncodedMessage(piece=(USER, _json({"text": format_notice(message)})))
        case Role.USER:
            return EncodedMessage(piece=(USER, _join_parts(_parts(message, origin))))
        case Role.ASSISTANT:
            called = {call.id: _json(call.name) for call in _calls(message)}
            return EncodedMessage(
                piece=(MODEL, _join_parts(_parts(message, origin))), called=called
            )


def _join_parts(parts: Iterable[dict[str, Any]]) -> bytes:
    return b",".join(_json(part) for part in parts)


def _parts(message: Message, origin: str) -> Iterator[dict[str, Any]]:
    for block in message.content:
        if isinstance(block, ToolUse):
            continue
        part = _encode_thought(block, origin) if isinstance(block, Thinking) else _part(block)
        if part is not None:
            yield part
    for place, call in enumerate(_calls(message)):
        signature = call.signature or (None if place else _UNSIGNED)
        arguments = call.arguments
        if not isinstance(arguments, dict):
            # The vendor accepts objects only; this keeps the model's own value readable.
            arguments = {} if arguments is None else {"value": arguments}
        part = {"functionCall": {"id": _ids(call.id), "name": call.name, "args": arguments}}
        yield part if signature is None else {**part, "thoughtSignature": signature}


def _calls(message: Message) -> Iterator[ToolCall]:
    for block in message.content:
        if isinstance(block, ToolUse):
            yield ToolCall(id=block.id, name=block.name, arguments=block.input)
    yield from message.tool_calls or ()


def _part(block: ContentBlock) -> dict[str, Any] | None:
    match block:
        case Text(text=text):
            return {"text": text} if text else None
        case Image(source=source) | Document(source=source):
            return _media(source)
        case Audio(source=source) | Video(source=source):
            return _media(source)
        case _:
            kind = type(block).__name__
            message = f"the Gemini format takes no {kind} block here; use a tool message"
            raise InvalidRequest(message)


def _encode_thought(block: Thinking, origin: str) -> dict[str, Any] | None:
    """Encode reasoning with its signature; without one it is not sent back."""
    if block.signature is None or block.origin != origin:
        return None
    thought = {"thought": True} if block.thinking else {}
    return {"text": block.thinking, **thought, "thoughtSignature": block.signature}


def _media(source: Source) -> dict[str, Any]:
    if isinstance(source, Base64Source):
        return {"inlineData": {"mimeType": source.media_type, "data": source.data}}
    ending = source.url.partition("?")[0].rpartition(".")[2].lower()
    known = {"mimeType": _MEDIA_TYPES[ending]} if ending in _MEDIA_TYPES else {}
    return {"fileData": {**known, "fileUri": source.url}}


def _result(call_id: str, message: Message) -> bytes:
    fields: dict[str, Any] = {"response": {"output": text_of(message.content)}}
    media = [_part(block) for block in message.content if not isinstance(block, Text | Thinking)]
    if media:
        fields["parts"] = media
    before, after = _json({"id": _ids(call_id)})[:-1], _json(fields)[1:-1]
    # Only the call has the name, and each message is encoded on its own.
    escaped = (part.replace(b"%", b"%%") for part in (before, after))
    return b'{"functionResponse":%b,"name":%%b,%b}}' % tuple(escaped)
