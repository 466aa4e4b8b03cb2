import base64
import gc
import hashlib
import json
import re

import pytest

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.messages.content import (
    Audio,
    Base64Source,
    Document,
    Image,
    Text,
    Thinking,
    ToolResultContent,
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
from awaken.providers.anthropic.codec import AnthropicCodec

MODEL = "claude-opus-5"
WEATHER = ModelTool(
    id="get_weather",
    description="Weather in a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)
CALL = ToolCall(id="toolu_1", name="get_weather", arguments={"city": "Paris"})


def body_of(*messages, codec=None, model=MODEL, **fields) -> dict:
    return json.loads(raw_body(*messages, codec=codec, model=model, **fields))


def raw_body(*messages, codec=None, model=MODEL, **fields) -> bytes:
    request = InferenceRequest(upstream_model=model, messages=list(messages), **fields)
    wire = (codec or AnthropicCodec()).encode(request)
    assert wire.path == "/v1/messages"
    return wire.body


def overrides(**fields) -> dict:
    return {"overrides": InferenceOverride(**fields)}


def blocks_of(*messages, **fields) -> list:
    *_, turn = body_of(*messages, **fields)["messages"]
    return turn["content"]


def test_a_plain_question_is_these_bytes():
    assert raw_body(user("Hi"), system=("Be brief.",), tools=(WEATHER,)) == (
        b'{"model":"claude-opus-5","max_tokens":16384,"stream":true,'
        b'"system":[{"type":"text","text":"Be brief."}],'
        b'"tools":[{"name":"get_weather","description":"Weather in a city.","input_schema":'
        b'{"type":"object","properties":{"city":{"type":"string"}}}}],'
        b'"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}'
    )


def test_without_system_prompt_and_tools_their_fields_are_absent():
    assert list(body_of(user("Hi"))) == ["model", "max_tokens", "stream", "messages"]


def test_pictures_and_documents_are_sent_by_url_and_as_bytes():
    picture = Base64Source(media_type="image/png", data="cGl4")
    pdf = Base64Source(media_type="application/pdf", data="cGRm")
    plain = Base64Source(media_type="text/markdown", data=base64.b64encode("é".encode()).decode())
    content = [
        Text(text="See"),
        Image(source=picture),
        Image(source=UrlSource(url="https://x.test/a.png")),
        Document(source=pdf, title="Paper"),
        Document(source=UrlSource(url="https://x.test/a.pdf")),
        Document(source=plain),
    ]
    assert blocks_of(user(content)) == [
        {"type": "text", "text": "See"},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "cGl4"},
        },
        {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "cGRm"},
            "title": "Paper",
        },
        {"type": "document", "source": {"type": "url", "url": "https://x.test/a.pdf"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "é"}},
    ]


@pytest.mark.parametrize(
    ("block", "word"),
    [
        (Audio(source=UrlSource(url="https://x.test/a.mp3")), "audio"),
        (Video(source=UrlSource(url="https://x.test/a.mp4")), "video"),
        (Document(source=Base64Source(media_type="application/zip", data="eA==")), "zip"),
        (Document(source=Base64Source(media_type="text/plain", data="%%%")), "JSON"),
        (Document(source=Base64Source(media_type="text/plain", data="//79")), "JSON"),
        (Text(text="\ud800"), "JSON"),
    ],
)
def test_what_the_format_cannot_carry_is_an_invalid_request_that_names_it(block, word):
    with pytest.raises(InvalidRequest, match=word):
        raw_body(user(block))


def test_reasoning_goes_back_with_its_signature_before_the_text_and_the_calls():
    thoughts = [
        Thinking(thinking="Hm.", signature="sig", origin="anthropic"),
        Thinking(thinking="", signature="secret", origin="anthropic_redacted"),
        Thinking(thinking="", signature="hidden", origin="anthropic"),
        Text(text="I look."),
    ]
    assert blocks_of(assistant(thoughts, [CALL])) == [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "redacted_thinking", "data": "secret"},
        {"type": "thinking", "thinking": "", "signature": "hidden"},
        {"type": "text", "text": "I look."},
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "get_weather",
            "input": {"city": "Paris"},
        },
    ]


