"""A message that comes again over A2A: it begins one task, however often it is sent."""

import asyncio
from typing import Any

import pytest

from awaken import AgentRuntime
from awaken.testing import ToolCalls

from .a2a_world import agents, held, world

AT_ONCE = {"returnImmediately": True}


def asking() -> AgentRuntime:
    return agents(a=[ToolCalls([("ask", {"question": "sure?"})]), "as you like"])


async def texts(caller: Any, context: str) -> list[list[str]]:
    _, page = await caller.rest("GET", f"/tasks?contextId={context}&historyLength=9")
    return [[it["parts"][0]["text"] for it in task["history"]] for task in page["tasks"]]


@pytest.mark.parametrize("count", [1, 4])
def test_a_message_that_comes_again_is_answered_with_the_task_that_it_began(count: int) -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        async with world(agents(a=[held(gate, "done")])) as caller:
            said = {"message_id": "m", "contextId": "c", "configuration": AT_ONCE}
            first = await asyncio.gather(*(caller.send("hi", **said) for _ in range(count)))
            again = await caller.send("hi", **said)
            gate.set()
            late = await caller.send("hi", message_id="m", contextId="c")
            assert {it["id"] for it in (*first, again, late)} == {late["id"]}
            assert late["status"]["state"] == "TASK_STATE_COMPLETED"
            assert await texts(caller, "c") == [["hi", "done"]]

    asyncio.run(scenario())


def test_a_stream_that_is_asked_for_again_follows_the_same_task() -> None:
    async def scenario() -> None:
        async with world(agents(a=["done"])) as caller:
            first = await caller.stream("hi", message_id="m", contextId="c")
            again = await caller.stream("hi", message_id="m", contextId="c")
            ids = {frames[0].data["task"]["id"] for frames in (first, again)}
            assert len(ids) == 1
            assert again[-1].data["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
            assert await texts(caller, "c") == [["hi", "done"]]

    asyncio.run(scenario())


def test_the_same_id_means_another_message_in_another_context() -> None:
    async def scenario() -> None:
        async with world(agents(a=["one", "two"])) as caller:
            first = await caller.send("hi", message_id="m", contextId="c")
            other = await caller.send("hi", message_id="m", contextId="d")
            assert first["id"] != other["id"]
            assert [await texts(caller, it) for it in "cd"] == [[["hi", "one"]], [["hi", "two"]]]

    asyncio.run(scenario())


def test_a_message_to_a_context_that_waits_goes_on_with_its_task() -> None:
    async def scenario() -> None:
        async with world(asking()) as caller:
            first = await caller.send("hi", message_id="m", contextId="c")
            assert first["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            second = await caller.send("never mind", message_id="n", contextId="c")
            assert second["id"] == first["id"]
            assert second["status"]["state"] == "TASK_STATE_COMPLETED"

    asyncio.run(scenario())
