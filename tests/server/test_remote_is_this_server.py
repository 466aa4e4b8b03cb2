"""A remote agent that is this same server, or another one on its store: nobody waits for itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from awaken import Agent, AgentRuntime, MailboxConfig, NaturalEnd, RemoteEndpoint
from awaken.testing import ScriptedModel, ToolCalls

from .serving import serving_app

ONE = MailboxConfig(poll_ms=10, concurrency=1)
TIMEOUT_MS = 8_000
"""After this a run that waited for itself would fail."""


class Later:
    """An app that is known only after its address is."""

    app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await self.app(scope, receive, send)
            return
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return


def agents(url: str) -> list[Agent]:
    endpoint = RemoteEndpoint(base_url=f"{url}/v1/a2a", target="back", timeout_ms=TIMEOUT_MS)
    asks = ToolCalls([("agent_run_front", {"prompt": "go"})])
    return [
        Agent("front", description="Far away.", endpoint=endpoint),
        Agent("back", model=ScriptedModel(["Here."], cycle=True)),
        Agent("boss", model=ScriptedModel([asks, "Told."], cycle=True), delegates=["front"]),
    ]


@asynccontextmanager
async def looped(store: str | None, servers: int) -> AsyncIterator[tuple[AgentRuntime, str]]:
    """A runtime whose remote agent is served by itself, or by another one on its store."""
    served = Later()
    async with serving_app(served) as url:
        runtimes = [AgentRuntime(agents(url), store=store, mailbox=ONE) for _ in range(servers)]
        async with AsyncExitStack() as stack:
            for runtime in runtimes:
                await stack.enter_async_context(runtime)
            served.app = runtimes[-1].asgi()
            yield runtimes[0], url


@pytest.mark.parametrize("agent_id", ["front", "boss"])
@pytest.mark.parametrize("how", ["run", "submit", "http"])
@pytest.mark.parametrize("where", ["memory", "sqlite", "another process"])
def test_a_run_at_this_very_server_ends(
    agent_id: str, how: str, where: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        store = None if where == "memory" else f"sqlite:///{tmp_path / 'a.db'}"
        servers = 2 if where == "another process" else 1
        async with asyncio.timeout(30), looped(store, servers) as (runtime, url):
            for turn in range(2):
                result = await asked(runtime, url, agent_id, how)
                assert result.termination == NaturalEnd(), turn
                assert result.text == ("Here." if agent_id == "front" else "Told.")
            runs = await runtime.list_runs()
            backs = [it for it in runs if it.agent_id == "back"]
            assert len(backs) == 2
            assert all(it.thread_id != "t" for it in backs)
            if agent_id == "front":
                assert len({it.thread_id for it in backs}) == 1, "one conversation goes on"

    asyncio.run(scenario())


async def asked(runtime: AgentRuntime, url: str, agent_id: str, how: str) -> Any:
    match how:
        case "run":
            return await runtime.run(agent_id, "go", thread_id="t")
        case "submit":
            receipt = await runtime.submit(agent_id, "go", thread_id="t")
            return await runtime.wait(receipt.run_id)
        case _:
            body = {
                "agent_id": agent_id,
                "thread_id": "t",
                "messages": [{"role": "user", "content": "go"}],
            }
            headers = {"accept": "application/json"}
            async with (
                aiohttp.ClientSession() as session,
                session.post(f"{url}/v1/runs", json=body, headers=headers) as reply,
            ):
                told = await reply.json()
            return await runtime.wait(told["run_id"])
