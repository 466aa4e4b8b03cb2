"""The demo over HTTP: what its agents and its scripted model do, without any key."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from awaken import Agent, AgentRuntime, InvalidInput
from awaken.demo.agents import demo_agents
from awaken.demo.settings import demo_providers
from awaken.testing import ScriptedModel, ToolCalls

from .serving import Frame, post_stream, read_stream, serving


class Client:
    """Somebody who talks to the demo."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def say(self, agent: str, text: str, thread: str = "t") -> list[Frame]:
        messages = [{"role": "user", "content": text}]
        body = {"agentId": agent, "threadId": thread, "messages": messages}
        return await post_stream(self._session, f"{self._url}/v1/runs", body)

    async def decide(self, frames: list[Frame], action: str, payload: Any = None) -> list[Frame]:
        """Decide on the call that waits, and read on from there."""
        last = frames[-1]
        run = f"{self._url}/v1/runs/{last.data['run_id']}"
        (call,) = of_kind(frames, "tool_call_ready")
        decision = {"toolCallId": call["id"], "action": action, "payload": payload}
        async with self._session.post(f"{run}/decision", json=decision) as reply:
            assert reply.status == 202, await reply.text()
        return await read_stream(self._session, f"{run}/events/stream?cursor={last.id}")


def talk(scenario: Callable[[Client], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with (
            serving(AgentRuntime(demo_agents({}))) as url,
            aiohttp.ClientSession() as session,
        ):
            await scenario(Client(session, url))

    asyncio.run(whole())


def of_kind(frames: list[Frame], kind: str) -> list[Any]:
    return [frame.data for frame in frames if frame.data["event_type"] == kind]


def answer(frames: list[Frame]) -> str:
    response: str = frames[-1].data["result"]["response"]
    return response


def usage(frames: list[Frame]) -> list[int]:
    return [it["usage"]["total_tokens"] for it in of_kind(frames, "inference_complete")]


def ending(frames: list[Frame]) -> Any:
    return frames[-1].data["termination"]


@pytest.mark.parametrize(
    ("mark", "tool", "result"),
    [
        ("RUN_WEATHER_TOOL", "get_weather", '"Tokyo"'),
        ("RUN_STOCK_TOOL", "get_stock_price", '"AAPL"'),
        ("RUN_NOTE_TOOL", "append_note", "noted (1 in all)"),
        ("RUN_INFO_TOOL", "serverInfo", '"awaken"'),
        ("RUN_FAILING_TOOL", "failingTool", "this tool always fails"),
        ("RUN_FINISH_TOOL", "finish", "All done"),
        ("RUN_PROGRESS_TOOL", "progress_demo", "done"),
    ],
)
def test_a_mark_in_a_message_runs_its_tool(mark: str, tool: str, result: str) -> None:
    async def scenario(client: Client) -> None:
        frames = await client.say("default", f"Please {mark} now")
        (ready,) = of_kind(frames, "tool_call_ready")
        assert ready["name"] == tool
        assert answer(frames).startswith(f"{tool} returned: ")
        assert result in answer(frames)
        assert usage(frames) == usage(await client.say("default", f"Please {mark} now", "t2"))

    talk(scenario)


def test_whatever_else_is_said_is_quoted_back_at_a_known_price() -> None:
    async def scenario(client: Client) -> None:
        frames = await client.say("default", "Hello!")
        assert answer(frames) == "Scripted response to: Hello!"
        assert usage(frames) == [21]
        assert ending(frames) == {"type": "natural_end"}

    talk(scenario)


def test_progress_is_shown_step_by_step() -> None:
    async def scenario(client: Client) -> None:
        shown = of_kind(await client.say("default", "RUN_PROGRESS_TOOL"), "activity_snapshot")
        assert [it["content"]["message"] for it in shown] == [f"step {n} of 3" for n in (1, 2, 3)]

    talk(scenario)


@pytest.mark.parametrize(
    ("action", "end"),
    [("resume", "delete_file returned: deleted old-report.txt"), ("cancel", "delete_file")],
)
def test_a_deletion_waits_for_consent(action: str, end: str) -> None:
    async def scenario(client: Client) -> None:
        asked = await client.say("permission", "RUN_DELETE_TOOL")
        assert ending(asked) == {"type": "suspended"}
        (waiting,) = of_kind(asked, "tool_call_done")
        assert waiting["result"]["message"] == "Permission required for tool 'delete_file'"
        rest = await client.decide(asked, action)
        assert end in answer(rest)
        assert ("deleted" in answer(rest)) is (action == "resume")

    talk(scenario)


@pytest.mark.parametrize(
    ("mark", "arguments"),
    [
        ("RUN_QUESTION_TOOL", {"question": "Which city do you mean?"}),
        ("RUN_COLOR_TOOL", {"color": "lavender"}),
    ],
)
def test_what_a_client_answers_is_the_result_of_the_call(mark: str, arguments: Any) -> None:
    async def scenario(client: Client) -> None:
        asked = await client.say("default", mark)
        (call,) = of_kind(asked, "tool_call_ready")
        assert call["arguments"] == arguments
        rest = await client.decide(asked, "resume", "Kyoto")
        assert answer(rest) == f'{call["name"]} returned: "Kyoto"'

    talk(scenario)


def test_agents_stop_where_they_promise_to() -> None:
    async def scenario(client: Client) -> None:
        for agent, text, code in (
            ("limited", "RUN_WEATHER_TOOL", "max_rounds"),
            ("stopper", "RUN_FINISH_TOOL", "stop_on_tool"),
            ("budget", "RUN_WEATHER_TOOL " * 20, "token_budget"),
        ):
            end = ending(await client.say(agent, text, agent))
            assert end["type"] == "stopped", (agent, end)
            assert code in str(end), (agent, end)
        assert ending(await client.say("budget", "Hi", "t")) == {"type": "natural_end"}

    talk(scenario)


def test_the_thinking_agent_thinks_before_it_answers() -> None:
    async def scenario(client: Client) -> None:
        frames = await client.say("thinking", "Why?")
        kinds = [frame.data["event_type"] for frame in frames]
        assert of_kind(frames, "reasoning_delta")[0]["delta"] == "I was asked: Why?"
        assert kinds.index("reasoning_delta") < kinds.index("text_delta")
        assert of_kind(await client.say("default", "Why?", "t2"), "reasoning_delta") == []

    talk(scenario)


def test_every_agent_answers_and_is_described() -> None:
    async def scenario(client: Client) -> None:
        for agent in demo_agents({}):
            assert agent.description
            said = answer(await client.say(agent.id, "Hello", agent.id))
            assert "Hello" in said or agent.id.endswith("-ui")

    talk(scenario)


@pytest.mark.parametrize(
    ("agent", "mark", "told"),
    [
        ("skills", "RUN_SKILL_TOOL", "greeting"),
        ("deferred", "RUN_TOOL_SEARCH_WEATHER", "get_weather"),
        ("phases", "RUN_PHASES_TOOL", "before_tool_execute"),
        ("profile", "RUN_PREFERENCE_TOOL", "remembered"),
        ("a2ui", "RUN_A2UI_TOOL", '"rendered":true'),
        ("genui", "RUN_A2UI_TOOL", '"rendered":true'),
        ("json-render", "RUN_JSON_UI_TOOL", '"root":"page"'),
        ("openui", "RUN_UI_TOOL", "Scripted demo"),
    ],
)
def test_an_agent_with_an_extension_shows_what_it_does(agent: str, mark: str, told: str) -> None:
    async def scenario(client: Client) -> None:
        frames = await client.say(agent, mark)
        assert ending(frames) == {"type": "natural_end"}
        (done,) = of_kind(frames, "tool_call_done")
        assert done["outcome"] == "succeeded", done
        assert told in answer(frames)

    talk(scenario)


def test_a_skill_that_was_taken_up_is_in_the_next_request() -> None:
    model = ScriptedModel([ToolCalls([("skill", _GREET)]), "Welcome, Ada."])
    (skilled,) = [it for it in demo_agents({}) if it.id == "skills"]

    async def scenario() -> None:
        agent = Agent("s", model=model, plugins=skilled.plugins)
        async with AgentRuntime([agent]) as runtime:
            await runtime.run("s", "Greet her.")
        assert "Greet Ada in one warm sentence." in repr(model.requests[-1])

    asyncio.run(scenario())


_GREET = {"skill": "greeting", "arguments": {"who": "Ada"}}


def test_a_tool_that_a_rule_denies_is_not_even_offered() -> None:
    async def scenario(client: Client) -> None:
        frames = await client.say("permission", "RUN_FAILING_TOOL")
        assert of_kind(frames, "tool_call_ready") == []

    talk(scenario)


def test_a_preference_holds_for_other_conversations() -> None:
    async def scenario() -> None:
        (agent,) = [it for it in demo_agents({}) if it.id == "profile"]
        told = ToolCalls([("set_preference", {"preference": "tea"})])
        model = ScriptedModel([told, "ok", ToolCalls([("get_preference", {})]), "ok"])
        agents = [Agent("profile", model=model, plugins=agent.plugins)]
        async with AgentRuntime(agents) as runtime:
            await runtime.run("profile", "I like tea", thread_id="one")
            await runtime.run("profile", "What do I like?", thread_id="two")
        assert model.requests[-1].messages[-1].text == "tea"

    asyncio.run(scenario())


def test_the_environment_adds_a_remote_agent_and_a_server_of_tools() -> None:
    environment = {
        "A2A_REMOTE_URL": "https://peer.example/a2a",
        "A2A_BEARER_TOKEN": "t0ken",
        "MCP_SERVER_CMD": "python -m 'my server'",
    }
    agents = {agent.id: agent for agent in demo_agents(environment)}
    endpoint = agents["a2a"].endpoint
    assert endpoint is not None
    assert endpoint.base_url == "https://peer.example/a2a"
    assert "t0ken" not in repr(endpoint)
    assert [it.name for it in agents["default"].plugins] == ["mcp"]
    AgentRuntime(agents.values())


@pytest.mark.parametrize("name", ["A2A_REMOTE_URL", "MCP_SERVER_CMD"])
def test_a_variable_that_makes_no_sense_is_named(name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        demo_agents({name: "'"})


def test_the_compact_agent_sums_up_what_was_said() -> None:
    async def scenario() -> None:
        runtime = AgentRuntime(demo_agents({}))
        async with serving(runtime) as url, aiohttp.ClientSession() as session:
            for number in range(12):
                await Client(session, url).say("compact", f"{number} " + "word " * 400)
            # Something was left out, so it can be brought back.
            assert await runtime.undo_compaction("t")

    asyncio.run(scenario())


def test_a_compatible_server_is_asked_the_way_that_all_of_them_understand() -> None:
    assert demo_providers({"OPENAI_API_KEY": "key"}) == {}
    there = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    spec = demo_providers(there)["openai"]
    assert (spec.adapter, spec.base_url) == ("openai_chat", "http://127.0.0.1:9/v1")
    chosen = demo_providers({**there, "OPENAI_ADAPTER": "openai_resp"})["openai"]
    assert chosen.adapter == "openai_responses"
    assert demo_agents(there)[0].model == "openai:gpt-5-mini"
