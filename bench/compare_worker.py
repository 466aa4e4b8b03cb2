"""One process of `compare.py`: measures the tree that it imports, and prints milliseconds."""

import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from awaken import Agent, AgentRuntime, tool
from awaken.testing import ScriptedModel, ToolCalls

Turn = Callable[[], Awaitable[Any]]


@tool(effect="none")
async def look_up(key: str) -> str:
    """Look something up."""
    return key


def make_agents() -> list[Agent]:
    """One that talks, one that uses a tool first."""
    calls = ToolCalls([("look_up", {"key": "a"})])
    return [
        Agent("plain", model=ScriptedModel(["Hello."], cycle=True)),
        Agent("tool", model=ScriptedModel([calls, "Done."], cycle=True), tools=[look_up]),
    ]


async def measure_turns(turn: Turn, count: int) -> float:
    """CPU time of one turn, all threads, after a tenth of them."""
    for _ in range(count // 10):
        await turn()
    gc.collect()
    begin = time.process_time()
    for _ in range(count):
        await turn()
    return (time.process_time() - begin) / count * 1000


async def post_run(app: Any) -> None:
    """`POST /v1/runs`, from the ASGI call to the last byte of its stream."""
    body = json.dumps({"agent_id": "plain", "messages": [{"role": "user", "content": "hi"}]})
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/runs",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "scheme": "http",
        "root_path": "",
    }
    received: list[Any] = [{"type": "http.request", "body": body.encode(), "more_body": False}]
    statuses: list[int] = []

    async def receive() -> Any:
        return received.pop() if received else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if "status" in message:
            statuses.append(message["status"])

    await app(scope, receive, send)
    assert statuses == [200], statuses


async def main(turns: dict[str, int]) -> None:
    """Measure every workload and print the figures."""
    found = {}
    async with AgentRuntime(make_agents()) as runtime:
        for name in ("plain", "tool"):

            async def turn(name: str = name) -> None:
                await runtime.run(name, "hi")

            found[name] = await measure_turns(turn, turns[name])
    runtime = AgentRuntime(make_agents())
    app = runtime.asgi()
    async with runtime:
        found["served"] = await measure_turns(lambda: post_run(app), turns["served"])
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'store.db'}"
        async with AgentRuntime(make_agents(), store=store, has_worker=False) as durable:
            found["durable"] = await measure_turns(
                lambda: durable.run("tool", "hi"), turns["durable"]
            )
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
