"""Agents for tests of MCP, and the official client in both eras of the protocol."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.models import InferenceRequest
from awaken.server import ServerConfig
from awaken.testing import ScriptedModel, ToolCalls

from .serving import serving

LEGACY, MODERN = "legacy", "2026-07-28"
both_eras = pytest.mark.parametrize("era", [LEGACY, MODERN])


class Held:
    """A model turn that is held until it is let go."""

    def __init__(self, text: str = "Done.") -> None:
        self.text = text
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def __call__(self, _: InferenceRequest) -> str:
        self.is_asked.set()
        await self.may_answer.wait()
        return self.text


def answering(*texts: str, agent_id: str = "helper", **options: Any) -> Agent:
    """An agent that says these texts in turn."""
    return Agent(agent_id, model=ScriptedModel(list(texts), cycle=True), **options)


def asking(schema: dict[str, Any] | None = None, *, times: int = 1, **options: Any) -> Agent:
    """An agent whose only tool asks the user, so many times at once."""

    @tool
    async def ask(question: str, ctx: ToolContext) -> Any:
        if ctx.resume is None:
            return ctx.suspend(question, response_schema=schema, **options)
        return f"told {ctx.resume.result}"

    calls = [("ask", {"question": f"Sure {number}?"}) for number in range(times)]
    script = [ToolCalls(calls), _retold]
    return Agent("asker", model=ScriptedModel(script, cycle=True), tools=[ask])


def _retold(request: InferenceRequest) -> str:
    told = [message.text for message in request.messages if message.role == "tool"]
    return f"The tool was {'; '.join(told)}"


@asynccontextmanager
async def connected(url: str, era: str, **options: Any) -> AsyncIterator[Client]:
    """The official client, connected over HTTP."""
    headers = options.pop("headers", {})
    async with httpx2.AsyncClient(headers=headers, timeout=20, verify=False) as http:
        transport = streamable_http_client(f"{url}/v1/mcp", http_client=http)
        async with Client(transport, mode=era, **options) as client:
            yield client


@asynccontextmanager
async def talking(
    agents: list[Agent], era: str, config: ServerConfig | None = None, **options: Any
) -> AsyncIterator[tuple[Client, AgentRuntime]]:
    """A server with these agents, and a client of it."""
    runtime = AgentRuntime(agents)
    async with serving(runtime, config) as url, connected(url, era, **options) as client:
        yield client, runtime


class RawClient:
    """A client without manners: it sends what it is told to, and never says goodbye."""

    def __init__(self, url: str, era: str, **headers: str) -> None:
        self._url = f"{url}/v1/mcp"
        self._era = era
        self._id = 0
        self.headers = {"accept": "application/json, text/event-stream", **headers}
        self.http = aiohttp.ClientSession()

    async def __aenter__(self) -> "RawClient":
        if self._era == LEGACY:
            status, headers, _ = await self.hello()
            assert status == 200
            self.headers["mcp-session-id"] = headers["mcp-session-id"]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.close()

    async def bare(self, method: str, body: bytes | None = None, **headers: str) -> int:
        """Send any request; returns the status."""
        known = {**self.headers, **headers}
        async with self.http.request(method, self._url, data=body, headers=known) as reply:
            return reply.status

    async def hello(self) -> tuple[int, Any, Any]:
        """Begin a session."""
        about = {"protocolVersion": "2025-11-25", "capabilities": {}}
        return await self.post(
            "initialize", {**about, "clientInfo": {"name": "raw", "version": "1"}}
        )

    async def post(
        self, method: str, params: dict[str, Any], **headers: str
    ) -> tuple[int, Any, Any]:
        """Send a request; returns the status, the headers and the answer."""
        self._id += 1
        sent = dict(params)
        known = {**self.headers, **headers}
        if self._era != LEGACY:
            known |= {"mcp-protocol-version": self._era, "mcp-method": method}
            if "name" in params or "taskId" in params:
                known.setdefault("mcp-name", params.get("name") or params["taskId"])
            prefix = "io.modelcontextprotocol/"
            meta = {f"{prefix}protocolVersion": self._era, f"{prefix}clientCapabilities": {}}
            sent["_meta"] = {**meta, **params.get("_meta", {})}
        body = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": sent}
        async with self.http.post(self._url, json=body, headers=known) as reply:
            return reply.status, reply.headers, _answer(await reply.text())


def _answer(text: str) -> Any:
    data = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    whole = data[-1] if data else text
    return json.loads(whole) if whole else None
