"""AG-UI with the other side's own client, `@ag-ui/client`, and behind CopilotKit's runtime."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.server.serving import serving_app

from awaken import Agent, AgentRuntime, ToolContext, tool
from awaken.errors import InvalidRequest, TransportFailed
from awaken.services import histories
from awaken.testing import Chunks, Reasoning, ScriptedModel, ToolCalls, Turn

HERE = Path(__file__).parent
NODE = str(Path(sys.executable).with_name("node"))


@tool(effect="none")
async def add(a: int, b: int, ctx: ToolContext) -> int:
    """Add."""
    ctx.report_activity("adding", [a, b])
    ctx.report_activity_delta("adding", {"op": "add", "path": "/-", "value": a + b})
    ctx.report_activity_delta("adding", {"op": "what"})
    ctx.emit_output("…")
    return a + b


@tool(effect="none")
async def ask(what: str, ctx: ToolContext) -> Any:
    """Ask."""
    return ctx.suspend(what) if ctx.resume is None else f"{what}: {ctx.resume.result}"


class Slow:
    """An agent that stops in the middle of its answer until it is let go on."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()

    def tool(self) -> Any:
        @tool(effect="none")
        async def wait() -> str:
            """Wait."""
            await self.opened.wait()
            return "waited"

        return wait


def agents(slow: Slow) -> list[Agent]:
    calls = ToolCalls([("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})], split=3)
    work = Turn(text=["I ", "add."], reasoning=Reasoning("Hm.", "sig"), calls=calls)
    questions = ToolCalls([("ask", {"what": "one"}), ("ask", {"what": "two"})])
    half = Turn(text=["[1, ", "2"], error=TransportFailed("gone"))
    return [
        Agent(
            "worker", model=ScriptedModel([work, Chunks(["3 ", "and 7."]), "Again."]), tools=[add]
        ),
        Agent("painter", model=ScriptedModel([ToolCalls([("paint", {"c": 1})]), "Nice."])),
        Agent("asker", model=ScriptedModel([questions, "Asked."]), tools=[ask]),
        Agent(
            "slow",
            model=ScriptedModel([Turn(text=["Half ", "said."], calls=[("wait", {})]), "Whole."]),
            tools=[slow.tool()],
        ),
        Agent("counter", model=ScriptedModel([str(number) for number in range(1, 9)])),
        Agent("broken", model=ScriptedModel([InvalidRequest("no")])),
        Agent("stutterer", model=ScriptedModel([half, "[1, 2, 3]"]), output_type=list[int]),
        Agent("default", model=ScriptedModel(["Copied.", ToolCalls([("paint", {})]), "Painted."])),
    ]


def played(script: str, *arguments: str) -> dict[str, Any]:
    """What a client in Node came to with our server."""

    async def scenario() -> dict[str, Any]:
        slow = Slow()
        served = AgentRuntime(agents(slow)).asgi()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and scope["path"] == "/open":
                slow.opened.set()
                await send({"type": "http.response.start", "status": 204, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            await served(scope, receive, send)

        async with serving_app(app) as url:
            quiet = {"COPILOTKIT_TELEMETRY_DISABLED": "true", "DO_NOT_TRACK": "1"}
            process = await asyncio.create_subprocess_exec(
                NODE, str(HERE / "ag_ui" / script), url, *arguments,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                env={**os.environ, **quiet}, cwd=HERE,
            )  # fmt: skip
            try:
                out, err = await asyncio.wait_for(process.communicate(), 50)
            finally:
                if process.returncode is None:
                    process.kill()
            assert process.returncode == 0, err.decode()
            return json.loads(out)  # type: ignore[no-any-return]

    return asyncio.run(scenario())


@pytest.mark.parametrize("generation", ["@ag-ui/client", "@ag-ui/client-0"])
def test_the_official_client_gets_along_with_everything_a_run_does(generation: str) -> None:
    told = played("http_agent.mjs", generation)
    assert told["warnings"] == []
    tools = told["tools"]
    assert tools["said"] == [
        ["user", "work"], ["reasoning", "Hm."], ["assistant", "I add."], ["tool", "3"],
        ["tool", "7"],
        ["activity", {"value": [1, 2, 3]}],
        ["activity", {"toolCallId": "call_1", "toolName": "add", "delta": "…"}],
        ["activity", {"value": [3, 4, 7]}],
        ["activity", {"toolCallId": "call_2", "toolName": "add", "delta": "…"}],
        ["assistant", "3 and 7."], ["user", "again"], ["assistant", "Again."],
    ]  # fmt: skip
    assert tools["result"]["response"] == "3 and 7."
    assert {"STATE_SNAPSHOT", "STATE_DELTA", "REASONING_ENCRYPTED_VALUE"} <= set(tools["kinds"])
    assert tools["state"]["extensions"]["__runtime.run_lifecycle"]["status"] == "done"
    assert [it["outcome"] for it in tools["finished"]] == ["success", "success"]

    painted = told["frontend"]
    assert painted["pending"] == ["call_1"]
    assert painted["said"] == [
        ["user", "paint"], ["assistant", None], ["tool", "painted"], ["assistant", "Nice."],
    ]  # fmt: skip
    if generation == "@ag-ui/client":
        assert painted["finished"][-1]["pendingToolCallIds"] == []

    asked = told["interrupts"]
    assert [it["message"] for it in asked["open"]] == ["one", "two"]
    assert "1 pending interrupt" in asked["refusal"]
    assert [it["outcome"] for it in asked["finished"]] == ["interrupt", "success"]
    assert asked["left"] == []
    assert ["tool", "one: {'ok': True}"] in asked["said"]
    assert asked["said"][-1] == ["assistant", "Asked."]

    left = told["leaving"]
    assert left["had"][0] == ["user", "slowly"]
    assert left["said"] == [
        ["user", "slowly"],
        ["assistant", "Half said."],
        ["tool", "waited"],
        ["assistant", "Whole."],
    ]

    assert told["failing"]["codes"] == ["invalid_request"]
    again = told["beginning_again"]
    assert again["said"] == [["user", "count"], ["assistant", "[1, 2, 3]"]]
    assert "MESSAGES_SNAPSHOT" in again["kinds"]


def test_the_official_client_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "OVERLAP_MS", 0)
    told = played("branches.mjs")
    assert told["begun"] == ["one", "1", "two", "2"]
    assert told["regenerated"] == ["one", "1", "two", "3"]
    assert told["edited"] == ["one", "1", "changed", "4"]
    assert told["last"] == told["shown"] == ["one", "1", "changed", "4", "three", "5"]
    assert told["kept"] == 4


def test_copilotkit_runs_an_agent_and_its_tools_in_the_browser() -> None:
    told = played("copilotkit.mjs")
    assert told["warnings"] == []
    assert told["agents"] == ["default"]
    assert told["said"] == [
        ["user", "copy"], ["assistant", "Copied."], ["user", "paint"], ["assistant", None],
        ["tool", "painted"], ["assistant", "Painted."],
    ]  # fmt: skip
    assert [it["pendingToolCallIds"] for it in told["finished"]] == [[], ["call_1"], []]
    # A run that goes on keeps its id.
    assert told["ids"] == ["copilot-1", "copilot-2", "copilot-2"]
