"""The official ACP client talks to an agent: sessions, updates, permissions, stopping."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError
from acp.helpers import (
    audio_block,
    embedded_blob_resource,
    embedded_text_resource,
    image_block,
    resource_block,
    resource_link_block,
    text_block,
)
from acp.schema import McpServerStdio

from awaken import Agent, AgentRuntime, Blocked, NaturalEnd, Stopped, ToolContext, tool
from awaken.errors import ModelError
from awaken.events import StoppedReason
from awaken.messages import Base64Source, Document, Image, Text, UrlSource, tool_answer
from awaken.protocols.acp.sessions import _stop_reason
from awaken.protocols.acp.updates import history_updates, kind_of, tool_call
from awaken.testing import Chunks, ScriptedModel, ToolCalls, Turn
from awaken.tools import ResumeMode

from .acp_world import Editor, editing
from .openai_world import GatedModel

WAIT_S = 20
CWD = os.path.abspath(os.sep)
SRC = Path(__file__).parents[2] / "src"


@tool(effect="none")
async def read_file(path: str, line: int = 0) -> str:
    """Read."""
    return f"text of {path}"


@tool
async def erase(name: str, ctx: ToolContext) -> Any:
    """Erase something, once somebody approves."""
    return ctx.suspend(f"erase {name}?") if ctx.resume is None else f"erased {name}"


@tool(effect="none")
async def plan_it(ctx: ToolContext) -> str:
    """Show a plan."""
    steps = [{"content": "think", "status": "completed", "priority": "high"}, "write"]
    ctx.report_activity("plan", {"entries": steps})
    return "planned"


@tool
async def question(text: str, ctx: ToolContext) -> Any:
    """Ask for more than yes or no."""
    return ctx.suspend(text, mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT)


def runtime_of(model: Any, **options: Any) -> AgentRuntime:
    rounds = options.pop("max_rounds", 8)
    tools = [read_file, erase, plan_it, question]
    return AgentRuntime([Agent("a", model=model, tools=tools, max_rounds=rounds)], **options)


async def opened(client: Any) -> str:
    hello = await client.initialize(protocol_version=1)
    assert hello.protocol_version == 1
    assert hello.agent_info.name == "awaken-acp"
    assert hello.agent_capabilities.load_session
    await client.authenticate(method_id="none")
    return str((await client.new_session(cwd=CWD, mcp_servers=[])).session_id)


def test_a_turn_is_shown_as_it_happens_and_told_again_when_it_is_loaded() -> None:
    async def scenario() -> None:
        calls = ToolCalls([("read_file", {"path": "/x.py", "line": 7})], text="I look.")
        model = ScriptedModel([calls, Turn(text=Chunks(["It is ", "fine."]), reasoning="hm")])
        editor = Editor()
        async with editing(runtime_of(model), editor) as client:
            session = await opened(client)
            done = await client.prompt(session_id=session, prompt=[text_block("check")])
            assert done.stop_reason == "end_turn"
            await editor.until(lambda: editor.text().endswith("fine."))
            assert editor.kinds() == [
                "agent_message_chunk",
                "tool_call",
                "tool_call_update",
                "agent_thought_chunk",
                "agent_message_chunk",
                "agent_message_chunk",
            ]
            _, call, result, *_ = editor.updates
            assert (call.kind, call.status, call.title) == ("read", "pending", "read_file")
            assert (call.locations[0].path, call.locations[0].line) == ("/x.py", 7)
            assert (result.tool_call_id, result.status) == (call.tool_call_id, "completed")
            assert result.content[0].content.text == "text of /x.py"
            editor.updates.clear()
            await client.load_session(cwd=CWD, session_id=session, mcp_servers=[])
            assert editor.text("user_message_chunk") == "check"
            assert editor.text() == "I look.It is fine."
            assert editor.text("agent_thought_chunk") == "hm"
            assert editor.kinds().count("tool_call") == 1
            assert editor.kinds().count("tool_call_update") == 1

    run(scenario())


@pytest.mark.parametrize(
    ("choice", "result"),
    [("allow_once", "erased x"), ("reject_once", "")],
)
def test_a_permission_is_asked_for_and_heeded(choice: str, result: str) -> None:
    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("erase", {"name": "x"})]), "Done."])
        editor = Editor(choice)
        async with editing(runtime_of(model), editor) as client:
            session = await opened(client)
            done = await client.prompt(session_id=session, prompt=[text_block("go")])
        ((asked, kinds),) = editor.asked
        assert kinds == ["allow_once", "allow_always", "reject_once", "reject_always"]
        assert (asked.title, asked.raw_input) == ("erase", {"name": "x"})
        assert asked.content[0].content.text == "erase x?"
        assert (done.stop_reason, editor.text()) == ("end_turn", "Done.")
        said = model.requests[-1].messages[-1].text
        assert said == result if result else "erased" not in said
        update = next(it for it in editor.updates if it.session_update == "tool_call_update")
        assert update.tool_call_id == asked.tool_call_id

    run(scenario())


@pytest.mark.parametrize("choice", ["allow_always", "reject_always"])
def test_always_is_remembered_for_the_thread_and_the_tool(choice: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        store = f"sqlite:///{tmp_path}/s.db"
        calls = [ToolCalls([("erase", {"name": "x"})]), "Done."]
        editor = Editor(choice)
        async with editing(runtime_of(ScriptedModel(calls * 2), store=store), editor) as client:
            session = await opened(client)
            for _ in range(2):
                await client.prompt(session_id=session, prompt=[text_block("go")])
            assert len(editor.asked) == 1
        model, other = ScriptedModel(calls * 2), Editor("allow_once")
        async with editing(runtime_of(model, store=store), other) as client:
            await client.prompt(session_id=session, prompt=[text_block("go")])
            assert other.asked == []
            said = model.requests[-1].messages[-1].text
            assert ("erased x" in said) is (choice == "allow_always")
            # Another thread has decided nothing yet.
            fresh = await opened(client)
            await client.prompt(session_id=fresh, prompt=[text_block("go")])
            assert len(other.asked) == 1

    run(scenario())


def test_cancelling_stops_the_turn_and_keeps_what_was_said() -> None:
    async def scenario() -> None:
        editor = Editor()
        async with editing(runtime_of(GatedModel(["Once "], ["never"])), editor) as client:
            session = await opened(client)
            turn = asyncio.create_task(
                client.prompt(session_id=session, prompt=[text_block("tell")])
            )
            await editor.until(lambda: editor.text() == "Once ")
            await client.cancel(session_id=session)
            assert (await turn).stop_reason == "cancelled"
            editor.updates.clear()
            await client.load_session(cwd=CWD, session_id=session, mcp_servers=[])
            assert editor.text() == "Once "

    run(scenario())


def test_a_cancel_right_behind_the_prompt_is_not_lost() -> None:
    async def scenario() -> None:
        editor = Editor()
        async with editing(runtime_of(GatedModel(["Once "], ["never"])), editor) as client:
            session = await opened(client)
            turn = asyncio.create_task(
                client.prompt(session_id=session, prompt=[text_block("tell")])
            )
            await asyncio.sleep(0)
            await client.cancel(session_id=session)
            assert (await turn).stop_reason == "cancelled"

    run(scenario())


@pytest.mark.parametrize("by_answer", [True, False])
def test_cancelling_while_a_permission_is_asked_for_ends_the_turn(by_answer: bool) -> None:
    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("erase", {"name": "x"})]), "Next."])
        editor = Editor(*([None] if by_answer else []))
        async with editing(runtime_of(model), editor) as client:
            session = await opened(client)
            turn = asyncio.create_task(client.prompt(session_id=session, prompt=[text_block("go")]))
            await editor.until(lambda: bool(editor.asked))
            if not by_answer:
                await client.cancel(session_id=session)
            assert (await turn).stop_reason == "cancelled"
            again = await client.prompt(session_id=session, prompt=[text_block("on")])
            assert again.stop_reason == "end_turn"
        assert len(editor.asked) == 1

    run(scenario())


def test_a_run_whose_client_is_gone_goes_on_while_the_process_drains() -> None:
    async def scenario() -> None:
        model, editor = GatedModel(["Once "], ["upon."]), Editor()
        runtime = runtime_of(model)
        async with editing(runtime, editor, model.may_go_on.set) as client:
            session = await opened(client)
            turn = asyncio.create_task(
                client.prompt(session_id=session, prompt=[text_block("tell")])
            )
            await editor.until(lambda: editor.text() == "Once ")
        with pytest.raises(ConnectionError):
            await turn
        (_, said) = await runtime.messages(session)
        assert said.message.text == "Once upon."

    run(scenario())


def test_plans_are_shown() -> None:
    async def scenario() -> None:
        editor = Editor()
        model = ScriptedModel([ToolCalls([("plan_it", {})]), "Done."])
        async with editing(runtime_of(model), editor) as client:
            session = await opened(client)
            await client.prompt(session_id=session, prompt=[text_block("go")])
        (plan,) = [it for it in editor.updates if it.session_update == "plan"]
        entries = [(it.content, it.status, it.priority) for it in plan.entries]
        assert entries == [("think", "completed", "high"), ("write", "pending", "medium")]

    run(scenario())


def test_what_a_prompt_carries_reaches_the_model() -> None:
    async def scenario() -> None:
        model = ScriptedModel(["Fine."])
        async with editing(runtime_of(model), Editor()) as client:
            session = await opened(client)
            prompt = [
                text_block("look"),
                image_block("iVBO", "image/png"),
                resource_link_block("spec", "https://example.org/spec.pdf"),
                resource_link_block("main", "file:///main.py"),
                resource_block(embedded_text_resource("file:///a.py", "x = 1")),
                resource_block(
                    embedded_blob_resource("file:///a.pdf", "JVBE", mime_type="application/pdf")
                ),
            ]
            await client.prompt(session_id=session, prompt=prompt)
            with pytest.raises(RequestError) as refused:
                await client.prompt(session_id=session, prompt=[audio_block("UklG", "audio/wav")])
            assert refused.value.code == -32602
        assert model.requests[-1].messages[-1].content == (
            Text(text="look"),
            Image(source=Base64Source(media_type="image/png", data="iVBO")),
            Document(source=UrlSource(url="https://example.org/spec.pdf"), title="spec"),
            Text(text="[main](file:///main.py)"),
            Text(text='<resource uri="file:///a.py">\nx = 1\n</resource>'),
            Document(
                source=Base64Source(media_type="application/pdf", data="JVBE"),
                title="file:///a.pdf",
            ),
        )

    run(scenario())


def test_what_makes_no_sense_is_refused_with_its_code() -> None:
    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("question", {"text": "who?"})]), ModelError("broken")])
        async with editing(runtime_of(model), Editor()) as client:
            session = await opened(client)
            server = McpServerStdio(name="x", command=" ", args=[], env=[])
            hello = [text_block("hi")]
            for code, ask in (
                (-32602, lambda: client.new_session(cwd="here", mcp_servers=[])),
                (-32602, lambda: client.new_session(cwd=CWD, mcp_servers=[server])),
                (-32602, lambda: client.prompt(session_id=session, prompt=[])),
                (-32002, lambda: client.load_session(cwd=CWD, session_id="no", mcp_servers=[])),
                (-32002, lambda: client.prompt(session_id="no", prompt=hello)),
                (-32601, lambda: client.list_sessions()),
                (-32603, lambda: client.prompt(session_id=session, prompt=hello)),
                (-32603, lambda: client.prompt(session_id=session, prompt=hello)),
            ):
                with pytest.raises(RequestError) as refused:
                    await ask()
                assert refused.value.code == code, str(refused.value)
        assert len(model.requests) == 2
        two = AgentRuntime([Agent(name, model=ScriptedModel([])) for name in ("one", "two")])
        async with editing(two, Editor()) as client:
            with pytest.raises(RequestError, match="name one of one, two"):
                await client.new_session(cwd=CWD, mcp_servers=[])

    run(scenario())


def test_a_turn_says_why_it_stopped() -> None:
    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("plan_it", {})])])
        async with editing(runtime_of(model, max_rounds=1), Editor()) as client:
            session = await opened(client)
            done = await client.prompt(session_id=session, prompt=[text_block("go")])
        assert done.stop_reason == "max_turn_requests"

    run(scenario())
    assert _stop_reason(Blocked(reason="no")) == "refusal"
    assert _stop_reason(Stopped(reason=StoppedReason(code="token_budget"))) == "max_tokens"
    assert _stop_reason(Stopped(reason=StoppedReason(code="stop_on_tool"))) == "end_turn"
    assert _stop_reason(NaturalEnd()) == "end_turn"


def test_kinds_are_guessed_from_whole_words() -> None:
    names = [
        "readFile",
        "thread_list",
        "write_file",
        "rm",
        "mv_it",
        "grep",
        "Bash",
        "plan",
        "HTTPGet",
    ]
    kinds = ["read", "other", "edit", "delete", "move", "search", "execute", "think", "fetch"]
    assert [kind_of(name) for name in names] == kinds
    assert "locations" not in tool_call("c", "x", {"path": 5})


APP = """
from awaken import Agent, tool
from awaken.testing import ScriptedModel, ToolCalls

