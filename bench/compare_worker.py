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
from awaken.contracts.messages.deltas import TextDelta
from awaken.testing import Chunks, ScriptedModel, ToolCalls

PIECES, AT_ONCE, LONG = 2_000, 200, 1_000
Turn = Callable[[], Awaitable[Any]]


@tool(effect="none")
async def look_up(key: str) -> str:
    """Look something up."""
    return key


def make_agents() -> list[Agent]:
    """One agent for each kind of turn."""
    call = ("look_up", {"key": "a"})
    rounds: list[Any] = [ToolCalls([call]) for _ in range(10)]
    models = {
        "plain": ["Hello."],
        "tool": [ToolCalls([call]), "Done."],
        "rounds": [*rounds, "Done."],
        "fan": [ToolCalls([call] * 20), "Done."],
        "pieces": [Chunks(["word "] * PIECES)],
    }
    return [
        Agent(name, model=ScriptedModel(script, cycle=True), tools=[look_up], max_rounds=20)
        for name, script in models.items()
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


async def stream_answer(runtime: AgentRuntime) -> None:
    """One answer in many pieces, through the public stream."""
    count = 0
    async for event in runtime.stream("pieces", "hi"):
        count += isinstance(event, TextDelta)
    assert count == PIECES, count


async def run_at_once(runtime: AgentRuntime) -> None:
    """Many runs side by side, each with one tool call."""
    await asyncio.gather(*(runtime.run("tool", "hi") for _ in range(AT_ONCE)))


async def main(turns: dict[str, int]) -> None:
    """Measure every workload and print the figures."""
    found = {}
    async with AgentRuntime(make_agents()) as runtime:
        for number in range(LONG // 2):
            await runtime.run("plain", f"message {number}", thread_id="long")
        workloads: dict[str, Turn] = {
            "W1": lambda: runtime.run("plain", "hi"),
            "W2": lambda: runtime.run("rounds", "hi"),
            "W3": lambda: runtime.run("fan", "hi"),
            "W4h1000": lambda: runtime.run("plain", "hi", thread_id="long"),
            "W5": lambda: run_at_once(runtime),
            "W6": lambda: stream_answer(runtime),
        }
        for name, turn in workloads.items():
            found[name] = await measure_turns(turn, turns[name])
    runtime = AgentRuntime(make_agents())
    app = runtime.asgi()
    async with runtime:
        found["served"] = await measure_turns(lambda: post_run(app), turns["served"])
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'store.db'}"
        async with AgentRuntime(make_agents(), store=store, has_worker=False) as durable:
            found["W4p"] = await measure_turns(lambda: durable.run("tool", "hi"), turns["W4p"])
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
