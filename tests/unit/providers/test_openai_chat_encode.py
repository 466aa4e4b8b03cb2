import hashlib
import itertools
import json

import pytest

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.messages.content import (
    Audio,
    Base64Source,
    Document,
    Image,
    Text,
    Thinking,
    ToolUse,
    UrlSource,
    Video,
)
from awaken.contracts.messages.message import ToolCall, assistant, system, tool_answer, user
from awaken.contracts.models.errors import InvalidRequest
from awaken.contracts.models.inference import (
    Effort,
    EffortBudget,
    InferenceOverride,
    InferenceRequest,
    ModelTool,
)
from awaken.contracts.secrets import RedactedString
from awaken.providers.openai_chat.codec import OpenAiChatCodec
from awaken.providers.openai_chat.encode import SHOWN_NEXT

PNG = Base64Source(media_type="image/png", data="aWNvbg==")
WEATHER = ModelTool(
    id="get_weather",
    description="The weather.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)
HEAD = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}


def request(*messages, **fields) -> InferenceRequest:
    return InferenceRequest(upstream_model="m", messages=messages, **fields)


def body(*messages, options=None, **fields) -> dict:
    return json.loads(OpenAiChatCodec(options or {}).encode(request(*messages, **fields)).body)


def sent(*messages, options=None, **fields) -> list:
    return body(*messages, options=options, **fields)["messages"]


def override(**fields) -> dict:
    found = body(user("hi"), overrides=InferenceOverride(**fields))
    return {name: value for name, value in found.items() if name not in (*HEAD, "messages")}


def test_a_request_goes_to_chat_completions_with_the_messages_last():
    wire = OpenAiChatCodec().encode(request(user("hi"), system=("Be brief.",), tools=(WEATHER,)))

    assert wire.path == "/chat/completions"
    assert wire.body == (
        b'{"model":"m","stream":true,"stream_options":{"include_usage":true},'
        b'"tools":[{"type":"function","function":{"name":"get_weather",'
        b'"description":"The weather.","parameters":{"type":"object",'
        b'"properties":{"city":{"type":"string"}}}}}],'
        b'"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}]}'
    )


def test_the_address_is_openais_unless_the_provider_has_its_own():
    assert OpenAiChatCodec().base_url == "https://api.openai.com/v1"


def test_the_key_is_a_bearer_token_without_the_line_end_of_its_file():
    codec = OpenAiChatCodec()

    assert codec.headers(RedactedString("sk-1\n")) == {"authorization": "Bearer sk-1"}
    assert codec.headers(None) == {}


def test_several_system_texts_are_one_system_message_and_empty_ones_are_left_out():
    assert sent(user("hi"), system=("One.", "", "Two.")) == [
        {"role": "system", "content": "One.\n\nTwo."},
        {"role": "user", "content": "hi"},
    ]
    assert sent(user("hi"), system=("",)) == [{"role": "user", "content": "hi"}]


def test_system_messages_of_the_history_keep_their_place():
    assert sent(user("a"), system("b"), system(""), user("c")) == [
        {"role": "user", "content": "a"},
        {"role": "system", "content": "b"},
        {"role": "user", "content": "c"},
    ]


def test_the_system_role_can_be_developer_everywhere():
    options = {"system_role": "developer"}

    roles = [it["role"] for it in sent(system("b"), options=options, system=("a",))]

    assert roles == ["developer", "developer"]


def test_images_are_sent_by_url_or_as_a_data_url():
    message = user(
        [Text(text="Look"), Image(source=UrlSource(url="https://x/y")), Image(source=PNG)]
    )

    assert sent(message)[0]["content"] == [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": "https://x/y"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aWNvbg=="}},
    ]


@pytest.mark.parametrize(
    ("kind", "name"), [("audio/mpeg", "mp3"), ("audio/x-wav", "wav"), ("audio/flac", "flac")]
)
def test_audio_is_sent_with_the_vendors_word_for_its_format(kind, name):
    message = user(Audio(source=Base64Source(media_type=kind, data="AA==")))

    assert sent(message)[0]["content"] == [
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": name}}
    ]


def test_a_document_is_sent_as_a_file_with_its_title_or_a_name_of_ours():
    source = Base64Source(media_type="application/pdf", data="AA==")
    message = user([Document(source=source, title="a.pdf"), Document(source=source)])

    assert sent(message)[0]["content"] == [
        {
            "type": "file",
            "file": {"filename": name, "file_data": "data:application/pdf;base64,AA=="},
        }
        for name in ("a.pdf", "document.pdf")
    ]


@pytest.mark.parametrize(
    ("block", "named"),
    [
        (Video(source=UrlSource(url="https://x")), "Video"),
        (Document(source=UrlSource(url="https://x")), "document from a URL"),
        (Audio(source=UrlSource(url="https://x")), "audio from a URL"),
        (ToolUse(id="1", name="t"), "ToolUse"),
        (Thinking(thinking="hm"), "Thinking"),
    ],
)
def test_content_without_a_place_in_the_format_is_refused_by_name(block, named):
    with pytest.raises(InvalidRequest, match=named):
        body(user(block))


