"""Prints the OpenAPI document of a server with everything mounted, for the types of the console."""

import asyncio
import json
import sys

from awaken import Agent, AgentRuntime


async def _print_document() -> None:
    runtime = AgentRuntime(agents=[Agent("default", model="scripted")], managed=True)
    replies: list[bytes] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b""}

    async def send(message: dict[str, object]) -> None:
        body = message.get("body", b"")
        assert isinstance(body, bytes)
        replies.append(body)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/openapi.json",
        "raw_path": b"/openapi.json",
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    async with runtime:
        await runtime.asgi()(scope, receive, send)
    json.dump(json.loads(b"".join(replies)), sys.stdout, indent=1, sort_keys=True)


asyncio.run(_print_document())
