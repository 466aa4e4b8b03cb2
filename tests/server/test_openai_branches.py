"""What OpenAI's clients do besides asking: go on twice, send answers back, want a form."""

import asyncio
import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from awaken.messages import Role
from awaken.testing import ScriptedModel, ToolCalls

from .openai_world import CHAT_FRONT, FRONT, GatedModel, checked, talking

HI: list[Any] = [{"role": "user", "content": "hi"}]


class Weather(BaseModel):
    """What a client wants to know."""

    city: str
    degrees: int


def texts(model: ScriptedModel) -> list[str]:
    return [it.text for it in model.requests[-1].messages]


def run(scenario: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await scenario

    asyncio.run(bounded())


def test_two_continuations_of_one_response_are_two_branches() -> None:
    async def scenario() -> None:
        model = ScriptedModel(["One.", "Left.", "Right.", "Left again.", "Back."])
        async with talking(model) as client:
            create = client.responses.create
            first = await create(model="a", input="1")
            left = await create(model="a", input="left", previous_response_id=first.id)
            right = await create(model="a", input="right", previous_response_id=first.id)
            assert texts(model) == ["1", "One.", "right"]
            assert (left.output_text, right.output_text) == ("Left.", "Right.")
            await create(model="a", input="more", previous_response_id=left.id)
            assert texts(model) == ["1", "One.", "left", "Left.", "more"]
            await create(model="a", input="back", previous_response_id=right.id)
            assert texts(model) == ["1", "One.", "right", "Right.", "back"]

    run(scenario())


@pytest.mark.parametrize("is_background", [False, True])
def test_continuations_at_the_same_moment_neither_see_nor_cancel_each_other(
    is_background: bool,
) -> None:
    async def scenario() -> None:
        model = ScriptedModel(["One.", *(["Next."] * 6)])
        async with talking(model) as client:
            first = await client.responses.create(model="a", input="1")
            asked = [
                client.responses.create(
                    model="a",
                    input=f"branch {n}",
                    previous_response_id=first.id,
                    background=is_background,
                )
                for n in range(6)
            ]
            found = await asyncio.gather(*asked)
            for n, it in enumerate(found):
                while it.status in ("queued", "in_progress"):
                    it = await client.responses.retrieve(it.id)
                assert (it.status, it.output_text) == ("completed", "Next."), n
        seen = sorted([message.text for message in it.messages] for it in model.requests[1:])
        assert seen == [["1", "One.", f"branch {n}"] for n in range(6)]

    run(scenario())


def test_a_response_that_goes_on_cannot_be_continued() -> None:
    async def scenario() -> None:
        model = GatedModel(["Once "], ["more."])
        async with talking(model) as client:
            first = await client.responses.create(model="a", input="1", background=True)
            with pytest.raises(openai.BadRequestError) as refused:
                await client.responses.create(model="a", input="2", previous_response_id=first.id)
            assert refused.value.code == "previous_response_in_progress"
            model.may_go_on.set()
            while first.status != "completed":
                first = await client.responses.retrieve(first.id)
            assert (first.output_text, first.background) == ("Once more.", True)

    run(scenario())


def test_what_a_response_said_may_come_back_as_input() -> None:
    """As the Agents SDK does it: the whole list of items, with every field, null or not."""

    async def scenario() -> None:
        calls = ToolCalls([("add", {"a": 1, "b": 2}), ("front", {"x": 1})], text="Wait.")
        model = ScriptedModel([calls, "It is 42.", "Bye."])
        async with talking(model) as client:
            items: list[Any] = [{"role": "user", "content": "hi"}]
            first = checked(
                await client.responses.create(model="a", input=items, tools=[FRONT])  # type: ignore[list-item]
            )
            items += [item.model_dump() for item in first.output]
            call_id = next(it.call_id for it in first.output if it.type == "function_call")
            answer = {"type": "function_call_output", "call_id": call_id, "output": "42"}
            items.append(answer)
            second = await client.responses.create(model="a", input=items, tools=[FRONT])  # type: ignore[list-item]
            assert second.output_text == "It is 42."
            items += [item.model_dump() for item in second.output]
            items.append({"role": "user", "content": "thanks"})
            third = await client.responses.create(model="a", input=items)
            assert third.output_text == "Bye."
        said = [(it.role, it.text) for it in model.requests[-1].messages]
        assert said == [
            (Role.USER, "hi"),
            (Role.ASSISTANT, "Wait."),
            (Role.ASSISTANT, ""),
            (Role.TOOL, "3"),
            (Role.ASSISTANT, ""),
            (Role.TOOL, "42"),
            (Role.ASSISTANT, "It is 42."),
            (Role.USER, "thanks"),
        ]

    run(scenario())


def test_an_answer_has_the_form_that_is_asked_for() -> None:
    async def scenario() -> None:
        good = '{"city": "Oslo", "degrees": 7}'
        model = ScriptedModel(["It is cold.", good, good, good])
        async with talking(model) as client:
            parsed = await client.responses.parse(model="a", input="?", text_format=Weather)
            assert parsed.output_parsed == Weather(city="Oslo", degrees=7)
            schema = model.requests[0].output_schema
            assert schema is not None
            assert schema["required"] == ["city", "degrees"]
            assert parsed.text is not None
            assert parsed.text.format is not None
            assert parsed.text.format.type == "json_schema"
            chat = await client.chat.completions.parse(
                model="a", messages=HI, response_format=Weather
            )
            assert chat.choices[0].message.parsed == Weather(city="Oslo", degrees=7)
            plain = await client.chat.completions.create(
                model="a", messages=HI, response_format={"type": "json_object"}
            )
            assert json.loads(plain.choices[0].message.content or "")["degrees"] == 7
            assert model.requests[-1].output_schema == {
                "type": "object",
                "additionalProperties": True,
            }

    run(scenario())


def test_a_queued_answer_is_shown_as_it_fits() -> None:
    async def scenario() -> None:
        model = ScriptedModel(["It is cold.", '{"city": "Oslo", "degrees": 7}'])
        async with talking(model) as client:
            said = await client.responses.create(
                model="a", input="?", background=True, text={"format": {"type": "json_object"}}
            )
            while said.status in ("queued", "in_progress"):
                said = await client.responses.retrieve(said.id)
            assert json.loads(said.output_text)["city"] == "Oslo"
            last = [it async for it in await client.responses.retrieve(said.id, stream=True)][-1]
            assert last.response.output == said.output

    run(scenario())


def test_an_answer_that_never_fits_fails_the_run() -> None:
    async def scenario() -> None:
        async with talking(ScriptedModel(["no"], cycle=True)) as client:
            said = await client.responses.create(
                model="a", input="?", text={"format": {"type": "json_object"}}
            )
            assert said.status == "failed"

    run(scenario())


def test_the_form_holds_after_a_call_was_answered() -> None:
    async def scenario() -> None:
        calls = ToolCalls([("front", {"x": 1})])
        model = ScriptedModel([calls, '{"city": "Oslo", "degrees": 7}'])
        async with talking(model) as client:
            first = await client.responses.parse(
                model="a",
                input="?",
                text_format=Weather,
                tools=[FRONT],  # type: ignore[list-item]
            )
            call: Any = first.output[0]
            answer: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "7"}
            second = await client.responses.create(
                model="a", input=[answer], previous_response_id=first.id
            )
            assert json.loads(second.output_text)["city"] == "Oslo"
        assert model.requests[-1].output_schema == model.requests[0].output_schema != None  # noqa: E711

    run(scenario())


