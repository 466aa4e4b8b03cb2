"""`awaken mcp` serves agents over a pipe, in both eras of the protocol."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import ElicitResult
from typer.testing import CliRunner

from awaken import Cancelled, RunStatus
from awaken.bootstrap.stores import resolve_store
from awaken.cli.main import app
from awaken.stores import RunQuery

from .mcp_world import both_eras

AGENTS = """
import asyncio
from pathlib import Path

print("noise on stdout while the file is imported")

from awaken import Agent, ToolContext, tool
from awaken.testing import ScriptedModel
from awaken.testing.scripted_model import ToolCalls


@tool
async def ask(question: str, ctx: ToolContext):
    print("noise on stdout while a tool runs")
    return ctx.suspend(question) if ctx.resume is None else f"told {ctx.resume.result}"


async def hold(_):
    Path("held").touch()
    await asyncio.Event().wait()


quick = Agent("quick", model=ScriptedModel(["Hi."], cycle=True))
asking = ScriptedModel([ToolCalls([("ask", {"question": "Sure?"})]), "Done."])
asker = Agent("asker", model=asking, tools=[ask])
slow = Agent("slow", model=ScriptedModel([hold]))
"""

ARGUMENTS = ["-m", "awaken", "mcp", "agents.py", "--store", "sqlite:///a.db", "--drain-ms", "0"]


@asynccontextmanager
async def piped(folder: Path, era: str, **options: Any) -> AsyncIterator[Client]:
    (folder / "agents.py").write_text(AGENTS)
    server = StdioServerParameters(
        command=sys.executable, args=ARGUMENTS, cwd=folder, env=dict(os.environ)
    )
    async with asyncio.timeout(50), Client(server, mode=era, **options) as client:
        yield client


@both_eras
def test_agents_answer_over_a_pipe_and_nothing_else_is_on_it(
    tmp_path: Path, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async def approve(_ctx: Any, _params: Any) -> ElicitResult:
            return ElicitResult(action="accept", content={"decision": "approve"})

        seen: list[str | None] = []

        async def note(_progress: float, _total: float | None, message: str | None) -> None:
            seen.append(message)

        async with piped(tmp_path, era, elicitation_callback=approve) as client:
            names = [it.name for it in (await client.list_tools()).tools]
            assert names == ["quick", "asker", "slow"]
            quick = await client.call_tool("quick", {"message": "hi"}, progress_callback=note)
            assert quick.content[0].text == "Hi."
            assert (seen[0], seen[-1]) == ("starting", "ended")
            asked = await client.call_tool("asker", {"message": "hi"})
            assert asked.content[0].text == "Done."
            assert len((await client.list_resources()).resources) == 2

    asyncio.run(scenario())
    assert [it.message for it in caplog.records if it.levelname == "ERROR"] == []


def test_everything_on_the_pipe_to_its_very_end_is_the_protocol(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "agents.py").write_text(AGENTS)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *ARGUMENTS,
            cwd=tmp_path,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={key: it for key, it in os.environ.items() if key != "PYTHONUNBUFFERED"},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        about = {"protocolVersion": "2025-11-25", "capabilities": {}}
        about["clientInfo"] = {"name": "raw", "version": "1"}
        call = {"name": "asker", "arguments": {"message": "hi"}}
        for number, (method, params) in enumerate((("initialize", about), ("tools/call", call))):
            sent = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(sent).encode() + b"\n")
        async with asyncio.timeout(50):
            lines = [await process.stdout.readline()]
            while json.loads(lines[-1]).get("id") != 1:
                lines.append(await process.stdout.readline())
            process.stdin.close()
            rest = await process.stdout.read()
            await process.wait()
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in lines)
        assert rest == b""

    asyncio.run(scenario())


@both_eras
def test_a_cancelled_call_cancels_its_run_over_a_pipe(tmp_path: Path, era: str) -> None:
    async def scenario() -> None:
        async with piped(tmp_path, era) as client:
            call = asyncio.create_task(client.call_tool("slow", {"message": "hi"}))
            while not (tmp_path / "held").exists():
                await asyncio.sleep(0.02)
            call.cancel()
            store = resolve_store(f"sqlite:///{tmp_path}/a.db")
            await store.open()
            done = RunQuery(status=RunStatus.DONE)
            while not (ended := (await store.list_runs(done)).items):
                await asyncio.sleep(0.02)
            await store.close()
        assert [run.termination for run in ended] == [Cancelled(cause="user")]

    asyncio.run(scenario())


def test_without_the_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "awaken.protocols.mcp.agents", None)
    result = CliRunner().invoke(app, ["mcp"])
    assert result.exit_code == 2
    assert "pip install 'awaken[mcp]'" in result.output
