"""Requests in the Chat Completions format."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal

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
    UrlSource,
)
from awaken.contracts.messages.message import Message, Role, ToolCall
from awaken.contracts.models.errors import InvalidRequest
from awaken.contracts.models.inference import Effort, InferenceOverride, InferenceRequest, ModelTool
from awaken.contracts.record import StrictRecord
from awaken.providers.http.call_ids import OPENAI_IDS, make_id_fitter
from awaken.providers.http.efforts import is_openai, openai_word
from awaken.providers.http.options import put_options
from awaken.providers.http.schemas import NO_PARAMETERS, is_any_object, is_closed

from .decode import ORIGIN
from .details import details_of

SHOWN_NEXT = "(The rest of this result is in the next user message.)"
_RESERVED = frozenset(("model", "messages", "tools", "stream"))
_AUDIO = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav"}


class ChatOptions(StrictRecord, frozen=True, kw_only=True):
    """Differences of compatible servers; the defaults are OpenAI's."""

    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    system_role: Literal["system", "developer"] = "system"
    has_stream_options: bool = True
    """Whether the server accepts `stream_options`, which asks for the usage."""
    send_reasoning: bool = False
    """Whether to send reasoning back as `reasoning_content`."""
    send_reasoning_details: bool = False
    """Whether to send reasoning back unchanged, as `reasoning_details`."""
    call_id_chars: Annotated[int, msgspec.Meta(ge=9, le=52)] | None = None
    """How many letters and digits the id of a call must have, if the server requires it."""
    efforts: dict[Effort, str] = msgspec.field(default_factory=dict)
    """Other words for levels of effort, such as `{"max": "high"}`."""


def parameters(request: InferenceRequest, options: ChatOptions) -> dict[str, Any]:
    """Return all fields but the messages and the tools, in a fixed order.

    Raises:
        InvalidRequest: A provider option is a field that the request itself sets.
    """
    asked, model = request.overrides or InferenceOverride(), request.upstream_model
    wanted = {
        "model": model,
        "stream": True,
        "stream_options": {"include_usage": True} if options.has_stream_options else None,
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        options.max_tokens_field: asked.max_tokens,
        "reasoning_effort": openai_word(asked.reasoning_effort, model, options.efforts),
        "response_format": _format(request.output_schema, model),
        "tool_choice": _choice(request.tool_choice),
    }
    head = {name: value for name, value in wanted.items() if value is not None}
    put_options(head, asked.provider_options, _RESERVED)
    return head


def _format(schema: dict[str, Any] | None, model: str) -> dict[str, Any] | None:
    if schema is None:
        return None
    if is_any_object(schema):
        return {"type": "json_object"}
    # Some servers refuse `strict` for their own models.
    strict = {"strict": True} if is_openai(model) and is_closed(schema) else {}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, **strict}}


def _choice(wanted: str | None) -> str | dict[str, Any] | None:
    if wanted in (None, "none", "required"):
        return wanted
    return {"type": "function", "function": {"name": wanted}}


def encode_tools(tools: tuple[ModelTool, ...]) -> bytes:
    """Encode the tools as a JSON array."""
    return msgspec.json.encode(
        [
            {
                "type": "function",
                "function": {
                    "name": tool.id,
                    "description": tool.description,
                    "parameters": tool.parameters or NO_PARAMETERS,
                },
            }
            for tool in tools
        ]
    )


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """A message on the wire; of bytes alone, so that the garbage collector need not visit it."""

    item: bytes
    """Empty if this format cannot express any part of the message."""
    shown: bytes = b""
    """Content parts of a tool's result that only a user message can contain."""
    is_result: bool = False


def order_messages(system: Sequence[str], messages: Iterable[Encoded], role: str) -> list[bytes]:
    """Return all messages; media of tool results come after the last result of a turn."""
    text = "\n\n".join(part for part in system if part)
    items = [msgspec.json.encode({"role": role, "content": text})] if text else []
    waiting: list[bytes] = []
    for message in messages:
        if waiting and not message.is_result:
            items.append(_encode_shown(waiting))
            waiting = []
        if message.item:
            items.append(message.item)
        if message.shown:
            waiting.append(message.shown)
    return [*items, _encode_shown(waiting)] if waiting else items


