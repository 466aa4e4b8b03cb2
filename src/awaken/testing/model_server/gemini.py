"""Google's Gemini as the server writes it: calls come whole, thoughts are signed afterwards."""

from collections.abc import Iterator

import msgspec

from awaken.contracts.models.inference import StopReason, TokenUsage

from .answers import AnswerBlock, Said, blocks
from .failures import ScriptedRefusal, refusal_of
from .sse import Json, event, texts

_ROLES = {"model": "assistant"}


def stream(said: Said, body: Json) -> Iterator[bytes]:
    """Yield the server-sent events of the answer."""
    for part in _parts(said):
        yield event(_answer(part))
    if said.error is not None:
        yield event(failure(refusal_of(said.error)))
        return
    reason = "MAX_TOKENS" if said.stop is StopReason.MAX_TOKENS else "STOP"
    usage = {"usageMetadata": _usage(said.usage)} if said.usage else {}
    yield event({**_answer({"text": ""}, finishReason=reason), **usage})


def failure(refusal: ScriptedRefusal) -> Json:
    """Return the body of an error, which is also the event of one."""
    status, message = refusal.status, refusal.message
    return {"error": {"code": status, "message": message, "status": refusal.gemini}}


def turns(body: Json) -> list[tuple[str, str]]:
    """Role and text of every message."""
    return [
        (_ROLES.get(content.get("role"), "user"), texts(content.get("parts")))
        for content in body["contents"]
    ]


def _parts(said: Said) -> Iterator[Json]:
    held: Json = {}
    for block in blocks(said.deltas):
        for part in _pieces(block):
            if "functionCall" in part:
                part = {**held, **part}
                held = {}
            yield part
        if block.kind == "reasoning" and block.signature is not None:
            held = {"thoughtSignature": block.signature}
    if held:
        yield {"text": "", **held}


def _pieces(block: AnswerBlock) -> Iterator[Json]:
    match block.kind:
        case "text":
            yield from ({"text": piece} for piece in block)
        case "reasoning":
            yield from ({"text": piece, "thought": True} for piece in block)
        case "call":
            arguments = msgspec.Raw("".join(block).encode() or b"{}")
            call = {"id": block.call_id, "name": block.name, "args": arguments}
            signed = {"thoughtSignature": block.signature} if block.signature else {}
            yield {"functionCall": call, **signed}


def _answer(part: Json, **ending: str) -> Json:
    candidate = {"content": {"parts": [part], "role": "model"}, "index": 0, **ending}
    return {"candidates": [candidate], "modelVersion": "fake", "responseId": "resp-1"}


def _usage(usage: TokenUsage) -> Json:
    """Gemini counts the tokens of its thoughts apart from those of its answer."""
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    thoughts = usage.thinking_tokens or 0
    counts = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": completion - thoughts,
        "totalTokenCount": prompt + completion,
    }
    if usage.cache_read_tokens is not None:
        counts["cachedContentTokenCount"] = usage.cache_read_tokens
    return {**counts, "thoughtsTokenCount": thoughts} if thoughts else counts
