"""Calls of servers' tools, in both eras: results, progress, cancels, limits, and who may call."""

import asyncio
from typing import Any

import mcp_types as types
import pytest
from tests.extensions.mcp_servers.desk import Desk, tool
from tests.extensions.mcp_servers.worlds import (
    BOUND_S,
    calls,
    events,
    local,
    playing,
    results,
    status,
)

from awaken import Agent, AgentRuntime
from awaken.contracts.events import ActivitySnapshot
from awaken.contracts.identity import RunIdentity
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tool_results import ToolStatus
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tracing import CURRENT_TRACE, TraceContext
from awaken.extensions.handoff import HandoffPlugin
from awaken.extensions.mcp import McpLimits, McpPlugin, Root, ServerState
from awaken.extensions.skills import SkillsPlugin
from awaken.testing import ScriptedModel, ToolCalls

both_eras = pytest.mark.parametrize("era", ["auto", "legacy"])


@both_eras
def test_text_is_given_as_text_and_anything_else_whole(era: Any) -> None:
    async def scenario() -> None:
        plugin = McpPlugin([local(Desk(), protocol=era)])
        asked = ToolCalls([("mcp__desk__say", {"text": "hi"}), ("mcp__desk__count", {})])
        async with playing(plugin, asked, "done") as (runtime, _):
            text, whole = await results(runtime)
        assert (text.data, text.message) == ("say: hi", "say: hi")
        assert whole.data["structuredContent"] == {"steps": 4}
        assert "QUJD" not in str(whole.data)
        assert whole.metadata["mcp.result.content"][1]["data"] == "QUJD"
        assert whole.metadata["mcp.server"] == "desk"

    asyncio.run(scenario())


@both_eras
def test_an_error_of_a_tool_is_an_error_result(era: Any) -> None:
    async def scenario() -> None:
        plugin = McpPlugin([local(Desk(), protocol=era)])
        async with playing(plugin, calls("mcp__desk__fail"), "done") as (runtime, _):
            (result,) = await results(runtime)
        assert (result.status, result.message) == (ToolStatus.ERROR, "it went wrong")

    asyncio.run(scenario())


@both_eras
def test_progress_reaches_whoever_watches_the_run(era: Any) -> None:
    async def scenario() -> None:
        plugin = McpPlugin([local(Desk(), protocol=era)])
        async with playing(plugin, calls("mcp__desk__count"), "done") as (runtime, _):
            shown = [it.content for it in await events(runtime) if isinstance(it, ActivitySnapshot)]
        assert [it["progress"] for it in shown] == [0.25, 0.5, 0.75, 1.0]
        assert shown[-1]["message"] == "step 4"

    asyncio.run(scenario())


@both_eras
def test_a_call_that_takes_too_long_is_cancelled_at_the_server(era: Any) -> None:
    async def scenario() -> None:
        desk = Desk()
        plugin = McpPlugin([local(desk, protocol=era, call_ms=50)])
        async with playing(plugin, calls("mcp__desk__slow"), "done") as (runtime, _):
            (result,) = await results(runtime)
            assert result.metadata["code"] == "tool_timeout"
            assert "MCP server 'desk'" in (result.message or "")
            await desk.cancelled.wait()
            assert status(plugin).state is ServerState.CONNECTED

    asyncio.run(scenario())


@both_eras
def test_a_cancelled_run_cancels_its_call_at_the_server(era: Any) -> None:
    async def scenario() -> None:
        desk = Desk()
        plugin = McpPlugin([local(desk, protocol=era)])
        async with playing(plugin, calls("mcp__desk__slow")) as (runtime, _):
            running = asyncio.create_task(events(runtime))
            await desk.begun.wait()
            running.cancel()
            await desk.cancelled.wait()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())


def test_calls_without_an_answer_have_the_connection_made_anew() -> None:
    async def scenario() -> None:
        plugin = McpPlugin([local(Desk(), call_ms=20)])
        turns = [calls("mcp__desk__slow")] * 3
        async with playing(plugin, *turns, "done") as (runtime, _):
            await events(runtime)
            await plugin.wait_for_state("desk", ServerState.RECONNECTING)
            await plugin.wait_for_state("desk")
            assert status(plugin).generation == 2

    asyncio.run(scenario())


