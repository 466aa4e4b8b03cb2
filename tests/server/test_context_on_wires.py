"""The context of a run on every wire: a tool sees it, and one that does not fit is a 422."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from acp.helpers import text_block

from awaken import Agent, AgentRuntime, RemoteEndpoint, RunContext, ToolContext, tool
from awaken.server import ServerConfig
from awaken.testing import ScriptedModel, ToolCalls

from .acp_world import Editor, editing
from .in_process import ask
from .mcp_world import both_eras, talking
from .serving import serving


@dataclass
class Customer:
    id: str
    tier: str = "basic"


def looking(seen: list[Any], agent_id: str = "a", **options: Any) -> Agent:
    @tool(effect="none")
    async def look(ctx: ToolContext[None, Customer]) -> str:
        """Look."""
        seen.append(ctx.context)
        return "seen"

    model = ScriptedModel([ToolCalls([("look", {})]), "Done."], cycle=True)
    return Agent(agent_id, model=model, tools=[look], context_type=Customer, **options)


def native(context: Any) -> tuple[str, Any]:
    message = {"role": "user", "content": "go"}
    return "/v1/runs", {"agent_id": "a", "messages": [message], "context": context}


def ai_sdk(context: Any) -> tuple[str, Any]:
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "go"}]}
    return "/v1/ai-sdk/agents/a/runs", {"id": "t", "messages": [message], "context": context}


def ag_ui(context: Any) -> tuple[str, Any]:
    body: dict[str, Any] = {
        "threadId": "t",
        "messages": [{"id": "m1", "role": "user", "content": "go"}],
        "context": [{"description": "the page", "value": "home"}],
    }
    return "/v1/ag-ui/agents/a/runs", body | {"forwardedProps": {"context": context, "x": 1}}


def a2a_message(**more: Any) -> dict[str, Any]:
    return {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "go"}]} | more


def a2a_of_message(context: Any) -> tuple[str, Any]:
    message = a2a_message(metadata={"context": context})
    return "/v1/a2a/a/message:send", {"message": message}


def a2a_of_request(context: Any) -> tuple[str, Any]:
    body = {"message": a2a_message(), "metadata": {"context": context}}
    return "/v1/a2a/a/message:send", body


def responses(context: Any) -> tuple[str, Any]:
    return "/v1/responses", {"model": "a", "input": "go", "context": context}


def responses_metadata(context: Any) -> tuple[str, Any]:
    text = '{"id": "c7"}' if context == {"id": "c7"} else '{"id": 7}'
    return "/v1/responses", {"model": "a", "input": "go", "metadata": {"context": text}}


def chat(context: Any) -> tuple[str, Any]:
    messages = [{"role": "user", "content": "go"}]
    return "/v1/chat/completions", {"model": "a", "messages": messages, "context": context}


def chat_with_history(context: Any) -> tuple[str, Any]:
    path, body = chat(context)
    early = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."}]
    return path, body | {"messages": [*early, *body["messages"]]}


WIRES = [
    native, ai_sdk, ag_ui, a2a_of_message, a2a_of_request, responses, responses_metadata, chat,
    chat_with_history,
]  # fmt: skip
_A2A = (a2a_of_message, a2a_of_request)


@pytest.mark.parametrize("wire", WIRES)
def test_a_tool_sees_the_context_of_a_request(wire: Callable[[Any], tuple[str, Any]]) -> None:
    seen: list[Any] = []

    async def scenario() -> None:
        runtime = AgentRuntime([looking(seen)])
        async with serving(runtime) as url, aiohttp.ClientSession(url) as session:
            path, body = wire({"id": "c7"})
            async with session.post(path, json=body) as reply:
                text = await reply.text()
                assert reply.status == 200, text
            (record,) = await runtime.list_runs()
            await runtime.wait(record.run_id)
            assert record.context == {"id": "c7"}

    asyncio.run(scenario())
    assert seen == [Customer("c7")]


@pytest.mark.parametrize("wire", WIRES)
def test_a_context_that_does_not_fit_names_the_field_and_nothing_is_written(
    wire: Callable[[Any], tuple[str, Any]],
) -> None:
    seen: list[Any] = []

    async def scenario() -> None:
        runtime = AgentRuntime([looking(seen)])
        async with serving(runtime) as url, aiohttp.ClientSession(url) as session:
            path, body = wire({"id": 7})
            async with session.post(path, json=body) as reply:
                text = await reply.text()
                assert reply.status == (400 if wire in _A2A else 422), text
                assert "$.id" in text
                assert "invalid_context" in text.lower()
            assert await runtime.list_runs() == ()
            async with session.get("/v1/threads") as reply:
                assert (await reply.json())["items"] == []

    asyncio.run(scenario())
    assert seen == []


def test_messages_for_a_thread_have_a_context_too_and_a_run_shows_its_own() -> None:
    seen: list[Any] = []

    async def scenario() -> None:
        runtime = AgentRuntime([looking(seen, "default")])
        async with serving(runtime) as url, aiohttp.ClientSession(url) as session:
            async with session.post("/v1/threads", json={}) as reply:
                thread_id = (await reply.json())["id"]
            path = f"/v1/threads/{thread_id}/messages"
            wrong = {"messages": [{"content": "go"}]}
            async with session.post(path, json=wrong) as reply:
                assert reply.status == 422, await reply.text()
                assert (await reply.json())["code"] == "invalid_context"
            async with session.post(path, json=wrong | {"context": {"id": "c7"}}) as reply:
                run_id = (await reply.json())["run_id"]
            await runtime.wait(run_id)
            async with session.get(f"/v1/runs/{run_id}") as reply:
                assert (await reply.json())["context"] == {"id": "c7"}
            async with session.get("/v1/runs") as reply:
                assert "context" not in (await reply.json())["items"][0]

    asyncio.run(scenario())
    assert seen == [Customer("c7")]


def test_instructions_that_fail_are_typed_and_say_nothing_of_the_cause() -> None:
    def fail(ctx: RunContext) -> str:
        raise RuntimeError("postgres://secret@host")

    async def scenario() -> None:
        runtime = AgentRuntime([Agent("a", model=ScriptedModel(["never"]), instructions=fail)])
        async with serving(runtime) as url, aiohttp.ClientSession(url) as session:
            path, body = native(None)
            async with session.post(path, json=body) as reply:
                assert reply.status == 500
                shown = await reply.json()
                assert shown["code"] == "instructions_failed"
                assert "secret" not in shown["error"]
            assert await runtime.list_runs() == ()

    asyncio.run(scenario())


def exit_process(_: RunContext) -> str:
    sys.exit(3)


async def cancel_itself(_: RunContext) -> str:
    raise asyncio.CancelledError


@pytest.mark.parametrize("instructions", [exit_process, cancel_itself])
def test_instructions_that_exit_or_are_cancelled_do_not_end_the_server(instructions: Any) -> None:
    async def scenario() -> None:
        bad = Agent("a", model=ScriptedModel(["never"]), instructions=instructions)
        runtime = AgentRuntime([bad, Agent("well", model=ScriptedModel(["fine"]))])
        async with serving(runtime) as url, aiohttp.ClientSession(url) as session:
            path, body = native(None)
            async with session.post(path, json=body) as reply:
                assert reply.status == 500
                assert (await reply.json())["code"] == "instructions_failed"
            assert await runtime.list_runs() == ()
            async with session.post(path, json={**body, "agent_id": "well"}) as reply:
                assert reply.status == 200

    asyncio.run(scenario())


@both_eras
def test_a_tool_call_of_mcp_has_a_context(era: str) -> None:
    seen: list[Any] = []

    async def scenario() -> None:
        async with talking([looking(seen)], era) as (client, _):
            meta = {"context": {"id": "c7"}}
            done = await client.call_tool("a", {"message": "go"}, meta=meta)
            assert not done.is_error
            refused = await client.call_tool("a", {"message": "go"}, meta={"context": {"id": 7}})
            assert refused.is_error
            assert "$.id" in str(refused.content)

    asyncio.run(scenario())
    assert seen == [Customer("c7")]


def test_a_prompt_of_acp_has_a_context() -> None:
    seen: list[Any] = []

    async def scenario() -> None:
        editor = Editor()
        runtime = AgentRuntime([looking(seen, "default")])
        async with editing(runtime, editor) as client:
            await client.initialize(protocol_version=1)
            session = await client.new_session(cwd="/", mcp_servers=[])
            await client.prompt(
                prompt=[text_block("go")], session_id=session.session_id, context={"id": "c7"}
            )

    asyncio.run(scenario())
    assert seen == [Customer("c7")]


def test_a_remote_agent_gets_the_context_in_the_metadata_of_its_message() -> None:
    seen: list[Any] = []

    async def scenario() -> None:
        far = AgentRuntime([looking(seen)])
        async with serving(far) as url:
            endpoint = RemoteEndpoint(base_url=f"{url}/v1/a2a/a")
            near = AgentRuntime([Agent("near", endpoint=endpoint)])
            async with near:
                await near.run("near", "go", context={"id": "c7"})

    asyncio.run(scenario())
    assert seen == [Customer("c7")]


def test_clients_are_told_which_context_an_agent_wants() -> None:
    async def scenario() -> None:
        typed = Agent("typed", model=ScriptedModel([]), context_type=Wanted)
        async with AgentRuntime([typed, Agent("free", model=ScriptedModel([]))]) as runtime:
            listed = await ask(runtime.asgi(ServerConfig()), "GET", "/v1/agents")
            free, wanting = sorted(listed.json["items"], key=lambda it: it["id"])
            assert "context_schema" not in free or free["context_schema"] is None
            assert wanting["context_schema"]["required"] == ["id"]
            assert wanting["context_schema"]["properties"]["id"]["type"] == "string"

    asyncio.run(scenario())


def test_a_card_has_the_context_of_each_agent_that_wants_one() -> None:
    async def scenario() -> None:
        typed = Agent("typed", model=ScriptedModel([]), context_type=Wanted)
        async with AgentRuntime([typed, Agent("free", model=ScriptedModel([]))]) as runtime:
            app = runtime.asgi(ServerConfig())
            for path in (
                "/.well-known/agent-card.json",
                "/v1/a2a/typed/.well-known/agent-card.json",
            ):
                card = (await ask(app, "GET", path)).json
                (about,) = card["capabilities"]["extensions"]
                assert (about["uri"], about["required"]) == ("urn:awaken:run-context", False)
                assert list(about["params"]["schemas"]) == ["typed"]
                assert about["params"]["schemas"]["typed"]["required"] == ["id"]
            free = (await ask(app, "GET", "/v1/a2a/free/.well-known/agent-card.json")).json
            assert "extensions" not in free["capabilities"]

    asyncio.run(scenario())


@both_eras
def test_the_list_of_tools_has_the_context_of_each_agent_that_wants_one(era: str) -> None:
    async def scenario() -> None:
        typed = Agent("typed", model=ScriptedModel([]), context_type=Wanted)
        async with talking([typed, Agent("free", model=ScriptedModel([]))], era) as (client, _):
            listed = {it.name: it for it in (await client.list_tools()).tools}
        assert (listed["free"].meta or {}).get("context_schema") is None
        assert (listed["typed"].meta or {})["context_schema"]["required"] == ["id"]

    asyncio.run(scenario())


@dataclass
class Wanted:
    id: str


@pytest.mark.parametrize("context", ["x", 7, ["a"]])
def test_a_context_that_is_no_object_is_refused_alike_wherever_clients_put_it(context: Any) -> None:
    agent = Agent("a", model=ScriptedModel([]))
    message = {"role": "user", "content": "Hi"}
    agui = {
        "threadId": "t", "runId": "r", "messages": [{**message, "id": "m"}], "tools": [],
        "context": [], "state": {}, "forwardedProps": {"context": context},
    }  # fmt: skip

    async def scenario() -> None:
        async with AgentRuntime([agent]) as runtime:
            app = runtime.asgi(ServerConfig())
            refused = await ask(app, "POST", "/v1/ag-ui/agents/a/runs", body=agui)
            assert (refused.status, refused.json["code"]) == (422, "invalid_context")

    asyncio.run(scenario())