def test_the_choice_of_a_tool_reaches_the_first_request_and_comes_back() -> None:
    async def scenario() -> None:
        calls = ToolCalls([("add", {"a": 1, "b": 2})])
        model = ScriptedModel([calls, "3", "Hi.", ToolCalls([("front", {"x": 1})]), "Hi."])
        async with talking(model) as client:
            create = client.responses.create
            said = await create(model="a", input="?", tool_choice="required")
            assert said.tool_choice == "required"
            assert [it.tool_choice for it in model.requests] == ["required", None]
            await create(model="a", input="?", tool_choice="none", tools=[FRONT])  # type: ignore[list-item]
            assert model.requests[-1].tool_choice == "none"
            named: Any = {"type": "function", "name": "front"}
            said = await create(model="a", input="?", tool_choice=named, tools=[FRONT])  # type: ignore[list-item]
            assert model.requests[-1].tool_choice == "front"
            inner: Any = {"type": "function", "function": {"name": "front"}}
            tools: Any = [CHAT_FRONT]
            await client.chat.completions.create(
                model="a", messages=HI, tool_choice=inner, tools=tools
            )
            assert model.requests[-1].tool_choice == "front"

    run(scenario())


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_cancelled_completion_never_says_that_it_stopped_by_itself(is_streamed: bool) -> None:
    async def scenario() -> None:
        model = GatedModel(["Once "], ["more."])
        async with talking(model) as client:

            async def ask() -> list[str | None]:
                created: Any = await client.chat.completions.create(
                    model="a", messages=HI, stream=is_streamed, extra_headers={"X-Thread-Id": "t"}
                )
                if not is_streamed:
                    return [created.choices[0].finish_reason]
                return [chunk.choices[0].finish_reason async for chunk in created]

            asking = asyncio.create_task(ask())
            http = client._client
            while (await http.post(f"{client.base_url}threads/t/cancel")).status_code != 202:
                await asyncio.sleep(0.01)
            with pytest.raises(openai.APIError) as stopped:
                await asking
            assert stopped.value.code == "cancelled"

    run(scenario())
