"""Anthropic's own SDK and our codec of its format understand and say the same."""

from collections.abc import Awaitable, Callable
from datetime import date
from typing import Annotated, Any, Literal

import anthropic
import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from pydantic import BaseModel, Field

from awaken.contracts.messages.content import Base64Source, Document
from awaken.contracts.messages.message import tool_answer, user
from awaken.contracts.models.inference import Effort, InferenceOverride, StopReason, TokenUsage
from awaken.providers.http.schemas import strict_schema
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


def with_sdk(
    answers: list[Any], talk: Callable[[anthropic.AsyncAnthropic], Awaitable[Any]]
) -> tuple[Any, list[ModelRequest]]:
    async def run() -> tuple[Any, list[ModelRequest]]:
        async with (
            FakeModelServer(answers) as server,
            anthropic.AsyncAnthropic(base_url=server.url, api_key="sk-test") as client,
        ):
            return await talk(client), server.requests

    return play(run())


async def talk(client: anthropic.AsyncAnthropic) -> Heard:
    async with client.messages.stream(
        model="some-model", max_tokens=16_384, messages=[{"role": "user", "content": "hi"}]
    ) as stream:
        final = await stream.get_final_message()
    found, usage = Heard(stop=StopReason(final.stop_reason)), final.usage
    for block in final.content:
        match block.type:
            case "text":
                found.text += block.text
            case "thinking":
                found.reasoning += block.thinking
                found.signatures.append(block.signature)
            case "tool_use":
                found.calls.append((block.id, block.name, block.input))
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    prompt = usage.input_tokens + read + written
    found.usage = TokenUsage(
        prompt_tokens=prompt,
        completion_tokens=usage.output_tokens,
        total_tokens=prompt + usage.output_tokens,
        cache_read_tokens=read,
        cache_creation_tokens=written,
        thinking_tokens=usage.output_tokens_details.thinking_tokens,
    )
    return found


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_read_as_the_sdk_reads_it(name: str) -> None:
    ours = heard(answered("anthropic", [ANSWERS[name]]))
    theirs, _ = with_sdk([ANSWERS[name]], talk)
    assert ours == theirs


def test_a_request_is_the_one_that_the_sdk_sends() -> None:
    # The SDK knows no temperature: the newest models have none.
    tuned = InferenceOverride(max_tokens=9_000, reasoning_effort=Effort.LOW)
    request = asking(
        *HISTORY, model="claude-sonnet-5", system=("Be terse.",), tools=TOOLS, overrides=tuned
    )
    ours = sent("anthropic", request)

    async def ask(client: anthropic.AsyncAnthropic) -> None:
        await client.messages.create(
            model="claude-sonnet-5",
            stream=True,
            max_tokens=9_000,
            thinking={"type": "adaptive", "display": "summarized"},
            output_config={"effort": "low"},
            system=[{"type": "text", "text": "Be terse."}],
            tools=[
                {
                    "name": tool.id,
                    "description": tool.description,
                    "input_schema": tool.parameters,
                }
                for tool in TOOLS
            ],
            messages=[
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What is this?"},
                        {
                            "type": "image",
                            "source": {
                                "type": "base64",
                                "media_type": "image/png",
                                "data": PICTURE,
                            },
                        },
                        {
                            "type": "image",
                            "source": {"type": "url", "url": "https://example.org/a.png"},
                        },
                    ],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "I look."},
                        tool_use("c1", "weather", {"city": "Zürich"}),
                        tool_use("c2", "now", {}),
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        tool_result("c1", "rain"),
                        tool_result("c2", "noon"),
                        {"type": "text", "text": "And?"},
                    ],
                },
            ],
        )

    _, (theirs,) = with_sdk(["ok"], ask)
    assert ours.body == theirs.body
    assert ours.path == theirs.path
    for name in ("anthropic-version", "authorization"):
        assert ours.headers[name] == theirs.headers[name]
    assert known_fields(ours.body, MessageCreateParamsStreaming) == ours.body


