"""OpenAI's Chat Completions as the server writes them, with the reasoning of compatible vendors."""

from collections.abc import Iterator

from awaken.contracts.models.inference import StopReason, TokenUsage

from .answers import AnswerBlock, Said, blocks
from .failures import ScriptedRefusal, refusal_of
from .sse import Json, event, texts

_STOPS = {
    StopReason.END_TURN: "stop",
    StopReason.STOP_SEQUENCE: "stop",
    StopReason.MAX_TOKENS: "length",
    StopReason.TOOL_USE: "tool_calls",
}


def stream(said: Said, body: Json) -> Iterator[bytes]:
    """Yield the server-sent events of the answer."""
    yield _chunk(body, {"role": "assistant", "content": ""})
    calls = 0
    for block in blocks(said.deltas):
        if block.kind == "call":
            yield _chunk(body, {"tool_calls": [{"index": calls, **_call(block)}]})
        for piece in block:
            yield _chunk(body, _delta(block, piece, calls))
        calls += block.kind == "call"
    if said.error is not None:
        yield event(failure(refusal_of(said.error)))
        return
    yield _chunk(body, {}, _STOPS[said.stop])
    if said.usage is not None and (body.get("stream_options") or {}).get("include_usage"):
        yield event({**_frame(body), "choices": [], "usage": _usage(said.usage)})
    yield b"data: [DONE]\n\n"


def failure(refusal: ScriptedRefusal) -> Json:
    """Return the body of an error, which is also the event of one."""
    kind = "invalid_request_error" if refusal.status == 400 else refusal.openai
    message = refusal.message
    return {"error": {"message": message, "type": kind, "param": None, "code": refusal.openai}}


def turns(body: Json) -> list[tuple[str, str]]:
    """Role and text of every message."""
    return [(message["role"], texts(message.get("content"))) for message in body["messages"]]


def _delta(block: AnswerBlock, piece: str, index: int) -> Json:
    match block.kind:
        case "text":
            return {"content": piece}
        case "reasoning":
            return {"reasoning_content": piece}
        case "call":
            return {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _call(block: AnswerBlock) -> Json:
    function = {"name": block.name, "arguments": ""}
    return {"id": block.call_id, "type": "function", "function": function}


def _chunk(body: Json, delta: Json, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return event({**_frame(body), "choices": [choice]})


def _frame(body: Json) -> Json:
    model = body.get("model", "fake")
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}


def _usage(usage: TokenUsage) -> Json:
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    cached = {
        "cached_tokens": usage.cache_read_tokens or 0,
        "cache_write_tokens": usage.cache_creation_tokens or 0,
    }
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": cached,
        "completion_tokens_details": {"reasoning_tokens": usage.thinking_tokens or 0},
    }
