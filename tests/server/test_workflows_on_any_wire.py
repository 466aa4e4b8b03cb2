"""A workflow is started, shown and refused over every wire, by the same JSON."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from awaken import AgentRuntime, WorkflowContext, tool, workflow

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
