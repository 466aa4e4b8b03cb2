"""The MCP extension with the reference servers, `server-everything` and `server-filesystem`."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, AgentRuntime, ToolCallDone, ToolResult
from awaken.events import ActivitySnapshot
from awaken.extensions.mcp import Http, McpPlugin, McpServer, Root, ServerState, Stdio
from awaken.extensions.skills import SkillsPlugin
from awaken.testing import ScriptedModel, ToolCalls
from awaken.tools import Ticket, ToolStatus

HERE = Path(__file__).parent
NODE = str(Path(sys.executable).with_name("node"))
PACKAGES = HERE / "node_modules" / "@modelcontextprotocol"
EVERYTHING = str(PACKAGES / "server-everything" / "dist" / "index.js")
FILESYSTEM = str(PACKAGES / "server-filesystem" / "dist" / "index.js")
ROOT = Root(uri="file:///some/place", name="place")
LATE = "mcp__ref__get_roots_list"
"""The server offers it when it has seen what we can do, and says that its list has changed."""
LOOPBACK = (
    "data:text/javascript,import net from 'node:net';const listen=net.Server.prototype.listen;"
    "net.Server.prototype.listen=function(port,...rest)"
    "{return listen.call(this,port,'127.0.0.1',...rest)}"
)

over_both = pytest.mark.parametrize("over", ["stdio", "http"])


@asynccontextmanager
async def everything(over: str) -> AsyncIterator[Stdio | Http]:
    """The server over one of its transports."""
    if over == "stdio":
        yield Stdio(command=NODE, args=(EVERYTHING, "stdio"))
        return
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        NODE, "--import", LOOPBACK, EVERYTHING, "streamableHttp",
        env={**os.environ, "PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        async with asyncio.timeout(20):
            while b"listening" not in await process.stderr.readline():
                assert process.returncode is None
        yield Http(url=f"http://127.0.0.1:{port}/mcp", allow_private=True)
    finally:
        # `node` may be a program that starts the real one.
        os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


class Played:
    """An agent with the server's tools, whose model calls them one after the other."""

    def __init__(self, transport: Stdio | Http, script: list[Any], **options: Any) -> None:
        server = McpServer(name="ref", transport=transport, connect_ms=20_000, **options)
        self.mcp = McpPlugin([server])
        self.model = ScriptedModel(script)
        plugins = [self.mcp, SkillsPlugin(sources=[self.mcp.skills()])]
        self.runtime = AgentRuntime([Agent("a", model=self.model, plugins=plugins)])
        self.events: list[Any] = []

    async def play(self) -> list[ToolResult]:
        """The results of the calls, in their order."""
        self.events = [it async for it in self.runtime.stream("a", "go", thread_id="t")]
        return [it.result for it in self.events if isinstance(it, ToolCallDone)]

    async def offers(self, tool_id: str) -> None:
        """Return when the server offers a tool."""
        async with asyncio.timeout(10):
            while not any(it.descriptor.id == tool_id for it in self.mcp.tools()):
                await asyncio.sleep(0.01)


def call(name: str, **arguments: Any) -> ToolCalls:
    return ToolCalls([(f"mcp__ref__{name}", arguments)])


@over_both
def test_tools_are_listed_and_called(over: str) -> None:
    async def scenario() -> None:
        script = [
            call("echo", message="hello"),
            call("get_sum", a=2, b=3),
            call("get_structured_content", location="Chicago"),
            call("get_tiny_image"),
            call("get_resource_reference", resourceType="Text", resourceId=1),
            call("echo"),
            "done",
        ]
        async with everything(over) as transport:
            it = Played(transport, script)
            async with it.runtime:
                (status,) = it.mcp.status()
                assert status.state is ServerState.CONNECTED
                assert status.protocol_version == "2025-11-25"
                assert {"mcp__ref__echo", "mcp__ref__get_sum"} <= {t.id for t in status.tools}
                assert status.problems == ()
                echo, total, weather, image, reference, wrong = await it.play()
        assert echo.data == "Echo: hello"
        assert total.data == "The sum of 2 and 3 is 5."
        assert set(weather.metadata["mcp.result.structuredContent"]) == {
            "temperature", "conditions", "humidity",
        }  # fmt: skip
        assert [part["type"] for part in image.metadata["mcp.result.content"]] == [
            "text", "image", "text",
        ]  # fmt: skip
        assert "demo://resource/dynamic/text/1" in repr(reference.data)
        assert (wrong.status, wrong.metadata["code"]) == (ToolStatus.ERROR, "invalid_arguments")

    asyncio.run(scenario())


@over_both
def test_progress_is_shown_while_a_call_runs(over: str) -> None:
    async def scenario() -> None:
        script = [call("trigger_long_running_operation", duration=0.5, steps=5), "done"]
        async with everything(over) as transport:
            it = Played(transport, script)
            async with it.runtime:
                (result,) = await it.play()
        assert "Steps: 5" in result.data
        shown = [e.content for e in it.events if isinstance(e, ActivitySnapshot)]
        assert [round(content["progress"] * 5) for content in shown] == [1, 2, 3, 4, 5]

    asyncio.run(scenario())