def test_an_image_said_by_an_assistant_is_refused_by_name():
    with pytest.raises(InvalidRequest, match="Image"):
        body(assistant([Text(text="a"), Image(source=PNG)]))


def test_an_assistants_calls_go_with_their_arguments_as_json_text():
    calls = [ToolCall(id="c1", name="t", arguments={"q": "ä"}), ToolCall(id="c2", name="u")]

    assert sent(assistant("Let me see.", calls), assistant([], calls[:1])) == [
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "t", "arguments": '{"q":"ä"}'},
                },
                {"id": "c2", "type": "function", "function": {"name": "u", "arguments": "{}"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "t", "arguments": '{"q":"ä"}'},
                }
            ],
        },
    ]


def test_an_assistant_message_without_text_and_calls_is_left_out():
    foreign = Thinking(thinking="hm", origin="anthropic")

    assert sent(user("a"), assistant(""), assistant(foreign)) == [{"role": "user", "content": "a"}]


def test_a_tools_answer_is_text_and_may_be_empty():
    assert sent(tool_answer("c1", [Text(text="a"), Text(text="b")]), tool_answer("c2", "")) == [
        {"role": "tool", "tool_call_id": "c1", "content": "a\nb"},
        {"role": "tool", "tool_call_id": "c2", "content": ""},
    ]


def test_images_of_tool_results_follow_as_one_user_message_after_the_last_result():
    calls = [ToolCall(id="c1", name="t"), ToolCall(id="c2", name="t")]
    messages = (
        assistant("", calls),
        tool_answer("c1", [Text(text="a"), Image(source=PNG)]),
        tool_answer("c2", "b"),
    )
    shown = {
        "role": "user",
        "content": [
            {"type": "text", "text": "From the result of c1:"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aWNvbg=="}},
        ],
    }

    items = sent(*messages, user("and?"))

    assert [it["role"] for it in items] == ["assistant", "tool", "tool", "user", "user"]
    assert items[1]["content"] == f"a\n{SHOWN_NEXT}"
    assert items[3] == shown
    assert sent(*messages)[-1] == shown


def test_results_come_directly_after_their_calls_whatever_was_said_in_between():
    items = sent(
        assistant("", [ToolCall(id="c1", name="t")]), user("hurry"), tool_answer("c1", "x")
    )

    assert [it["role"] for it in items] == ["assistant", "tool", "user"]


def test_reasoning_goes_back_only_to_servers_that_want_it_and_only_their_own():
    own = Thinking(thinking="mine", origin="openai_chat")
    other = Thinking(thinking="other", origin="anthropic", signature="s")
    message = assistant([own, other, Text(text="a")])

    assert sent(message) == [{"role": "assistant", "content": "a"}]
    assert sent(message, options={"send_reasoning": True}) == [
        {"role": "assistant", "content": "a", "reasoning_content": "mine"}
    ]


def test_a_tool_without_parameters_still_gets_an_object_schema():
    tools = body(user("hi"), tools=(ModelTool(id="t", description="d", parameters={}),))["tools"]

    assert tools == [
        {
            "type": "function",
            "function": {
                "name": "t",
                "description": "d",
                "parameters": {"type": "object", "properties": {}},
            },
        }
    ]


def test_an_output_schema_becomes_the_response_format():
    assert body(user("hi"), output_schema={"type": "object"})["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": {"type": "object"}},
    }


CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("model", "schema", "is_strict"),
    [
        ("gpt-5", CLOSED, True),
        ("openai/gpt-4o", CLOSED, True),
        ("gpt-5", {"type": "object"}, False),
        ("llama-4", CLOSED, False),
    ],
)
def test_openai_enforces_a_schema_that_it_can_enforce_as_it_stands(model, schema, is_strict):
    asked = InferenceRequest(upstream_model=model, messages=[user("hi")], output_schema=schema)

    form = json.loads(OpenAiChatCodec().encode(asked).body)["response_format"]["json_schema"]

    assert form == {"name": "answer", "schema": schema, **({"strict": True} if is_strict else {})}


@pytest.mark.parametrize("chars", [None, 9])
def test_ids_of_other_vendors_are_made_to_fit_calls_and_results_alike(chars):
    odd = ["x" * 65, "x" * 66, "toolu_12345678901234567890", "abcDEF123"]
    calls = [ToolCall(id=it, name="t") for it in odd]
    options = {"call_id_chars": chars} if chars else {}

    asked, *answered = sent(
        assistant("", calls), *(tool_answer(it, "x") for it in odd), options=options
    )

    ids = [call["id"] for call in asked["tool_calls"]]
    assert ids == [message["tool_call_id"] for message in answered]
    assert len(set(ids)) == len(odd)
    assert ids[3] == odd[3]
    assert (ids[2] == odd[2]) is (chars is None)
    assert all(len(it) == 9 and it.isalnum() if chars else len(it) <= 64 for it in ids)


