import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken.contracts.messages.content import Image, UrlSource
from awaken.contracts.messages.deltas import TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.messages.message import (
    Message,
    ToolCall,
    Visibility,
    assistant,
    system,
    tool_answer,
    user,
)
from awaken.contracts.models.inference import (
    InferenceRequest,
    ModelClient,
    ModelEvent,
    ModelTool,
    Stop,
    StopReason,
    UsageReport,
)
from awaken.providers.scripted import OPENUI_TEXT, ScriptedProvider

TOOLS = ("get_weather", "get_stock_price", "ToolSearch", "render_a2ui")


def ask(*messages: Message, tools=TOOLS, system=()) -> list[ModelEvent]:
    request = InferenceRequest(
        upstream_model="scripted",
        messages=list(messages),
        system=system,
        tools=tuple(ModelTool(id=name, description="", parameters={}) for name in tools),
    )

    async def collect():
        return [event async for event in ScriptedProvider().stream(request)]

    return asyncio.run(collect())


def text(events: list[ModelEvent]) -> str:
    return "".join(event.delta for event in events if isinstance(event, TextDelta))


def calls(events: list[ModelEvent]) -> list[tuple[str, object]]:
    names = [event.name for event in events if isinstance(event, ToolCallStart)]
    sent = [json.loads(event.args_delta) for event in events if isinstance(event, ToolCallDelta)]
    return list(zip(names, sent, strict=True))


def ids(events: list[ModelEvent]) -> list[str]:
    return [event.id for event in events if isinstance(event, ToolCallStart)]


def called(call_id: str, name: str = "get_weather") -> Message:
    return assistant("", [ToolCall(id=call_id, name=name, arguments={})])


def hidden(words: str) -> Message:
    return user(words, visibility=Visibility.INTERNAL)


def test_the_provider_is_a_model_client():
    assert isinstance(ScriptedProvider(), ModelClient)
    assert ScriptedProvider().name == "scripted"


def test_plain_text_is_quoted_back_in_word_sized_deltas():
    events = ask(user("Hello  there,\nfriend"))
    assert text(events) == "Scripted response to: Hello  there,\nfriend"
    assert [event.delta for event in events if isinstance(event, TextDelta)][:2] == [
        "Scripted ",
        "response ",
    ]
    assert events[-1] == Stop(reason=StopReason.END_TURN)


def test_long_text_is_cut_at_eighty_characters():
    assert text(ask(user("é" * 200))) == "Scripted response to: " + "é" * 80


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_text_survives_being_cut_into_words(words):
    assert text(ask(user(words), tools=())) == f"Scripted response to: {words}"


@pytest.mark.parametrize(
    ("mark", "call"),
    [
        ("RUN_WEATHER_TOOL", ("get_weather", {"location": "Tokyo"})),
        ("RUN_STOCK_TOOL", ("get_stock_price", {"symbol": "AAPL"})),
        ("RUN_TOOL_SEARCH_WEATHER", ("ToolSearch", {"query": "select:get_weather"})),
    ],
)
def test_a_mark_calls_its_tool(mark, call):
    events = ask(user(f"please {mark} now"))
    assert calls(events) == [call]
    assert text(events) == ""
    assert events[-1] == Stop(reason=StopReason.TOOL_USE)


def test_the_a2ui_mark_renders_a_batch_whose_root_is_one_of_its_components():
    [(name, sent)] = calls(ask(user("RUN_A2UI_TOOL")))
    update, begin = sent["messages"]
    assert name == "render_a2ui"
    components = {item["id"] for item in update["surfaceUpdate"]["components"]}
    assert begin["beginRendering"]["root"] in components
    assert begin["beginRendering"]["surfaceId"] == update["surfaceUpdate"]["surfaceId"]


def test_several_marks_become_one_batch_with_different_ids():
    events = ask(user("RUN_STOCK_TOOL and RUN_WEATHER_TOOL"))
    assert [name for name, _ in calls(events)] == ["get_weather", "get_stock_price"]
    assert len(set(ids(events))) == 2


def test_a_tool_that_is_not_offered_is_not_called():
    events = ask(user("RUN_WEATHER_TOOL"), tools=("get_stock_price",))
    assert calls(events) == []
    assert text(events) == "Scripted response to: RUN_WEATHER_TOOL"


def test_only_the_offered_ones_of_several_are_called():
    events = ask(user("RUN_WEATHER_TOOL RUN_STOCK_TOOL"), tools=("get_stock_price",))
    assert [name for name, _ in calls(events)] == ["get_stock_price"]


