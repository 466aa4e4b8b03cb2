"""A server that speaks A2A, agents to talk to, and clients: plain ones and the official one."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import httpx
from a2a.client import Client, ClientConfig
from a2a.client.client_factory import create_client
from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest
from google.protobuf.json_format import MessageToDict

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.bootstrap.server_app import build_server_context
from awaken.outbound.guard import Outbound
from awaken.protocols.a2a.configs import PushPolicy
from awaken.protocols.a2a.routes import a2a_protocol
from awaken.server import ServerApp, ServerConfig
from awaken.testing import ScriptedModel
from awaken.tools import ResumeMode

from .serving import Frame, frames_of, serving_app

BINDINGS = ("JSONRPC", "HTTP+JSON")
METHODS = {
    "message:send": "SendMessage",
    "message:stream": "SendStreamingMessage",
    "subscribe": "SubscribeToTask",
}


@tool
async def ask(question: str, ctx: ToolContext) -> Any:
    """Ask somebody."""
    return ctx.suspend(question) if ctx.resume is None else f"told {ctx.resume.result}"


@tool
async def wipe(disk: str, ctx: ToolContext) -> Any:
    """Wipe a disk, if somebody allows it."""
    if ctx.resume is None:
        return ctx.suspend(f"wipe {disk}?", mode=ResumeMode.REPLAY_TOOL_CALL)
    return f"wiped {disk}"


def agents(**scripts: list[Any]) -> AgentRuntime:
    """A runtime whose agents say what they are told to."""
    return AgentRuntime(
        [
            Agent(
                name, model=ScriptedModel(script), tools=[ask, wipe], description=f"It is {name}."
            )
            for name, script in scripts.items()
        ]
    )


def a2a_app(
    runtime: AgentRuntime, config: ServerConfig | None = None, push: PushPolicy | None = None
) -> ServerApp:
    """A server that speaks A2A only, and may call this machine."""
    told = config or ServerConfig(private_hosts=("127.0.0.1",))
    outbound = Outbound(told.private_hosts, told.outbound_ports)
    desk = runtime._services
    protocol = a2a_protocol(outbound, push, asks_tokens=told.requires_authentication)
    return ServerApp(build_server_context(desk, told), (protocol,), runtime._ensure_open)


class Caller:
    """A plain client of both transports."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.session = session

    async def rest(
        self, method: str, path: str, body: Any = None, **options: Any
    ) -> tuple[int, Any]:
        """Call over HTTP+JSON."""
        sent = {"json": body} if body is not None else {}
        async with self.session.request(
            method, f"{self.url}/v1/a2a{path}", **sent, **options
        ) as reply:
            return reply.status, json.loads(await reply.text())

    async def rpc(self, method: str, given: Any = None, tenant: str = "", **options: Any) -> Any:
        """Call over JSON-RPC."""
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": given or {}}
        url = f"{self.url}/v1/a2a{tenant}"
        async with self.session.post(url, json=body, **options) as reply:
            return json.loads(await reply.text())

    async def send(self, text: str, path: str = "/message:send", **more: Any) -> Any:
        """Send a text and return the task."""
        status, body = await self.rest("POST", path, sending(text, **more))
        assert status == 200, body
        return body["task"]

    async def stream(self, text: str, **more: Any) -> list[Frame]:
        """Send a text and read the whole stream."""
        return await self.frames("POST", "/message:stream", sending(text, **more))

    async def subscribe(self, task_id: str, cursor: int | None = None) -> list[Frame]:
        """Attach to a task and read to the end."""
        headers = {} if cursor is None else {"Last-Event-ID": str(cursor)}
        return await self.frames("GET", f"/tasks/{task_id}:subscribe", headers=headers)

    @asynccontextmanager
    async def subscribing(self, task_id: str) -> AsyncIterator[tuple[Any, Any]]:
        """Attach to a task: what it opens with, and a way to read the rest to its end."""
        async with self.session.get(f"{self.url}/v1/a2a/tasks/{task_id}:subscribe") as reply:
            assert reply.status == 200, await reply.text()
            (opening,) = frames_of((await reply.content.readuntil(b"\n\n")).decode())

            async def rest() -> list[Frame]:
                return list(frames_of((await reply.read()).decode()))

            yield opening, rest

    async def frames(
        self, method: str, path: str, body: Any = None, headers: Any = None
    ) -> list[Frame]:
        """Read a stream over HTTP+JSON."""
        sent = {"json": body} if body is not None else {}
        async with self.session.request(
            method, f"{self.url}/v1/a2a{path}", headers=headers, **sent
        ) as reply:
            text = await reply.text()
            assert reply.status == 200, text
            return list(frames_of(text))


