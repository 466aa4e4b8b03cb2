"""Agents are tools of MCP clients, in both eras of the protocol."""

import asyncio
from typing import Any

import pytest
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import INVALID_PARAMS, LoggingMessageNotificationParams

from awaken import Agent, AgentRuntime, Cancelled, RunStatus, tool
from awaken.stores import RunQuery
from awaken.testing import ScriptedModel, ToolCalls

from .mcp_world import LEGACY, Held, RawClient, answering, both_eras, talking
from .serving import serving


@both_eras
def test_agents_are_tools_and_their_prompts_stay_here(era: str) -> None:
    async def scenario() -> None:
        agents = [
            answering("Hi.", agent_id="plain", instructions="SECRET PROMPT"),
            answering("Hi.", agent_id="told", description="Answers questions."),
        ]
        async with talking(agents, era) as (client, _):
            listed = await client.list_tools()
        tools = {it.name: it for it in listed.tools}
        assert tools["plain"].description == "Talk to the agent 'plain'."
        assert tools["told"].description == "Answers questions."
        assert "SECRET" not in listed.model_dump_json()
        schema = tools["plain"].input_schema
        assert (schema["required"], sorted(schema["properties"])) == (
            ["message"],
            ["message", "thread_id"],
        )

    asyncio.run(scenario())


@both_eras
def test_a_call_is_a_durable_run_and_its_thread_goes_on(era: str) -> None:
    async def scenario() -> None:
        async with talking([answering("One.", "Two.")], era) as (client, runtime):
            first = await client.call_tool("helper", {"message": "hi"})
            assert (_text(first), first.is_error) == ("One.", False)
            given = first.structured_content
            assert given["status"] == "completed"
            thread_id = given["thread_id"]
            second = await client.call_tool("helper", {"message": "more", "thread_id": thread_id})
            assert _text(second) == "Two."
            assert second.structured_content["thread_id"] == thread_id
            page = await runtime.store.list_runs(RunQuery(thread_id=thread_id))
            assert [run.run_id for run in page.items] == [
                given["run_id"],
                second.structured_content["run_id"],
            ]
            assert {(run.adapter, bool(run.dispatch_id)) for run in page.items} == {("mcp", True)}

    asyncio.run(scenario())


UNFIT = ({}, None, {"message": ""}, {"message": " "}, {"message": 3}, {"message": "hi", "x": 1})


@both_eras
def test_arguments_that_do_not_fit_are_told_to_the_model(era: str) -> None:
    async def scenario() -> None:
        async with talking([answering("Hi.")], era) as (client, runtime):
            for arguments in UNFIT:
                result = await client.session.call_tool("helper", arguments)
                assert result.is_error
                assert "arguments is invalid" in _text(result)
            assert (await runtime.store.list_runs(RunQuery())).items == ()

    asyncio.run(scenario())


@both_eras
def test_an_unknown_tool_is_refused(era: str) -> None:
    async def scenario() -> None:
        async with talking([answering("Hi.")], era) as (client, _):
            with pytest.raises(MCPError) as caught:
                await client.session.call_tool("nobody", {"message": "hi"})
            assert caught.value.error.code == INVALID_PARAMS

    asyncio.run(scenario())


@both_eras
def test_a_run_that_fails_is_an_error_of_the_tool(era: str) -> None:
    async def scenario() -> None:
        agent = Agent("helper", model=ScriptedModel([RuntimeError("no more ink")], cycle=True))
        async with talking([agent], era) as (client, _):
            result = await client.call_tool("helper", {"message": "hi"})
        assert result.is_error
        assert "no more ink" in _text(result)
        assert result.structured_content["status"] == "failed"

    asyncio.run(scenario())


