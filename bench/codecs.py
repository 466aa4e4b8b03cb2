"""What the wire formats cost without a network: decoding an answer, encoding a long history.

usage: codecs.py [--deltas 20000] [--messages 1000] [--rounds 5]
Prints, for each format, megabytes of server-sent events decoded per second and microseconds per
delta (through the same two decoders that the HTTP client uses), and milliseconds to encode a
request the first time and again. Process CPU time, best of the rounds.
"""

import argparse
import importlib
import json
import time
from collections.abc import Callable
from typing import Any

from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.messages.message import Message, ToolCall, assistant, tool_answer, user
from awaken.contracts.models.inference import InferenceRequest, ModelTool
from awaken.outbound.sse import SseDecoder
from awaken.testing.model_server import Said, stream_of

CODECS = {
    "openai_chat": "OpenAiChatCodec",
    "openai_responses": "OpenAiResponsesCodec",
    "anthropic": "AnthropicCodec",
    "gemini": "GeminiCodec",
}
CHUNK = 64 * 1024
TOOLS = tuple(
    ModelTool(id=f"tool_{n}", description="Does it.", parameters={"type": "object"})
    for n in range(3)
)


def main() -> None:
    """Print one line for each format."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deltas", type=int, default=20_000)
    parser.add_argument("--messages", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="the figures in one line as well")
    args = parser.parse_args()
    figures: dict[str, float] = {}
    print(f"{'format':<18}{'MB/s':>8}{'us/delta':>10}{'encode ms':>11}{'again ms':>10}")
    for wire, name in CODECS.items():
        made = getattr(importlib.import_module(f"awaken.providers.{wire}.codec"), name)
        size, seconds = decoding(wire, made, args.deltas, args.rounds)
        first, again = encoding(made, args.messages, args.rounds)
        rate, per_delta = size / seconds / 1e6, seconds / args.deltas * 1e6
        print(f"{wire:<18}{rate:>8.0f}{per_delta:>10.2f}{first * 1e3:>11.2f}{again * 1e3:>10.2f}")
        figures |= {f"{wire} MB/s": rate, f"{wire} us": per_delta}
        figures |= {f"{wire} encode ms": first * 1e3, f"{wire} again ms": again * 1e3}
    if args.json:
        print(json.dumps(figures))


def decoding(wire: str, codec: Callable[..., Any], deltas: int, rounds: int) -> tuple[int, float]:
    """The size of an answer and the CPU time to decode it."""
    said = Said([TextDelta(delta=f"word {n} ") for n in range(deltas)])
    stream = b"".join(stream_of(wire, said))
    chunks = [stream[at : at + CHUNK] for at in range(0, len(stream), CHUNK)]

    def decode() -> None:
        sse, decoder, found = SseDecoder(), codec({}).decoder(), 0
        for chunk in chunks:
            for data in sse.feed(chunk):
                found += sum(type(event) is TextDelta for event in decoder.take(data))
        assert found == deltas, f"{found} deltas of {deltas}"

    return len(stream), best(decode, rounds)


def encoding(codec: Callable[..., Any], messages: int, rounds: int) -> tuple[float, float]:
    """The CPU time to encode a request with a long history, at first and again."""
    history = [message_of(n) for n in range(messages)]
    request = InferenceRequest(
        upstream_model="m", messages=history, system=("Be brief.",), tools=TOOLS
    )
    first = best(lambda: codec({}).encode(request), rounds)
    known = codec({})
    known.encode(request)
    return first, best(lambda: known.encode(request), rounds)


def message_of(number: int) -> Message:
    """User, call, result, answer, and so on."""
    call_id = f"call_{number // 4}"
    match number % 4:
        case 0:
            return user(f"Question {number}: what is it like?")
        case 1:
            return assistant("", [ToolCall(id=call_id, name="tool_1", arguments={"n": number})])
        case 2:
            return tool_answer(call_id, f"result {number}")
    return assistant(f"Answer {number}: it is as it is.")


def best(work: Callable[[], object], rounds: int) -> float:
    """The shortest CPU time of some rounds."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


if __name__ == "__main__":
    main()