@asynccontextmanager
async def world(
    runtime: AgentRuntime, config: ServerConfig | None = None, push: PushPolicy | None = None
) -> AsyncIterator[Caller]:
    """Serve a runtime over A2A; yields a plain client."""
    async with (
        serving_app(a2a_app(runtime, config, push)) as url,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session,
    ):
        yield Caller(url, session)


@asynccontextmanager
async def official(url: str, binding: str, **options: Any) -> AsyncIterator[Client]:
    """The official client over one transport."""
    async with httpx.AsyncClient(timeout=20) as http:
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], **options)
        yield await create_client(url, config)


def sending(text: str, message_id: str | None = None, **more: Any) -> Any:
    """The body of a send; `more` are fields of the message, `configuration` is its own."""
    configuration = more.pop("configuration", None)
    parts = more.pop("parts", None) or [{"text": text}]
    message = {
        "messageId": message_id or f"m-{text}",
        "role": "ROLE_USER",
        "parts": parts,
        **more,
    }
    return {"message": message} | ({"configuration": configuration} if configuration else {})


def official_sending(text: str, **more: Any) -> SendMessageRequest:
    """The same as the official client has it."""
    message = Message(message_id=f"m-{text}", role=Role.ROLE_USER, parts=[Part(text=text)], **more)
    return SendMessageRequest(message=message)


async def told(client: Client, request: SendMessageRequest) -> list[Any]:
    """Everything that the official client hears in answer to a message."""
    return [MessageToDict(it) async for it in client.send_message(request)]


def held(gate: asyncio.Event, text: str) -> Any:
    """A script's entry that says a text once a gate is open."""

    async def entry(_: Any) -> Any:
        async with asyncio.timeout(10):
            await gate.wait()
        return text

    return entry


def kinds(frames: list[Any]) -> list[str]:
    """What each frame is."""
    return [next(iter(getattr(frame, "data", frame))) for frame in frames]


def states(frames: list[Any]) -> list[str]:
    """The states that frames go through, without the prefix."""
    found = [getattr(frame, "data", frame) for frame in frames]
    updates = [it.get("statusUpdate") or it.get("task") for it in found]
    return [it["status"]["state"].removeprefix("TASK_STATE_") for it in updates if it]


def artifact(frames: list[Any]) -> str | None:
    """The text of the response artifact after all frames, put together as clients do."""
    text: str | None = None
    for it in (getattr(frame, "data", frame) for frame in frames):
        if "task" in it:
            known = it["task"].get("artifacts", [])
            text = known[0]["parts"][0]["text"] if known else None
        elif update := it.get("artifactUpdate"):
            piece = update["artifact"]["parts"][0]["text"]
            text = (text or "") + piece if update.get("append") else piece
    return text


def violations(body: Any) -> dict[str, str]:
    """The field violations in a refusal of either transport."""
    error = body["error"]
    details = error.get("details") or error.get("data")
    found = [it["fieldViolations"] for it in details if "fieldViolations" in it]
    return {it["field"]: it["description"] for it in (found[0] if found else [])}


def reason(body: Any) -> str:
    """The reason in a refusal of either transport."""
    error = body["error"]
    info = (error.get("details") or error.get("data"))[0]
    assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert info["domain"] == "a2a-protocol.org"
    return info["reason"]
