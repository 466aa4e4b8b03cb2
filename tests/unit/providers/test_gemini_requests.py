import hashlib
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
from awaken.providers.gemini.codec import GeminiCodec

MODEL = "gemini-3.8-flash"
UNSIGNED = "skip_thought_signature_validator"
WEATHER = ModelTool(
    id="get_weather",
    description="Weather in a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)
CALL = ToolCall(id="c1", name="get_weather", arguments={"city": "Paris"}, signature="sig")


def wire_of(*messages, codec=None, model=MODEL, **fields):
    request = InferenceRequest(upstream_model=model, messages=list(messages), **fields)
    return (codec or GeminiCodec()).encode(request)


def body_of(*messages, **fields) -> dict:
    return json.loads(wire_of(*messages, **fields).body)


def overrides(**fields) -> dict:
    return {"overrides": InferenceOverride(**fields)}


def parts_of(*messages, **fields) -> list:
    *_, content = body_of(*messages, **fields)["contents"]
    return content["parts"]


def config_of(**fields) -> dict:
    model = fields.pop("model", MODEL)
    return body_of(user("Hi"), model=model, **overrides(**fields))["generationConfig"]


def test_a_plain_question_is_these_bytes():
    fields = {"system": ("Be brief.",), "tools": (WEATHER,), **overrides(max_tokens=9)}
    assert wire_of(user("Hi"), **fields).body == (
        b'{"generationConfig":{"maxOutputTokens":9},'
        b'"systemInstruction":{"parts":[{"text":"Be brief."}]},'
        b'"tools":[{"functionDeclarations":[{"name":"get_weather",'
        b'"description":"Weather in a city.","parametersJsonSchema":'
        b'{"type":"object","properties":{"city":{"type":"string"}}}}]}],'
        b'"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}'
    )


def test_without_anything_else_there_are_only_contents():
    assert wire_of(user("Hi")).body == b'{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}'


@pytest.mark.parametrize(
    ("model", "version", "path"),
    [
        (MODEL, "v1", "/v1/models/gemini-3.8-flash:streamGenerateContent?alt=sse"),
        ("tunedModels/mine", "v1", "/v1/tunedModels/mine:streamGenerateContent?alt=sse"),
        ("a?b#c", "v1beta", "/v1beta/models/a%3Fb%23c:streamGenerateContent?alt=sse"),
    ],
)
def test_the_model_stands_in_the_path(model, version, path):
    codec = GeminiCodec({"api_version": version})
    assert wire_of(user("Hi"), model=model, codec=codec).path == path


def test_all_media_are_sent_as_bytes_or_by_url():
    content = [
        Image(source=Base64Source(media_type="image/png", data="cGl4")),
        Audio(source=Base64Source(media_type="audio/wav", data="d2F2")),
        Video(source=UrlSource(url="https://x.test/a.MP4?x=.png")),
        Document(source=UrlSource(url="https://x.test/a.pdf")),
        Video(source=UrlSource(url="https://youtu.test/watch")),
    ]
    assert parts_of(user(content)) == [
        {"inlineData": {"mimeType": "image/png", "data": "cGl4"}},
        {"inlineData": {"mimeType": "audio/wav", "data": "d2F2"}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "https://x.test/a.MP4?x=.png"}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://x.test/a.pdf"}},
        {"fileData": {"fileUri": "https://youtu.test/watch"}},
    ]


def test_reasoning_and_calls_go_back_with_their_signatures():
    content = [
        Thinking(thinking="Hm.", signature="s1", origin="gemini"),
        Text(text="I look."),
        Thinking(thinking="", signature="s2", origin="gemini"),
    ]
    second = ToolCall(id="c2", name="now", arguments={})
    assert parts_of(assistant(content, [CALL, second])) == [
        {"text": "Hm.", "thought": True, "thoughtSignature": "s1"},
        {"text": "I look."},
        {"text": "", "thoughtSignature": "s2"},
        {
            "functionCall": {"id": "c1", "name": "get_weather", "args": {"city": "Paris"}},
            "thoughtSignature": "sig",
        },
        {"functionCall": {"id": "c2", "name": "now", "args": {}}},
    ]


@pytest.mark.parametrize(
    "thought",
    [
        Thinking(thinking="Hm.", signature="s", origin="anthropic"),
        Thinking(thinking="Hm.", signature="s"),
        Thinking(thinking="Hm.", origin="gemini"),
    ],
)
def test_reasoning_of_others_or_without_signature_is_left_out(thought):
    assert parts_of(assistant([thought, Text(text="Yes.")])) == [{"text": "Yes."}]


def test_the_first_call_of_a_turn_that_another_vendor_made_is_marked_as_unsigned():
    calls = [ToolCall(id="a", name="f"), ToolCall(id="b", name="f", arguments=[1])]
    assert parts_of(assistant((), calls)) == [
        {"functionCall": {"id": "a", "name": "f", "args": {}}, "thoughtSignature": UNSIGNED},
        {"functionCall": {"id": "b", "name": "f", "args": {"value": [1]}}},
    ]


def result(call_id: str, name: str, text: str, **fields) -> dict:
    said = {"id": call_id, "name": name, "response": {"output": text}, **fields}
    return {"functionResponse": said}


def test_the_results_of_a_turn_are_one_content_with_names_in_the_order_of_the_calls():
    second = ToolCall(id="c2", name="now", arguments={})
    contents = body_of(
        user("Weather?"),
        assistant("I look.", [CALL, second]),
        user("Quick!"),
        tool_answer("c2", "noon"),
        tool_answer("c1", [Text(text="100% "), Text(text='"sun" %b')]),
    )["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user", "user"]
    assert contents[2]["parts"] == [
        result("c1", "get_weather", '100% "sun" %b'),
        result("c2", "now", "noon"),
    ]
    assert contents[3]["parts"] == [{"text": "Quick!"}]


def test_pictures_in_a_result_are_parts_of_it():
    picture = Image(source=Base64Source(media_type="image/png", data="cGl4"))
    parts = parts_of(assistant((), [CALL]), tool_answer("c1", [Text(text="x"), picture]))
    media = [{"inlineData": {"mimeType": "image/png", "data": "cGl4"}}]
    assert parts == [result("c1", "get_weather", "x", parts=media)]


def test_an_id_that_is_used_again_takes_the_name_of_the_newest_call():
    again = ToolCall(id="c1", name="now", arguments={})
    contents = body_of(
        user("Hi"),
        assistant("1", [CALL]),
        tool_answer("c1", "a"),
        assistant("2", [again]),
        tool_answer("c1", "b"),
    )["contents"]
    assert [content["parts"] for content in contents[2::2]] == [
        [result("c1", "get_weather", "a")],
        [result("c1", "now", "b")],
    ]


def test_one_result_after_calls_of_two_names_has_the_right_one_in_each_request():
    codec, answer = GeminiCodec(), tool_answer("c1", "x")
    for name in ("f", "g"):
        call = ToolCall(id="c1", name=name, arguments={})
        parts = parts_of(assistant((), [call]), answer, codec=codec)
        assert parts == [result("c1", name, "x")]


def test_a_result_without_its_call_is_an_invalid_request_that_names_it():
    with pytest.raises(InvalidRequest, match="lost"):
        wire_of(user("Hi"), tool_answer("lost", "x"))


def test_calls_that_stand_between_text_are_calls():
    contents = body_of(
        user("Hi"),
        assistant([ToolUse(id="a", name="f", input={"x": 1}), Text(text="T")]),
        tool_answer("a", "y"),
    )["contents"]
    call = {"id": "a", "name": "f", "args": {"x": 1}}
    assert contents[1]["parts"] == [
        {"text": "T"},
        {"functionCall": call, "thoughtSignature": UNSIGNED},
    ]
    assert contents[2]["parts"] == [result("a", "f", "y")]


@pytest.mark.parametrize(
    ("block", "word"),
    [(ToolResultContent(tool_use_id="a"), "ToolResultContent"), (Text(text="\ud800"), "JSON")],
)
def test_what_the_format_cannot_carry_is_an_invalid_request_that_names_it(block, word):
    with pytest.raises(InvalidRequest, match=word):
        wire_of(user(block))


def test_messages_of_one_role_that_follow_each_other_are_one_content():
    contents = body_of(user("A"), assistant(""), user("B"), assistant("C"), assistant("D"))
    assert contents["contents"] == [
        {"role": "user", "parts": [{"text": "A"}, {"text": "B"}]},
        {"role": "model", "parts": [{"text": "C"}, {"text": "D"}]},
    ]


def test_system_messages_are_instructions_at_the_start_and_notices_later():
    body = body_of(system("Two."), user("Hi"), system("Ten left."), system=("One.", ""))
    assert body["systemInstruction"] == {"parts": [{"text": "One."}, {"text": "Two."}]}
    notice = "<system_notice>\nTen left.\n</system_notice>"
    assert body["contents"] == [{"role": "user", "parts": [{"text": "Hi"}, {"text": notice}]}]


def test_sampling_length_and_schema_are_generation_settings():
    schema = {"type": "object", "additionalProperties": False}
    wanted = overrides(temperature=0.5, top_p=0.9, max_tokens=100)
    body = body_of(user("Hi"), output_schema=schema, **wanted)
    assert body["generationConfig"] == {
        "temperature": 0.5,
        "topP": 0.9,
        "maxOutputTokens": 100,
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
    }


@pytest.mark.parametrize(
    ("model", "effort", "config"),
    [
        (MODEL, Effort.NONE, {"thinkingLevel": "LOW"}),
        ("gemini-3-flash", Effort.NONE, {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.1-pro", Effort.NONE, {"thinkingLevel": "LOW"}),
        ("gemini-3-pro", Effort.MEDIUM, {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemini-3.1-pro", Effort.MEDIUM, {"includeThoughts": True, "thinkingLevel": "MEDIUM"}),
        ("gemini-2.5-pro", EffortBudget(budget=0), {"thinkingBudget": 128}),
        (MODEL, Effort.LOW, {"includeThoughts": True, "thinkingLevel": "LOW"}),
        (MODEL, Effort.MEDIUM, {"includeThoughts": True, "thinkingLevel": "MEDIUM"}),
        (MODEL, Effort.MAX, {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        (MODEL, EffortBudget(budget=99), {"includeThoughts": True, "thinkingBudget": 99}),
        (MODEL, EffortBudget(budget=0), {"thinkingBudget": 0}),
        ("gemini-2.5-flash", Effort.NONE, {"thinkingBudget": 0}),
        ("gemini-2.5-pro", Effort.NONE, {"thinkingBudget": 128}),
        ("models/gemini-2.5-pro", Effort.HIGH, {"includeThoughts": True, "thinkingBudget": 24_576}),
    ],
)
def test_an_effort_is_a_level_or_for_older_models_a_budget(model, effort, config):
    assert config_of(model=model, reasoning_effort=effort) == {"thinkingConfig": config}


def test_a_conversation_that_begins_with_an_answer_gets_first_words_of_the_user():
    contents = body_of(assistant("Welcome."), user("Hi"))["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user"]
    assert contents[0]["parts"] == [{"text": "(The conversation begins here.)"}]


def test_ids_of_other_vendors_are_made_to_fit_calls_and_results_alike():
    odd = "fc|" + "x" * 200
    contents = body_of(
        user("Hi"), assistant((), [ToolCall(id=odd, name="f")]), tool_answer(odd, "x")
    )["contents"]
    call_id = contents[1]["parts"][0]["functionCall"]["id"]
    assert call_id == contents[2]["parts"][0]["functionResponse"]["id"]
    assert call_id.isalnum()


def test_only_reasoning_of_the_same_provider_goes_back():
    said = assistant([Thinking(thinking="", signature="s", origin="gemini:mine")])
    assert parts_of(user("Hi"), said, codec=GeminiCodec(origin="gemini:mine")) == [
        {"text": "", "thoughtSignature": "s"}
    ]
    assert parts_of(user("Hi"), said) == [{"text": "Hi"}]


def test_a_tool_without_parameters_still_gets_an_object_schema():
    tools = body_of(user("Hi"), tools=(ModelTool(id="t", description="", parameters={}),))["tools"]
    (declared,) = tools[0]["functionDeclarations"]
    assert declared["parametersJsonSchema"] == {"type": "object", "properties": {}}


def test_provider_options_add_to_what_is_there():
    options = {"generationConfig": {"seed": 7}, "safetySettings": []}
    body = body_of(user("Hi"), **overrides(temperature=1.0, provider_options=options))
    assert body["generationConfig"] == {"temperature": 1.0, "seed": 7}
    assert body["safetySettings"] == []
    assert list(body)[-1] == "contents"


@pytest.mark.parametrize("name", ["contents", "tools", "systemInstruction"])
def test_provider_options_cannot_replace_the_request_itself(name):
    with pytest.raises(InvalidRequest, match=name):
        wire_of(user("Hi"), **overrides(provider_options={name: []}))


def test_headers_carry_the_key():
    assert GeminiCodec().headers(RedactedString("k")) == {"x-goog-api-key": "k"}
    assert GeminiCodec().headers(None) == {}
    assert GeminiCodec().base_url == "https://generativelanguage.googleapis.com"


@pytest.mark.parametrize("options", [{"colour": "red"}, {"api_version": 1}])
def test_unknown_or_wrong_options_are_an_invalid_spec(options):
    with pytest.raises(InvalidSpec, match="gemini"):
        GeminiCodec(options)


def conversation(turns: int) -> list:
    messages = [user("Hello")]
    for turn in range(turns):
        call = ToolCall(id=f"c{turn}", name="get_weather", arguments={"n": turn}, signature="s")
        messages += [
            assistant(f"Step {turn}", [call]),
            tool_answer(call.id, f"result {turn}"),
            assistant(f"Answer {turn}"),
            user(f"Question {turn}"),
        ]
    return messages


def test_the_body_of_a_turn_begins_with_the_body_of_the_turn_before():
    messages = conversation(6)
    fields = {"system": ("S",), "tools": (WEATHER,)}
    codec, before = GeminiCodec(), b""
    for count in range(1, len(messages) + 1):
        body = wire_of(*messages[:count], codec=codec, **fields).body
        assert body.startswith(before)
        before = body.removesuffix(b"]}]}")
        fresh = wire_of(*conversation(6)[:count], codec=GeminiCodec(), **fields).body
        assert hashlib.sha256(fresh).digest() == hashlib.sha256(body).digest()