def test_results_over_the_limits_are_cut_with_a_mark() -> None:
    class Much(Desk):
        async def _say(self, _context: Any, _params: Any) -> types.CallToolResult:
            image = types.ImageContent(data="A" * 50, mime_type="image/png")
            return types.CallToolResult(content=[types.TextContent(text="x" * 50), image])

    async def scenario() -> None:
        limits = McpLimits(result_chars=10, binary_chars=10)
        plugin = McpPlugin([local(Much(), limits=limits)])
        async with playing(plugin, calls("mcp__desk__say"), "done") as (runtime, _):
            (result,) = await results(runtime)
        text, image = result.metadata["mcp.result.content"]
        assert text["text"] == "x" * 10 + "… [cut]"
        assert (image["data"], image["omitted"]) == ("", "50 characters of base64")

    asyncio.run(scenario())


def test_a_structured_result_that_breaks_its_promise_is_refused() -> None:
    class Liar(Desk):
        async def _lie(self, _context: Any, _params: Any) -> types.CallToolResult:
            return types.CallToolResult(content=[], structured_content={"n": "one"})

    async def scenario() -> None:
        desk = Liar()
        promise = {"type": "object", "properties": {"n": {"type": "integer"}}}
        desk.extra = [tool("lie", output_schema=promise)]
        plugin = McpPlugin([local(desk)])
        async with playing(plugin, calls("mcp__desk__lie"), "done") as (runtime, _):
            (result,) = await results(runtime)
        assert result.metadata["code"] == "mcp_server_failed"
        assert "one" not in (result.message or "").split("does not match")[1]

    asyncio.run(scenario())


def test_the_ui_of_a_tool_comes_with_its_result() -> None:
    async def scenario() -> None:
        plugin = McpPlugin([local(Desk())])
        async with playing(plugin, calls("mcp__desk__look"), "done") as (runtime, _):
            (result,) = await results(runtime)
        assert result.metadata["mcp.ui.content"] == "<p>ui://desk/look</p>"
        assert result.metadata["mcp.ui.mimeType"] == "text/html"

    asyncio.run(scenario())


def test_a_ui_that_cannot_be_had_costs_nothing_but_itself() -> None:
    class Bare(Desk):
        async def _read(self, _context: Any, _params: Any) -> Any:
            message = "no such thing"
            raise ValueError(message)

    async def scenario() -> None:
        plugin = McpPlugin([local(Bare())])
        async with playing(plugin, calls("mcp__desk__look"), "done") as (runtime, _):
            (result,) = await results(runtime)
        assert result.data == "seen"
        assert "mcp.ui.content" not in result.metadata

    asyncio.run(scenario())


def test_a_request_carries_the_trace_that_it_belongs_to() -> None:
    async def scenario() -> None:
        desk = Desk()
        plugin = McpPlugin([local(desk)])
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        async with playing(plugin, "done"):
            CURRENT_TRACE.set(TraceContext(traceparent=parent))
            say = next(it for it in plugin.tools() if it.descriptor.id == "mcp__desk__say")
            identity, spec = RunIdentity(thread_id="t", run_id="r"), AgentSpec(id="a", model_id="m")
            call = ToolCall(id="c", name=say.descriptor.id, arguments={})
            await say.execute({}, ToolContext(run=identity, agent=spec, call=call))
        assert desk.metas[0]["traceparent"].split("-")[1] == parent.split("-")[1]

    asyncio.run(scenario())


@both_eras
def test_a_server_may_ask_the_model_if_it_is_allowed_to(era: Any) -> None:
    async def scenario() -> None:
        plugin = McpPlugin([local(Desk(), protocol=era, sampling=True)])
        async with playing(plugin, calls("mcp__desk__think"), "4", "done") as (runtime, model):
            (result,) = await results(runtime)
        assert result.data == "thought 4"
        assert [it.text for it in model.requests[1].messages] == ["2 + 2?"]

    asyncio.run(scenario())


@both_eras
def test_a_server_that_may_not_ask_the_model_gets_no_answer(era: Any) -> None:
    async def scenario() -> None:
        plugin = McpPlugin([local(Desk(), protocol=era)])
        async with playing(plugin, calls("mcp__desk__think"), "done") as (runtime, model):
            (result,) = await results(runtime)
        assert result.status is ToolStatus.ERROR
        assert len(model.requests) == 2

    asyncio.run(scenario())


def test_roots_are_told_to_a_server_that_asks() -> None:
    async def scenario() -> None:
        roots = (Root(uri="file:///srv/project", name="project"),)
        plugin = McpPlugin([local(Desk(), protocol="legacy", roots=roots)])
        async with playing(plugin, calls("mcp__desk__list_roots"), "done") as (runtime, _):
            (result,) = await results(runtime)
        assert result.data == "file:///srv/project"

    asyncio.run(scenario())


