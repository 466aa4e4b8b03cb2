"""OpenAI's own SDK and our two codecs of its formats understand and say the same."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import openai
import pytest
from openai.lib.streaming.chat import AsyncChatCompletionStreamManager
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import BaseModel

from awaken.contracts.messages.content import Base64Source, Document
from awaken.contracts.messages.message import tool_answer, user
from awaken.contracts.models.inference import Effort, InferenceOverride, StopReason, TokenUsage
from awaken.testing.model_server import FakeModelServer, ModelRequest

from .formats import (
    ANSWERS,
    CITY,
    HISTORY,
    PICTURE,
    TOOLS,
    Heard,
    answered,
    asking,
    client_of,
    heard,
    known_fields,
    listen,
    message_of,
    play,
    sent,
)

CHAT_STOPS = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_USE,
}
TUNED = InferenceOverride(temperature=0.5, top_p=0.9, max_tokens=400, reasoning_effort=Effort.LOW)
PICTURE_URL = f"data:image/png;base64,{PICTURE}"


def with_sdk(
    answers: list[Any], talk: Callable[[openai.AsyncOpenAI], Awaitable[Any]]
) -> tuple[Any, list[ModelRequest]]:
    async def run() -> tuple[Any, list[ModelRequest]]:
        async with FakeModelServer(answers) as server:
            url = f"{server.url}/v1"
            async with openai.AsyncOpenAI(base_url=url, api_key="sk-test") as client:
                return await talk(client), server.requests

    return play(run())


async def chat(client: openai.AsyncOpenAI) -> Heard:
    asked: AsyncChatCompletionStreamManager[Any] = client.chat.completions.stream(
        model="some-model",
        messages=[{"role": "user", "content": "hi"}],
        stream_options={"include_usage": True},
    )
    async with asked as stream:
        await stream.until_done()
        final = stream.current_completion_snapshot
    (choice,) = final.choices
    message, usage = choice.message, final.usage
    return Heard(
        text=message.content or "",
        reasoning=getattr(message, "reasoning_content", ""),
        calls=[
            (call.id, call.function.name, arguments_of(call.function.arguments))
            for call in message.tool_calls or ()
        ],
        stop=CHAT_STOPS[choice.finish_reason],
        usage=TokenUsage(
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            total_tokens=usage.total_tokens,
            cache_read_tokens=usage.prompt_tokens_details.cached_tokens,
            cache_creation_tokens=usage.prompt_tokens_details.cache_write_tokens,
            thinking_tokens=usage.completion_tokens_details.reasoning_tokens,
        ),
    )


async def respond(client: openai.AsyncOpenAI) -> Heard:
    async with client.responses.stream(model="some-model", input="hi") as stream:
        events = [event async for event in stream]
    final = events[-1].response
    found, usage = Heard(), final.usage
    found.text = "".join(
        event.delta for event in events if event.type == "response.output_text.delta"
    )
    assert found.text == final.output_text
    for item in final.output:
        match item.type:
            case "reasoning":
                found.reasoning += "".join(part.text for part in item.summary)
                found.signatures.append(item.encrypted_content)
            case "function_call":
                found.calls.append((item.call_id, item.name, arguments_of(item.arguments)))
    found.stop = StopReason.TOOL_USE if found.calls else StopReason.END_TURN
    if final.status == "incomplete":
        assert final.incomplete_details.reason == "max_output_tokens"
        found.stop = StopReason.MAX_TOKENS
    found.usage = TokenUsage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        cache_read_tokens=usage.input_tokens_details.cached_tokens,
        cache_creation_tokens=usage.input_tokens_details.cache_write_tokens,
        thinking_tokens=usage.output_tokens_details.reasoning_tokens,
    )
    return found


def arguments_of(text: str) -> Any:
    return json.loads(text or "{}")


@pytest.mark.parametrize("name", ANSWERS)
def test_chat_is_read_as_the_sdk_reads_it(name: str) -> None:
    ours = heard(answered("openai_chat", [ANSWERS[name]]))
    theirs, _ = with_sdk([ANSWERS[name]], chat)
    assert ours == theirs


@pytest.mark.parametrize("name", ANSWERS)
def test_responses_are_read_as_the_sdk_reads_them(name: str) -> None:
    ours = heard(answered("openai_responses", [ANSWERS[name]]))
    theirs, _ = with_sdk([ANSWERS[name]], respond)
    assert ours == theirs


def test_a_chat_request_is_the_one_that_the_sdk_sends() -> None:
    request = asking(*HISTORY, system=("Be terse.",), tools=TOOLS, overrides=TUNED)
    ours = sent("openai_chat", request)

    async def ask(client: openai.AsyncOpenAI) -> None:
        await client.chat.completions.create(
            model="some-model",
            stream=True,
            stream_options={"include_usage": True},
            temperature=0.5,
            top_p=0.9,
            max_completion_tokens=400,
            reasoning_effort="low",
            tools=[
                {
                    "type": "function",
                    "function": {
                        "name": tool.id,
                        "description": tool.description,
                        "parameters": tool.parameters,
                    },
                }
                for tool in TOOLS
            ],
            messages=[
                {"role": "system", "content": "Be terse."},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What is this?"},
                        {"type": "image_url", "image_url": {"url": PICTURE_URL}},
                        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                    ],
                },
                {
                    "role": "assistant",
                    "content": "I look.",
                    "tool_calls": [
                        chat_call("c1", "weather", '{"city":"Zürich"}'),
                        chat_call("c2", "now", "{}"),
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "rain"},
                {"role": "tool", "tool_call_id": "c2", "content": "noon"},
                {"role": "user", "content": "And?"},
            ],
        )

    _, (theirs,) = with_sdk(["ok"], ask)
    assert ours.body == theirs.body
    assert ours.path == theirs.path
    assert ours.headers["authorization"] == theirs.headers["authorization"]
    assert known_fields(ours.body, CompletionCreateParamsStreaming) == ours.body


def test_a_responses_request_is_the_one_that_the_sdk_sends() -> None:
    request = asking(*HISTORY, system=("Be terse.",), tools=TOOLS, overrides=TUNED)
    ours = sent("openai_responses", request, summary="auto")

    async def ask(client: openai.AsyncOpenAI) -> None:
        await client.responses.create(
            model="some-model",
            stream=True,
            store=False,
            include=["reasoning.encrypted_content"],
            instructions="Be terse.",
            temperature=0.5,
            top_p=0.9,
            max_output_tokens=400,
            reasoning={"effort": "low", "summary": "auto"},
            tools=[
                {
                    "type": "function",
                    "name": tool.id,
                    "description": tool.description,
                    "parameters": tool.parameters,
                    "strict": False,
                }
                for tool in TOOLS
            ],
            input=[
                {
                    "type": "message",
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "What is this?"},
                        picture(PICTURE_URL),
                        picture("https://example.org/a.png"),
                    ],
                },
                {"type": "message", "role": "assistant", "content": "I look."},
                response_call("c1", "weather", '{"city":"Zürich"}'),
                response_call("c2", "now", "{}"),
                {"type": "function_call_output", "call_id": "c1", "output": "rain"},
                {"type": "function_call_output", "call_id": "c2", "output": "noon"},
                {"type": "message", "role": "user", "content": "And?"},
            ],
        )

    _, (theirs,) = with_sdk(["ok"], ask)
    assert ours.body == theirs.body
    assert ours.path == theirs.path
    assert ours.headers["authorization"] == theirs.headers["authorization"]
    assert known_fields(ours.body, ResponseCreateParamsStreaming) == ours.body


def chat_call(call_id: str, name: str, arguments: str) -> Any:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def response_call(call_id: str, name: str, arguments: str) -> Any:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def picture(url: str) -> Any:
    return {"type": "input_image", "detail": "auto", "image_url": url}


class Place(BaseModel):
    city: str


def test_a_schema_of_the_answer_sits_where_the_sdk_puts_it() -> None:
    async def ask(client: openai.AsyncOpenAI) -> None:
        messages: Any = [{"role": "user", "content": "hi"}]
        async with client.chat.completions.stream(
            model="some-model", messages=messages, response_format=Place
        ) as stream:
            await stream.until_done()
        async with client.responses.stream(
            model="some-model", input=messages, text_format=Place
        ) as stream:
            await stream.until_done()

    _, (chat_body, response_body) = with_sdk(['{"city":"x"}'] * 2, ask)
    request = asking(output_schema=CITY)
    ours = sent("openai_chat", request).body["response_format"]
    theirs = chat_body.body["response_format"]
    assert ours["type"] == theirs["type"] == "json_schema"
    assert ours["json_schema"].keys() <= theirs["json_schema"].keys()
    ours = sent("openai_responses", request).body["text"]["format"]
    theirs = response_body.body["text"]["format"]
    assert ours["type"] == theirs["type"] == "json_schema"
    assert ours.keys() <= theirs.keys()
    assert ours["schema"] == CITY


@pytest.mark.parametrize(
    ("wire", "types"),
    [
        ("openai_chat", CompletionCreateParamsStreaming),
        ("openai_responses", ResponseCreateParamsStreaming),
    ],
)
@pytest.mark.parametrize("effort", Effort)
def test_every_feature_is_one_that_the_sdk_knows(wire: str, types: type, effort: Effort) -> None:
    paper = Document(source=Base64Source(media_type="application/pdf", data="JVBERg=="), title="p")
    request = asking(
        user([paper]),
        *HISTORY[1:],
        output_schema=CITY,
        tools=TOOLS,
        enable_prompt_cache=True,
        overrides=InferenceOverride(reasoning_effort=effort, max_tokens=9_000),
    )
    body = sent(wire, request).body
    assert known_fields(body, types) == body


def test_the_next_turn_repeats_the_items_that_the_sdk_repeats() -> None:
    """Reasoning goes back as it came: the vendor can read it again without storing anything."""
    answer = ANSWERS["reasoned calls"]

    async def ask(client: openai.AsyncOpenAI) -> None:
        given: list[Any] = [{"role": "user", "content": "hi"}]
        async with client.responses.stream(model="some-model", input=given) as stream:
            final = await stream.get_final_response()
        given += final.output
        given += [
            {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
            for call in final.output
            if call.type == "function_call"
        ]
        await client.responses.create(model="some-model", input=given, stream=True)

    async def ours() -> dict[str, Any]:
        async with FakeModelServer([answer, "ok"]) as server:
            async with client_of(server.url, "openai_responses") as client:
                said = message_of(await listen(client, asking()))
                results = [tool_answer(call.id, "rain") for call in said.tool_calls]
                await listen(client, asking(user("hi"), said, *results))
            return server.requests[1].body

    _, (_, theirs) = with_sdk([answer, "ok"], ask)
    mine = play(ours())["input"]
    for item, expected in zip(mine, theirs.body["input"], strict=True):
        assert item.get("type", "message") == expected.get("type", "message")
        # The SDK repeats ids and states too, which the vendor gave and does not ask for.
        assert {name: expected.get(name) for name in item if name != "type"} == {
            name: value for name, value in item.items() if name != "type"
        }
        left_out = {name for name, value in expected.items() if value is not None} - item.keys()
        assert left_out <= {"id", "status"}
