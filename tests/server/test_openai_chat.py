"""The official OpenAI client talks to an agent over Chat Completions, and keeps the history."""

import asyncio
from typing import Any

import httpx2
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from awaken import AgentEvent, NaturalEnd, RunFinish, RunStart, StepStart, StreamReset, TextDelta
from awaken.errors import ModelError
from awaken.events import InferenceComplete
from awaken.messages import Audio, Base64Source, Document, Image, Role, Text
from awaken.protocols.openai.chat_encoder import ChatEncoder
from awaken.protocols.openai.responses_encoder import ResponsesEncoder
from awaken.testing import Chunks, ScriptedModel, ToolCalls, Turn

from .openai_world import CHAT_FRONT, talking

WAIT_S = 20
HI: Any = [{"role": "user", "content": "hi"}]


def test_an_agent_answers_at_once_or_in_a_stream() -> None:
    async def scenario() -> None:
        calls = ToolCalls([("add", {"a": 1, "b": 2})], text="Let me see.")
        said = Turn(text=Chunks(["It ", "is 3."]), reasoning="hm")
        async with talking(ScriptedModel([calls, said] * 2)) as client:
            plain = await client.chat.completions.create(model="a", messages=HI)
            ChatCompletion.model_validate_json(plain.model_dump_json())
            stream = await client.chat.completions.create(
                model="a", messages=HI, stream=True, stream_options={"include_usage": True}
            )
            chunks = [chunk async for chunk in stream]
        (choice,) = plain.choices
        assert (choice.message.content, choice.finish_reason) == ("Let me see.\n\nIt is 3.", "stop")
        assert choice.message.tool_calls is None
        assert (plain.usage.prompt_tokens, plain.usage.total_tokens) == (20, 60)
        for chunk in chunks:
            ChatCompletionChunk.model_validate_json(chunk.model_dump_json())
        *_, last, usage = chunks
        texts = [chunk.choices[0].delta.content or "" for chunk in chunks[:-1]]
        assert "".join(texts) == "Let me see.\n\nIt is 3."
        assert (chunks[0].choices[0].delta.role, last.choices[0].finish_reason) == (
            "assistant",
            "stop",
        )
        assert (usage.choices, usage.usage) == ([], plain.usage)

    run(scenario())


def test_the_stream_ends_with_done() -> None:
    async def scenario() -> None:
        async with talking(ScriptedModel(["Hello."])) as client:
            url = f"{client.base_url}chat/completions"
            async with httpx2.AsyncClient(trust_env=False) as http:
                body = {"model": "a", "messages": HI, "stream": True}
                text = (await http.post(url, json=body)).text
        assert text.endswith("data: [DONE]\n\n")
        assert text.count("[DONE]") == 1

    run(scenario())


def test_a_clients_function_is_called_and_the_answer_finds_its_run() -> None:
    async def scenario() -> None:
        calls = ToolCalls([("add", {"a": 1, "b": 2}), ("front", {"x": 1})], text="Wait.")
        model = ScriptedModel([calls, "It is 42.", "Again."])
        async with talking(model) as client:
            create = client.chat.completions.create
            stream = await create(model="a", messages=HI, tools=[CHAT_FRONT], stream=True)
            chunks = [chunk async for chunk in stream]
            (call,) = [c for chunk in chunks for c in chunk.choices[0].delta.tool_calls or ()]
            assert (call.function.name, call.function.arguments) == ("front", '{"x":1}')
            assert chunks[-1].choices[0].finish_reason == "tool_calls"
            turn = {"id": call.id, "type": "function", "function": call.function.model_dump()}
            history: list[Any] = [
                *HI,
                {"role": "assistant", "content": "Wait.", "tool_calls": [turn]},
                {"role": "tool", "tool_call_id": call.id, "content": "42"},
            ]
            said = await create(model="a", messages=history, tools=[CHAT_FRONT])
            assert said.choices[0].message.content == "It is 42."
            assert said.id == chunks[0].id
            # The agent's own call is part of the run, although the client never saw it.
            texts = [it.text for it in model.requests[-1].messages]
            assert texts == ["hi", "Wait.", "3", "42"]
            # A run that is over is not disturbed: the history alone makes a new thread.
            again = await create(model="a", messages=history)
            assert (again.choices[0].message.content, again.id == said.id) == ("Again.", False)
        kinds = [(it.role, it.text) for it in model.requests[-1].messages]
        assert kinds == [(Role.USER, "hi"), (Role.ASSISTANT, "Wait."), (Role.TOOL, "42")]

    run(scenario())


def test_the_history_that_a_client_sends_is_what_the_agent_knows() -> None:
    async def scenario() -> None:
        model = ScriptedModel(["Good."])
        lost = {"id": "c9", "type": "function", "function": {"name": "x", "arguments": "{}"}}
        known = {**lost, "id": "c1"}
        parts = [
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
            {"type": "file", "file": {"file_data": "JVBE", "filename": "x.pdf"}},
            {"type": "input_audio", "input_audio": {"data": "UklG", "format": "mp3"}},
        ]
        history: list[Any] = [
            {"role": "system", "content": "Be nice."},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello", "tool_calls": [lost, {**lost, "id": ""}]},
            {"role": "tool", "tool_call_id": "", "content": "of nothing"},
            {"role": "assistant", "content": "so", "tool_calls": [known, known]},
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
            {"role": "user", "content": parts},
        ]
        async with talking(model) as client:
            await client.chat.completions.create(model="a", messages=history, max_tokens=5)
        (asked,) = model.requests
        texts = [it.text for it in asked.messages]
        assert texts == ["Be nice.", "hi", "hello", "so", "42", "look"]
        assert asked.messages[2].tool_calls is None
        assert asked.messages[-1].content == (
            Text(text="look"),
            Image(source=Base64Source(media_type="image/png", data="iVBO")),
            Document(source=Base64Source(media_type="application/pdf", data="JVBE"), title="x.pdf"),
            Audio(source=Base64Source(media_type="audio/mp3", data="UklG")),
        )
        assert asked.overrides is not None
        assert asked.overrides.max_tokens == 5

    run(scenario())