def _encode_shown(parts: Sequence[bytes]) -> bytes:
    return b'{"role":"user","content":[%b]}' % b",".join(parts)


def encode_message(message: Message, options: ChatOptions, origin: str = ORIGIN) -> Encoded:
    """Encode one message, with reasoning of this origin only.

    Raises:
        InvalidRequest: It has content that this format cannot express.
    """
    match message.role:
        case Role.SYSTEM:
            text = message.text
            return Encoded(
                msgspec.json.encode({"role": options.system_role, "content": text}) if text else b""
            )
        case Role.USER:
            return Encoded(
                msgspec.json.encode({"role": "user", "content": _content(message.content)})
            )
        case Role.ASSISTANT:
            answer = _assistant(message, options, origin)
            is_empty = answer["content"] is None and "tool_calls" not in answer
            return Encoded(b"" if is_empty else msgspec.json.encode(answer))
        case Role.TOOL:
            return _result(message, _ids(options))


def _content(blocks: Sequence[ContentBlock]) -> str | list[dict[str, Any]]:
    if not blocks:
        return ""
    only = blocks[0]
    return only.text if len(blocks) == 1 and type(only) is Text else [_part(it) for it in blocks]


def _assistant(message: Message, options: ChatOptions, origin: str) -> dict[str, Any]:
    answer: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    thoughts: list[Thinking] = []
    for block in message.content:
        if type(block) is Thinking:
            if block.origin == origin:
                thoughts.append(block)
        elif type(block) is not Text:
            raise _no_place(block)
    if thoughts and options.send_reasoning:
        answer["reasoning_content"] = "".join(block.thinking for block in thoughts)
    signatures = [block.signature for block in thoughts if block.signature]
    if signatures and options.send_reasoning_details:
        answer["reasoning_details"] = details_of(signatures)
    if message.tool_calls:
        ids = _ids(options)
        answer["tool_calls"] = [_call(call, ids) for call in message.tool_calls]
    return answer


def _ids(options: ChatOptions) -> Callable[[str], str]:
    chars = options.call_id_chars
    return OPENAI_IDS if chars is None else make_id_fitter(f"[a-zA-Z0-9]{{{chars}}}", chars)


def _call(call: ToolCall, ids: Callable[[str], str]) -> dict[str, Any]:
    arguments = {} if call.arguments is None else call.arguments
    function = {"name": call.name, "arguments": msgspec.json.encode(arguments).decode()}
    return {"id": ids(call.id), "type": "function", "function": function}


def _result(message: Message, ids: Callable[[str], str]) -> Encoded:
    call_id = ids(message.tool_call_id or "")
    texts = [block.text for block in message.content if type(block) is Text]
    media = [_part(block) for block in message.content if type(block) is not Text]
    if media:
        texts.append(SHOWN_NEXT)
        media.insert(0, {"type": "text", "text": f"From the result of {call_id}:"})
    item = {"role": "tool", "tool_call_id": call_id, "content": "\n".join(texts)}
    return Encoded(msgspec.json.encode(item), msgspec.json.encode(media)[1:-1], is_result=True)


def _part(block: ContentBlock) -> dict[str, Any]:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image(source=source):
            return {"type": "image_url", "image_url": {"url": _url(source)}}
        case Audio(source=Base64Source(media_type=kind, data=data)):
            name = kind.partition("/")[2]
            sound = {"data": data, "format": _AUDIO.get(name, name)}
            return {"type": "input_audio", "input_audio": sound}
        case Document(source=Base64Source() as source, title=title):
            file = {"filename": title or "document.pdf", "file_data": _url(source)}
            return {"type": "file", "file": file}
        case Document(source=UrlSource()) | Audio(source=UrlSource()):
            name = type(block).__name__.lower()
            message = f"OpenAI Chat cannot fetch a {name} from a URL; send its bytes"
            raise InvalidRequest(message)
        case _:
            raise _no_place(block)


def _no_place(block: ContentBlock) -> InvalidRequest:
    return InvalidRequest(f"OpenAI Chat has no place for {type(block).__name__} content here")


def _url(source: Source) -> str:
    if isinstance(source, UrlSource):
        return source.url
    return f"data:{source.media_type};base64,{source.data}"