@pytest.mark.parametrize(
    "thought",
    [
        Thinking(thinking="Hm.", signature="sig", origin="gemini"),
        Thinking(thinking="Hm.", signature="sig"),
        Thinking(thinking="Hm.", origin="anthropic"),
        Thinking(thinking="Hm.", origin="anthropic_redacted"),
    ],
)
def test_reasoning_of_others_or_without_signature_is_left_out(thought):
    assert blocks_of(assistant([thought, Text(text="Yes.")])) == [{"type": "text", "text": "Yes."}]


def test_results_and_the_next_question_are_one_user_turn_in_the_order_of_the_calls():
    second = ToolCall(id="toolu_2", name="get_weather", arguments={"city": "Rome"})
    picture = Image(source=UrlSource(url="https://x.test/a.png"))
    turns = body_of(
        user("Weather?"),
        assistant("I look.", [CALL, second]),
        user("Quick!"),
        tool_answer("toolu_2", "rain"),
        tool_answer("toolu_1", [Text(text="sun"), picture]),
    )["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[2]["content"] == [
        {
            "type": "tool_result",
            "tool_use_id": "toolu_1",
            "content": [
                {"type": "text", "text": "sun"},
                {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
            ],
        },
        {
            "type": "tool_result",
            "tool_use_id": "toolu_2",
            "content": [{"type": "text", "text": "rain"}],
        },
        {"type": "text", "text": "Quick!"},
    ]


def test_a_call_id_that_is_used_again_gets_its_own_result():
    again = ToolCall(id="toolu_1", name="get_weather", arguments={})
    other = ToolCall(id="toolu_2", name="get_weather", arguments={})
    turns = body_of(
        user("A"),
        assistant("1", [CALL, other]),
        tool_answer("toolu_2", "b"),
        tool_answer("toolu_1", "a"),
        assistant("2", [again]),
        tool_answer("toolu_1", "c"),
    )["messages"]
    said = [[each["content"][0]["text"] for each in turn["content"]] for turn in turns[2::2]]
    assert said == [["a", "b"], ["c"]]


def test_text_between_a_call_and_its_result_comes_after_the_result():
    blocks = blocks_of(assistant("1", [CALL]), user("Quick!"), tool_answer("toolu_1", "a"))
    assert [block["type"] for block in blocks] == ["tool_result", "text"]


def test_a_result_without_its_call_stays_where_it_is():
    turns = body_of(
        user("A"),
        tool_answer("toolu_1", "old"),
        assistant("B", [CALL]),
        tool_answer("toolu_1", "new"),
    )["messages"]
    assert [block["type"] for block in turns[0]["content"]] == ["text", "tool_result"]
    assert turns[0]["content"][1]["content"] == [{"type": "text", "text": "old"}]
    assert [block["content"][0]["text"] for block in turns[2]["content"]] == ["new"]


def test_two_calls_of_one_id_have_two_results():
    _, asked, answered = body_of(
        assistant("1", [CALL, CALL]),
        user("Quick!"),
        tool_answer("toolu_1", "a"),
        tool_answer("toolu_1", "b"),
    )["messages"]
    said = [(it["tool_use_id"], it["content"][0]["text"]) for it in answered["content"][:2]]
    assert said == [("toolu_1", "a"), ("toolu_1_2", "b")]
    assert [it["id"] for it in asked["content"][1:]] == ["toolu_1", "toolu_1_2"]
    assert len(answered["content"]) == 3


def test_tool_blocks_between_text_are_sent_as_such():
    content = [ToolUse(id="a", name="f", input=[1]), ToolResultContent(tool_use_id="a")]
    assert blocks_of(assistant(content)) == [
        {"type": "tool_use", "id": "a", "name": "f", "input": {"value": [1]}},
        {"type": "tool_result", "tool_use_id": "a", "content": []},
    ]


def test_arguments_that_are_no_object_are_sent_as_one():
    calls = [ToolCall(id="a", name="f"), ToolCall(id="b", name="f", arguments="x")]
    inputs = [block["input"] for block in blocks_of(assistant((), calls))]
    assert inputs == [{}, {"value": "x"}]


def test_messages_of_one_role_that_follow_each_other_are_one_turn():
    turns = body_of(user("A"), user("B"), assistant("C"), assistant("D"))["messages"]
    assert turns == [
        {"role": "user", "content": [{"type": "text", "text": it} for it in "AB"]},
        {"role": "assistant", "content": [{"type": "text", "text": it} for it in "CD"]},
    ]


def test_text_without_a_visible_character_is_left_out():
    turns = body_of(user("A"), assistant(" \n"), user([Text(text=""), Text(text="B")]))
    assert turns["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": it} for it in "AB"]}
    ]


