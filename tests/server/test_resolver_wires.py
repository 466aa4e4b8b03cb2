"""Agents that only the host's resolver knows, over every wire: run, shown, refused."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from acp import text_block
from mcp.shared.exceptions import MCPError
from tests.scenarios.each_store import NewStore, each_store

from awaken import Agent, AgentRuntime, AgentSpec
from awaken.testing import ScriptedModel

from .a2a_world import sending
from .acp_world import Editor, editing
from .in_process import Request, ask
from .mcp_world import MODERN, connected
from .serving import serving

SECRET = "db-password"


def agent(id_: str, *script: str, **options: Any) -> Agent:
    return Agent(id_, model=ScriptedModel(list(script or ("hi",)), cycle=True), **options)


class Book:
    """A resolver with a table; `broken` cannot be had, and the rest is unknown."""

    def __init__(self, *agents: Agent) -> None:
        self.agents = {it.id: it for it in agents}

    async def resolve(self, agent_id: str, /) -> Agent | None:
        if agent_id == "broken":
            raise ConnectionError(SECRET)
        return self.agents.get(agent_id)


class Catalog(Book):
    """A resolver that also lists what it knows, and one agent that nothing can be made of."""

    fails = False

    async def list_agents(self) -> list[Agent | AgentSpec]:
        if self.fails:
            raise ConnectionError(SECRET)
        return [*self.agents.values(), AgentSpec(id="odd", model_id="nowhere:model")]


def spoken(answer: Any) -> str:
    """What an answer of the native stream says."""
    frames = [it[6:] for it in answer.body.decode().splitlines() if it.startswith("data: ")]
    events = [json.loads(it) for it in frames]
    return "".join(it["delta"] for it in events if it["event_type"] == "text_delta")


async def whole(app: Any, path: str, body: Any) -> Any:
    request = Request(app, "POST", path, body=body)
    await asyncio.wait_for(request.task, 10)
    return request.answer


@each_store
def test_a_run_begins_over_http_and_a2a(new_store: NewStore, tmp_path: Path) -> None:
    async def scenario() -> None:
        book = Book(agent("bob", "hello"))
        async with AgentRuntime([agent("ann")], resolver=book, store=new_store(tmp_path)()) as rt:
            app, message = rt.asgi(), {"role": "user", "content": "hi"}
            begun = await whole(app, "/v1/runs", {"agentId": "bob", "messages": [message]})
            assert (begun.status, spoken(begun)) == (200, "hello")
            run = await rt.get_run(begun.headers["x-run-id"])
            assert (run.agent_id, run.final_output) == ("bob", "hello")
            sent = await ask(app, "POST", "/v1/a2a/bob/message:send", body=sending("hi"))
            task = sent.json["task"]
            assert task["status"]["state"] == "TASK_STATE_COMPLETED"
            assert task["artifacts"][0]["parts"][0]["text"] == "hello"
            path = f"/v1/threads/{run.thread_id}/messages"
            queued = await ask(app, "POST", path, body={"agentId": "bob", "messages": [message]})
            assert queued.status == 202
            assert (await rt.wait(queued.json["run_id"], timeout_ms=10_000)).text == "hello"

    asyncio.run(scenario())


def test_unknown_agents_are_not_found_and_failures_say_to_try_again() -> None:
    async def scenario() -> None:
        async with AgentRuntime(resolver=Book(agent("bob"))) as rt:
            app, messages = rt.asgi(), [{"role": "user", "content": "hi"}]
            chat = {"messages": messages}
            thread_id = (await ask(app, "POST", "/v1/threads", body={})).json["id"]
            for name, status, code in (
                ("eve", 404, "unknown_agent"),
                ("broken", 503, "agent_resolver_failed"),
            ):
                given = {"agentId": name, "messages": messages}
                answers = [
                    await ask(app, "POST", "/v1/runs", body=given),
                    await ask(app, "POST", f"/v1/threads/{thread_id}/messages", body=given),
                    await ask(app, "GET", f"/v1/agents/{name}"),
                    await ask(app, "POST", f"/v1/ag-ui/agents/{name}/runs", body=_ag_ui()),
                ]
                for answer in answers:
                    assert (answer.status, answer.json["code"]) == (status, code)
                    assert SECRET not in answer.body.decode()
                    assert ("retry-after" in answer.headers) is (status == 503)
                model = await ask(app, "POST", "/v1/chat/completions", body={"model": name} | chat)
                shown = await ask(app, "GET", f"/v1/a2a/{name}/.well-known/agent-card.json")
                assert (model.status, shown.status) == (status, status)
            assert await rt.list_runs() == ()
            assert await rt.store.load_thread("t") is None

    asyncio.run(scenario())


def _ag_ui() -> Any:
    message = {"id": "m", "role": "user", "content": "hi"}
    parts = {"tools": [], "context": [], "forwardedProps": {}, "state": {}}
    return {"threadId": "t", "runId": "r", "messages": [message], **parts}


def test_what_shows_agents_shows_those_that_the_resolver_lists() -> None:
    async def scenario() -> None:
        async def add(a: int) -> int:
            """Add."""
            return a

        catalog = Catalog(agent("ann", description="not this one"), agent("bob", tools=[add]))
        registered = agent("ann", description="the registered one")
        async with AgentRuntime([registered], resolver=catalog) as rt:
            app = rt.asgi()
            listed = (await ask(app, "GET", "/v1/agents")).json["items"]
            assert [it["id"] for it in listed] == ["ann", "bob"]
            assert listed[0]["description"] == "the registered one"
            assert listed[1] == (await ask(app, "GET", "/v1/agents/bob")).json
            assert "add" in json.dumps(listed[1])
            card = (await ask(app, "GET", "/.well-known/agent-card.json")).json
            assert [it["id"] for it in card["skills"]] == ["ann", "bob"]
            models = (await ask(app, "GET", "/v1/models")).json["data"]
            assert [it["id"] for it in models] == ["ann", "bob"]
            catalog.agents["carol"] = agent("carol")
            again = (await ask(app, "GET", "/v1/agents")).json["items"]
            assert [it["id"] for it in again] == ["ann", "bob", "carol"]
            catalog.fails = True
            failed = await ask(app, "GET", "/v1/agents")
            assert (failed.status, failed.json["code"]) == (503, "agent_resolver_failed")
            assert SECRET not in failed.body.decode()

    asyncio.run(scenario())


def test_the_default_agent_is_asked_though_the_resolver_cannot_list_the_others() -> None:
    async def scenario() -> None:
        catalog = Catalog(agent("bob"))
        catalog.fails = True
        async with AgentRuntime([agent("default", "here")], resolver=catalog) as rt:
            sent = await ask(rt.asgi(), "POST", "/v1/a2a/message:send", body=sending("hi"))
            assert sent.json["task"]["artifacts"][0]["parts"][0]["text"] == "here"

    asyncio.run(scenario())


def test_a_resolver_that_lists_nothing_is_served_all_the_same() -> None:
    async def scenario() -> None:
        async with AgentRuntime([agent("ann")], resolver=Book(agent("bob"))) as rt:
            app = rt.asgi()
            listed = (await ask(app, "GET", "/v1/agents")).json["items"]
            assert [it["id"] for it in listed] == ["ann"]
            assert (await ask(app, "GET", "/v1/agents/bob")).json["id"] == "bob"

    asyncio.run(scenario())


class Sum(msgspec.Struct):
    """A typed answer."""

    total: int


@each_store
def test_a_typed_answer_is_one_also_in_another_process(new_store: NewStore, tmp_path: Path) -> None:
    async def scenario() -> None:
        opener = new_store(tmp_path)
        book = Book(agent("bob", '{"total": 3}', output_type=Sum))
        async with AgentRuntime(resolver=book, store=opener()) as rt:
            sent = await ask(rt.asgi(), "POST", "/v1/a2a/bob/message:send", body=sending("hi"))
            task = sent.json["task"]
            assert {"total": 3} in _data(task)
        async with AgentRuntime(resolver=book, store=opener()) as rt:
            assert (await rt.wait(task["id"])).output == Sum(total=3)
        async with AgentRuntime(resolver=book, store=opener()) as rt:
            told = await ask(rt.asgi(), "GET", f"/v1/a2a/tasks/{task['id']}")
            assert {"total": 3} in _data(told.json)

    asyncio.run(scenario())


def _data(task: Any) -> list[Any]:
    parts = [part for it in task["artifacts"] for part in it["parts"]]
    return [part["data"] for part in parts if "data" in part]


def test_an_mcp_client_calls_agents_that_only_the_resolver_knows() -> None:
    async def scenario() -> None:
        runtime = AgentRuntime(resolver=Catalog(agent("bob", "hello")))
        async with serving(runtime) as url, connected(url, MODERN) as client:
            assert [it.name for it in (await client.list_tools()).tools] == ["bob"]
            answer = await client.call_tool("bob", {"message": "hi"})
            assert answer.structured_content["status"] == "completed"
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("eve", {"message": "hi"})
            broken = await client.call_tool("broken", {"message": "hi"})
            assert broken.is_error
            assert SECRET not in broken.model_dump_json()

    asyncio.run(scenario())


def test_an_editor_talks_to_the_default_agent_of_the_resolver() -> None:
    async def scenario() -> None:
        runtime, editor = AgentRuntime(resolver=Book(agent("default", "hello"))), Editor()
        async with editing(runtime, editor) as client:
            await client.initialize(protocol_version=1)
            session = await client.new_session(cwd="/", mcp_servers=[])
            await client.prompt(prompt=[text_block("hi")], session_id=session.session_id)
            await editor.until(lambda: editor.text() == "hello")

    asyncio.run(scenario())
