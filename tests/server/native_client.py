"""A client of the native API, and the agents that tests run with it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.stores import Store
from awaken.testing import ScriptedModel, ToolCalls

from .serving import Frame, post_stream, read_stream, serving


@dataclass(frozen=True)
class Client:
    """Speaks JSON with one server."""

    url: str
    session: aiohttp.ClientSession
    runtime: AgentRuntime

    async def ask(
        self, operation: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        method, path = operation.split(" ", 1)
        async with self.session.request(
            method, f"{self.url}{path}", json=body, headers=headers
        ) as reply:
            text = await reply.text()
            return reply.status, None if not text else await reply.json()

    async def get(self, path: str) -> Any:
        status, body = await self.ask(f"GET {path}")
        assert status == 200, body
        return body

    async def refused(self, operation: str, body: Any = None) -> tuple[int, str]:
        status, told = await self.ask(operation, body)
        assert status >= 400, told
        assert told["code"]
        return status, told["error"]

    async def run(self, thread_id: str, text: str = "hi", **headers: str) -> list[Frame]:
        message = {"role": "user", "content": text}
        body = {"agentId": "a", "threadId": thread_id, "messages": [message]}
        return await post_stream(self.session, f"{self.url}/v1/runs", body, headers=headers)

    async def stream(self, path: str, **headers: str) -> list[Frame]:
        return await read_stream(self.session, f"{self.url}{path}", headers=headers)

    async def settled(self, run_id: str) -> Any:
        """A run after it has ended or begun to wait."""
        async with asyncio.timeout(10):
            await self.runtime.wait(run_id)
        return await self.get(f"/v1/runs/{run_id}")


@asynccontextmanager
async def native(runtime: AgentRuntime) -> AsyncIterator[Client]:
    async with serving(runtime) as url, aiohttp.ClientSession() as session:
        yield Client(url, session, runtime)


def talking(*answers: Any, store: Store | str | None = None) -> AgentRuntime:
    """One agent `a`, which is also the default, with answers that come again and again."""
    model = ScriptedModel(list(answers) or ["Hello."], cycle=True)
    about: dict[str, Any] = {"instructions": "a secret", "description": "talks", "tools": [ask]}
    agents = [Agent(name, model=model, **about) for name in ("a", "default")]
    return AgentRuntime(agents, store=store)


def asking() -> AgentRuntime:
    """Asks for permission, then says what it was told."""
    return talking(ToolCalls([("ask", {"question": "sure?"})]), "Done.")


@tool
async def ask(question: str, ctx: ToolContext) -> Any:
    """Ask a person."""
    return ctx.suspend(question) if ctx.resume is None else f"told {ctx.resume.result}"
