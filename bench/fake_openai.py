"""A tiny OpenAI-compatible chat/completions server: own asyncio protocol, keep-alive, SSE.

Stateless: the script is read from the `[[rounds,fanout,tool,delay,deltas,gap]]` mark in the newest
marked user message; the step is the number of assistant messages after it.

usage: fake_openai.py PORT
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import sys
from typing import Any

from common import Script, Turn

MARK = re.compile(r"\[\[(\d+),(\d+),(\w+),([\d.]+),(\d+),([\d.]+)\]\]")
LENGTH = re.compile(r"content-length: *(\d+)", re.IGNORECASE)
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
response_ids = itertools.count()


def text_of(content: str | list[dict[str, Any]] | None) -> str:
    """The text of a message's content, plain or in parts."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [])


def script_for(messages: list[dict[str, Any]]) -> Script:
    """The script of a conversation, at the step it has reached."""
    step = 0
    for message in reversed(messages):
        if message["role"] == "assistant":
            step += 1
        elif message["role"] == "user" and (mark := MARK.search(text_of(message["content"]))):
            rounds, fanout, tool, delay, deltas, gap = mark.groups()
            return Script(
                int(rounds), int(fanout), tool, float(delay), int(deltas), float(gap), step=step
            )
    return Script(step=step)


def head(content_type: str = "application/json", length: int | None = None) -> bytes:
    """Status line and headers; chunked when the length is not known."""
    framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    return f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n{framing}\r\n\r\n".encode()


def chunk(data: bytes) -> bytes:
    """One SSE event in one HTTP chunk."""
    event = b"data: " + data + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(event), event)


class Answer:
    """One model call, in the wire format."""

    def __init__(self, body: dict[str, Any], turn: Turn, gap: float) -> None:
        self.turn, self.gap = turn, gap
        self.id, self.model = f"chatcmpl-{next(response_ids)}", body["model"]
        self.usage = (body.get("stream_options") or {}).get("include_usage")
        self.calls = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.json}}
            for c in turn.calls
        ]
        self.finish = "tool_calls" if self.calls else "stop"

    def envelope(self, kind: str, **fields: Any) -> bytes:
        document = {"id": self.id, "object": kind, "created": 1, "model": self.model, **fields}
        return json.dumps(document, separators=(",", ":")).encode()

    def whole(self) -> bytes:
        """The unstreamed response."""
        message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": self.calls}
        if not self.calls:
            text = self.turn.text or "".join(self.turn.deltas or [])
            message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        out = self.envelope("chat.completion", usage=USAGE, choices=[choice])
        return head(length=len(out)) + out

    def event(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return chunk(self.envelope("chat.completion.chunk", choices=[choice]))

    async def stream(self, writer: asyncio.StreamWriter) -> None:
        """The streamed response."""
        opening = {"role": "assistant", "content": None if self.calls else ""}
        writer.write(head("text/event-stream") + self.event(opening))
        for index, call in enumerate(self.calls):
            writer.write(self.event({"tool_calls": [{"index": index, **call}]}))
        if not self.calls:
            for delta in self.turn.deltas or [self.turn.text]:
                if self.gap:
                    await asyncio.sleep(self.gap)
                writer.write(self.event({"content": delta}))
        writer.write(self.event({}, self.finish))
        if self.usage:
            writer.write(chunk(self.envelope("chat.completion.chunk", choices=[], usage=USAGE)))
        writer.write(chunk(b"[DONE]") + b"0\r\n\r\n")


async def reply(body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """Answer one request."""
    script = script_for(body["messages"])
    if script.delay:
        await asyncio.sleep(script.delay)
    answer = Answer(body, script.next(), script.gap)
    if body.get("stream"):
        await answer.stream(writer)
    else:
        writer.write(answer.whole())


async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer requests until the client goes."""
    try:
        while True:
            headers = (await reader.readuntil(b"\r\n\r\n")).decode("latin1")
            length = LENGTH.search(headers)
            raw = await reader.readexactly(int(length[1])) if length else b""
            if headers.startswith("POST"):
                await reply(json.loads(raw), writer)
            else:
                models = b'{"object":"list","data":[]}'
                writer.write(head(length=len(models)) + models)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main(port: int) -> None:
    """Serve until killed; says "ready" on stdout."""
    server = await asyncio.start_server(
        serve_connection, "127.0.0.1", port, limit=1 << 24, backlog=4096
    )
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