def test_system_messages_at_the_start_join_the_system_prompt():
    body = body_of(system("Two."), system("Three."), user("Hi"), system=("One.", " "))
    assert [block["text"] for block in body["system"]] == ["One.", "Two.", "Three."]
    assert len(body["messages"]) == 1


def test_a_system_message_in_the_middle_is_a_marked_part_of_the_user_turn():
    turns = body_of(user("Hi"), system("Ten steps left."))["messages"]
    assert turns[0]["role"] == "user"
    notice = "<system_notice>\nTen steps left.\n</system_notice>"
    assert turns[0]["content"][1] == {"type": "text", "text": notice}


def test_sampling_and_length_are_sent_when_they_are_set():
    body = body_of(user("Hi"), **overrides(temperature=0.5, top_p=0.9, max_tokens=100))
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.5, 0.9, 100)


def test_an_output_schema_is_the_output_format_next_to_the_effort():
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    body = body_of(user("Hi"), output_schema=schema, **overrides(reasoning_effort=Effort.LOW))
    number = {"type": "integer", "description": "{minimum: 1}"}
    strict = {"type": "object", "properties": {"n": number}, "additionalProperties": False}
    form = {"type": "json_schema", "schema": strict}
    assert body["output_config"] == {"effort": "low", "format": form}
    assert body_of(user("Hi"), output_schema=schema)["output_config"] == {"format": form}


@pytest.mark.parametrize("level", ["low", "medium", "high", "max"])
def test_an_effort_is_sent_as_it_is_and_the_model_decides_how_much_to_think(level):
    body = body_of(user("Hi"), **overrides(reasoning_effort=Effort(level)))
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert body["output_config"] == {"effort": level}
    assert body["max_tokens"] == 16_384


@pytest.mark.parametrize("effort", [Effort.NONE, EffortBudget(budget=0)])
@pytest.mark.parametrize("model", [MODEL, "claude-haiku-4-5"])
def test_no_effort_turns_reasoning_off(effort, model):
    body = body_of(user("Hi"), model=model, **overrides(reasoning_effort=effort))
    assert body["thinking"] == {"type": "disabled"}
    assert "output_config" not in body


@pytest.mark.parametrize(
    "model",
    [
        "claude-haiku-4-5",
        "claude-sonnet-4-5-20250929",
        "claude-opus-4-20250514",
        "claude-3-7-sonnet-20250219",
    ],
)
def test_older_models_get_a_budget_in_place_of_a_level(model):
    body = body_of(user("Hi"), model=model, **overrides(reasoning_effort=Effort.MEDIUM))
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 8_192}
    assert body["max_tokens"] == 16_384 + 8_192
    assert "output_config" not in body


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-sonnet-5", "claude-haiku-5-5"])
def test_newer_models_get_a_level(model):
    body = body_of(user("Hi"), model=model, **overrides(reasoning_effort=Effort.MEDIUM))
    assert body["thinking"]["type"] == "adaptive"


