"""Requests in the Anthropic Messages format. Pure."""

import base64
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from awaken.contracts.messages.content import (
    Base64Source,
    ContentBlock,
    Document,
    Image,
    Source,
    Text,
    Thinking,
    ToolResultContent,
    ToolUse,
)
from awaken.contracts.messages.message import Message, Role
from awaken.contracts.models.errors import InvalidRequest
from awaken.contracts.models.inference import InferenceOverride, InferenceRequest, ModelTool
from awaken.providers.http.call_ids import CLAUDE_IDS
from awaken.providers.http.claude import claude_thinking, is_loop_unreasoned
from awaken.providers.http.options import put_options
from awaken.providers.http.schemas import NO_PARAMETERS, is_any_object, strict_schema
from awaken.providers.http.turns import format_notice

ORIGIN = "anthropic"
REDACTED = "anthropic_redacted"
"""The origin of encrypted reasoning: it consists of its signature alone."""
_RESERVED = frozenset({"model", "messages", "tools", "stream", "system"})

_json = msgspec.json.Encoder().encode


def parameters(
    request: InferenceRequest, default_tokens: int, marker: dict[str, str] | None, origin: str
) -> dict[str, Any]:
    """Return the fields of a request before its system prompt, tools and messages."""
    overrides = request.overrides or InferenceOverride()
    reasoning, budget = _encode_effort(request, overrides, origin)
    body: dict[str, Any] = {
        "model": request.upstream_model,
        # The vendor counts reasoning as output; a default leaves room for both.
        "max_tokens": overrides.max_tokens or default_tokens + budget,
        "stream": True,
    }
    if overrides.temperature is not None:
        body["temperature"] = overrides.temperature
    if overrides.top_p is not None:
        body["top_p"] = overrides.top_p
    body.update(reasoning)
    if request.tool_choice is not None and not (reasoning and request.tool_choice != "none"):
        # A model that reasons cannot be forced to call a tool.
        body["tool_choice"] = _choice(request.tool_choice)
    if request.output_schema is not None and not is_any_object(request.output_schema):
        form = {"type": "json_schema", "schema": strict_schema(request.output_schema)}
        body["output_config"] = {**body.get("output_config", {}), "format": form}
    if marker is not None:
        body["cache_control"] = marker
    put_options(body, overrides.provider_options, _RESERVED)
    return body


def _choice(wanted: str) -> dict[str, str]:
    kinds = {"none": {"type": "none"}, "required": {"type": "any"}}
    return kinds.get(wanted) or {"type": "tool", "name": wanted}


def _encode_effort(
    request: InferenceRequest, overrides: InferenceOverride, origin: str
) -> tuple[dict[str, Any], int]:
    """Return the fields for the wanted effort, and how many tokens are reserved for it."""
    effort = overrides.reasoning_effort
    if effort is None:
        return {}, 0
    thinking, level = claude_thinking(effort, request.upstream_model, overrides.max_tokens)
    if thinking is None:
        return {}, 0
    budget: int = thinking.get("budget_tokens", 0)
    if budget and is_loop_unreasoned(
        request.messages, lambda it: _encode_thinking(it, origin) is not None
    ):
        return {}, 0
    if thinking["type"] == "adaptive":
        thinking["display"] = "summarized"
    return {"thinking": thinking, **({"output_config": {"effort": level}} if level else {})}, budget


def origin_of_redacted(origin: str) -> str:
    """Return the origin of encrypted reasoning from the same provider."""
    return REDACTED + origin.removeprefix(ORIGIN)


def encode_system(texts: Iterable[str], marker: dict[str, str] | None) -> bytes:
    """Encode the system prompt with a cache mark at its end; empty if there is none."""
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": text} for text in texts if text.strip()
    ]
    if not blocks:
        return b""
    if marker is not None:
        blocks[-1]["cache_control"] = marker
    return _json(blocks)


