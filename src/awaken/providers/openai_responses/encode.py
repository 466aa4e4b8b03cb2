"""Requests in the Responses format."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from awaken.contracts.messages.content import (
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
from awaken.providers.http.call_ids import OPENAI_IDS
from awaken.providers.http.efforts import can_reason, openai_word
from awaken.providers.http.options import put_options
from awaken.providers.http.schemas import NO_PARAMETERS, is_any_object, is_closed

from .reasoning_items import ORIGIN, ReasoningItem, read_reasoning_item

_RESERVED = frozenset(("model", "input", "tools", "stream", "previous_response_id", "conversation"))

_Item = dict[str, Any]


class ResponsesOptions(StrictRecord, frozen=True, kw_only=True):
    """Differences of compatible servers; the defaults are OpenAI's."""

    has_encrypted_reasoning: bool = True
    """Whether to ask the server for encrypted reasoning, which it can read in the next turn."""
    summary: Literal["auto", "concise", "detailed"] | None = None
    """Which summary of its reasoning to ask the server for; OpenAI gives one to verified
    organisations only."""
    efforts: dict[Effort, str] = msgspec.field(default_factory=dict)
    """Other words for levels of effort, such as `{"max": "high"}`."""


def parameters(request: InferenceRequest, options: ResponsesOptions) -> dict[str, Any]:
    """Return all fields but the input and the tools, in a fixed order.

    Raises:
        InvalidRequest: A provider option is a field that the request itself sets.
    """
    asked, model = request.overrides or InferenceOverride(), request.upstream_model
    is_kept = options.has_encrypted_reasoning and can_reason(model)
    wanted = {
        "model": model,
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"] if is_kept else None,
        "instructions": "\n\n".join(part for part in request.system if part) or None,
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "max_output_tokens": asked.max_tokens,
        "reasoning": _encode_effort(
            openai_word(asked.reasoning_effort, model, options.efforts), options
        ),
        "text": _format(request.output_schema),
        "tool_choice": _choice(request.tool_choice),
    }
    head = {name: value for name, value in wanted.items() if value is not None}
    put_options(head, asked.provider_options, _RESERVED)
    return head


def _encode_effort(word: str | None, options: ResponsesOptions) -> _Item | None:
    if word is None:
        return None
    has_summary = options.summary is not None and word != "none"
    return {"effort": word, **({"summary": options.summary} if has_summary else {})}


def _format(schema: dict[str, Any] | None) -> _Item | None:
    if schema is None:
        return None
    if is_any_object(schema):
        return {"format": {"type": "json_object"}}
    form = {"type": "json_schema", "name": "answer", "schema": schema}
    return {"format": {**form, "strict": True} if is_closed(schema) else form}


def _choice(wanted: str | None) -> str | _Item | None:
    if wanted in (None, "none", "required"):
        return wanted
    return {"type": "function", "name": wanted}


def encode_tools(tools: tuple[ModelTool, ...]) -> bytes:
    """Encode the tools as a JSON array; without `strict` the vendor would change the schemas."""
    return msgspec.json.encode(
        [
            {
                "type": "function",
                "name": tool.id,
                "description": tool.description,
                "parameters": tool.parameters or NO_PARAMETERS,
                "strict": False,
            }
            for tool in tools
        ]
    )


def encode_message(message: Message, origin: str = ORIGIN) -> bytes:
    """Encode the items of one message, joined by commas.

    Raises:
        InvalidRequest: It has content that this format cannot express.
    """
    return msgspec.json.encode(list(_items(message, origin)))[1:-1]


def _items(message: Message, origin: str) -> Iterator[_Item]:
    match message.role:
        case Role.SYSTEM:
            if text := message.text:
                yield _message_item("system", text)
        case Role.USER:
            yield _message_item("user", _content(message.content))
        case Role.ASSISTANT:
            yield from _answer(message, origin)
        case Role.TOOL:
            yield {
                "type": "function_call_output",
                "call_id": OPENAI_IDS(message.tool_call_id or ""),
                "output": _content(message.content),
            }


def _message_item(role: str, content: str | list[_Item]) -> _Item:
    return {"type": "message", "role": role, "content": content}


def _content(blocks: Sequence[ContentBlock]) -> str | list[_Item]:
    if not blocks:
        return ""
    only = blocks[0]
    return only.text if len(blocks) == 1 and type(only) is Text else [_part(it) for it in blocks]


def _part(block: ContentBlock) -> _Item:
    match block:
        case Text(text=text):
            return {"type": "input_text", "text": text}
        case Image(source=source):
            return {"type": "input_image", "detail": "auto", "image_url": _url(source)}
        case Document(source=UrlSource(url=url)):
            return {"type": "input_file", "file_url": url}
        case Document(source=Base64Source() as source, title=title):
            name = title or "document.pdf"
            return {"type": "input_file", "filename": name, "file_data": _url(source)}
        case _:
            raise _no_place(block)


def _answer(message: Message, origin: str) -> list[_Item]:
    """Return the items of an answer in the order in which the vendor made them."""
    waiting, known = message.tool_calls or (), 0
    items: list[_Item] = []
    phase: str | None = None
    for block in message.content:
        match block:
            case Text(text=text):
                if text:
                    items.append(
                        _message_item("assistant", text) | ({"phase": phase} if phase else {})
                    )
                phase = None
            case Thinking():
                kept = read_reasoning_item(block, origin) or ReasoningItem()
                begun = tuple(call for call in waiting if call.id in kept.calls_before)
                waiting = tuple(call for call in waiting if call not in begun)
                if len(kept.calls_before) > known and not begun:
                    _drop_idle(items)
                known = len(kept.calls_before)
                items += map(_call, begun)
                phase = kept.phase
                if kept.id is not None and (kept.encrypted_content or kept.is_raw):
                    items.append(_encode_reasoning(kept, kept.id, block.thinking))
            case _:
                raise _no_place(block)
    items += map(_call, waiting)
    _drop_idle(items)
    return items


def _drop_idle(items: list[_Item]) -> None:
    """Drop trailing reasoning items: the vendor refuses reasoning without a result."""
    while items and items[-1]["type"] == "reasoning":
        items.pop()


def _encode_reasoning(kept: ReasoningItem, item_id: str, text: str) -> _Item:
    item: _Item = {"type": "reasoning", "id": item_id, "summary": []}
    if text and kept.is_raw:
        item["content"] = [{"type": "reasoning_text", "text": text}]
    elif text:
        item["summary"] = [{"type": "summary_text", "text": text}]
    if kept.encrypted_content is not None:
        item["encrypted_content"] = kept.encrypted_content
    return item


def _call(call: ToolCall) -> _Item:
    arguments = msgspec.json.encode({} if call.arguments is None else call.arguments).decode()
    call_id = OPENAI_IDS(call.id)
    return {"type": "function_call", "call_id": call_id, "name": call.name, "arguments": arguments}


def _url(source: Source) -> str:
    if isinstance(source, UrlSource):
        return source.url
    return f"data:{source.media_type};base64,{source.data}"


def _no_place(block: ContentBlock) -> InvalidRequest:
    return InvalidRequest(f"OpenAI Responses has no place for {type(block).__name__} content here")
