"""A finished run is freed by its last reference: it leaves no cycle for the garbage collector."""

import asyncio
import gc
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, Cancelled, TextDelta
from awaken.models import InferenceRequest, ModelEvent
from awaken.testing import ScriptedModel

from .test_memory_plateau import posted

RUNS = 20

Once = Callable[[AgentRuntime, Any, str], Awaitable[None]]


async def awaited(runtime: AgentRuntime, _: Any, thread: str) -> None:
    assert (await runtime.run("a", "hi", thread_id=thread)).text == "Done."


async def streamed(runtime: AgentRuntime, _: Any, thread: str) -> None:
    assert [event async for event in runtime.stream("a", "hi", thread_id=thread)]


async def started(runtime: AgentRuntime, _: Any, thread: str) -> None:
    handle = await runtime.start("a", "hi", thread_id=thread)
    assert (await handle.result()).text == "Done."


async def submitted(runtime: AgentRuntime, _: Any, thread: str) -> None:
    receipt = await runtime.submit("a", "hi", thread_id=thread)
    assert (await runtime.wait(receipt.run_id)).text == "Done."


async def served(_: AgentRuntime, app: Any, thread: str) -> None:
    message = {"role": "user", "content": "hi"}
    body = {"agentId": "a", "threadId": thread, "messages": [message]}
    assert b"run_finish" in await posted(app, json.dumps(body).encode())


async def closed_early(runtime: AgentRuntime, _: Any, thread: str) -> None:
    events = runtime.stream("a", "hi", thread_id=thread)
    assert await anext(events)
    await events.aclose()


async def cancelled(runtime: AgentRuntime, _: Any, thread: str) -> None:
    handle = await runtime.start("silent", "hi", thread_id=thread)
    await asyncio.sleep(0)
    assert await runtime.cancel(handle.run_id)
    assert isinstance((await handle.result()).termination, Cancelled)


class Silent:
    """A model that never answers."""

    name = "silent"

    async def stream(self, _: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        await asyncio.Event().wait()
        yield TextDelta(delta="never")


async def garbage_of(once: Once, store: str | None) -> Counter[str]:
    """What only the garbage collector can free after some runs, by type."""
    agents = [
        Agent("a", model=ScriptedModel(["Done."], cycle=True)),
        Agent("silent", model=Silent()),
    ]
    async with AgentRuntime(agents, store=store) as runtime:
        app = runtime.asgi() if once is served else None
        await once(runtime, app, "first")
        gc.collect()
        gc.disable()
        try:
            for number in range(RUNS):
                await once(runtime, app, f"t{number}")
            await asyncio.sleep(0)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            return Counter(str(type(it)) for it in gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize(
    "once", [awaited, streamed, started, submitted, served, closed_early, cancelled]
)
def test_a_finished_run_leaves_nothing_to_the_garbage_collector(
    once: Once, store: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/s.db" if store == "sqlite" else None
    found = asyncio.run(garbage_of(once, url))
    # Something that happens once in a while, in a timer for example, is not work of every run.
    assert {name: count for name, count in found.items() if count >= RUNS // 2} == {}