def test_results_are_answered_with_a_text_that_names_them():
    asked = assistant(
        "",
        [
            ToolCall(id="a", name="get_weather"),
            ToolCall(id="b", name="get_stock_price"),
        ],
    )
    events = ask(
        user("RUN_WEATHER_TOOL RUN_STOCK_TOOL"),
        asked,
        tool_answer("a", "sunny"),
        tool_answer("b", "187"),
    )
    assert calls(events) == []
    assert text(events) == "get_weather returned: sunny\nget_stock_price returned: 187"


def test_a_hidden_message_after_a_result_does_not_call_again():
    events = ask(
        user("RUN_WEATHER_TOOL"), called("a"), tool_answer("a", "sunny"), hidden("be brief")
    )
    assert calls(events) == []
    assert "sunny" in text(events)


def test_a_hidden_mark_waits_until_the_results_are_answered():
    asked = (user("RUN_WEATHER_TOOL"), called("a"), tool_answer("a", "sunny"))
    assert calls(ask(*asked, hidden("RUN_STOCK_TOOL"))) == []
    assert calls(ask(*asked, assistant("Done."), hidden("RUN_STOCK_TOOL"))) != []


def test_a_mark_that_was_answered_before_does_not_call_again():
    turn = (user("RUN_WEATHER_TOOL"), called("a"), tool_answer("a", "sunny"), assistant("Done."))
    assert calls(ask(*turn, hidden("wake up"))) == []
    assert text(ask(*turn, hidden("wake up"))) == "Scripted response to: wake up"
    assert calls(ask(*turn, user("RUN_WEATHER_TOOL"))) != []


def test_a_person_counts_before_a_hidden_message():
    assert text(ask(user("hello"), hidden("reminder"))) == "Scripted response to: hello"


def test_a_person_who_speaks_after_a_result_is_answered():
    events = ask(user("RUN_WEATHER_TOOL"), called("a"), tool_answer("a", "sunny"), user("stop"))
    assert text(events) == "Scripted response to: stop"


@pytest.mark.parametrize("where", ["system", "messages"])
def test_an_openui_prompt_gets_openui_before_everything_else(where):
    prompt = "Answer in OpenUI Lang only."
    words = user("RUN_WEATHER_TOOL")
    events = (
        ask(words, system=(prompt,))
        if where == "system"
        else ask(system("Hi."), system(prompt), words)
    )
    assert text(events) == OPENUI_TEXT
    assert calls(events) == []


def test_system_messages_are_neither_quoted_nor_openui_by_themselves():
    assert text(ask(system("Be kind."), user("hello"))) == "Scripted response to: hello"
    assert text(ask(user("a"), assistant("b"), system("c"))) == "Scripted response to: "


def test_a_user_who_mentions_openui_gets_no_openui():
    assert text(ask(user("What is OpenUI Lang?"))).startswith("Scripted response")


def test_messages_without_text_and_no_messages_are_answered():
    assert text(ask(user(Image(source=UrlSource(url="x"))))) == "Scripted response to: "
    assert text(ask()) == "Scripted response to: "


def test_call_ids_are_the_same_for_the_same_request_and_new_in_a_longer_conversation():
    first = (user("RUN_WEATHER_TOOL"),)
    [one] = ids(ask(*first))
    assert ids(ask(*first)) == [one]
    longer = (*first, called(one), tool_answer(one, "sunny"), user("RUN_WEATHER_TOOL"))
    assert ids(ask(*longer)) != [one]


def test_call_ids_stay_unique_when_compaction_shortens_the_conversation():
    [one] = ids(ask(user("a"), user("b"), user("RUN_WEATHER_TOOL")))
    after = ids(ask(called(one), tool_answer(one, "sunny"), user("RUN_WEATHER_TOOL")))
    assert one not in after


def test_usage_is_deterministic_and_grows_with_the_lengths():
    def usage(events):
        [report] = [event for event in events if isinstance(event, UsageReport)]
        return report.usage

    short, again, long = (
        usage(ask(user("hi"))),
        usage(ask(user("hi"))),
        usage(ask(user("x" * 80), user("y" * 80))),
    )
    assert short == again
    assert short.total_tokens == short.prompt_tokens + short.completion_tokens
    assert long.prompt_tokens > short.prompt_tokens
    assert long.completion_tokens > short.completion_tokens
