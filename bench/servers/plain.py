"""What any server costs: a bare ASGI app that parses a body and streams one event per delta."""

import json
import os

from common import stream_turn
from servers.listening import listen

EVENT_STREAM = [(b"content-type", b"text/event-stream")]


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    json.loads(body or b"{}")
    await send({"type": "http.response.start", "status": 200, "headers": EVENT_STREAM})
    await send(part({"type": "run_started"}))
    async for delta in stream_turn():
        await send(part({"type": "text", "delta": delta}))
    await send(part({"type": "run_finished"}, more=False))


def part(event, more=True):
    frame = f"data: {json.dumps(event)}\n\n".encode()
    return {"type": "http.response.body", "body": frame, "more_body": more}


if __name__ == "__main__":
    listen(app, **({"loop": "uvloop", "http": "httptools"} if os.environ.get("FAST") else {}))