def test_the_words_about_what_a_tool_shows_name_the_call_as_it_is_sent():
    odd = "x" * 65

    call, result, shown = sent(
        assistant("", [ToolCall(id=odd, name="t")]), tool_answer(odd, [Image(source=PNG)])
    )

    assert result["tool_call_id"] == call["tool_calls"][0]["id"]
    assert result["tool_call_id"] in shown["content"][0]["text"]


def test_only_reasoning_of_the_same_provider_goes_back():
    said = assistant([Thinking(thinking="Hm.", origin="openai_chat:mine"), Text(text="a")])
    options = {"send_reasoning": True}
    codec = OpenAiChatCodec(options, origin="openai_chat:mine")

    (own,) = json.loads(codec.encode(request(said)).body)["messages"]

    assert own["reasoning_content"] == "Hm."
    assert "reasoning_content" not in sent(said, options=options)[0]


def test_overrides_become_parameters_and_zero_is_a_value():
    assert override(temperature=0.0, top_p=0.5, max_tokens=7) == {
        "temperature": 0.0,
        "top_p": 0.5,
        "max_completion_tokens": 7,
    }


@pytest.mark.parametrize(
    ("effort", "word"),
    [
        *((level, level.value) for level in Effort if level is not Effort.MAX),
        (Effort.MAX, "high"),
        (EffortBudget(budget=0), "none"),
        (EffortBudget(budget=1_024), "low"),
        (EffortBudget(budget=1_025), "medium"),
        (EffortBudget(budget=8_193), "high"),
        (EffortBudget(budget=24_577), "high"),
    ],
)
def test_every_effort_has_a_word(effort, word):
    assert override(reasoning_effort=effort) == {"reasoning_effort": word}


def test_options_fit_the_request_to_compatible_servers():
    options = {
        "max_tokens_field": "max_tokens",
        "has_stream_options": False,
        "efforts": {"max": "x"},
    }
    asked = InferenceOverride(max_tokens=7, reasoning_effort=Effort.MAX)

    found = body(user("hi"), options=options, overrides=asked)

    del found["messages"]
    assert found == {"model": "m", "stream": True, "max_tokens": 7, "reasoning_effort": "x"}


@pytest.mark.parametrize(
    "options", [{"unknown": 1}, {"max_tokens_field": "tokens"}, {"has_stream_options": "yes"}]
)
def test_an_unknown_or_wrong_option_is_refused(options):
    with pytest.raises(InvalidSpec, match="openai_chat"):
        OpenAiChatCodec(options)


def test_provider_options_add_replace_and_extend_parameters():
    found = body(
        user("hi"),
        overrides=InferenceOverride(
            temperature=1.0,
            provider_options={
                "temperature": 0.5,
                "parallel_tool_calls": False,
                "stream_options": {"include_obfuscation": False},
            },
        ),
    )

    assert list(found)[-1] == "messages"
    assert found["temperature"] == 0.5
    assert found["parallel_tool_calls"] is False
    assert found["stream_options"] == {"include_usage": True, "include_obfuscation": False}


@pytest.mark.parametrize("name", ["messages", "tools", "stream", "model"])
def test_provider_options_cannot_replace_what_the_request_decides(name):
    with pytest.raises(InvalidRequest, match=f"'{name}'"):
        override(provider_options={name: None})


@pytest.mark.parametrize("value", [object(), "\ud800", {(1, 2): 3}])
def test_what_is_no_json_is_an_invalid_request(value):
    with pytest.raises(InvalidRequest, match="JSON"):
        override(provider_options={"x": value})
    with pytest.raises(InvalidRequest, match="JSON"):
        body(assistant("", [ToolCall(id="c", name="t", arguments={"a": value})]))


def test_the_body_of_a_turn_begins_the_body_of_the_next_one():
    codec = OpenAiChatCodec()
    history: list = []
    bodies = []
    for turn in range(5):
        call = ToolCall(id=f"c{turn}", name="get_weather", arguments={"city": "Paris"})
        history += [
            user(f"turn {turn}"),
            assistant("", [call]),
            tool_answer(f"c{turn}", [Text(text="x"), Image(source=PNG)]),
        ]
        asked = request(*history, system=("s",), tools=(WEATHER,))
        bodies.append(codec.encode(asked).body.removesuffix(b"]}"))
        history.append(assistant("done"))

    for before, after in itertools.pairwise(bodies):
        begun = after[: len(before)]
        assert hashlib.sha256(begun).digest() == hashlib.sha256(before).digest()


def test_the_same_request_is_the_same_bytes_in_another_process_and_from_the_cache():
    asked = request(user("a"), assistant("b"), system=("s",), tools=(WEATHER,))
    codec = OpenAiChatCodec()

    assert codec.encode(asked) == codec.encode(asked) == OpenAiChatCodec().encode(asked)