def test_the_budget_of_a_level_makes_room_for_an_answer_of_the_wanted_length():
    wanted = overrides(reasoning_effort=Effort.HIGH, max_tokens=4_000)
    body = body_of(user("Hi"), model="claude-haiku-4-5", **wanted)
    assert body["max_tokens"] == 4_000
    assert body["thinking"]["budget_tokens"] == 2_000


def asked_budget(budget: int, model: str, **fields) -> dict:
    return body_of(
        user("Hi"), model=model, **overrides(reasoning_effort=EffortBudget(budget=budget), **fields)
    )


@pytest.mark.parametrize(
    "model",
    ["claude-opus-4-6", "claude-sonnet-4-6", "claude-sonnet-4-5@20250929", "another-model"],
)
def test_a_budget_of_ones_own_is_added_to_the_default_length(model):
    body = asked_budget(5_000, model)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 5_000}
    assert body["max_tokens"] == 21_384


@pytest.mark.parametrize("model", ["claude-opus-4-7", "claude-sonnet-5", "claude-haiku-5-5", MODEL])
def test_models_that_take_no_budget_get_the_level_it_is_worth(model):
    body = asked_budget(5_000, model)
    assert body["thinking"]["type"] == "adaptive"
    assert body["output_config"] == {"effort": "medium"}
    assert body["max_tokens"] == 16_384


@pytest.mark.parametrize(
    ("budget", "max_tokens", "sent"),
    [
        (1, None, 1_024),
        (1_023, 9_000, 1_024),
        (4_000, 4_000, 2_000),
        (5_000, 1_500, 1_024),
        (5_000, 1_025, 1_024),
        (5_000, 1_024, None),
        (5_000, 10, None),
    ],
)
def test_a_budget_is_made_to_fit_or_left_out_and_never_refused(budget, max_tokens, sent):
    body = asked_budget(budget, "claude-haiku-4-5", max_tokens=max_tokens)
    assert body.get("thinking", {}).get("budget_tokens") == sent
    level = overrides(reasoning_effort=Effort.HIGH, max_tokens=10)
    assert "thinking" not in body_of(user("Hi"), model="claude-haiku-4-5", **level)


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("claude-opus-5-5", {"type": "adaptive", "display": "summarized"}),
        ("claude-fable-5-1", {"type": "adaptive", "display": "summarized"}),
        ("claude-sonnet-5-5", {"type": "between_tools"}),
    ],
)
def test_models_that_cannot_stop_reasoning_do_as_little_as_they_can(model, thinking):
    body = body_of(user("Hi"), model=model, **overrides(reasoning_effort=Effort.NONE))
    assert body["thinking"] == thinking
    level = {"effort": "low"} if thinking["type"] == "adaptive" else None
    assert body.get("output_config") == level


OURS = Thinking(thinking="Hm.", signature="s", origin="anthropic")
SEALED = Thinking(thinking="", signature="s", origin="anthropic_redacted")
THEIRS = Thinking(thinking="Hm.", signature="s", origin="gemini")


@pytest.mark.parametrize(
    ("messages", "is_asked"),
    [
        ([assistant(THEIRS, [CALL]), tool_answer("toolu_1", "x")], False),
        ([assistant("", [CALL]), tool_answer("toolu_1", "x"), user("Quick!")], False),
        ([assistant(OURS), user("B"), assistant("", [CALL]), tool_answer("toolu_1", "x")], False),
        ([assistant(OURS, [CALL]), tool_answer("toolu_1", "x")], True),
        ([assistant(SEALED, [CALL]), tool_answer("toolu_1", "x")], True),
        (
            [
                assistant(OURS, [CALL]),
                tool_answer("toolu_1", "x"),
                assistant("", [ToolCall(id="toolu_2", name="f")]),
                tool_answer("toolu_2", "y"),
            ],
            True,
        ),
        ([assistant("", [CALL]), tool_answer("toolu_1", "x"), assistant("B"), user("C")], True),
    ],
)
def test_a_budget_is_left_out_while_calls_wait_that_our_reasoning_did_not_lead_to(
    messages, is_asked
):
    wanted = overrides(reasoning_effort=Effort.LOW)
    body = body_of(user("A"), *messages, model="claude-sonnet-4-5", **wanted)
    assert ("thinking" in body) is is_asked
    assert body["max_tokens"] == 16_384 + (2_048 if is_asked else 0)
    assert "thinking" in body_of(user("A"), *messages, **wanted)


