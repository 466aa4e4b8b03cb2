"""Agents whose runs wait without tickets, and a server to talk to them over any wire."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from awaken import (
    Agent,
    AgentRuntime,
    NaturalEnd,
    RemoteEndpoint,
    RunStatus,
    Suspended,
    ToolContext,
    tool,
)
from awaken.backends import (
    BackendCapabilities,
    BackendRootRunRequest,
    BackendRunResult,
    BackendRunStatus,
)
from awaken.stores import RunQuery, RunRecord, WaitingReason
from awaken.testing import ScriptedModel, ToolCalls

from .mcp_world import MODERN, RawClient
from .serving import Frame, post_stream, serving

GO = {"role": "user", "content": "go"}
ASKED = {"message": "go", "thread_id": "t"}
ABLE = {
    "_meta": {
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": {},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        }
    }
}


@dataclass
class World:
    """A server, somebody who talks to it, and the gate of what its agent does in the background."""

    runtime: AgentRuntime
    url: str = ""
    session: Any = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def post(self, path: str, body: Any) -> list[Frame]:
        return await post_stream(self.session, self.url + path, body)

    def begin(self) -> "asyncio.Task[list[Frame]]":
        """Start the agent over the native wire, and read what it does."""
        body = {"agentId": "default", "threadId": "t", "messages": [GO]}
        return asyncio.create_task(self.post("/v1/runs", body))

    async def ask(self, path: str, body: Any = None) -> Any:
        method = "GET" if body is None else "POST"
        async with self.session.request(method, self.url + path, json=body) as reply:
            text = await reply.text()
            assert reply.status == 200, text
            return json.loads(text)

    async def mcp(self, method: str, **params: Any) -> Any:
        async with RawClient(self.url, MODERN) as client:
            _, _, answer = await client.post(method, {**ABLE, **params})
            return answer["result"]

    async def rested(self) -> RunRecord:
        """The run, once it waits."""
        return await self.until(RunStatus.WAITING)

    async def until(self, status: RunStatus, steps: int = 0) -> RunRecord:
        """The run, once it has a status after more than so many steps."""
        query = RunQuery(thread_id="t", status=status)
        with self.runtime._services.streams.watch_changes("t") as changed:
            async with asyncio.timeout(10):
                while True:
                    changed.clear()
                    page = await self.runtime.store.list_runs(query)
                    if found := [it for it in page.items if it.steps > steps]:
                        return found[0]
                    # Nothing is signalled in one process when a run is let go.
                    with suppress(TimeoutError):
                        await asyncio.wait_for(changed.wait(), 0.01)

    async def while_resting(self, talking: Awaitable[Any]) -> Any:
        """What comes of a request, with the gate opened once its run waits for the task."""
        asking = asyncio.ensure_future(talking)
        run = await self.rested()
        assert (run.waiting and run.waiting.reason) is WaitingReason.BACKGROUND_TASKS
        assert not asking.done()
        self.gate.set()
        async with asyncio.timeout(10):
            return await asking


def busy(gate: asyncio.Event, store: str | None = None) -> AgentRuntime:
    """An agent that has something done in the background, and says what comes of it."""

    @tool(effect="none")
    async def later(ctx: ToolContext) -> str:
        """Do it in the background."""

        async def work(_: Any) -> str:
            await gate.wait()
            return "done"

        return (await ctx.spawn(work, name="work")).task_id

    script = [ToolCalls([("later", {})]), "I wait.", "All done.", "More."]
    return AgentRuntime([Agent("default", model=ScriptedModel(script), tools=[later])], store=store)


@dataclass
class Remote:
    """A backend that asks before it answers, as one that keeps its state at the other side."""

    status: BackendRunStatus = BackendRunStatus.WAITING_INPUT
    told: list[str] = field(default_factory=list)

    def capabilities(self) -> BackendCapabilities:
        return BackendCapabilities()

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        self.told += [it.text for it in request.new_messages]
        if not request.is_continuation:
            waits = {"status": self.status, "termination": Suspended()}
            return BackendRunResult(agent_id="default", response="Which city?", **waits)
        done = {"status": BackendRunStatus.COMPLETED, "termination": NaturalEnd()}
        return BackendRunResult(agent_id="default", response="It rains there.", **done)

    async def execute_delegate(self, request: Any) -> BackendRunResult:
        raise NotImplementedError

    async def abort(self, _: Any) -> None:
        """Nothing goes on there."""


def remote(status: BackendRunStatus = BackendRunStatus.WAITING_INPUT) -> tuple[Remote, Any]:
    backend = Remote(status)
    endpoint = RemoteEndpoint(backend="fake", base_url="http://x")
    agent = Agent("default", endpoint=endpoint)
    return backend, AgentRuntime([agent], backends={"fake": backend})


@asynccontextmanager
async def world(runtime: AgentRuntime, gate: asyncio.Event | None = None) -> AsyncIterator[World]:
    async with (
        asyncio.timeout(30),
        serving(runtime) as url,
        aiohttp.ClientSession() as session,
    ):
        yield World(runtime, url, session, gate or asyncio.Event())


def resting(scenario: Callable[[World], Awaitable[None]], store: str | None = None) -> None:
    """Run a scenario with an agent that waits for its task."""

    async def run() -> None:
        gate = asyncio.Event()
        async with world(busy(gate, store), gate) as it:
            await scenario(it)

    asyncio.run(run())


def kinds(frames: list[Frame]) -> list[str]:
    return [it.data["type"] for it in frames]


def text_in(frames: list[Frame], kind: str) -> str:
    return "".join(it.data["delta"] for it in frames if it.data["type"] == kind)


async def events_of(it: World, method: str, path: str, body: Any = None, **options: Any) -> Any:
    async with it.session.request(method, it.url + path, json=body, **options) as reply:
        text = await reply.text()
        assert reply.status == 200, text
        lines = [line for line in text.split("\n") if line.startswith("data: ")]
        return [json.loads(line[6:]) for line in lines]


def texts(response: Any) -> list[str]:
    items = [item for item in response["output"] if item["type"] == "message"]
    return [item["content"][0]["text"] for item in items]
