"""OpenAI's Responses as the server writes them: items that are added, streamed and done."""

from collections.abc import Iterator
from itertools import count

from awaken.contracts.models.inference import StopReason, TokenUsage

from .answers import AnswerBlock, Said, blocks
from .failures import ScriptedRefusal, refusal_of
from .sse import Json, event, texts

_PREFIX = {"text": "msg", "reasoning": "rs", "call": "fc"}


def stream(said: Said, body: Json) -> Iterator[bytes]:
    """Yield the server-sent events of the answer."""
    numbers = count()
    for data in _events(said, body):
        data["sequence_number"] = next(numbers)
        yield event(data, data["type"])


def failure(refusal: ScriptedRefusal) -> Json:
    """Return the body of an error."""
    kind = "invalid_request_error" if refusal.status == 400 else refusal.openai
    message = refusal.message
    return {"error": {"message": message, "type": kind, "param": None, "code": refusal.openai}}


def turns(body: Json) -> list[tuple[str, str]]:
    """Role and text of every message; calls and their results are none."""
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    return [(item["role"], texts(item.get("content"))) for item in items if "role" in item]


def _events(said: Said, body: Json) -> Iterator[Json]:
    begun = {**_response(body), "status": "in_progress"}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    items: list[Json] = []
    for index, block in enumerate(blocks(said.deltas)):
        place = {"item_id": f"{_PREFIX[block.kind]}_{index}", "output_index": index}
        item = {**_item(block, index), "status": "in_progress"}
        if block.kind != "call":
            item["content" if block.kind == "text" else "summary"] = []
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        yield from _PARTS[block.kind](block, place)
        items.append(_item(block, index))
        yield {"type": "response.output_item.done", "output_index": index, "item": items[-1]}
    if said.error is not None:
        refusal = refusal_of(said.error)
        words = {"code": refusal.openai, "message": refusal.message, "param": None}
        yield {"type": "error", **words}
        return
    response = _complete_response(said, body, items)
    yield {"type": f"response.{response['status']}", "response": response}


def _text(block: AnswerBlock, place: Json) -> Iterator[Json]:
    at = {**place, "content_index": 0}
    yield {"type": "response.content_part.added", **at, "part": _part("")}
    for piece in block:
        yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **at, "text": block.text, "logprobs": []}
    yield {"type": "response.content_part.done", **at, "part": _part(block.text)}


def _stream_reasoning(block: AnswerBlock, place: Json) -> Iterator[Json]:
    at, kind = {**place, "summary_index": 0}, "response.reasoning_summary"
    yield {"type": f"{kind}_part.added", **at, "part": {"type": "summary_text", "text": ""}}
    for piece in block:
        yield {"type": f"{kind}_text.delta", **at, "delta": piece}
    yield {"type": f"{kind}_text.done", **at, "text": block.text}
    part = {"type": "summary_text", "text": block.text}
    yield {"type": f"{kind}_part.done", **at, "part": part}


def _call(block: AnswerBlock, place: Json) -> Iterator[Json]:
    kind = "response.function_call_arguments"
    for piece in block:
        yield {"type": f"{kind}.delta", **place, "delta": piece}
    yield {"type": f"{kind}.done", **place, "arguments": block.text}


_PARTS = {"text": _text, "reasoning": _stream_reasoning, "call": _call}


def _item(block: AnswerBlock, index: int) -> Json:
    head = {"id": f"{_PREFIX[block.kind]}_{index}", "status": "completed"}
    match block.kind:
        case "text":
            content = [_part(block.text)]
            return {**head, "type": "message", "role": "assistant", "content": content}
        case "reasoning":
            summary = [{"type": "summary_text", "text": block.text}] if block.text else []
            sealed = {"encrypted_content": block.signature} if block.signature else {}
            return {**head, "type": "reasoning", "summary": summary, **sealed}
        case "call":
            call = {"call_id": block.call_id, "name": block.name, "arguments": block.text}
            return {**head, "type": "function_call", **call}


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _complete_response(said: Said, body: Json, items: list[Json]) -> Json:
    is_cut = said.stop is StopReason.MAX_TOKENS
    response = {**_response(body), "output": items}
    response["status"] = "incomplete" if is_cut else "completed"
    response["incomplete_details"] = {"reason": "max_output_tokens"} if is_cut else None
    response["usage"] = _usage(said.usage) if said.usage else None
    return response


def _response(body: Json) -> Json:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "model": body.get("model", "fake"),
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
    }


def _usage(usage: TokenUsage) -> Json:
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    cached = {
        "cached_tokens": usage.cache_read_tokens or 0,
        "cache_write_tokens": usage.cache_creation_tokens or 0,
    }
    return {
        "input_tokens": prompt,
        "input_tokens_details": cached,
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": usage.thinking_tokens or 0},
        "total_tokens": prompt + completion,
    }