def test_a_conversation_that_begins_with_an_answer_gets_first_words_of_the_user():
    turns = body_of(assistant("Welcome."), user("Hi"))["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[0]["content"] == [{"type": "text", "text": "(The conversation begins here.)"}]
    assert len(body_of(user("Hi"), assistant("Yes."))["messages"]) == 2


def test_ids_of_other_vendors_are_made_to_fit_calls_and_results_alike():
    odd = ["fc|" + "x" * 80, "a.b:c", "ä", ""]
    calls = [ToolCall(id=it, name="f") for it in odd]
    _, asked, answered = body_of(
        user("Hi"), assistant("", calls), *(tool_answer(it, "x") for it in odd)
    )["messages"]
    ids = [block["id"] for block in asked["content"]]
    assert ids == [block["tool_use_id"] for block in answered["content"]]
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", it) for it in ids)
    assert len(set(ids)) == len(odd)


def test_an_id_that_is_used_in_two_turns_is_two_ids():
    codec, before = AnthropicCodec(), b""
    messages = [user("Hi")]
    for _ in range(4):
        messages += [assistant("", [CALL]), tool_answer("toolu_1", "x")]
        raw = raw_body(*messages, codec=codec)
        assert raw.startswith(before)
        before = raw.removesuffix(b"]}]}")
    turns = json.loads(raw)["messages"]
    ids = [turn["content"][0]["id"] for turn in turns[1::2]]
    assert ids == ["toolu_1", "toolu_1_2", "toolu_1_3", "toolu_1_4"]
    assert ids == [turn["content"][0]["tool_use_id"] for turn in turns[2::2]]


def test_only_reasoning_of_the_same_provider_goes_back():
    def thoughts(origin: str) -> list:
        kinds = ("anthropic", "anthropic_redacted")
        return [Thinking(thinking="", signature=kind, origin=kind + origin) for kind in kinds]

    said = assistant([*thoughts(""), *thoughts(":proxy"), Text(text="Yes.")])
    proxy = AnthropicCodec(origin="anthropic:proxy")
    for codec in (AnthropicCodec(), proxy):
        kinds = [block["type"] for block in blocks_of(user("Hi"), said, codec=codec)]
        assert kinds == ["thinking", "redacted_thinking", "text"]
    assert proxy.origin == "anthropic:proxy"
    foreign = assistant([*thoughts(":proxy"), Text(text="Yes.")])
    assert len(blocks_of(user("Hi"), foreign)) == 1


def test_a_tool_without_parameters_still_gets_an_object_schema():
    (tool,) = body_of(user("Hi"), tools=(ModelTool(id="t", description="", parameters={}),))[
        "tools"
    ]
    assert tool["input_schema"] == {"type": "object", "properties": {}}


def test_the_prompt_cache_marks_the_tools_the_system_prompt_and_the_conversation():
    codec = AnthropicCodec()
    fields = {"system": ("One.", "Two."), "tools": (WEATHER, WEATHER)}
    marker = {"type": "ephemeral"}
    body = body_of(user("Hi"), codec=codec, enable_prompt_cache=True, **fields)
    assert body["cache_control"] == marker
    assert [block.get("cache_control") for block in body["system"]] == [None, marker]
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, marker]
    assert b"cache_control" not in raw_body(user("Hi"), codec=codec, **fields)


