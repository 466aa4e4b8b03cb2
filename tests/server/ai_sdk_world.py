"""A chat as an AI SDK client keeps it, and agents that tests can hold and ask."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from awaken import Agent, AgentRuntime, TextDelta, ToolContext, tool
from awaken.models import InferenceRequest, ModelEvent
from awaken.server import ServerConfig
from awaken.testing import ScriptedModel
from awaken.tools import ResumeMode

from .serving import Frame, frames_of, serving

API = "/v1/ai-sdk"
MARK = "x-vercel-ai-ui-message-stream"
PICK = {"name": "pick", "description": "Let the user pick.", "parameters": {"type": "object"}}


@tool(effect="none")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="none")
async def fail() -> None:
    """Fail."""
    raise ValueError("it failed")


@tool(effect="none")
async def approve(ctx: ToolContext, what: str = "it") -> Any:
    """Do something that needs an approval."""
    if ctx.resume is None:
        return ctx.suspend("sure?", mode=ResumeMode.REPLAY_TOOL_CALL)
    return f"did {what}"


@tool(effect="none")
async def twice(ctx: ToolContext) -> Any:
    """Show something, ask, and ask again until the reason is good."""
    if ctx.resume is None:
        ctx.emit_output("looking")
        return ctx.suspend("sure?", mode=ResumeMode.REPLAY_TOOL_CALL)
    if ctx.resume.result.get("reason") != "because":
        return ctx.suspend("really?", mode=ResumeMode.REPLAY_TOOL_CALL)
    return "did it"


@tool(effect="none")
async def ballot() -> Any:
    """Tell how a vote went, in words that look like a refusal."""
    return {"approved": False, "error": "suspended"}


TOOLS = [add, fail, approve, twice, ballot]


class Held(ScriptedModel):
    """Says its first piece of text, and the rest when it is let go."""

    def __init__(self, entries: Iterable[Any]) -> None:
        super().__init__(entries)
        self.reached = asyncio.Event()
        self.released = asyncio.Event()

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        async for event in super().stream(request):
            yield event
            if isinstance(event, TextDelta):
                self.reached.set()
                await self.released.wait()


class Chat:
    """One chat; `messages` is what the client would send."""

    def __init__(self, session: aiohttp.ClientSession, url: str, id_: str = "chat") -> None:
        self.session = session
        self.url = url
        self.id = id_
        self.messages: list[dict[str, Any]] = []
        self.headers: dict[str, str] = {}

    def say(self, text: str, *more: dict[str, Any]) -> None:
        parts = [{"type": "text", "text": text}, *more]
        id_ = f"{self.id}-{len(self.messages)}"
        self.messages.append({"id": id_, "role": "user", "parts": parts})

    def answer(self, *parts: dict[str, Any]) -> None:
        self.messages.append({"id": "a", "role": "assistant", "parts": list(parts)})

    async def post(self, path: str = "/chat", **more: Any) -> tuple[int, Any]:
        body = {"id": self.id, "messages": self.messages, "trigger": "submit-message", **more}
        async with self.session.post(self.url + API + path, json=body, headers=self.headers) as it:
            text = await it.text()
            if it.status != 200:
                return it.status, json.loads(text)
            assert it.headers[MARK] == "v1"
            assert "[DONE]" not in text
            return 200, list(frames_of(text))

    async def send(self, path: str = "/chat", **more: Any) -> list[Frame]:
        status, found = await self.post(path, **more)
        assert status == 200, found
        return list(found)

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.session.get(self.url + API + path, headers=headers) as it:
            text = await it.text()
            if path.partition("?")[0].endswith("/stream") and it.status in (200, 204):
                assert it.headers[MARK] == "v1"
                return it.status, list(frames_of(text))
            return it.status, json.loads(text)

    async def history(self, query: str = "") -> dict[str, Any]:
        status, found = await self.get(f"/threads/{self.id}/messages{query}")
        assert status == 200, found
        return dict(found)


@asynccontextmanager
async def chatting(
    model: Any, config: ServerConfig | None = None, **options: Any
) -> AsyncGenerator[Chat, None]:
    """A server with one agent, and a chat with it."""
    runtime = AgentRuntime([Agent("default", model=model, tools=TOOLS)], **options)
    served = serving(runtime, config)
    async with asyncio.timeout(20), served as url, aiohttp.ClientSession() as session:
        yield Chat(session, url)


def chatted(model: Any, scenario: Callable[[Chat], Awaitable[None]], **options: Any) -> None:
    """Run a scenario with a chat."""

    async def run() -> None:
        async with chatting(model, **options) as chat:
            await scenario(chat)

    asyncio.run(run())


def kinds(frames: list[Frame]) -> list[str]:
    """The types of the chunks that make the message."""
    return [it.data["type"] for it in frames if not it.data.get("transient")]


def text_of(frames: list[Frame]) -> str:
    """All text that was streamed."""
    return "".join(it.data["delta"] for it in frames if it.data["type"] == "text-delta")


def one(frames: list[Frame], kind: str) -> dict[str, Any]:
    """The only chunk of a type."""
    (found,) = [it.data for it in frames if it.data["type"] == kind]
    return dict(found)


def projection(frames: list[Frame]) -> list[dict[str, Any]]:
    """What makes the message: deltas of one block joined, what is only live left out."""
    found: list[dict[str, Any]] = []
    for chunk in (dict(it.data) for it in frames):
        if chunk.get("transient") or chunk["type"] == "tool-input-delta":
            continue
        last = found[-1] if found else {}
        is_same = (last.get("type"), last.get("id")) == (chunk["type"], chunk.get("id"))
        if is_same and "delta" in chunk:
            last["delta"] += chunk["delta"]
        else:
            found.append(chunk)
    return found