def test_an_agent_sees_and_calls_only_what_its_section_gives_it() -> None:
    async def scenario() -> None:
        one, two = Desk(), Desk()
        plugin = McpPlugin([local(one, "one"), local(two, "two")])
        section = {"servers": ["one"], "allow": ["mcp__*__s*"], "exclude": ["mcp__*__slow"]}
        asked = calls("mcp__one__say", "mcp__one__slow", "mcp__one__fail", "mcp__two__say",
                      "mcp_list_resources")  # fmt: skip
        async with playing(plugin, asked, "done", config={"mcp": section}) as (runtime, model):
            found = {it.tool_name: it for it in await results(runtime)}
        assert found.pop("mcp__one__say").status is ToolStatus.SUCCESS
        assert {it.metadata["code"] for it in found.values()} == {"tool_denied"}
        assert (one.done, two.done) == (["say"], [])
        assert {it.id for it in model.requests[0].tools} == {"mcp__one__say"}

    asyncio.run(scenario())


def test_resources_are_listed_and_read_within_the_agents_servers() -> None:
    async def scenario() -> None:
        plugin = McpPlugin([local(Desk(), "one"), local(Desk(), "two")])
        asked = ToolCalls(
            [
                ("mcp_list_resources", {"server": "one"}),
                ("mcp_read_resource", {"server": "one", "uri": "desk://a"}),
                ("mcp_read_resource", {"server": "two", "uri": "desk://a"}),
            ]
        )
        section = {"mcp": {"servers": ["one"]}}
        async with playing(plugin, asked, "done", config=section) as (runtime, _):
            listed, read, denied = await results(runtime)
        assert [it["uri"] for it in listed.data["resources"]] == ["desk://a"]
        assert read.data["contents"][0]["text"] == "<p>desk://a</p>"
        assert denied.metadata["code"] == "tool_denied"

    asyncio.run(scenario())


def test_prompts_are_skills() -> None:
    async def scenario() -> None:
        plugin = McpPlugin([local(Desk())])
        async with playing(plugin, "done"):
            source = plugin.skills()
            (skill,) = source.skills()
            assert (skill.name, skill.arguments[0].name) == ("mcp:desk:greet", "who")
            assert source.skills() is source.skills()
            assert await source.render(skill.name, {"who": "Ada"}) == "Greet Ada warmly."

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "section",
    [
        {"servers": ["one"]},
        {"exclude": ["mcp__two__gr?et"]},
        {"allow": ["mcp__one__{greet,say}"]},
    ],
)
def test_an_agent_takes_up_the_prompts_of_its_own_servers_only(section: Any) -> None:
    def take(*servers: str) -> ToolCalls:
        arguments = {"who": "Ada"}
        return ToolCalls(
            [("skill", {"skill": f"mcp:{it}:greet", "arguments": arguments}) for it in servers]
        )

    async def scenario() -> None:
        mcp = McpPlugin([local(Desk(), "one"), local(Desk(), "two")])
        plugins = [SkillsPlugin(sources=[mcp.skills()]), mcp, HandoffPlugin({"b": "all"})]
        hand_over = ToolCalls([("transfer_to_agent", {"agent_id": "b"})])
        model, other = ScriptedModel([take("one", "two"), hand_over]), ScriptedModel(["done"])
        two = {"mcp": {"servers": ["two"]}}
        a = Agent("a", model=model, plugins=plugins, config={"mcp": section})
        b = Agent("b", model=other, plugins=plugins, config=two)
        async with asyncio.timeout(BOUND_S), AgentRuntime([a, b]) as runtime:
            given, withheld, _ = await results(runtime)
        assert given.data["status"] == "active"
        assert "unknown_skill" in str(withheld)
        assert "Greet Ada warmly." in repr(model.requests[1].messages)
        first, last = repr(model.requests[0].messages), repr(other.requests[0].messages)
        assert ("mcp:one:greet" in first, "mcp:two:greet" in first) == (True, False)
        # What somebody else took up is not for an agent that may not have it.
        assert "Greet Ada warmly." not in last
        assert "mcp:two:greet</name>" in last

    asyncio.run(scenario())


def test_a_call_of_a_server_that_is_away_fails_at_once_and_says_so() -> None:
    async def scenario() -> None:
        desk = Desk()
        plugin = McpPlugin([local(desk)])
        async with playing(plugin, calls("mcp__desk__say"), "done") as (runtime, _):
            await plugin.disable("desk")
            (result,) = await results(runtime)
            assert result.metadata["code"] == "mcp_server_unavailable"
            assert "'desk' is disabled" in (result.message or "")
        assert desk.done == []

    asyncio.run(scenario())
