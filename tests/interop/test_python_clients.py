"""Python clients of OpenAI's wire, in an environment of their own, against our server."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from tests.server.serving import serving

from awaken import Agent, AgentRuntime, TextDelta, ToolCallDelta, ToolCallStart
from awaken.messages import Role
from awaken.models import InferenceRequest, ModelEvent, Stop, StopReason

HERE = Path(__file__).parent
PYTHON = HERE.parents[1] / ".venv-clients" / "bin" / "python"
OSLO = {"city": "Oslo", "degrees": 7}


class Echo:
    """Says what it was sent; calls a tool for the weather, and has the form that is wanted."""

    name = "echo"

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        said = [it for it in request.messages if it.role is not Role.SYSTEM]
        asked = next(it for it in reversed(said) if it.role is Role.USER).text
        is_answered = said[-1].role is Role.TOOL
        forced = next((it for it in request.tools if it.id == request.tool_choice), None)
        if forced is not None:
            async for event in _called(forced.id, OSLO):
                yield event
            return
        if request.tools and asked.startswith("weather") and not is_answered:
            async for event in _called(request.tools[0].id, {"city": asked.split()[2]}):
                yield event
            return
        is_formed = request.output_schema is not None
        text = json.dumps(OSLO) if is_formed else " / ".join(it.text for it in said if it.text)
        for piece in (text[:5], text[5:]):
            yield TextDelta(delta=piece)
        yield Stop(reason=StopReason.END_TURN)


async def _called(tool_id: str, arguments: Any) -> AsyncGenerator[ModelEvent, None]:
    yield ToolCallStart(id="call_1", name=tool_id)
    yield ToolCallDelta(id="call_1", args_delta=json.dumps(arguments))
    yield Stop(reason=StopReason.TOOL_USE)


def played(script: str) -> dict[str, Any]:
    """What a client in Python came to with our server."""

    async def scenario() -> dict[str, Any]:
        runtime = AgentRuntime([Agent("echo", model=Echo())])
        quiet = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "LANGSMITH_TRACING": "false"}
        async with serving(runtime) as url:
            process = await asyncio.create_subprocess_exec(
                str(PYTHON), str(HERE / "python_clients" / script), url,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                env={**os.environ, **quiet},
            )  # fmt: skip
            try:
                out, err = await asyncio.wait_for(process.communicate(), 120)
            finally:
                if process.returncode is None:
                    process.kill()
            assert process.returncode == 0, err.decode()
            return json.loads(out)  # type: ignore[no-any-return]

    return asyncio.run(scenario())


def test_the_openai_package_does_all_that_it_can() -> None:
    told = played("openai_sdk.py")
    begun = "one / one"
    assert told["branches"] == [f"{begun} / {name}" for name in ("left", "right", "middle")]
    assert told["more"] == f"{begun} / right / {told['branches'][1]} / more"
    assert told["called"] == [["get_weather", {"city": "Oslo"}]]
    assert told["answered"] == "weather in Oslo / 7 degrees"
    assert told["thanked"] == f"weather in Oslo / 7 degrees / {told['answered']} / thanks"
    for name in ("parsed", "streamed", "chat", "loose"):
        assert told[name] == OSLO, name
    assert told["kinds"][-1] == "response.completed"
    assert told["background"] is True
    assert told["later"] == ["completed", "later", True]
    assert told["conversation"] == "1 / 1 / 2 / 1 / 1 / 2 / 3"


def test_the_agents_sdk_keeps_sessions_and_branches() -> None:
    told = played("agents_sdk.py")
    weather = "weather in Oslo / 7 degrees in Oslo"
    assert told["session"] == [weather, f"{weather} / {weather} / thanks"]
    assert told["kept"] == 6
    assert told["list"] == f"{weather} / {weather} / and now?"
    assert told["branches"] == ["one / one / left", "one / one / right"]
    assert (told["formed"], told["formed_after_call"], told["chat_formed"]) == (OSLO,) * 3
    assert "raw_response_event" in told["events"]
    assert told["streamed"] == "weather in Paris / 7 degrees in Paris"
    assert told["chat"] == "weather in Bonn / 7 degrees in Bonn"


def test_langchain_chats_calls_and_parses() -> None:
    told = played("langchain_chat.py")
    weather = "weather in Oslo / 7 degrees in Oslo"
    for api in ("chat", "responses"):
        found = told[api]
        assert (found["said"], found["streamed"]) == ("one", "one"), api
        assert found["called"] == [{"city": "Oslo"}], api
        assert found["answered"] == weather, api
        assert found["thanked"] == f"{weather} / {weather} / thanks", api
        for method in ("json_schema", "json_mode", "function_calling"):
            assert found[method] == OSLO, (api, method)
    assert told["branches"] == ["one / one / left", "one / one / right"]
