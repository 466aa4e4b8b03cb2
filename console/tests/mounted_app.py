"""An ASGI app of someone else that mounts the server: `mounted_app.py PORT STORE PREFIX`."""

import asyncio
import sys
from typing import Any

import uvicorn

from awaken import Agent, AgentRuntime
from awaken.testing import ScriptedModel

echo = Agent("echo", model=ScriptedModel(["The mounted server answers."], cycle=True))


async def main(port: int, store: str, prefix: str) -> None:
    """Serve until the process is ended; everything beside the prefix is not there."""
    async with AgentRuntime([echo], store=store) as runtime:
        inner = runtime.asgi()

        async def site(scope: dict[str, Any], receive: Any, send: Any) -> None:
            if scope["type"] == "lifespan" or str(scope.get("path")).startswith(f"{prefix}/"):
                root = scope.get("root_path", "") + prefix
                await inner(
                    {**scope, "root_path": root} if "path" in scope else scope, receive, send
                )
                return
            await send({"type": "http.response.start", "status": 418, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        server = uvicorn.Server(
            uvicorn.Config(site, port=port, log_level="warning", lifespan="off")
        )
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        sys.stdout.write(f"Ready: http://127.0.0.1:{port}, mounted\n")
        sys.stdout.flush()
        await serving


asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
