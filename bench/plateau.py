"""Memory over time: the resident size of one process while it finishes runs, every so many of them.

    python bench/plateau.py [--runs N] [--every N] [--mode runtime|worker|server] [--store FILE]

Each run has a thread of its own, on SQLite. `server` sends every run as `POST /v1/runs` to the ASGI
app in the same process and reads the whole stream; `worker` submits runs with a tool call to the
mailbox. What is durable grows in the file; the process has to reach a plateau.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

from awaken import Agent, AgentRuntime, tool
from awaken.contracts.messages.deltas import TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.models.inference import InferenceRequest, ModelEvent, Stop, StopReason

Once = Callable[[int], Awaitable[None]]
AT_ONCE = 32


class Model:
    """Answers at once."""

    name = "bench"

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        """Play one turn."""
        if request.messages[-1].text.startswith("look up"):
            yield ToolCallStart(id="call", name="look_up")
            yield ToolCallDelta(id="call", args_delta='{"key": "alpha"}')
            yield Stop(reason=StopReason.TOOL_USE)
            return
        yield TextDelta(delta=f"The answer to {request.messages[-1].text!r} is 42.")
        yield Stop(reason=StopReason.END_TURN)


@tool(effect="once")
async def look_up(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


def resident_mib() -> float:
    """Resident memory of this process now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def in_runtime(on: AgentRuntime) -> Once:
    """Runs that are awaited in Python."""

    async def once(number: int) -> None:
        result = await on.run("agent", f"question {number}", thread_id=f"thread-{number}")
        assert result.text.endswith("42."), result

    return once


def in_worker(on: AgentRuntime) -> Once:
    """Runs that are queued, and executed by the worker."""

    async def once(number: int) -> None:
        receipt = await on.submit("agent", f"look up {number}", thread_id=f"thread-{number}")
        result = await on.wait(receipt.run_id)
        assert result.text.endswith("42."), result

    return once


def in_server(app: Any) -> Once:
    """Runs that come as requests, without a socket."""

    async def once(number: int) -> None:
        body = {
            "agent_id": "agent",
            "thread_id": f"thread-{number}",
            "messages": [{"role": "user", "content": f"question {number}"}],
        }
        said = await post(app, "/v1/runs", json.dumps(body).encode())
        assert b'"run_finish"' in said, said

    return once


async def post(app: Any, path: str, body: bytes) -> bytes:
    """Send a request to an ASGI app and read the whole reply."""
    said, is_read = bytearray(), False

    async def receive() -> dict[str, Any]:
        nonlocal is_read
        if is_read:
            await asyncio.Event().wait()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        said.extend(message.get("body", b""))

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    await app(
        {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "scheme": "http",
            "root_path": "",
        },
        receive,
        send,
    )
    return bytes(said)


async def measure(once: Once, runs: int, every: int) -> dict[str, float]:
    """Print a row after every so many runs, and return the figures."""
    figures: dict[str, float] = {}
    print(f"{'runs':>8}  {'RSS MiB':>8}  {'objects':>8}  {'runs/s':>7}")
    for start in range(0, runs, every):
        began, numbers = time.perf_counter(), iter(range(start, start + every))

        async def take(numbers: Any = numbers) -> None:
            for number in numbers:
                await once(number)

        await asyncio.gather(*(take() for _ in range(AT_ONCE)))
        rate = every / (time.perf_counter() - began)
        gc.collect()
        size, count = resident_mib(), len(gc.get_objects())
        print(f"{start + every:>8,}  {size:>8.1f}  {count:>8,}  {rate:>7,.0f}", flush=True)
        figures |= {f"MiB@{start + every}": size, f"objects@{start + every}": count}
    return figures


async def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200_000)
    parser.add_argument("--every", type=int, default=10_000)
    parser.add_argument("--mode", choices=("runtime", "worker", "server"), default="runtime")
    parser.add_argument("--store", help="a new file; absent: one in a temporary folder")
    parser.add_argument("--json", action="store_true", help="the figures in one line as well")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(asked.store) if asked.store else Path(folder) / "store.db"
        agent = Agent("agent", model=Model(), instructions="Be brief.", tools=[look_up])
        runtime = AgentRuntime([agent], store=f"sqlite:///{path}")
        print(f"python {sys.version.split()[0]}, {asked.mode}, SQLite, {AT_ONCE} at once")
        async with runtime:
            match asked.mode:
                case "runtime":
                    once = in_runtime(runtime)
                case "worker":
                    once = in_worker(runtime)
                case _:
                    once = in_server(runtime.asgi())
            figures = await measure(once, asked.runs, asked.every)
        if asked.json:
            print(json.dumps(figures))


if __name__ == "__main__":
    asyncio.run(main())
