"""What tests of the OpenAI wire share: agents, the official client, and a strict look at frames."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import openai
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from awaken import Agent, AgentRuntime, TextDelta, ToolContext, tool
from awaken.models import InferenceRequest, ModelEvent, Stop, StopReason
from awaken.server import ServerConfig

from .serving import serving

EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
FRONT = {
    "type": "function",
    "name": "front",
    "description": "Runs at the client.",
    "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}},
    "strict": False,
}
CHAT_FRONT = {"type": "function", "function": {k: FRONT[k] for k in ("name", "parameters")}}


@tool(effect="none")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
async def erase(name: str, ctx: ToolContext) -> Any:
    """Erase something, once somebody approves."""
    return ctx.suspend(f"erase {name}?") if ctx.resume is None else f"erased {name}"


class GatedModel:
    """Says half of its text, waits until the test lets it go on, and says the rest."""

    name = "gated"

    def __init__(self, first: Sequence[str], rest: Sequence[str]) -> None:
        self.first, self.rest = first, rest
        self.may_go_on = asyncio.Event()

    async def stream(self, _: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        for text in self.first:
            yield TextDelta(delta=text)
        await self.may_go_on.wait()
        for text in self.rest:
            yield TextDelta(delta=text)
        yield Stop(reason=StopReason.END_TURN)


def runtime_of(model: Any, **options: Any) -> AgentRuntime:
    agent = {"max_rounds": options.pop("max_rounds", 8)}
    return AgentRuntime([Agent("a", model=model, tools=[add, erase], **agent)], **options)


@asynccontextmanager
async def talking(
    model: Any, config: ServerConfig | None = None, **options: Any
) -> AsyncIterator[openai.AsyncOpenAI]:
    """The official client of a server with one agent `a`."""
    async with serving(runtime_of(model, **options), config) as url, client_of(url) as client:
        yield client


@asynccontextmanager
async def client_of(url: str, key: str = "none") -> AsyncIterator[openai.AsyncOpenAI]:
    async with (
        httpx2.AsyncClient(trust_env=False) as http,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, http_client=http) as client,
    ):
        yield client


async def frames(client: openai.AsyncOpenAI, method: str, path: str, **options: Any) -> list[Any]:
    """The events of a stream as they are on the wire, each of which fits the official types."""
    http = client._client
    found = []
    async with http.stream(method, f"{client.base_url}{path}", **options) as reply:
        assert reply.status_code == 200, await reply.aread()
        kind = None
        async for line in reply.aiter_lines():
            if line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("data: "):
                data = json.loads(line[6:])
                assert data["type"] == kind
                EVENTS.validate_python(data)
                found.append(data)
    return found


def whole(events: Sequence[Any]) -> list[Any]:
    """Events with the pieces of each text put together, which is what a client makes of them."""
    merged: list[Any] = []
    for event in events:
        event = {k: v for k, v in event.items() if k != "sequence_number"}
        if "response" in event:
            response = dict(event["response"])
            asked = ("created_at", "background", "conversation", "instructions", "metadata")
            options = ("max_output_tokens", "temperature", "top_p", "previous_response_id", "tools")
            event["response"] = {k: v for k, v in response.items() if k not in (*asked, *options)}
        last = merged[-1] if merged else {}
        same = all(last.get(name) == event.get(name) for name in ("type", "item_id"))
        if same and event["type"].endswith("_text.delta"):
            last["delta"] += event["delta"]
        else:
            merged.append(event)
    return merged


def checked(response: Any) -> Any:
    """A response that fits the official type to the letter."""
    Response.model_validate_json(response.model_dump_json(by_alias=True))
    return response