@over_both
def test_prompts_are_skills_and_resources_are_read(over: str) -> None:
    async def scenario() -> None:
        weather = {"skill": "mcp:ref:args-prompt", "arguments": {"city": "Oslo"}}
        script = [
            ToolCalls([("skill", weather)]),
            ToolCalls([("mcp_list_resources", {"server": "ref"})]),
            lambda request: ToolCalls(
                [("mcp_read_resource", {"server": "ref", "uri": some_resource(request)})]
            ),
            "done",
        ]
        async with everything(over) as transport:
            it = Played(transport, script)
            async with it.runtime:
                skills = {skill.name: skill for skill in it.mcp.skills().skills()}
                taken, listed, read = await it.play()
        assert {"mcp:ref:simple-prompt", "mcp:ref:args-prompt"} <= set(skills)
        (city, state) = skills["mcp:ref:args-prompt"].arguments
        assert ((city.name, city.required), (state.name, state.required)) == (
            ("city", True), ("state", False),
        )  # fmt: skip
        assert taken.status is ToolStatus.SUCCESS, taken
        assert "What's weather in Oslo?" in it.model.requests[1].messages[-1].text
        assert len(listed.data["resources"]) >= 5
        assert read.data["contents"][0]["text"]

    def some_resource(request: Any) -> str:
        word = "demo://resource/static/"
        (text,) = [m.text for m in request.messages if word in m.text]
        return word + text.partition(word)[2].partition('"')[0]

    asyncio.run(scenario())


@over_both
def test_the_server_asks_the_model_of_the_run(over: str) -> None:
    async def scenario() -> None:
        script = [
            call("trigger_sampling_request", prompt="How are you?", maxTokens=50),
            "Fine, thanks.",
            "done",
        ]
        async with everything(over) as transport:
            it = Played(transport, script, sampling=True)
            async with it.runtime:
                await it.offers("mcp__ref__trigger_sampling_request")
                (result,) = await it.play()
        assert "Fine, thanks." in result.data
        _, asked, _ = it.model.requests
        assert asked.system == ("You are a helpful test server.",)
        assert asked.messages[-1].text.endswith("How are you?")

    asyncio.run(scenario())


@over_both
def test_a_question_of_the_server_is_a_ticket(over: str) -> None:
    async def scenario() -> None:
        async with everything(over) as transport:
            it = Played(transport, [call("trigger_elicitation_request"), "done"])
            async with it.runtime as runtime:
                await it.offers("mcp__ref__trigger_elicitation_request")
                await it.play()
                (ticket,) = await runtime.tickets("t")
                check(ticket)
                await runtime.decide(ticket.ticket_id, result={"name": "Ada", "check": True})
                result = await runtime.wait(ticket.run_id)
                said = [record.message.text for record in await runtime.messages("t")]
        assert result.text == "done"
        assert any("- Name: Ada" in text for text in said), said

    def check(ticket: Ticket) -> None:
        assert "Please provide inputs" in ticket.suspension.message
        assert ticket.suspension.response_schema is not None
        assert "birthdate" in ticket.suspension.response_schema["properties"]

    asyncio.run(scenario())


@over_both
def test_the_server_is_told_of_roots(over: str) -> None:
    async def scenario() -> None:
        async with everything(over) as transport:
            it = Played(transport, [call("get_roots_list"), "done"], roots=(ROOT,))
            async with it.runtime:
                await it.offers(LATE)
                (result,) = await it.play()
        assert "file:///some/place" in result.data

    asyncio.run(scenario())


def test_files_are_written_read_and_kept_within_their_folder(tmp_path: Path) -> None:
    async def scenario() -> None:
        inside, outside = str(tmp_path / "in" / "a.txt"), str(tmp_path / "secret.txt")
        Path(outside).write_text("secret")
        script = [
            call("write_file", path=inside, content="one\ntwo\n"),
            call("read_text_file", path=inside),
            call("list_directory", path=str(tmp_path / "in")),
            call("read_text_file", path=outside),
            "done",
        ]
        (tmp_path / "in").mkdir()
        it = Played(Stdio(command=NODE, args=(FILESYSTEM, str(tmp_path / "in"))), script)
        async with it.runtime:
            written, read, listed, refused = await it.play()
            (status,) = it.mcp.status()
        assert len(status.tools) >= 10
        assert written.status is ToolStatus.SUCCESS, written
        assert "one\ntwo\n" in repr(read.data).replace("\\n", "\n")
        assert "a.txt" in repr(listed.data)
        assert refused.status is ToolStatus.ERROR
        assert "secret" not in (refused.message or "").replace("secret.txt", "")

    asyncio.run(scenario())


def test_a_folder_can_be_given_as_a_root(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "a.txt").write_text("by root")
        turn = [call("read_text_file", path=str(tmp_path / "a.txt")), "done"]
        transport = Stdio(command=NODE, args=(FILESYSTEM,))
        it = Played(transport, turn * 100, roots=(Root(uri=tmp_path.as_uri()),))
        async with it.runtime, asyncio.timeout(20):
            await it.offers("mcp__ref__read_text_file")
            # The server asks for its roots when it has begun to answer.
            while "by root" not in repr((await it.play())[0].data):
                await asyncio.sleep(0.1)

    asyncio.run(scenario())