def test_the_life_of_the_cache_is_an_option():
    codec = AnthropicCodec({"cache_ttl": "1h"})
    body = body_of(user("Hi"), codec=codec, enable_prompt_cache=True, tools=(WEATHER,))
    assert body["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert body["tools"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_provider_options_come_last_and_add_to_what_is_there():
    options = {"metadata": {"user_id": "u"}, "output_config": {"effort": "xhigh"}, "top_p": 0.1}
    fields = overrides(top_p=0.5, reasoning_effort=Effort.LOW, provider_options=options)
    body = body_of(user("Hi"), output_schema={"type": "object"}, **fields)
    assert body["metadata"] == {"user_id": "u"}
    assert body["top_p"] == 0.1
    assert body["output_config"]["effort"] == "xhigh"
    assert body["output_config"]["format"]["type"] == "json_schema"
    assert list(body)[-1] == "messages"


@pytest.mark.parametrize("name", ["model", "messages", "tools", "stream", "system"])
def test_provider_options_cannot_replace_the_request_itself(name):
    with pytest.raises(InvalidRequest, match=name):
        body_of(user("Hi"), **overrides(provider_options={name: []}))


def test_what_is_no_json_is_an_invalid_request():
    with pytest.raises(InvalidRequest, match="JSON"):
        body_of(user("Hi"), **overrides(provider_options={"x": object()}))


def test_headers_carry_the_key_the_version_and_the_betas():
    codec = AnthropicCodec({"betas": ["a-1", "b-2"], "version": "2030-01-01"})
    assert codec.headers(RedactedString("sk")) == {
        "anthropic-version": "2030-01-01",
        "anthropic-beta": "a-1,b-2",
        "authorization": "Bearer sk",
    }
    older = AnthropicCodec({"key_header": "x-api-key", "version": "2023-06-01"})
    assert older.headers(RedactedString("sk")) == {
        "anthropic-version": "2023-06-01",
        "x-api-key": "sk",
    }
    assert AnthropicCodec().headers(None) == {"anthropic-version": "2026-10-21"}
    assert AnthropicCodec().base_url == "https://api.anthropic.com"


@pytest.mark.parametrize(
    "options", [{"colour": "red"}, {"max_tokens": 0}, {"cache_ttl": "2h"}, {"betas": "x"}]
)
def test_unknown_or_wrong_options_are_an_invalid_spec(options):
    with pytest.raises(InvalidSpec, match="anthropic"):
        AnthropicCodec(options)


def test_the_default_length_is_an_option():
    assert body_of(user("Hi"), codec=AnthropicCodec({"max_tokens": 99}))["max_tokens"] == 99


def conversation(turns: int) -> list:
    messages = [user("Hello")]
    for turn in range(turns):
        call = ToolCall(id=f"toolu_{turn}", name="get_weather", arguments={"n": turn})
        thought = Thinking(thinking="Hm.", signature=f"s{turn}", origin="anthropic")
        messages += [
            assistant([thought, Text(text=f"Step {turn}")], [call]),
            tool_answer(call.id, f"result {turn}"),
            assistant(f"Answer {turn}"),
            user(f"Question {turn}"),
        ]
    return messages


@pytest.mark.parametrize("is_cached", [True, False])
def test_the_body_of_a_turn_begins_with_the_body_of_the_turn_before(is_cached):
    messages = conversation(6)
    fields = {"system": ("S",), "tools": (WEATHER,), "enable_prompt_cache": is_cached}
    codec, before = AnthropicCodec(), b""
    for count in range(1, len(messages) + 1):
        body = raw_body(*messages[:count], codec=codec, **fields)
        assert body.startswith(before)
        before = body.removesuffix(b"]}]}")
        fresh = raw_body(*conversation(6)[:count], codec=AnthropicCodec(), **fields)
        assert hashlib.sha256(fresh).digest() == hashlib.sha256(body).digest()


def test_the_form_of_a_message_is_forgotten_with_the_message():
    codec, messages = AnthropicCodec(), conversation(3)
    raw_body(*messages, codec=codec)
    assert len(codec._messages) == len(messages)
    del messages
    gc.collect()
    assert len(codec._messages) == 0
