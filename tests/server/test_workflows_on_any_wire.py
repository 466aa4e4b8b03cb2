"""A workflow is started, shown and refused over every wire, by the same JSON."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from awaken import AgentRuntime, WorkflowContext, tool, workflow
from awaken.errors import InvalidWorkflowInput

from .mcp_world import both_eras, connected
from .serving import serving
from .test_any_wire import STARTS


@tool(effect="idempotent")
async def save(text: str) -> str:
    """Save a text."""
    return text.upper()


@workflow(id="a", tools=[save])
async def flow(ctx: WorkflowContext, x: int) -> str:
    """Work."""
    first, second = await ctx.gather(ctx.call(save, "one"), ctx.call(save, "two"))
    return f"{first}-{second}-{x}"


def said(body: Any, text: str, number: int) -> Any:
    """A request with other words, in a conversation of its own."""
    written = json.dumps(body).replace('"go"', json.dumps(text)).replace('"m1"', f'"m{number}"')
    return json.loads(written.replace("thread-1", f"thread-{number}"))


@pytest.mark.parametrize("wire", STARTS)
def test_the_same_json_starts_a_workflow_on_every_wire(wire: str) -> None:
    async def story() -> None:
        async with (
            serving(AgentRuntime([flow])) as url,
            aiohttp.ClientSession(url) as session,
            asyncio.timeout(30),
        ):
            path, body = STARTS[wire]()
            async with session.post(path, json=said(body, '{"x": 7}', 1)) as answer:
                text = await answer.text()
                assert answer.status == 200, text
            assert "ONE-TWO-7" in text
            async with session.post(path, json=said(body, '{"x": "no"}', 2)) as refused:
                shown = await refused.text()
                assert refused.status in (400, 422), (refused.status, shown)
                assert "x" in shown

    asyncio.run(story())


@both_eras
def test_an_mcp_tool_of_a_workflow_takes_its_parameters(era: str) -> None:
    async def story() -> None:
        runtime = AgentRuntime([flow])
        async with serving(runtime) as url, connected(url, era) as client:
            (listed,) = (await client.list_tools()).tools
            assert listed.input_schema["properties"].keys() == {"x", "thread_id"}
            assert listed.input_schema["required"] == ["x"]
            for given in ({"x": 7}, {"x": 7, "thread_id": "t"}, {"message": '{"x": 7}'}):
                answer = await client.call_tool("a", given)
                assert "ONE-TWO-7" in answer.content[0].text
            begun = len(await runtime.list_runs())
            for given in ({}, {"x": "no"}, {"x": 7, "y": 1}, {"message": "hello"}):
                refused = await client.call_tool("a", given)
                assert refused.is_error, given
            # What does not fit is refused before anything is stored.
            assert len(await runtime.list_runs()) == begun == 3

    asyncio.run(story())


def test_queued_input_that_fits_no_workflow_is_refused_at_the_door() -> None:
    async def story() -> None:
        runtime = AgentRuntime([flow])
        async with serving(runtime) as url, aiohttp.ClientSession(url) as session:
            with pytest.raises(InvalidWorkflowInput, match="x"):
                await runtime.submit("a", '{"x": "no"}', thread_id="t")
            assert await runtime.list_runs() == ()
            receipt = await runtime.submit("a", '{"x": 7}', thread_id="t")
            assert (await runtime.wait(receipt.run_id)).text == "ONE-TWO-7"
            async with session.get("/v1/agents/a") as answer:
                shown = (await answer.json())["input_schema"]
            assert shown["properties"]["x"]["type"] == "integer"
            async with session.get("/.well-known/agent-card.json") as answer:
                (skill,) = (await answer.json())["skills"]
            assert '"x"' in skill["description"]

    asyncio.run(story())