@both_eras
def test_progress_tells_what_the_run_does_and_never_goes_back(era: str) -> None:
    async def scenario() -> None:
        @tool
        async def look(where: str) -> str:
            return f"nothing in {where}"

        model = ScriptedModel([ToolCalls([("look", {"where": "the box"})]), "Nothing."])
        agent = Agent("helper", model=model, tools=[look])
        seen: list[tuple[float, str | None]] = []

        async def note(progress: float, _total: float | None, message: str | None) -> None:
            seen.append((progress, message))

        async with talking([agent], era) as (client, _):
            await client.call_tool("helper", {"message": "hi"}, progress_callback=note)
        assert [text for _, text in seen] == [
            "starting",
            "step 1",
            "calling tool 'look'",
            "inference complete",
            "tool call 'call_1' succeeded",
            "step 2",
            "inference complete",
            "ended",
        ]
        assert [place for place, _ in seen] == sorted({place for place, _ in seen})

    asyncio.run(scenario())


@both_eras
def test_log_messages_come_at_the_level_that_was_asked_for(era: str) -> None:
    async def logged(level: str | None) -> list[tuple[str, Any, str | None]]:
        seen: list[tuple[str, Any, str | None]] = []

        async def note(params: LoggingMessageNotificationParams) -> None:
            seen.append((params.level, params.data, params.logger))

        is_modern_wish = {"log_level": level} if era != LEGACY and level else {}
        options = {"logging_callback": note, **is_modern_wish}
        async with talking([answering("Hi.")], era, **options) as (client, _):
            if era == LEGACY and level:
                with pytest.warns(MCPDeprecationWarning):
                    await client.set_logging_level(level)
            await client.call_tool("helper", {"message": "hi"})
        return seen

    async def scenario() -> None:
        usual = [("info", "starting"), ("info", "step 1"), ("notice", "ended")]
        silent = [(level, text) for level, text, _ in await logged(None)]
        assert silent == (usual if era == LEGACY else [])
        everything = await logged("debug")
        assert ("debug", "inference complete", "agent/helper") in everything
        assert [level for level, _, _ in await logged("notice")] == ["notice"]

    asyncio.run(scenario())


def test_a_client_that_cancels_its_call_cancels_the_run_durably() -> None:
    async def scenario() -> None:
        held = Held()
        agent = Agent("helper", model=ScriptedModel([held], cycle=True))
        async with talking([agent], LEGACY) as (client, runtime):
            call = asyncio.create_task(client.call_tool("helper", {"message": "hi"}))
            await asyncio.wait_for(held.is_asked.wait(), 10)
            (run,) = (await runtime.store.list_runs(RunQuery())).items
            call.cancel()
            ended = await runtime.wait(run.run_id, timeout_ms=10_000)
            assert (ended.status, ended.termination) == (RunStatus.DONE, Cancelled(cause="user"))
            # The session lives, and nothing of the call is left in it.
            held.may_answer.set()
            assert _text(await client.call_tool("helper", {"message": "hi"})) == "Done."

    asyncio.run(scenario())


@both_eras
def test_a_client_that_only_goes_away_cancels_nothing(era: str) -> None:
    async def scenario() -> None:
        held = Held("Still here.")
        runtime = AgentRuntime([Agent("helper", model=ScriptedModel([held]))])
        async with serving(runtime) as url:
            async with RawClient(url, era) as client, asyncio.timeout(10):
                params = {"name": "helper", "arguments": {"message": "hi"}}
                calling = asyncio.create_task(client.post("tools/call", params))
                await held.is_asked.wait()
                calling.cancel()
                await asyncio.wait((calling,))
                if era == LEGACY:
                    assert await client.bare("DELETE") == 200
                # Only when nobody watches any more is it known that the call was cut off.
                while runtime._services.streams.readers:
                    await asyncio.sleep(0.01)
            (run,) = (await runtime.store.list_runs(RunQuery())).items
            held.may_answer.set()
            ended = await runtime.wait(run.run_id, timeout_ms=10_000)
            assert ended.text == "Still here."

    asyncio.run(scenario())


def _text(result: Any) -> str:
    (block,) = result.content
    return block.text
