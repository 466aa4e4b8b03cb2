"""What a process holds does not grow with the number of runs that it has finished."""

import asyncio
import gc
import json
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, tool
from awaken.messages import Role
from awaken.models import InferenceRequest
from awaken.stores.sql import transcripts
from awaken.stores.sqlite import connection
from awaken.testing import ScriptedModel, ToolCalls

WARM, MORE, AT_ONCE = 160, 160, 20
NOISE = 120
"""Cancelled timers and their contexts, of which asyncio keeps a hundred; one a run would be 160."""


@tool(effect="once")
def look_up(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


def answer(request: InferenceRequest) -> Any:
    """Use the tool, then answer."""
    is_asked = request.messages[-1].role is Role.USER
    return ToolCalls([("look_up", {"key": "a"})]) if is_asked else "Done."


def runtime_on(store: str) -> AgentRuntime:
    model = ScriptedModel([answer], cycle=True)
    # What a test model remembers of its requests is no part of the runtime.
    model.requests = _Forgetting()  # type: ignore[assignment]
    return AgentRuntime([Agent("a", model=model, tools=[look_up])], store=store)


class _Forgetting(list[Any]):
    def append(self, _: Any) -> None:
        pass


def counted() -> Counter[str]:
    gc.collect()
    # The SQLite driver tidies up its weak references after some hundred statements only.
    return Counter(str(type(it)) for it in gc.get_objects() if type(it) is not weakref.ref)


def lengths(runtime: AgentRuntime) -> dict[str, int]:
    """Everything that is kept by thread or by run, and is not durable."""
    engine = runtime._engine
    return {
        "active threads": len(engine.active._by_thread),
        "active runs": len(engine.active._by_run),
        "watchers": len(engine.active.watchers),
        "deciding": len(engine._deciding),
        "readers": len(runtime._services.streams.readers),
        "transcripts": len(runtime.store._transcripts._kept),  # type: ignore[attr-defined]
        "tasks": len(asyncio.all_tasks()),
    }


async def judge(runtime: AgentRuntime, once: Callable[[int], Awaitable[None]]) -> None:
    await repeated(once, range(WARM))
    held, before = lengths(runtime), counted()
    await repeated(once, range(WARM, WARM + MORE))
    grown = {name: count for name, count in (counted() - before).items() if count > NOISE}
    assert grown == {}
    assert lengths(runtime) == held


async def repeated(once: Callable[[int], Awaitable[None]], numbers: Iterable[int]) -> None:
    left = iter(numbers)

    async def take() -> None:
        for number in left:
            await once(number)

    await asyncio.gather(*(take() for _ in range(AT_ONCE)))
    await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts, "CACHE_THREADS", 50)
    monkeypatch.setattr(connection, "HEADS_MAX", 50)


def test_runs_awaited_in_python_leave_nothing_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with runtime_on(f"sqlite:///{tmp_path}/s.db") as runtime:

            async def once(number: int) -> None:
                assert (await runtime.run("a", "hi", thread_id=f"t{number}")).text == "Done."

            await judge(runtime, once)

    asyncio.run(scenario())


def test_runs_that_workers_execute_leave_nothing_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with runtime_on(f"sqlite:///{tmp_path}/s.db") as runtime:

            async def once(number: int) -> None:
                receipt = await runtime.submit("a", "hi", thread_id=f"t{number}")
                assert (await runtime.wait(receipt.run_id)).text == "Done."

            await judge(runtime, once)

    asyncio.run(scenario())


def test_runs_that_a_server_streams_leave_nothing_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with runtime_on(f"sqlite:///{tmp_path}/s.db") as runtime:
            app = runtime.asgi()

            async def once(number: int) -> None:
                message = {"role": "user", "content": "hi"}
                body = {"agentId": "a", "threadId": f"t{number}", "messages": [message]}
                assert b"run_finish" in await posted(app, json.dumps(body).encode())

            await judge(runtime, once)

    asyncio.run(scenario())


async def posted(app: Any, body: bytes) -> bytes:
    """Start a run over HTTP, without a socket, and read it to its end."""
    said, requests = bytearray(), [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if not requests:
            await asyncio.Event().wait()
        return requests.pop()

    async def send(message: Any) -> None:
        said.extend(message.get("body", b""))

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "method": "POST", "path": "/v1/runs", "query_string": b"",
        "headers": headers, "client": ("127.0.0.1", 1), "scheme": "http", "root_path": "",
    }  # fmt: skip
    await app(scope, receive, send)
    return bytes(said)
