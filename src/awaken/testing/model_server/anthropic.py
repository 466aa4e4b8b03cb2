"""Anthropic's Messages as the server writes them."""

from collections.abc import Iterator

from awaken.contracts.models.inference import TokenUsage

from .answers import AnswerBlock, Said, blocks
from .failures import ScriptedRefusal, refusal_of
from .sse import Json, event, texts

_DELTAS = {
    "text": ("text_delta", "text"),
    "reasoning": ("thinking_delta", "thinking"),
    "call": ("input_json_delta", "partial_json"),
}


def stream(said: Said, body: Json) -> Iterator[bytes]:
    """Yield the server-sent events of the answer."""
    start = {**_message(body), "usage": {**_input(said.usage), "output_tokens": 1}}
    yield _event("message_start", message=start)
    yield _event("ping")
    for index, block in enumerate(blocks(said.deltas)):
        yield _event("content_block_start", index=index, content_block=_open_block(block))
        kind, field = _DELTAS[block.kind]
        for piece in block:
            delta = {"type": kind, field: piece}
            yield _event("content_block_delta", index=index, delta=delta)
        if block.kind == "reasoning" and block.signature is not None:
            delta = {"type": "signature_delta", "signature": block.signature}
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    if said.error is not None:
        yield event(failure(refusal_of(said.error)), "error")
        return
    stop = {"stop_reason": said.stop.value, "stop_sequence": None}
    yield _event("message_delta", delta=stop, usage=_output(said.usage))
    yield _event("message_stop")


def failure(refusal: ScriptedRefusal) -> Json:
    """Return the body of an error, which is also the event of one."""
    error = {"type": refusal.anthropic, "message": refusal.message}
    return {"type": "error", "error": error, "request_id": "req_1"}


def turns(body: Json) -> list[tuple[str, str]]:
    """Role and text of every message."""
    return [(message["role"], texts(message["content"])) for message in body["messages"]]


def _open_block(block: AnswerBlock) -> Json:
    match block.kind:
        case "text":
            return {"type": "text", "text": ""}
        case "reasoning":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case "call":
            return {"type": "tool_use", "id": block.call_id, "name": block.name, "input": {}}


def _event(kind: str, **fields: object) -> bytes:
    return event({"type": kind, **fields}, kind)


def _message(body: Json) -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "fake"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _input(usage: TokenUsage | None) -> Json:
    """Anthropic counts what is cached apart from the other tokens of the prompt."""
    used = usage or TokenUsage()
    read, written = used.cache_read_tokens or 0, used.cache_creation_tokens or 0
    return {
        "input_tokens": (used.prompt_tokens or 0) - read - written,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }


def _output(usage: TokenUsage | None) -> Json:
    used = usage or TokenUsage()
    count = {"output_tokens": used.completion_tokens or 0}
    if used.thinking_tokens is None:
        return count
    return {**count, "output_tokens_details": {"thinking_tokens": used.thinking_tokens}}
