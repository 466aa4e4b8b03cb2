"""A run over HTTP: its events, with ids on what is durable, until it ends."""

import asyncio

import aiohttp

from awaken import Agent, AgentRuntime
from awaken.testing import ScriptedModel

from .serving import post_stream, serving


def test_a_run_is_streamed_to_its_end() -> None:
    async def scenario() -> None:
        runtime = AgentRuntime([Agent("a", model=ScriptedModel(["Hello."]))])
        async with serving(runtime) as url, aiohttp.ClientSession() as session:
            body = {"agentId": "a", "messages": [{"role": "user", "content": "hi"}]}
            frames = await post_stream(session, f"{url}/v1/runs", body)
        kinds = [frame.data["event_type"] for frame in frames]
        assert kinds[0] == "run_start"
        assert kinds[-1] == "run_finish"
        ids = [frame.id for frame in frames if frame.id is not None]
        assert ids == sorted(set(ids))
        assert frames[-1].id == ids[-1]

    asyncio.run(scenario())
