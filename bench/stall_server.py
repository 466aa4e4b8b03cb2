"""One server in a process of its own that is sent hostile bodies, one after another.

Prints one JSON line before and one after each case. What is measured of a case: the most CPU time
that the whole process used between two turns of its event loop, which turns at least every 10 ms
unless something holds it (C code in another thread that keeps the interpreter's lock counts too),
and the peak of the resident memory, helper processes included, above what it was before.
"""

import asyncio
import ctypes
import gc
import json
import logging
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.extensions.guardrails import GuardrailsPlugin
from awaken.server.app import ServerApp
from awaken.server.config import RateLimit, ServerConfig, ServerLimits
from awaken.testing import ScriptedModel, ToolCalls
from stall_places import Case, cases
from stall_shapes import SHAPES

TICK_S = 0.01
CHUNK = 64 * 1024
REPLY_S = 60
OFTEN = RateLimit(per_s=1e6, burst=10**6)
PATH = re.compile(r"\{(\w+)(?::path)?\}")
LIBC = ctypes.CDLL(None)


class WatchedLoop(asyncio.SelectorEventLoop):
    """Knows the most CPU time that passed between two of its turns."""

    held_s = 0.0
    _turned = 0.0

    def _run_once(self) -> None:
        now = time.process_time()
        self.held_s = max(self.held_s, now - self._turned)
        self._turned = now
        super()._run_once()  # type: ignore[misc]

    def forget(self) -> None:
        """Begin anew."""
        self._turned, self.held_s = time.process_time(), 0.0


@tool
def ask_first(ctx: ToolContext) -> Any:
    """Ask."""
    return ctx.suspend("Sure?")


def nested_value(depth: int) -> Any:
    """An object inside an object, and so on."""
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def paint(request: Any) -> Any:
    """Calls the client's tool with arguments that a schema bomb takes long to judge."""
    if any(it.role == "tool" for it in request.messages[-1:]):
        return "done"
    values = [nested_value(40), "a" * 2000, list(range(3000)), 1e308]
    calls = [("paint", {"a": it}) for it in values if request.tools]
    return ToolCalls(calls) if calls else "done"


def served(folder: str) -> ServerApp:
    """The server: an agent with every detector, one that asks, and one that uses client's tools."""
    rules = [
        {"name": "all", "on": ["input", "tool_results"], "detect": ["secrets", "pii"]},
    ]
    guarded = Agent(
        "guarded",
        model=ScriptedModel(["hello"], cycle=True),
        plugins=[GuardrailsPlugin()],
        config={"guardrails": {"rules": rules}},
    )
    asker = Agent(
        "asker", model=ScriptedModel([ToolCalls([("ask_first", {}, "call_1")])], cycle=True),
        tools=[ask_first],
    )  # fmt: skip
    painter = Agent("painter", model=ScriptedModel([paint], cycle=True), config={})
    runtime = AgentRuntime([guarded, asker, painter], store=f"sqlite:///{folder}/bench.db")
    limits = ServerLimits(submits=OFTEN, decisions=OFTEN)
    return runtime.asgi(ServerConfig(limits=limits))


class Exchange:
    """One request, sent in pieces as a socket gives them."""

    def __init__(self, app: ServerApp, method: str, path: str, body: bytes) -> None:
        self.status = 0
        self.reply = bytearray()
        self._body, self._at = body, 0
        headers = {"host": "127.0.0.1", "accept": "application/json, text/event-stream"}
        if path.endswith("/mcp"):
            headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call",
                        "mcp-name": "guarded", "content-type": "application/json"}  # fmt: skip
        self._scope = {
            "type": "http", "method": method, "path": path, "query_string": b"",
            "headers": [(name.encode(), it.encode()) for name, it in headers.items()],
            "client": ("127.0.0.1", 1), "scheme": "http", "root_path": "",
        }  # fmt: skip
        self._app = app

    async def run(self) -> None:
        """Send it and read the whole answer."""
        await asyncio.wait_for(self._app(self._scope, self._receive, self._send), REPLY_S)

    async def _receive(self) -> Any:
        if self._at < len(self._body) or not self._body:
            piece = self._body[self._at : self._at + CHUNK]
            self._at += CHUNK
            return {
                "type": "http.request", "body": piece, "more_body": self._at < len(self._body)
            }  # fmt: skip
        await asyncio.sleep(REPLY_S)
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        if len(self.reply) < 300:
            self.reply += message.get("body", b"")[:300]