def tool_use(call_id: str, name: str, arguments: dict[str, Any]) -> Any:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def tool_result(call_id: str, text: str) -> Any:
    content = [{"type": "text", "text": text}]
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


class Place(BaseModel):
    city: str


def test_a_schema_of_the_answer_sits_where_the_sdk_puts_it() -> None:
    async def ask(client: anthropic.AsyncAnthropic) -> None:
        async with client.messages.stream(
            model="some-model",
            max_tokens=100,
            messages=[{"role": "user", "content": "hi"}],
            output_format=Place,
        ) as stream:
            assert (await stream.get_final_message()).parsed_output == Place(city="x")

    _, (theirs,) = with_sdk(['{"city":"x"}'], ask)
    ours = sent("anthropic", asking(output_schema=CITY)).body["output_config"]
    expected = theirs.body["output_config"]
    assert ours.keys() == expected.keys()
    assert ours["format"]["type"] == expected["format"]["type"]
    assert ours["format"].keys() == expected["format"].keys()
    assert ours["format"]["schema"] == CITY


class Trip(BaseModel):
    """Where to go."""

    place: Place
    via: list[Place] = Field(min_length=2, max_length=5)
    tags: list[str] = Field(min_length=1)
    day: date
    kind: Literal["train", "plane"]
    price: Annotated[float, Field(gt=0, description="In francs.")] | None = None
    code: str = Field(pattern="^[A-Z]+$", max_length=9)


def test_a_schema_is_rewritten_as_the_sdk_rewrites_it() -> None:
    schema = Trip.model_json_schema()
    # Pydantic says `oneOf` for unions with a tag only.
    schema["properties"]["how"] = {"oneOf": [{"type": "string", "format": "phone"}]}
    assert strict_schema(schema) == anthropic.transform_schema(schema)


@pytest.mark.parametrize("effort", Effort)
@pytest.mark.parametrize(
    "model",
    ["claude-sonnet-5", "claude-sonnet-4-5", "claude-opus-5-5", "claude-sonnet-5-5", "some-model"],
)
def test_every_feature_is_one_that_the_sdk_knows(model: str, effort: Effort) -> None:
    paper = Document(source=Base64Source(media_type="application/pdf", data="JVBERg=="), title="p")
    request = asking(
        user([paper]),
        *HISTORY[1:],
        model=model,
        system=("Be terse.",),
        output_schema=CITY,
        tools=TOOLS,
        enable_prompt_cache=True,
        overrides=InferenceOverride(reasoning_effort=effort, max_tokens=9_000),
    )
    body = sent("anthropic", request, cache_ttl="1h").body
    assert known_fields(body, MessageCreateParamsStreaming) == body


def test_the_next_turn_repeats_the_blocks_that_the_sdk_repeats() -> None:
    """Reasoning goes back with its signature, before the calls that it led to."""
    answer = ANSWERS["reasoned calls"]

    async def ask(client: anthropic.AsyncAnthropic) -> None:
        given: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
        async with client.messages.stream(
            model="some-model", max_tokens=100, messages=given
        ) as stream:
            final = await stream.get_final_message()
        calls = [block for block in final.content if block.type == "tool_use"]
        results = [tool_result(call.id, "rain") for call in calls]
        given += [final.to_param(), {"role": "user", "content": results}]
        await client.messages.create(
            model="some-model", max_tokens=100, messages=given, stream=True
        )

    async def ours() -> list[Any]:
        async with FakeModelServer([answer, "ok"]) as server:
            async with client_of(server.url, "anthropic") as client:
                said = message_of(await listen(client, asking()))
                results = [tool_answer(call.id, "rain") for call in said.tool_calls]
                await listen(client, asking(user("hi"), said, *results))
            return server.requests[1].body["messages"]

    _, (_, theirs) = with_sdk([answer, "ok"], ask)
    assert play(ours()) == theirs.body["messages"]
