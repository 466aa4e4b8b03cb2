"""Google's own SDK and our codec of its format understand and say the same."""

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google import genai
from google.genai import types

from awaken.contracts.messages.content import Audio, Base64Source, Document, Video
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
    listen,
    message_of,
    play,
    sent,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:Inheritance class AiohttpClientSession:DeprecationWarning"
)


def with_sdk(
    answers: list[Any], talk: Callable[[genai.Client], Awaitable[Any]]
) -> tuple[Any, list[ModelRequest]]:
    async def run() -> tuple[Any, list[ModelRequest]]:
        async with FakeModelServer(answers) as server:
            options = types.HttpOptions(base_url=server.url)
            client = genai.Client(api_key="sk-test", http_options=options)
            try:
                return await talk(client), server.requests
            finally:
                await client.aio.aclose()
                client.close()

    return play(run())


async def talk(client: genai.Client) -> Heard:
    found = Heard()
    stream = await client.aio.models.generate_content_stream(model="some-model", contents="hi")
    async for chunk in stream:
        (candidate,) = chunk.candidates
        for part in candidate.content.parts:
            hear(part, found)
        if candidate.finish_reason is not None:
            is_cut = candidate.finish_reason is types.FinishReason.MAX_TOKENS
            ended = StopReason.TOOL_USE if found.calls else StopReason.END_TURN
            found.stop = StopReason.MAX_TOKENS if is_cut else ended
        if chunk.usage_metadata is not None:
            found.usage = usage_of(chunk.usage_metadata)
    return found


def hear(part: types.Part, found: Heard) -> None:
    if part.function_call is not None:
        call = part.function_call
        found.calls.append((call.id, call.name, call.args))
    elif part.thought:
        found.reasoning += part.text
    else:
        found.text += part.text
    if part.thought_signature is not None:
        found.signatures.append(base64.b64encode(part.thought_signature).decode())


def usage_of(usage: types.GenerateContentResponseUsageMetadata) -> TokenUsage:
    thoughts = usage.thoughts_token_count
    return TokenUsage(
        prompt_tokens=usage.prompt_token_count,
        completion_tokens=usage.candidates_token_count + thoughts,
        total_tokens=usage.total_token_count,
        cache_read_tokens=usage.cached_content_token_count,
        thinking_tokens=thoughts,
    )


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_read_as_the_sdk_reads_it(name: str) -> None:
    ours = heard(answered("gemini", [ANSWERS[name]]))
    theirs, _ = with_sdk([ANSWERS[name]], talk)
    assert ours == theirs


# Calls that the vendor did not make itself have this word where it expects encoded bytes.
UNSIGNED = base64.urlsafe_b64decode("skip_thought_signature_validator")


def test_a_request_is_the_one_that_the_sdk_sends() -> None:
    tuned = InferenceOverride(
        temperature=0.5, top_p=0.9, max_tokens=400, reasoning_effort=Effort.LOW
    )
    request = asking(
        *HISTORY,
        model="gemini-3-pro",
        system=("Be terse.",),
        tools=TOOLS,
        overrides=tuned,
        output_schema=CITY,
    )
    ours = sent("gemini", request)

    async def ask(client: genai.Client) -> None:
        declared = [
            types.FunctionDeclaration(
                name=tool.id, description=tool.description, parameters_json_schema=tool.parameters
            )
            for tool in TOOLS
        ]
        config = types.GenerateContentConfig(
            system_instruction=[types.Part(text="Be terse.")],
            temperature=0.5,
            top_p=0.9,
            max_output_tokens=400,
            thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level="LOW"),
            response_mime_type="application/json",
            response_json_schema=CITY,
            tools=[types.Tool(function_declarations=declared)],
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )
        picture = types.Part.from_bytes(data=base64.b64decode(PICTURE), mime_type="image/png")
        linked = types.Part.from_uri(file_uri="https://example.org/a.png", mime_type="image/png")
        stream = await client.aio.models.generate_content_stream(
            model="gemini-3-pro",
            config=config,
            contents=[
                types.UserContent(parts=[types.Part(text="What is this?"), picture, linked]),
                types.ModelContent(
                    parts=[
                        types.Part(text="I look."),
                        types.Part(
                            function_call=call("c1", "weather", {"city": "Zürich"}),
                            thought_signature=UNSIGNED,
                        ),
                        types.Part(function_call=call("c2", "now", {})),
                    ]
                ),
                types.UserContent(
                    parts=[result("c1", "weather", "rain"), result("c2", "now", "noon")]
                ),
                types.UserContent(parts=[types.Part(text="And?")]),
            ],
        )
        assert [chunk async for chunk in stream]

    _, (theirs,) = with_sdk(["ok"], ask)
    assert read(ours.body["contents"], types.Content) == read(
        theirs.body["contents"], types.Content
    )
    assert read(ours.body["tools"], types.Tool) == read(theirs.body["tools"], types.Tool)
    ours_config, theirs_config = ours.body["generationConfig"], theirs.body["generationConfig"]
    assert read([ours_config], types.GenerationConfig) == read(
        [theirs_config], types.GenerationConfig
    )
    instruction = {**theirs.body["systemInstruction"]}
    instruction.pop("role", None)
    assert ours.body["systemInstruction"] == instruction
    assert ours.body.keys() == theirs.body.keys()
    assert ours.path == theirs.path
    assert ours.headers["x-goog-api-key"] == theirs.headers["x-goog-api-key"]