print("this is not the protocol")


@tool
async def shout() -> str:
    "Prints."
    print("neither is this")
    return "loud"


agent = Agent("a", model=ScriptedModel([ToolCalls([("shout", {})]), "Done."]), tools=[shout])
"""


def test_the_command_writes_nothing_but_the_protocol_and_ends_with_its_input(
    tmp_path: Path,
) -> None:
    (tmp_path / "app.py").write_text(APP)

    async def scenario() -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "awaken", "acp", "app.py", "--store", "sqlite:///s.db"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(SRC)},
        )
        assert process.stdin is not None
        assert process.stdout is not None

        async def ask(number: int, method: str, params: Any) -> list[Any]:
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(request).encode() + b"\n")  # type: ignore[union-attr]
            lines = []
            while not lines or lines[-1].get("id") != number:
                lines.append(json.loads(await process.stdout.readline()))  # type: ignore[union-attr]
            return lines

        await ask(1, "initialize", {"protocolVersion": 1})
        (opened,) = await ask(2, "session/new", {"cwd": CWD, "mcpServers": []})
        session = opened["result"]["sessionId"]
        prompt = [{"type": "text", "text": "go"}]
        *updates, last = await ask(3, "session/prompt", {"sessionId": session, "prompt": prompt})
        assert last["result"] == {"stopReason": "end_turn"}
        assert {update["method"] for update in updates} == {"session/update"}
        process.stdin.close()
        rest, complaints = await process.communicate()
        assert (rest, process.returncode) == (b"", 0)
        assert b"this is not the protocol" in complaints
        assert b"neither is this" in complaints

    run(scenario())


def run(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario, WAIT_S))


@pytest.mark.parametrize(
    ("told", "shown"),
    [('"5"', "5"), ("5", "5"), ("plain", "plain"), ('"a" or "b"', '"a" or "b"'), ('"', '"')],
)
def test_a_past_result_is_shown_without_the_quotes_of_its_json(told: str, shown: str) -> None:
    (update,) = history_updates(tool_answer("c1", told))
    assert update["content"][0]["content"]["text"] == shown
