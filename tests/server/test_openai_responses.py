"""The official OpenAI client talks to an agent over the Responses API."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from awaken import Access, RedactedString
from awaken.errors import ModelError
from awaken.messages import Base64Source, Document, Image, Role, Text, UrlSource
from awaken.models import Effort, InferenceOverride
from awaken.server import ServerConfig, TokenSpec
from awaken.testing import Chunks, ScriptedModel, ToolCalls, Turn

from .openai_world import (
    FRONT,
    GatedModel,
    checked,
    client_of,
    frames,
    runtime_of,
    talking,
    whole,
)
from .serving import serving

WAIT_S = 20


def test_an_agent_answers_at_once_or_in_a_stream_with_the_same_response() -> None:
    async def scenario() -> None:
        turns = [Turn(text=Chunks(["Hel", "lo."]), reasoning="hm")] * 2
        async with talking(ScriptedModel(turns)) as client:
            plain = checked(await client.responses.create(model="a", input="hi"))
            async with client.responses.stream(model="a", input="hi") as stream:
                kinds = [event.type async for event in stream]
                streamed = await stream.get_final_response()
            kept = checked(await client.responses.retrieve(streamed.id))
        assert (plain.output_text, plain.status, plain.model) == ("Hello.", "completed", "a")
        assert plain.usage.input_tokens, plain.usage.total_tokens == (10, 30)
        assert [item.type for item in plain.output] == ["reasoning", "message"]
        assert streamed.output_text == "Hello."
        assert kept.output == checked(kept).output
        assert (kept.output_text, kept.usage, kept.status) == ("Hello.", plain.usage, "completed")
        assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
        assert kinds.count("response.output_text.delta") == 2

    run(scenario())


def test_the_synchronous_client_works_as_well() -> None:
    async def scenario() -> None:
        runtime = runtime_of(ScriptedModel(["One.", "Two."]))
        async with serving(runtime) as url:

            def talk() -> list[str]:
                with openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
                    first = client.responses.create(model="a", input="hi")
                    events = client.responses.create(
                        model="a", input="on", previous_response_id=first.id, stream=True
                    )
                    *_, last = events
                    models = [model.id for model in client.models.list()]
                    return [first.output_text, last.response.output_text, *models]

            assert await asyncio.to_thread(talk) == ["One.", "Two.", "a"]

    run(scenario())


def test_cut_off_at_any_event_a_client_gets_exactly_the_rest() -> None:
    async def scenario() -> None:
        calls = ToolCalls([("add", {"a": 1, "b": 2}), ("front", {"x": 1})], text="Let me see.")
        said = Turn(text=Chunks(["Once ", "upon ", "ä 𝄞 ", "time."]), reasoning="let me think")
        async with talking(ScriptedModel([said, calls, said])) as client:
            ask = {"model": "a", "input": "hi", "stream": True}
            await _cut_everywhere(client, ask)
            asked = await _cut_everywhere(client, {**ask, "tools": [FRONT]})
            output = {"type": "function_call_output", "output": "42"}
            answer = {**output, "call_id": asked["output"][-1]["call_id"]}
            previous = {"previous_response_id": asked["id"]}
            await _cut_everywhere(client, {**ask, "input": [answer], **previous})

    run(scenario())


def test_a_client_that_was_cut_off_in_a_running_text_attaches_to_it_again() -> None:
    async def scenario() -> None:
        model = GatedModel(["Hel", "lo ", "wor"], ["ld", "."])
        async with talking(model) as client:
            seen, kept = [], None
            async with client.responses.stream(model="a", input="hi") as stream:
                async for event in stream:
                    if event.type == "response.created":
                        kept = event.response.id
                    if event.type == "response.output_text.delta":
                        seen.append(event.delta)
                        if len(seen) == 2:
                            break
            again = await client.responses.retrieve(
                kept or "", stream=True, starting_after=event.sequence_number
            )
            now = await client.responses.retrieve(kept or "")
            assert now.status == "in_progress"
            model.may_go_on.set()
            async for event in again:
                if event.type == "response.output_text.delta":
                    seen.append(event.delta)
            assert event.response.output_text == "Hello world."
        assert "".join(seen) == "Hello world."

    run(scenario())


def test_a_clients_function_is_called_and_its_output_goes_back_to_the_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = f"sqlite:///{tmp_path}/s.db"
        calls = ToolCalls([("add", {"a": 1, "b": 2}), ("front", {"x": 1})], text="Wait.")
        one, other = ScriptedModel([calls]), ScriptedModel(["It is 42.", "Or not.", "Bye."])
        options: dict[str, Any] = {"model": "a", "tools": [FRONT], "instructions": "Be nice."}
        async with talking(one, store=store) as client:
            asked = checked(await client.responses.create(input="hi", **options))
        assert [item.type for item in asked.output] == ["message", "mcp_call", "function_call"]
        _, own, call = asked.output
        assert (own.name, own.output, call.name, call.arguments) == ("add", "3", "front", '{"x":1}')
        async with talking(other, store=store) as client:
            output = {"type": "function_call_output", "call_id": call.call_id, "output": "42"}
            previous = {"previous_response_id": asked.id}
            with pytest.raises(openai.BadRequestError, match="No tool output found"):
                await client.responses.create(input="never mind", **previous, **options)
            said = await client.responses.create(input=[output], **previous, **options)
            assert (said.output_text, len(said.output)) == ("It is 42.", 1)
            assert said.id != asked.id
            first = await client.responses.retrieve(asked.id)
            assert first.output == asked.output
            # Each response ends where it ended, although the run went on.
            stream = await client.responses.retrieve(asked.id, stream=True)
            ends = [event.response for event in [it async for it in stream][-1:]]
            assert [end.output for end in ends] == [asked.output]
            ahead = [f"{asked.id}~{after}" for after in range(99, 0, -1)]
            unbegun = await anext(_known(client, ahead))
            assert (unbegun.status, unbegun.output) == ("queued", [])
            # Another answer to the same response is another branch.
            other_output = {**output, "output": "41"}
            branch = await client.responses.create(input=[other_output], **previous, **options)
            assert branch.output_text == "Or not."
            branched = [it.text for it in other.requests[-1].messages]
            assert branched == ["Be nice.", "hi", "Wait.", "3", "41"]
            options["previous_response_id"] = said.id
            assert (await client.responses.create(input="bye", **options)).output_text == "Bye."
        messages = [(it.role, it.text) for it in other.requests[-1].messages]
        assert messages == [
            (Role.SYSTEM, "Be nice."),
            (Role.USER, "hi"),
            (Role.ASSISTANT, "Wait."),
            (Role.TOOL, "3"),
            (Role.TOOL, "42"),
            (Role.ASSISTANT, "It is 42."),
            (Role.USER, "bye"),
        ]

    run(scenario())


@pytest.mark.parametrize("output", ["42", '"42"', "sunny", '{"t": 5}', ""])
def test_the_output_of_a_clients_function_is_told_as_it_is(output: str) -> None:
    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("front", {"x": 1})]), "Good."])
        async with talking(model) as client:
            asked = await client.responses.create(model="a", input="hi", tools=[FRONT])
            call_id = asked.output[-1].call_id
            given = {"type": "function_call_output", "call_id": call_id, "output": output}
            await client.responses.create(model="a", input=[given], previous_response_id=asked.id)
        assert model.requests[-1].messages[-1].text == output

    run(scenario())


def test_a_client_that_keeps_the_history_itself_finds_its_waiting_run() -> None:
    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("front", {"x": 1})], text="Wait."), "Good.", "Else."])
        async with talking(model) as client:
            history: list[Any] = [{"role": "user", "content": "hi"}]
            asked = await client.responses.create(model="a", input=history, tools=[FRONT])
            history += [item.model_dump(exclude_none=True) for item in asked.output]
            call_id = asked.output[-1].call_id
            history.append({"type": "function_call_output", "call_id": call_id, "output": "42"})
            said = await client.responses.create(model="a", input=history)
            assert said.output_text == "Good."
            assert said.id.startswith(asked.id)
            # The run is over: the same history on its own begins a thread.
            again = await client.responses.create(model="a", input=history)
            assert (again.output_text, again.id.startswith(asked.id)) == ("Else.", False)
        assert [it.role for it in model.requests[-1].messages] == [
            "user",
            "assistant",
            "assistant",
            "tool",
        ]
        assert model.requests[-1].messages[-1].text == "42"

    run(scenario())


def test_an_approval_in_a_kept_history_repeats_no_message() -> None:
    async def scenario() -> None:
        model = ScriptedModel(
            ["Hello.", ToolCalls([("erase", {"name": "x"})]), "Erased.", "Welcome."]
        )
        async with talking(model) as client:
            history: list[Any] = [{"role": "user", "content": "hi"}]
            greeted = await client.responses.create(model="a", input=history)
            history += [*greeted.output, {"role": "user", "content": "erase x"}]
            asked = await client.responses.create(model="a", input=history)
            (request,) = asked.output
            yes = {"type": "mcp_approval_response", "approval_request_id": request.id}
            history += [request, {**yes, "approve": True}]
            said = await client.responses.create(model="a", input=history)
            assert said.output_text == "Erased."
            seen = [(it.role, it.text) for it in model.requests[-1].messages]
            assert seen[2:] == [("user", "erase x"), ("assistant", ""), ("tool", "erased x")]
            history += [*said.output, {"role": "user", "content": "thanks"}]
            await client.responses.create(model="a", input=history)
        texts = [it.text for it in model.requests[-1].messages]
        assert texts == ["hi", "Hello.", "erase x", "", "erased x", "Erased.", "thanks"]

    run(scenario())


def test_messages_can_come_together_with_the_outputs() -> None:
    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("erase", {"name": "x"}), ("front", {})]), "Good."])
        async with talking(model) as client:
            asked = await client.responses.create(model="a", input="hi", tools=[FRONT])
            request, call = asked.output
            answers: list[Any] = [
                {"type": "function_call_output", "call_id": call.call_id, "output": "42"},
                {
                    "type": "mcp_approval_response",
                    "approval_request_id": request.id,
                    "approve": True,
                },
                {"role": "user", "content": "and be quick"},
            ]
            said = checked(
                await client.responses.create(
                    model="a", input=answers, previous_response_id=asked.id
                )
            )
        own, message = said.output
        assert (own.type, own.name, own.output) == ("mcp_call", "erase", "erased x")
        assert own.approval_request_id == request.id
        assert message.content[0].text == "Good."
        texts = [it.text for it in model.requests[-1].messages]
        assert texts[-1] == "and be quick"
        assert sorted(texts[2:4]) == ["42", "erased x"]

    run(scenario())


@pytest.mark.parametrize(("approve", "result"), [(True, "erased x"), (False, "no way")])
def test_an_approval_is_asked_for_and_answered(approve: bool, result: str) -> None:
    async def scenario() -> None:
        model = ScriptedModel([ToolCalls([("erase", {"name": "x"})]), "Done."])
        async with talking(model) as client:
            asked = checked(await client.responses.create(model="a", input="hi"))
            (request,) = asked.output
            assert (request.type, request.name) == ("mcp_approval_request", "erase")
            assert request.arguments == '{"name":"x"}'
            answer: Any = {
                "type": "mcp_approval_response",
                "approval_request_id": request.id,
                "approve": approve,
                "reason": "no way",
            }
            said = await client.responses.create(
                model="a", input=[answer], previous_response_id=asked.id
            )
        assert said.output_text == "Done."
        assert result in model.requests[-1].messages[-1].text

    run(scenario())


def test_only_who_may_decide_can_approve_and_foreign_responses_do_not_exist() -> None:
    async def scenario() -> None:
        calls = ToolCalls([("erase", {"name": "x"})])
        may = frozenset({Access.INVOKE, Access.READ})
        tokens = (
            _token("a-token", "one", may),
            _token("b-token", "two", may),
        )
        runtime = runtime_of(ScriptedModel([calls]))
        async with (
            serving(runtime, ServerConfig(tokens=tokens)) as url,
            client_of(url, "a-token") as own,
            client_of(url, "b-token") as foreign,
        ):
            asked = await own.responses.create(model="a", input="hi")
            answer: Any = {
                "type": "mcp_approval_response",
                "approval_request_id": asked.output[0].id,
                "approve": True,
            }
            given: dict[str, Any] = {"model": "a", "input": [answer]}
            with pytest.raises(openai.PermissionDeniedError):
                await own.responses.create(previous_response_id=asked.id, **given)
            for ask in (
                lambda: foreign.responses.retrieve(asked.id),
                lambda: foreign.responses.cancel(asked.id),
                lambda: foreign.responses.input_items.list(asked.id),
                lambda: foreign.responses.create(previous_response_id=asked.id, **given),
            ):
                with pytest.raises(openai.NotFoundError):
                    await ask()
            with pytest.raises(openai.BadRequestError):
                await foreign.responses.create(**given)

    run(scenario())


def test_a_background_response_is_queued_and_can_be_polled_and_followed() -> None:
    async def scenario() -> None:
        model = GatedModel(["Slow"], ["ly."])
        async with talking(model) as client:
            queued = checked(await client.responses.create(model="a", input="hi", background=True))
            assert queued.status in ("queued", "in_progress")
            stream = await client.responses.retrieve(queued.id, stream=True)
            model.may_go_on.set()
            last = [event async for event in stream][-1]
            assert last.response.output_text == "Slowly."
            done = checked(await client.responses.retrieve(queued.id))
            assert (done.status, done.output_text) == ("completed", "Slowly.")

    run(scenario())


def test_answers_can_be_given_in_the_background() -> None:
    async def scenario() -> None:
        async with talking(ScriptedModel([ToolCalls([("front", {})]), "Good."])) as client:
            asked = await client.responses.create(model="a", input="hi", tools=[FRONT])
            output: Any = {"type": "function_call_output", "output": "42"}
            queued = await client.responses.create(
                model="a",
                input=[{**output, "call_id": asked.output[0].call_id}],
                previous_response_id=asked.id,
                background=True,
            )
            assert (queued.status, queued.output) == ("queued", [])
            now = await client.responses.retrieve(queued.id)
            assert "function_call" not in [item.type for item in now.output]
            stream = await client.responses.retrieve(queued.id, stream=True)
            last = [event async for event in stream][-1]
            assert [item.type for item in last.response.output] == ["message"]

    run(scenario())


def test_cancelling_keeps_what_was_said() -> None:
    async def scenario() -> None:
        async with talking(GatedModel(["Once ", "upon"], ["never"])) as client:
            stream = await client.responses.create(model="a", input="hi", stream=True)
            response_id, last = "", None
            async for event in stream:
                if event.type == "response.created":
                    response_id = event.response.id
                if event.type == "response.output_text.delta" and event.delta == "upon":
                    stopped = checked(await client.responses.cancel(response_id))
                last = event
            assert (stopped.status, stopped.output_text) == ("cancelled", "Once upon")
            assert last is not None
            assert (last.type, last.response.status) == ("response.incomplete", "cancelled")
            assert last.response.output[0].status == "incomplete"
            again = await client.responses.cancel(response_id)
            assert (again.status, again.output_text) == ("cancelled", "Once upon")

    run(scenario())


def test_a_conversation_is_a_thread() -> None:
    async def scenario() -> None:
        model = ScriptedModel(["One.", "Two.", "Three."])
        async with talking(model) as client:
            first = await client.responses.create(model="a", input="1", conversation="t")
            assert first.conversation is not None
            await client.responses.create(model="a", input="2", conversation=first.conversation.id)
            raw = await client.responses.with_raw_response.create(
                model="a", input="3", extra_headers={"X-Thread-Id": "t"}
            )
            assert raw.headers["x-thread-id"] == "t"
            with pytest.raises(openai.BadRequestError, match="not both"):
                await client.responses.create(
                    model="a", input="4", conversation="t", previous_response_id=first.id
                )
        texts = [it.text for it in model.requests[-1].messages]
        assert texts == ["1", "One.", "2", "Two.", "3"]

    run(scenario())


def test_settings_and_media_reach_the_model() -> None:
    async def scenario() -> None:
        model = ScriptedModel(["Fine."])
        parts: list[Any] = [
            {"type": "input_text", "text": "look"},
            {"type": "input_image", "image_url": "data:image/gif;base64,R0lG", "detail": "auto"},
            {"type": "input_image", "image_url": "https://example.org/x.png", "detail": "auto"},
            {"type": "input_file", "file_data": "JVBE", "filename": "x.pdf"},
        ]
        async with talking(model) as client:
            said = await client.responses.create(
                model="a",
                input=[{"role": "developer", "content": "Hm."}, {"role": "user", "content": parts}],
                max_output_tokens=7,
                temperature=0.5,
                top_p=0.25,
                reasoning={"effort": "minimal"},
                metadata={"k": "v"},
            )
            items = [item async for item in client.responses.input_items.list(said.id)]
        assert (said.metadata, said.max_output_tokens, said.temperature) == ({"k": "v"}, 7, 0.5)
        assert [item.role for item in items] == ["system", "user"]
        assert [part.type for part in items[1].content] == ["input_text"] + ["input_image"] * 2
        (asked,) = model.requests
        assert asked.overrides is not None
        wanted = InferenceOverride(
            temperature=0.5, max_tokens=7, top_p=0.25, reasoning_effort=Effort.LOW
        )
        assert asked.overrides.merge(wanted) == asked.overrides
        assert asked.messages[-1].content == (
            Text(text="look"),
            Image(source=Base64Source(media_type="image/gif", data="R0lG")),
            Image(source=UrlSource(url="https://example.org/x.png")),
            Document(source=Base64Source(media_type="application/pdf", data="JVBE"), title="x.pdf"),
        )

    run(scenario())


def test_a_response_says_how_its_run_ended() -> None:
    async def scenario() -> None:
        async with talking(ScriptedModel([ModelError("it is broken")] * 9)) as client:
            failed = checked(await client.responses.create(model="a", input="hi"))
            assert (failed.status, failed.output) == ("failed", [])
            assert failed.error is not None
            assert "broken" in failed.error.message
            events = await frames(
                client, "POST", "responses", json={"model": "a", "input": "hi", "stream": True}
            )
            assert events[-1]["type"] == "response.failed"
        calls = ToolCalls([("add", {"a": 1, "b": 2})])
        async with talking(ScriptedModel([calls]), max_rounds=1) as client:
            cut = checked(await client.responses.create(model="a", input="hi"))
        assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_messages")

    run(scenario())


def test_what_makes_no_sense_is_refused_in_openais_own_form() -> None:
    async def scenario() -> None:
        async with talking(ScriptedModel(["Hello."] * 9)) as client:
            create = client.responses.create
            said = await create(model="a", input="hi")
            with pytest.raises(openai.NotFoundError) as unknown:
                await create(model="nobody", input="hi")
            assert unknown.value.code == "model_not_found"
            for response_id in ("resp_nobody", "nobody", f"{said.id}~99"):
                with pytest.raises(openai.NotFoundError):
                    await client.responses.retrieve(response_id)
            wrong: list[dict[str, Any]] = [
                {"input": []},
                {"input": [{"type": "computer_call_output", "call_id": "c"}, {"content": "hi"}]},
                {"input": [{"role": "owner", "content": "hi"}]},
                {"input": [{"role": "user", "content": [{"type": "video"}]}]},
                {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
                {
                    "input": [
                        {
                            "role": "user",
                            "content": [{"type": "input_image", "image_url": "file:///etc/x"}],
                        }
                    ]
                },
                {"input": "hi", "tools": [{"type": "web_search"}]},
                {"input": "hi", "reasoning": {"effort": "enormous"}},
                {"input": "hi", "text": {"format": {"type": "json_schema", "name": "x"}}},
                {"input": "hi", "text": {"format": {"type": "xml"}}},
                {
                    "input": "hi",
                    "text": {
                        "format": {"type": "json_schema", "name": "x", "schema": {"type": "odd"}}
                    },
                },
                {"input": "hi", "tool_choice": {"type": "web_search"}},
                {"input": 5},
            ]
            for body in wrong:
                with pytest.raises(openai.BadRequestError) as refused:
                    await create(model="a", **body)
                assert refused.value.type == "invalid_request_error", body
            with pytest.raises(openai.BadRequestError):
                await client.responses.retrieve(said.id, stream=True, starting_after=-5)
            with pytest.raises(openai.APIStatusError, match="is deleted with its thread") as kept:
                await client.responses.delete(said.id)
            assert kept.value.status_code == 405

    run(scenario())


async def _cut_everywhere(client: openai.AsyncOpenAI, body: Any) -> Any:
    """Start a response, and attach again after each of its events; returns the response."""
    story = await frames(client, "POST", "responses", json=body)
    path = f"responses/{story[0]['response']['id']}"
    numbers = [event["sequence_number"] for event in story]
    assert numbers == sorted(set(numbers))
    for at, number in enumerate(numbers):
        query = {"stream": "true", "starting_after": str(number)}
        rest = await frames(client, "GET", path, params=query)
        assert whole(story[: at + 1] + rest) == whole(story)
    assert whole(await frames(client, "GET", f"{path}?stream=true")) == whole(story)
    return story[-1]["response"]


async def _known(client: openai.AsyncOpenAI, ids: list[str]) -> AsyncIterator[Any]:
    for response_id in ids:
        with suppress(openai.NotFoundError):
            yield await client.responses.retrieve(response_id)


def _token(token: str, tenant_id: str, access: frozenset[Access]) -> TokenSpec:
    return TokenSpec(id=tenant_id, access=access, token=RedactedString(token), tenant_id=tenant_id)


def run(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario, WAIT_S))