def read(given: list[Any], types_: type[Any]) -> list[Any]:
    """As the SDK reads it: it writes some names in snake case and others not."""
    return [types_.model_validate(one) for one in given]


def call(call_id: str, name: str, arguments: dict[str, Any]) -> types.FunctionCall:
    return types.FunctionCall(id=call_id, name=name, args=arguments)


def result(call_id: str, name: str, text: str) -> types.Part:
    given = types.FunctionResponse(id=call_id, name=name, response={"output": text})
    return types.Part(function_response=given)


@pytest.mark.parametrize("effort", Effort)
@pytest.mark.parametrize("model", ["gemini-3-pro", "gemini-2.5-pro", "gemini-2.5-flash"])
def test_every_feature_is_one_that_the_sdk_knows(model: str, effort: Effort) -> None:
    def inline(kind: str) -> Base64Source:
        return Base64Source(media_type=kind, data="AAAA")

    media = [
        Document(source=inline("application/pdf")),
        Audio(source=inline("audio/wav")),
        Video(source=inline("video/mp4")),
    ]
    request = asking(
        user(media),
        *HISTORY[1:],
        model=model,
        system=("Be terse.",),
        output_schema=CITY,
        tools=TOOLS,
        enable_prompt_cache=True,
        overrides=InferenceOverride(reasoning_effort=effort, max_tokens=9_000),
    )
    body = sent("gemini", request).body
    # The SDK's models refuse fields that they do not know.
    for content in (*body["contents"], body["systemInstruction"]):
        types.Content.model_validate(content)
    for tool in body["tools"]:
        types.Tool.model_validate(tool)
    types.GenerationConfig.model_validate(body["generationConfig"])


def test_the_next_turn_repeats_the_parts_that_the_sdk_repeats() -> None:
    """Calls go back with their signatures: the vendor refuses them without."""
    answer = ANSWERS["reasoned calls"]

    async def ask(client: genai.Client) -> None:
        chat = client.aio.chats.create(model="some-model")
        calls = [
            part.function_call
            async for chunk in await chat.send_message_stream("hi")
            for part in chunk.candidates[0].content.parts
            if part.function_call
        ]
        results = [result(made.id, made.name, "rain") for made in calls]
        assert [chunk async for chunk in await chat.send_message_stream(results)]

    async def ours() -> list[Any]:
        async with FakeModelServer([answer, "ok"]) as server:
            async with client_of(server.url, "gemini") as client:
                said = message_of(await listen(client, asking()))
                results = [tool_answer(made.id, "rain") for made in said.tool_calls]
                await listen(client, asking(user("hi"), said, *results))
            return server.requests[1].body["contents"]

    _, (_, theirs) = with_sdk([answer, "ok"], ask)
    assert merged(play(ours())) == merged(theirs.body["contents"])


def merged(contents: list[Any]) -> list[Any]:
    """The parts of each turn, without the thoughts and empty texts that need not go back."""
    turns: list[Any] = []
    for content in contents:
        parts = [
            part for part in content["parts"] if not part.get("thought") and part.get("text") != ""
        ]
        if turns and turns[-1][0] == content["role"]:
            turns[-1][1].extend(parts)
        else:
            turns.append((content["role"], parts))
    return turns
