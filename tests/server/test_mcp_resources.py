"""Threads are resources of MCP clients: their own, and nobody else's."""

import asyncio
import json
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from awaken import Access, AgentRuntime, RedactedString, user
from awaken.messages import Visibility, system
from awaken.server import ServerConfig, TokenSpec
from awaken.stores import Thread

from .mcp_world import answering, both_eras, connected, talking
from .serving import serving


@both_eras
def test_threads_are_listed_page_by_page_and_read_as_transcripts(era: str) -> None:
    async def scenario() -> None:
        async with talking([answering("Hi.")], era) as (client, runtime):
            for number in range(60):
                await runtime.run("helper", f"hello {number}", thread_id=f"a/{number} ü%20")
            first = await client.list_resources()
            rest = await client.list_resources(cursor=first.next_cursor)
            names = [it.name for it in (*first.resources, *rest.resources)]
            assert (len(first.resources), len(names), len(set(names))) == (50, 60, 60)
            assert rest.next_cursor is None
            with pytest.raises(MCPError, match="malformed"):
                await client.list_resources(cursor="nonsense")
            (found,) = [it for it in first.resources if it.name == "a/59 ü%20"]
            read = await client.read_resource(found.uri)
            document = json.loads(read.contents[0].text)
            said = [(it["role"], it["content"][0]["text"]) for it in document["messages"]]
            assert said == [("user", "hello 59"), ("assistant", "Hi.")]
            templates = await client.list_resource_templates()
            assert templates.resource_templates[0].uri_template == "awaken://threads/{thread_id}"

    asyncio.run(scenario())


@both_eras
def test_what_is_no_thread_is_not_found(era: str) -> None:
    async def scenario() -> None:
        async with talking([answering("Hi.")], era) as (client, runtime):
            # A thread's bare id is no address of it.
            await runtime.run("helper", "hello", thread_id="threads/t")
            for uri in ("awaken://threads/none", "file:///etc/passwd", "threads/t", ""):
                with pytest.raises(MCPError) as caught:
                    await client.session.read_resource(uri)
                error = caught.value.error
                assert (error.code, error.data) == (-32602, {"uri": uri})

    asyncio.run(scenario())


@both_eras
def test_internal_messages_stay_here(era: str) -> None:
    async def scenario() -> None:
        async with talking([answering("Hi.")], era) as (client, runtime):
            hidden = system("HIDDEN", visibility=Visibility.INTERNAL)
            await runtime.submit("helper", [hidden, user("hello")], thread_id="t")
            result = await client.call_tool("helper", {"message": "hi", "thread_id": "t"})
            assert not result.is_error
            read = await client.read_resource("awaken://threads/t")
        assert "hello" in read.contents[0].text
        assert "HIDDEN" not in read.contents[0].text

    asyncio.run(scenario())


@both_eras
def test_tenants_see_their_own_threads_and_runs_only(era: str) -> None:
    async def scenario() -> None:
        everything = frozenset({Access.INVOKE, Access.READ, Access.DECIDE})
        tokens = (
            TokenSpec(id="a", token=RedactedString("a"), access=everything, tenant_id="one"),
            TokenSpec(id="b", token=RedactedString("b"), access=everything, tenant_id="two"),
            TokenSpec(id="c", token=RedactedString("c"), access=frozenset({Access.INVOKE})),
        )
        runtime = AgentRuntime([answering("Hi.")])
        async with serving(runtime, ServerConfig(tokens=tokens)) as url:

            def client(token: str) -> Any:
                return connected(url, era, headers={"authorization": f"Bearer {token}"})

            async with client("a") as one, client("b") as two, client("c") as three:
                result = await one.call_tool("helper", {"message": "hi"})
                thread_id = result.structured_content["thread_id"]
                uri = f"awaken://threads/{thread_id}"
                assert [it.uri for it in (await one.list_resources()).resources] == [uri]
                assert (await two.list_resources()).resources == []
                with pytest.raises(MCPError, match="Resource not found"):
                    await two.read_resource(uri)
                foreign = {"message": "hi", "thread_id": thread_id}
                other = await two.call_tool("helper", foreign)
                assert other.structured_content["thread_id"] == thread_id
                seen = await two.list_resources(cache_mode="bypass")
                assert [it.uri for it in seen.resources] == [uri]
                for number in range(60):
                    await runtime.store.save_thread(Thread(id=f"@one:{number}", tenant_id="one"))
                first = await one.list_resources(cache_mode="bypass")
                rest = await one.list_resources(cursor=first.next_cursor)
                assert len(first.resources) + len(rest.resources) == 61
                seen = await two.list_resources(cache_mode="bypass")
                assert [it.uri for it in seen.resources] == [uri]
                with pytest.raises(MCPError, match="needs the scope 'read'"):
                    await three.list_resources()

    asyncio.run(scenario())