def test_with_a_thread_only_what_is_new_is_taken() -> None:
    async def scenario() -> None:
        model = ScriptedModel(["One.", "Two."])
        async with talking(model) as client:
            raw = await client.chat.completions.with_raw_response.create(model="a", messages=HI)
            header = {"X-Thread-Id": raw.headers["x-thread-id"]}
            history: list[Any] = [
                *HI,
                {"role": "assistant", "content": "forged"},
                {"role": "user", "content": "on"},
            ]
            await client.chat.completions.create(model="a", messages=history, extra_headers=header)
        assert [it.text for it in model.requests[-1].messages] == ["hi", "One.", "on"]

    run(scenario())


def test_what_waits_for_an_approval_says_so() -> None:
    async def scenario() -> None:
        async with talking(ScriptedModel([ToolCalls([("erase", {"name": "x"})])])) as client:
            said = await client.chat.completions.create(model="a", messages=HI)
        (choice,) = said.choices
        assert (choice.finish_reason, choice.message.tool_calls) == ("stop", None)
        assert choice.message.content == "[The call of 'erase' waits for an approval.]"

    run(scenario())


def test_a_failed_run_is_an_error_that_the_client_does_not_repeat() -> None:
    async def scenario() -> None:
        model = ScriptedModel([ModelError("it is broken")] * 20)
        async with talking(model) as client:
            with pytest.raises(openai.InternalServerError, match="broken"):
                await client.chat.completions.create(model="a", messages=HI)
            asked = len(model.requests)
            stream = await client.chat.completions.create(model="a", messages=HI, stream=True)
            with pytest.raises(openai.APIError, match="broken"):
                _ = [chunk async for chunk in stream]
            assert len(model.requests) == 2 * asked

    run(scenario())


def test_limits_and_nonsense() -> None:
    async def scenario() -> None:
        calls = ToolCalls([("add", {"a": 1, "b": 2})])
        async with talking(ScriptedModel([calls]), max_rounds=1) as client:
            create = client.chat.completions.create
            cut = await create(model="a", messages=HI)
            assert cut.choices[0].finish_reason == "length"
            with pytest.raises(openai.NotFoundError):
                await create(model="nobody", messages=HI)
            with pytest.raises(openai.NotFoundError):
                await client.models.retrieve("nobody")
            assert (await client.models.retrieve("a")).id == "a"
            wrong: list[dict[str, Any]] = [
                {"messages": []},
                {"messages": HI, "n": 2},
                {"messages": HI, "response_format": {"type": "json_schema"}},
                {"messages": HI, "response_format": {"type": "xml"}},
                {"messages": HI, "tool_choice": "sometimes"},
                {"messages": HI, "tool_choice": {"type": "function"}},
                {"messages": [{"role": "tool", "tool_call_id": "c", "content": "x"}]},
                {"messages": [*HI, {"role": "assistant", "content": "last word"}]},
                {"messages": [{"role": "robot", "content": "x"}]},
            ]
            for body in wrong:
                with pytest.raises(openai.BadRequestError):
                    await create(model="a", **body)

    run(scenario())


def test_a_turn_that_starts_again_leaves_nothing_of_the_first_try_in_the_answer() -> None:
    first: list[AgentEvent] = [
        RunStart(thread_id="t", run_id="r"),
        StepStart(message_id="m"),
        TextDelta(delta="Wrong"),
        StreamReset(reason="cut"),
    ]
    second: list[AgentEvent] = [
        TextDelta(delta="Ri"),
        TextDelta(delta="ght."),
        InferenceComplete(model="x"),
        RunFinish(thread_id="t", run_id="r", termination=NaturalEnd()),
    ]
    chat = ChatEncoder({"id": "c"}, "r", has_usage=False)
    lines = [line for event in first + second for line in chat.encode(event)]
    assert chat.document()["choices"][0]["message"]["content"] == "Right."
    assert b'"\\n\\nRi"' in b"".join(lines)
    live, replayed = (ResponsesEncoder({"id": "resp_r", "model": "a"}, "r") for _ in range(2))
    for event in first + second:
        last = live.encode(event)
    for event in first[:2] + second:
        expected = replayed.encode(event)
    texts = [item["content"][0]["text"] for item in live.document()["output"]]
    assert texts == ["Right."]
    # The numbers are those of the log, so that a cursor of either stream fits the other.
    assert _numbers(last) == _numbers(expected)


def _numbers(lines: Any) -> list[bytes]:
    return [line.split(b'"sequence_number":')[1].split(b",")[0] for line in lines]


def run(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario, WAIT_S))