def encode_tools(tools: tuple[ModelTool, ...], marker: dict[str, str] | None = None) -> bytes:
    """Encode the tools; the last one gets the cache mark, if any."""
    made: list[dict[str, Any]] = [
        {
            "name": tool.id,
            "description": tool.description,
            "input_schema": tool.parameters or NO_PARAMETERS,
        }
        for tool in tools
    ]
    if marker is not None:
        made[-1]["cache_control"] = marker
    return _json(made)


def encode_message(message: Message, origin: str = ORIGIN) -> tuple[str, bytes]:
    """Return the role of a message and its blocks, with reasoning of this origin only.

    Raises:
        InvalidRequest: The format cannot express a block.
    """
    role = "assistant" if message.role is Role.ASSISTANT else "user"
    return role, b",".join(_json(block) for block in _blocks(message, origin))


def _blocks(message: Message, origin: str) -> Iterator[dict[str, Any]]:
    if message.role is Role.SYSTEM:
        yield {"type": "text", "text": format_notice(message)}
    elif message.role is Role.TOOL:
        yield _tool_result(message.tool_call_id or "", message.content, origin)
    else:
        yield from _encode_blocks(message.content, origin)
        for call in message.tool_calls or ():
            yield _tool_use(call.id, call.name, call.arguments)


def _encode_blocks(content: Iterable[ContentBlock], origin: str) -> Iterator[dict[str, Any]]:
    for block in content:
        encoded = _encode_block(block, origin)
        if encoded is not None:
            yield encoded


def _encode_block(block: ContentBlock, origin: str) -> dict[str, Any] | None:
    match block:
        case Text(text=text):
            # The vendor refuses blocks without a visible character.
            return {"type": "text", "text": text} if text.strip() else None
        case Thinking():
            return _encode_thinking(block, origin)
        case ToolUse(id=call_id, name=name, input=arguments):
            return _tool_use(call_id, name, arguments)
        case ToolResultContent(tool_use_id=call_id, content=content):
            return _tool_result(call_id, content, origin)
        case _:
            return _attachment(block)


def _attachment(block: ContentBlock) -> dict[str, Any]:
    match block:
        case Image(source=source):
            return {"type": "image", "source": _source(source)}
        case Document(source=source, title=title):
            made = {"type": "document", "source": _document_source(source)}
            return {**made, "title": title} if title else made
        case _:
            kind = type(block).__name__.lower()
            message = f"the Anthropic format takes no {kind}; send text, an image or a document"
            raise InvalidRequest(message)


def _encode_thinking(block: Thinking, origin: str) -> dict[str, Any] | None:
    """Encode reasoning with its signature; reasoning without one is not sent back."""
    if block.signature is None:
        return None
    if block.origin == origin_of_redacted(origin):
        return {"type": "redacted_thinking", "data": block.signature}
    if block.origin != origin:
        return None
    return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}


def _tool_use(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    if not isinstance(arguments, dict):
        # The vendor accepts objects only; this keeps the model's own value readable.
        arguments = {} if arguments is None else {"value": arguments}
    return {"type": "tool_use", "id": CLAUDE_IDS(call_id), "name": name, "input": arguments}


def _tool_result(call_id: str, content: Iterable[ContentBlock], origin: str) -> dict[str, Any]:
    blocks = [block for block in content if not isinstance(block, Thinking)]
    return {
        "type": "tool_result",
        "tool_use_id": CLAUDE_IDS(call_id),
        "content": list(_encode_blocks(blocks, origin)),
    }


def _source(source: Source) -> dict[str, str]:
    if isinstance(source, Base64Source):
        return {"type": "base64", "media_type": source.media_type, "data": source.data}
    return {"type": "url", "url": source.url}


def _document_source(source: Source) -> dict[str, str]:
    if not isinstance(source, Base64Source) or source.media_type == "application/pdf":
        return _source(source)
    if source.media_type.startswith("text/"):
        text = base64.b64decode(source.data, validate=True).decode()
        return {"type": "text", "media_type": "text/plain", "data": text}
    message = f"the Anthropic format takes no '{source.media_type}'; send a PDF or text"
    raise InvalidRequest(message)
