"""A real server on the loopback, in the test's own event loop, and a client for it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import Any

import aiohttp
import uvicorn

from awaken import AgentRuntime, tool
from awaken.server import ServerConfig


@dataclass(frozen=True)
class Frame:
    """One frame of an event stream."""

    id: int | None
    data: Any
    branch: str = ""
    """The thread, where the client knows it by the name of its chat."""


class QuickServer(uvicorn.Server):
    """Ends when it is asked to and everything is closed; the original looks ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.asked_to_end = asyncio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.asked_to_end.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for closed in (*self.servers, *(sockets or ())):
            closed.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while self.server_state.connections or self.server_state.tasks:
                    await asyncio.sleep(0.002)
                for server in self.servers:
                    await server.wait_closed()
        except TimeoutError:
            for task in self.server_state.tasks:
                task.cancel()
        await self.lifespan.shutdown()


@asynccontextmanager
async def serving(runtime: AgentRuntime, config: ServerConfig | None = None) -> AsyncIterator[str]:
    """Serve a runtime; yields the base URL."""
    async with serving_app(runtime.asgi(config)) as url:
        yield url


@asynccontextmanager
async def serving_app(app: Any) -> AsyncIterator[str]:
    """Serve an ASGI app; yields the base URL."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        # Connections inherit it; otherwise each short answer waits for the client's next packet.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        port = listener.getsockname()[1]
        options = uvicorn.Config(
            app, log_level="warning", lifespan="on", timeout_graceful_shutdown=2
        )
        server = QuickServer(options)
        task = asyncio.create_task(server._serve([listener]))  # without signal handlers
        try:
            async with asyncio.timeout(10):
                while not server.started:
                    assert not task.done(), task.exception()
                    await asyncio.sleep(0.005)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.asked_to_end.set()
            await asyncio.wait_for(task, 15)


def frames_of(text: str) -> Iterator[Frame]:
    """The frames of an event stream, comments left out."""
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if not lines:
            continue
        ids = [line[4:] for line in lines if line.startswith("id: ")]
        data = [line[6:] for line in lines if line.startswith("data: ")]
        assert len(data) == 1, block
        place, _, branch = ids[0].partition("@") if ids else ("", "", "")
        yield Frame(int(place) if ids else None, json.loads(data[0]), branch)


async def post_stream(
    session: aiohttp.ClientSession, url: str, body: Any, **options: Any
) -> list[Frame]:
    """Post and read the whole stream."""
    async with session.post(url, json=body, **options) as reply:
        text = await reply.text()
        assert reply.status == 200, text
        return list(frames_of(text))


async def read_stream(session: aiohttp.ClientSession, url: str, **options: Any) -> list[Frame]:
    """Read a whole stream."""
    async with session.get(url, **options) as reply:
        text = await reply.text()
        assert reply.status == 200, text
        return list(frames_of(text))


class Gate:
    """A tool that waits until it is opened."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()

    def tool(self) -> Any:
        @tool(effect="none")
        async def wait() -> str:
            """Wait."""
            self.entered.set()
            await self.opened.wait()
            return "waited"

        return wait
