"""The AI SDK's own clients, versions 6 and 7: they read what we write, and we what they write."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.server.ai_sdk_world import TOOLS, Held
from tests.server.serving import serving

from awaken import Agent, AgentRuntime
from awaken.errors import InvalidRequest, TransportFailed
from awaken.testing import Chunks, ScriptedModel, ToolCalls, Turn

HERE = Path(__file__).parent
NODE = str(Path(sys.executable).with_name("node"))
ASKS = ToolCalls([("approve", {"what": "this"}), ("add", {"a": 1, "b": 2})], text="let me")

CLIENTS = pytest.mark.parametrize(
    ("client", "version"), [("ai6", "6"), ("ai", "6"), ("ai", "7")], ids=["v6", "v7", "v7 extras"]
)


def told(model: Any, scenario: str, client: str, version: str) -> dict[str, Any]:
    """What a client makes of an agent, with every chunk checked by the client's own schema."""

    async def run() -> bytes:
        runtime = AgentRuntime([Agent("default", model=model, tools=TOOLS)])
        async with asyncio.timeout(40), serving(runtime) as url:
            node = await asyncio.create_subprocess_exec(
                NODE, "client.mjs", client, f"{url}/v1/ai-sdk", scenario, version,
                cwd=HERE / "ai_sdk", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert node.stdout is not None
            assert node.stderr is not None
            try:
                errors = asyncio.create_task(_heard(node.stderr, model))
                output = await node.stdout.read()
                assert await node.wait() == 0, await errors
                return output
            finally:
                if node.returncode is None:
                    node.kill()
                    await node.wait()

    result: dict[str, Any] = json.loads(asyncio.run(run()))
    assert result["problems"] == []
    return result


async def _heard(stream: asyncio.StreamReader, model: Any) -> str:
    lines = []
    async for line in stream:
        if line == b"release\n":
            model.released.set()
        lines.append(line.decode())
    return "".join(lines)


def kinds(message: dict[str, Any]) -> list[str]:
    return [it["type"] for it in message["parts"] if not it["type"].startswith("data-")]


def part(message: dict[str, Any], kind: str) -> dict[str, Any]:
    (found,) = [it for it in message["parts"] if it["type"] == kind]
    return dict(found)


def text_of(message: dict[str, Any]) -> str:
    return "".join(it["text"] for it in message["parts"] if it["type"] == "text")


@CLIENTS
def test_a_message_is_built_from_every_kind_of_chunk(client: str, version: str) -> None:
    calls = [("add", {"a": 1, "b": 2}), ("fail", {})]
    script = [Turn(text=["let ", "me"], reasoning="hm", calls=calls), Chunks(["th", "ree"])]
    result = told(ScriptedModel(script), "send", client, version)
    message = result["message"]
    assert kinds(message) == [
        "step-start", "reasoning", "text", "tool-add", "tool-fail", "step-start", "text",
    ]  # fmt: skip
    assert part(message, "tool-add")["output"] == 3
    assert part(message, "tool-fail")["state"] == "output-error"
    assert text_of(message) == "let methree"
    assert {it.get("state") for it in message["parts"]} <= {
        None, "done", "output-available", "output-error",
    }  # fmt: skip
    assert message["metadata"]["usage"]["totalTokens"] == 60
    assert message["id"] == message["metadata"]["runId"]
    assert result["reconnected"] is None
    # What is loaded is what was streamed.
    assert result["loaded"][1]["id"] == message["id"]
    assert kinds(result["loaded"][1]) == kinds(message)


@CLIENTS
def test_an_approval_lets_the_run_go_on_in_the_same_message(client: str, version: str) -> None:
    result = told(ScriptedModel([ASKS, "done"]), "approve", client, version)
    assert part(result["asked"], "tool-approve")["state"] == "approval-requested"
    _, message = result["messages"]
    assert part(message, "tool-approve")["output"] == "did this"
    assert part(message, "tool-approve")["state"] == "output-available"
    assert kinds(message) == [
        "step-start", "text", "tool-approve", "tool-add", "step-start", "text",
    ]  # fmt: skip
    assert text_of(message) == "let medone"
    assert "error" not in result


@CLIENTS
def test_a_call_that_has_shown_something_can_be_approved(client: str, version: str) -> None:
    model = ScriptedModel([ToolCalls([("twice", {})]), "done"])
    result = told(model, "approve", client, version)
    assert part(result["asked"], "tool-twice")["output"] == "looking"
    _, message = result["messages"]
    assert part(message, "tool-twice")["output"] == "did it"
    assert "error" not in result


@CLIENTS
def test_a_denied_call_does_not_run(client: str, version: str) -> None:
    result = told(ScriptedModel([ASKS, "fine"]), "deny", client, version)
    _, message = result["messages"]
    assert part(message, "tool-approve")["state"] == "output-denied"
    assert part(message, "tool-approve")["approval"]["approved"] is False
    assert text_of(message) == "let mefine"
    assert "error" not in result


@CLIENTS
def test_a_tool_of_the_client_is_executed_by_it(client: str, version: str) -> None:
    model = ScriptedModel([ToolCalls([("pick", {"of": 3})]), "thanks"])
    result = told(model, "tool", client, version)
    _, message = result["messages"]
    assert part(message, "tool-pick")["output"] == {"picked": 3}
    assert text_of(message) == "thanks"
    assert '{"picked":3}' in model.requests[-1].messages[-1].text.replace(" ", "")


@CLIENTS
def test_a_lost_stream_is_resumed_in_the_middle(client: str, version: str) -> None:
    calls = ToolCalls([("add", {"a": 1, "b": 2})])
    result = told(Held([calls, Chunks(["th", "ree"])]), "resume", client, version)
    assert result["held"] == "th"
    assert (result["shown"], bool(result["executing"])) == (["user"], True)
    for name in ("first", "second", "later"):
        _, message = result[name]
        assert text_of(message) == "three"
        assert message["id"] == result["executing"]
        assert kinds(message) == ["step-start", "tool-add", "step-start", "text"]
    assert result["statuses"] == ["ready"] * 3


@CLIENTS
def test_leaving_stops_nothing_and_cancel_does(client: str, version: str) -> None:
    result = told(Held([Chunks(["Hel", "lo."])]), "stop", client, version)
    assert result["executing"]
    assert (result["cancelled"], result["kept"]) == (202, "Hel")
    assert (result["after"], result["status"]) == (None, "ready")
    assert "abort" in {it["type"] for it in result["chunks"]}


@CLIENTS
def test_a_chat_that_was_loaded_goes_on(client: str, version: str) -> None:
    script = [ToolCalls([("add", {"a": 1, "b": 2})]), "three", "four"]
    model = ScriptedModel(script)
    result = told(model, "reload", client, version)
    assert [it["id"] for it in result["loaded"]] == [it["id"] for it in result["streamed"]]
    assert [text_of(it) for it in result["again"]] == ["hi", "three", "more", "four"]
    assert [it.text for it in model.requests[-1].messages if it.role == "user"] == ["hi", "more"]


@CLIENTS
def test_what_was_taken_back_is_not_taken_for_the_answer(client: str, version: str) -> None:
    script = [Turn(reasoning="stale", error=TransportFailed("cut")), Turn("right", reasoning="new")]
    result = told(ScriptedModel(script), "reset", client, version)
    _, message = result["messages"]
    thoughts = [it["text"] for it in message["parts"] if it["type"] == "reasoning"]
    assert "error" not in result
    if version == "7":
        assert thoughts == ["new"]
        assert kinds(message) == ["step-start", "reasoning", "text"]
        return
    # Version 6 cannot take anything back: the step is marked instead.
    marked = [it["type"] for it in message["parts"] if it["type"] != "data-run-info"]
    assert marked == [
        "step-start", "reasoning", "data-stream-reset", "step-start", "reasoning", "text",
    ]  # fmt: skip
    assert thoughts == ["stale", "new"]


@CLIENTS
def test_a_message_instead_of_an_approval_is_answered_below_it(client: str, version: str) -> None:
    result = told(ScriptedModel([ASKS, "fine"]), "late", client, version)
    assert "error" not in result
    assert [it["role"] for it in result["messages"]] == ["user", "assistant"] * 2
    assert [text_of(it) for it in result["messages"]] == ["do it", "let me", "never mind", "fine"]


@CLIENTS
def test_an_approval_and_a_message_are_answered_together(client: str, version: str) -> None:
    result = told(ScriptedModel([ASKS, "both"]), "both", client, version)
    assert "error" not in result
    assert [it["role"] for it in result["messages"]] == ["user", "assistant"] * 2
    answer = result["messages"][-1]
    assert part(answer, "tool-approve")["output"] == "did this"
    assert text_of(answer) == "both"


@CLIENTS
def test_answers_are_made_anew_and_messages_changed(client: str, version: str) -> None:
    model = ScriptedModel([str(number) for number in range(1, 9)])
    result = told(model, "branches", client, version)
    assert "error" not in result
    assert result["begun"] == ["one", "1", "two", "2"]
    assert result["regenerated"] == ["one", "1", "two", "3"]
    assert result["shown"] == result["regenerated"]
    assert result["earlier"] == ["one", "4"]
    assert result["edited"] == ["changed", "6"]
    assert result["last"] == ["changed", "6", "four", "7", "five", "8"]
    assert [it.text for it in model.requests[-1].messages] == result["last"][:-1]


@CLIENTS
def test_a_run_that_fails_is_an_error_of_the_chat(client: str, version: str) -> None:
    model = ScriptedModel([Turn(error=InvalidRequest("no such model"))])
    result = told(model, "failure", client, version)
    assert result["status"] == "error"
    assert "no such model" in result["error"]
