"""MCP servers that an editor brings along: started with its session, and closed with it."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from acp import text_block
from acp.schema import EnvVariable, McpServerStdio

from awaken import Agent, AgentRuntime, NaturalEnd, ToolContext, tool
from awaken.errors import SessionEnded
from awaken.extensions.permission import PermissionPlugin
from awaken.messages import Role
from awaken.runtime.loop.session_tools import EndedSessionTool
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import ToolDescriptor, ToolEffect

from .acp_world import Editor, editing

PROGRAM = Path(__file__).parents[1] / "extensions" / "mcp_servers" / "desk.py"
SAY = ToolCalls([("mcp__desk__say", {"text": "hi"})])


def server(folder: Path, name: str = "desk", command: str = sys.executable) -> McpServerStdio:
    folder.mkdir(exist_ok=True)
    path = EnvVariable(name="PYTHONPATH", value=os.pathsep.join(filter(None, sys.path)))
    return McpServerStdio(name=name, command=command, args=[str(PROGRAM), str(folder)], env=[path])


def runtime_of(script: list[Any], **options: Any) -> AgentRuntime:
    plugins = options.pop("plugins", ())
    tools = options.pop("tools", ())
    agent = Agent("a", model=ScriptedModel(script), plugins=plugins, tools=tools)
    return AgentRuntime([agent], **options)


async def results(runtime: AgentRuntime, thread_id: str) -> list[str]:
    found = [it.message for it in await runtime.messages(thread_id)]
    return [it.text for it in found if it.role is Role.TOOL]


def sessions_of(runtime: AgentRuntime) -> dict[str, Any]:
    return runtime._engine.services.session_tools


def test_a_session_has_the_tools_of_its_servers_and_no_other_has_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        runtime = runtime_of([SAY, "Said.", SAY, "Not said.", "Later."])
        async with asyncio.timeout(60), editing(runtime, Editor()) as client:
            version = runtime.registry.snapshot().version
            hello = await client.initialize(protocol_version=1)
            assert hello.agent_capabilities.mcp_capabilities.http
            mine = await client.new_session(cwd=str(tmp_path), mcp_servers=[server(tmp_path / "a")])
            other = await client.new_session(cwd=str(tmp_path), mcp_servers=[])
            for session in (mine, other):
                done = await client.prompt(session_id=session.session_id, prompt=[text_block("go")])
                assert done.stop_reason == "end_turn"
            assert await results(runtime, mine.session_id) == ["say: hi"]
            (missing,) = await results(runtime, other.session_id)
            assert "mcp__desk__say" in missing
            assert "hi" not in missing
            assert (tmp_path / "a" / "done").read_text() == "say\n"
            assert runtime.registry.snapshot().version == version
            assert len(sessions_of(runtime)) == 1
            # Another Python caller of the same thread does not have them either.
            assert (await runtime.run("a", "more", thread_id=mine.session_id)).text == "Later."
        assert sessions_of(runtime) == {}

    asyncio.run(scenario())


def test_a_session_that_is_loaded_has_the_servers_that_it_is_loaded_with(tmp_path: Path) -> None:
    async def scenario() -> None:
        runtime = runtime_of([SAY, "Said.", SAY, "Said again.", SAY, "Gone."])
        async with asyncio.timeout(60), editing(runtime, Editor()) as client:
            await client.initialize(protocol_version=1)
            cwd = str(tmp_path)
            opened = await client.new_session(cwd=cwd, mcp_servers=[server(tmp_path / "a")])
            session = opened.session_id
            await client.prompt(session_id=session, prompt=[text_block("go")])
            again = [server(tmp_path / "b")]
            await client.load_session(cwd=cwd, session_id=session, mcp_servers=again)
            await client.prompt(session_id=session, prompt=[text_block("go")])
            assert [(tmp_path / it / "done").read_text() for it in "ab"] == ["say\n", "say\n"]
            assert len(sessions_of(runtime)) == 1
            await client.load_session(cwd=cwd, session_id=session, mcp_servers=[])
            await client.prompt(session_id=session, prompt=[text_block("go")])
            assert sessions_of(runtime) == {}
            assert [(tmp_path / it / "done").read_text() for it in "ab"] == ["say\n", "say\n"]

    asyncio.run(scenario())


def test_a_server_that_does_not_start_keeps_nobody_waiting(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60), editing(runtime_of(["Fine."]), Editor()) as client:
            await client.initialize(protocol_version=1)
            broken = server(tmp_path / "a", command="/no/such/program")
            opened = await client.new_session(cwd=str(tmp_path), mcp_servers=[broken])
            done = await client.prompt(session_id=opened.session_id, prompt=[text_block("go")])
            assert done.stop_reason == "end_turn"

    asyncio.run(scenario())


@tool(id="mcp__desk__say", effect="none")
async def own(ctx: ToolContext, text: str = "") -> str:
    """Say it ourselves."""
    return f"ours: {text}"


def test_a_tool_of_the_agent_is_not_replaced(tmp_path: Path) -> None:
    async def scenario() -> None:
        runtime = runtime_of([SAY, "Said."], tools=[own])
        async with asyncio.timeout(60), editing(runtime, Editor()) as client:
            await client.initialize(protocol_version=1)
            opened = await client.new_session(
                cwd=str(tmp_path), mcp_servers=[server(tmp_path / "a")]
            )
            await client.prompt(session_id=opened.session_id, prompt=[text_block("go")])
            assert await results(runtime, opened.session_id) == ["ours: hi"]
            assert not (tmp_path / "a" / "done").exists()

    asyncio.run(scenario())


def test_a_run_that_goes_on_without_its_session_gets_a_typed_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = f"sqlite:///{tmp_path / 'a.db'}"
        rules = {"permission": {"default_behavior": "ask"}}

        def runtime(script: list[Any]) -> AgentRuntime:
            agent = Agent(
                "a", model=ScriptedModel(script), plugins=[PermissionPlugin()], config=rules
            )
            return AgentRuntime([agent], store=store)

        editor = Editor()
        first = runtime([SAY, "never"])
        async with asyncio.timeout(60), editing(first, editor) as client:
            await client.initialize(protocol_version=1)
            opened = await client.new_session(
                cwd=str(tmp_path), mcp_servers=[server(tmp_path / "a")]
            )
            prompt = asyncio.ensure_future(
                client.prompt(session_id=opened.session_id, prompt=[text_block("go")])
            )
            await editor.until(lambda: bool(editor.asked))
            prompt.cancel()
        async with asyncio.timeout(60), runtime(["Too bad."]) as later:
            (ticket,) = await later.tickets(opened.session_id)
            await later.decide(ticket.ticket_id)
            result = await later.wait(ticket.run_id)
            assert (result.termination, result.text) == (NaturalEnd(), "Too bad.")
            (told,) = await results(later, opened.session_id)
            assert "session that has ended" in told
        assert not (tmp_path / "a" / "done").exists()

    asyncio.run(scenario())


def test_the_error_of_a_session_that_has_ended_has_a_code() -> None:
    gone = EndedSessionTool(ToolDescriptor(id="x", effect=ToolEffect.ONCE))
    assert gone.descriptor.effect is ToolEffect.NONE
    with pytest.raises(SessionEnded) as ended:
        asyncio.run(gone.execute(gone.validate({"a": 1}), None))  # type: ignore[arg-type]
    assert (ended.value.code, "'x'" in str(ended.value)) == ("session_ended", True)