async def measure(app: ServerApp, loop: WatchedLoop, method: str, path: str, case: Case) -> Any:
    """What one body does to the server."""
    path = await filled(app, path)
    gc.collect()
    LIBC.malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS") + helpers()
    await asyncio.sleep(0)
    loop.forget()
    began = time.process_time()
    exchange, failure = Exchange(app, method, path, case.body), ""
    try:
        await exchange.run()
    except Exception as error:
        failure = repr(error)[:200]
    await idle()
    return {
        "held_ms": round(loop.held_s * 1000),
        "cpu_ms": round((time.process_time() - began) * 1000),
        "grown": max(0, memory("VmHWM") + helpers() - before),
        "bytes": len(case.body),
        "status": exchange.status,
        "reply": failure or exchange.reply[:160].decode(errors="replace"),
    }


async def idle() -> None:
    """Wait until what the request began has come to rest."""
    for _ in range(1500):
        used = time.process_time()
        await asyncio.sleep(0.04)
        if time.process_time() - used < 0.008:
            return


def memory(name: str) -> int:
    """A figure of this process in bytes."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


def helpers() -> int:
    """The peak memory of all child processes."""
    total = 0
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            try:
                text = Path(f"/proc/{child}/status").read_text()
            except FileNotFoundError:
                continue
            found = re.search(r"VmHWM:\s+(\d+) kB", text)
            total += int(found[1]) * 1024 if found else 0
    return total


async def filled(app: ServerApp, path: str) -> str:
    """The path with ids of things that are there."""
    if not PATH.search(path):
        return path
    ids = {"agent_id": "guarded", "tenant": "guarded"}
    if "thread_id" in path or "run_id" in path or "task_id" in path:
        agent = "asker" if "decision" in path else "guarded"
        said = {"agent_id": agent, "messages": [{"role": "user", "content": "hi"}]}
        exchange = Exchange(app, "POST", "/v1/runs", json.dumps(said).encode())
        await exchange.run()
        run_id = re.search(rb'"run_id":"([^"]+)"', exchange.reply)
        thread_id = re.search(rb'"thread_id":"([^"]+)"', exchange.reply)
        assert run_id is not None, exchange.reply
        assert thread_id is not None, exchange.reply
        ids |= {"run_id": run_id[1].decode(), "task_id": run_id[1].decode()}
        ids |= {"thread_id": thread_id[1].decode()}
    return PATH.sub(lambda it: ids[it[1]], path)


async def tick() -> None:
    """Keep the loop turning."""
    while True:
        await asyncio.sleep(TICK_S)


def routes(app: ServerApp) -> list[tuple[str, str]]:
    """Every route that takes a body."""
    return [(it.method, it.path) for it in app.routes if it.body is not None]


async def main(path: str, method: str, size: int, skip: int, only: str) -> None:
    """Every shape for one route."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, WatchedLoop)
    with tempfile.TemporaryDirectory() as folder:
        app = served(folder)
        ticking = asyncio.create_task(tick())
        await app.open()
        warm = json.dumps({"agent_id": "guarded", "messages": [{"content": "hi"}]}).encode()
        await Exchange(app, "POST", "/v1/runs", warm).run()
        number = 0
        for shape in SHAPES:
            if not re.search(only, shape.name):
                continue
            for case in cases(path, shape, size):
                number += 1
                if number <= skip:
                    continue
                print(json.dumps({"case": number, "shape": shape.name, "place": case.place}))
                sys.stdout.flush()
                print(json.dumps(await measure(app, loop, method, path, case)))
                sys.stdout.flush()
        ticking.cancel()
        await app.close()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    if sys.argv[1:] == ["routes"]:
        with tempfile.TemporaryDirectory() as empty:
            print(json.dumps(routes(served(empty))))
        os._exit(0)
    with asyncio.Runner(loop_factory=WatchedLoop) as runner:
        runner.run(main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:5]), sys.argv[5]))
