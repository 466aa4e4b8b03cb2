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
from awaken.providers.openai_responses.codec import OpenAiResponsesCodec
from awaken.providers.openai_responses.reasoning_items import ORIGIN, ReasoningItem, make_signature

PNG = Base64Source(media_type="image/png", data="aWNvbg==")
PDF = Base64Source(media_type="application/pdf", data="AA==")
WEATHER = ModelTool(id="get_weather", description="The weather.", parameters={"type": "object"})
ALWAYS = ("model", "stream", "store", "include")
CALL = ToolCall(id="c1", name="t", arguments={"q": "ä"})
CALLED = {"type": "function_call", "call_id": "c1", "name": "t", "arguments": '{"q":"ä"}'}


def request(*messages, **fields) -> InferenceRequest:
    return InferenceRequest(upstream_model="m", messages=messages, **fields)


def body(*messages, options=None, **fields) -> dict:
    return json.loads(OpenAiResponsesCodec(options or {}).encode(request(*messages, **fields)).body)


def sent(*messages) -> list:
    return body(*messages)["input"]


def override(**fields) -> dict:
    found = body(user("hi"), overrides=InferenceOverride(**fields))
    return {name: value for name, value in found.items() if name not in (*ALWAYS, "input")}


def said(role: str, content, **more) -> dict:
    return {"type": "message", "role": role, "content": content, **more}


def thought(text: str = "", **kept) -> Thinking:
    signature = make_signature(ReasoningItem(**kept)).signature
    return Thinking(thinking=text, signature=signature, origin=ORIGIN)


def test_a_request_is_not_stored_asks_for_its_reasoning_and_has_the_input_last():
    wire = OpenAiResponsesCodec().encode(
        request(user("hi"), system=("One.", "", "Two."), tools=(WEATHER,))
    )

    assert wire.path == "/responses"
    assert wire.body == (
        b'{"model":"m","stream":true,"store":false,"include":["reasoning.encrypted_content"],'
        b'"instructions":"One.\\n\\nTwo.",'
        b'"tools":[{"type":"function","name":"get_weather","description":"The weather.",'
        b'"parameters":{"type":"object"},"strict":false}],'
        b'"input":[{"type":"message","role":"user","content":"hi"}]}'
    )


def test_no_system_text_is_no_instructions():
    assert "instructions" not in body(user("hi"), system=("",))


def test_the_key_is_a_bearer_token_without_the_line_end_of_its_file():
    codec = OpenAiResponsesCodec()

    assert codec.headers(RedactedString("sk-1\n")) == {"authorization": "Bearer sk-1"}
    assert codec.headers(None) == {}


def test_every_role_has_its_item():
    assert sent(
        user("a"), system("b"), system(""), assistant("Let me see.", [CALL]), tool_answer("c1", "x")
    ) == [
        said("user", "a"),
        said("system", "b"),
        said("assistant", "Let me see."),
        CALLED,
        {"type": "function_call_output", "call_id": "c1", "output": "x"},
    ]


def test_absent_arguments_are_an_empty_object():
    assert sent(assistant("", [ToolCall(id="c", name="t")]))[0]["arguments"] == "{}"


def test_images_and_documents_are_sent_by_url_or_as_a_data_url():
    blocks = [
        Text(text="Look"),
        Image(source=UrlSource(url="https://x/y")),
        Image(source=PNG),
        Document(source=UrlSource(url="https://x/z")),
        Document(source=PDF, title="a.pdf"),
        Document(source=PDF),
    ]
    parts = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "detail": "auto", "image_url": "https://x/y"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aWNvbg=="},
        {"type": "input_file", "file_url": "https://x/z"},
        *(
            {
                "type": "input_file",
                "filename": name,
                "file_data": "data:application/pdf;base64,AA==",
            }
            for name in ("a.pdf", "document.pdf")
        ),
    ]

    assert sent(user(blocks)) == [said("user", parts)]
    assert sent(tool_answer("c", blocks))[0]["output"] == parts


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (user(Video(source=UrlSource(url="https://x"))), "Video"),
        (user(Audio(source=Base64Source(media_type="audio/wav", data=""))), "Audio"),
        (assistant(Image(source=PNG)), "Image"),
    ],
)
def test_content_without_a_place_in_the_format_is_refused_by_name(message, named):
    with pytest.raises(InvalidRequest, match=named):
        body(message)


def test_encrypted_reasoning_goes_back_with_its_summary_before_what_came_of_it():
    block = thought("Hm.", id="rs_1", encrypted_content="xyz")

    assert sent(assistant([block, Text(text="a")])) == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "xyz",
        },
        said("assistant", "a"),
    ]


def test_reasoning_in_the_open_goes_back_as_content():
    block = thought("Hm.", id="rs_1", is_raw=True)

    assert sent(assistant([block, Text(text="a")]))[0] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
    }


def test_reasoning_between_calls_keeps_its_place():
    blocks = [
        thought(id="rs_1", encrypted_content="x"),
        thought(id="rs_2", encrypted_content="y", calls_before=("c1",)),
    ]
    calls = [ToolCall(id=name, name="t") for name in ("c1", "c2", "c3")]

    items = sent(assistant(blocks, calls))

    assert [it.get("id") or it["call_id"] for it in items] == ["rs_1", "c1", "rs_2", "c2", "c3"]


@pytest.mark.parametrize(
    ("left", "order"),
    [
        (("c2", "c3"), ["rs_2", "c2", "rs_3", "c3"]),
        (("c1", "c3"), ["rs_1", "c1", "rs_3", "c3"]),
        (("c1", "c2"), ["rs_1", "c1", "rs_2", "c2"]),
    ],
)
def test_reasoning_goes_with_its_call_when_another_call_was_dropped(left, order):
    blocks = [
        thought(id="rs_1", encrypted_content="x"),
        thought(id="rs_2", encrypted_content="y", calls_before=("c1",)),
        thought(id="rs_3", encrypted_content="z", calls_before=("c1", "c2")),
    ]
    calls = [ToolCall(id=name, name="t") for name in left]

    items = sent(assistant(blocks, calls))

    assert [it.get("id") or it["call_id"] for it in items] == order


def test_two_calls_of_one_id_are_both_sent():
    calls = [ToolCall(id="c", name="t"), ToolCall(id="c", name="u")]

    assert [it["name"] for it in sent(assistant("", calls))] == ["t", "u"]


def test_an_id_that_is_too_long_is_made_to_fit_call_and_result_alike():
    odd = "x" * 65

    call, result = sent(assistant("", [ToolCall(id=odd, name="t")]), tool_answer(odd, "x"))

    assert call["call_id"] == result["call_id"]
    assert len(call["call_id"]) <= 64


def test_only_reasoning_of_the_same_provider_goes_back():
    signature = make_signature(ReasoningItem(id="rs_1", encrypted_content="x")).signature
    block = Thinking(thinking="", signature=signature, origin="openai_responses:azure")
    asked = request(assistant([block, Text(text="a")]))
    azure = OpenAiResponsesCodec(origin="openai_responses:azure")

    assert len(json.loads(azure.encode(asked).body)["input"]) == 2
    assert len(json.loads(OpenAiResponsesCodec().encode(asked).body)["input"]) == 1


def test_the_phase_of_a_text_goes_back_with_it_and_with_no_other():
    blocks = [thought(phase="commentary"), Text(text="a"), Text(text="b")]

    assert sent(assistant(blocks)) == [
        said("assistant", "a", phase="commentary"),
        said("assistant", "b"),
    ]


@pytest.mark.parametrize(
    "block",
    [
        Thinking(thinking="other", signature="s", origin="anthropic"),
        Thinking(thinking="unsigned"),
        Thinking(thinking="unsigned", origin=ORIGIN),
        thought("not encrypted", id="rs_1"),
    ],
)
def test_reasoning_that_the_vendor_cannot_read_is_left_out(block):
    assert sent(assistant([block, Text(text="a")])) == [said("assistant", "a")]


def test_reasoning_that_nothing_came_of_is_left_out():
    block = thought("Hm.", id="rs_1", encrypted_content="xyz")

    assert sent(user("a"), assistant(block), user("b")) == [said("user", "a"), said("user", "b")]
    assert sent(assistant([Text(text="a"), block, Text(text="")])) == [said("assistant", "a")]


def test_a_tool_without_parameters_still_gets_an_object_schema():
    tools = body(user("hi"), tools=(ModelTool(id="t", description="d", parameters={}),))["tools"]

    assert tools[0]["parameters"] == {"type": "object", "properties": {}}


def test_an_output_schema_becomes_the_format_of_the_text():
    assert body(user("hi"), output_schema={"type": "object"})["text"] == {
        "format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}}
    }


def test_overrides_become_parameters_and_zero_is_a_value():
    assert override(temperature=0.0, top_p=0.5, max_tokens=7) == {
        "temperature": 0.0,
        "top_p": 0.5,
        "max_output_tokens": 7,
    }


def body_for(model: str, options=None, **fields) -> dict:
    asked = InferenceRequest(upstream_model=model, messages=[user("hi")], **fields)
    return json.loads(OpenAiResponsesCodec(options or {}).encode(asked).body)


@pytest.mark.parametrize(
    ("effort", "word"),
    [(Effort.NONE, "none"), (Effort.LOW, "low"), (EffortBudget(budget=9_000), "high")],
)
def test_an_effort_is_a_word_and_nothing_else(effort, word):
    assert override(reasoning_effort=effort) == {"reasoning": {"effort": word}}


def test_a_summary_is_asked_for_by_an_option_and_never_without_reasoning():
    options = {"summary": "auto"}
    for effort, found in (
        (Effort.LOW, {"effort": "low", "summary": "auto"}),
        (Effort.NONE, {"effort": "none"}),
    ):
        asked = InferenceOverride(reasoning_effort=effort)
        assert body_for("gpt-5.6", options, overrides=asked)["reasoning"] == found
    assert "reasoning" not in body_for("gpt-5.6", options)


@pytest.mark.parametrize(
    "model", ["gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo", "chatgpt-4o-latest", "ft:gpt-4o:me::1"]
)
def test_models_that_do_not_reason_are_asked_for_no_reasoning(model):
    asked = InferenceOverride(reasoning_effort=Effort.HIGH)

    found = body_for(model, overrides=asked)

    assert not {"include", "reasoning"} & found.keys()
    assert "include" in body_for("gpt-5")


def test_a_schema_that_openai_can_enforce_as_it_stands_is_enforced():
    closed = {"type": "object", "properties": {}, "additionalProperties": False}

    assert body(user("hi"), output_schema=closed)["text"]["format"]["strict"] is True


def test_options_fit_the_request_to_compatible_servers():
    options = {"has_encrypted_reasoning": False, "efforts": {"max": "x"}}

    found = body(
        user("hi"), options=options, overrides=InferenceOverride(reasoning_effort=Effort.MAX)
    )

    assert "include" not in found
    assert found["reasoning"] == {"effort": "x"}


def test_an_unknown_option_is_refused():
    with pytest.raises(InvalidSpec, match="openai_responses"):
        OpenAiResponsesCodec({"max_tokens_field": "max_tokens"})


def test_provider_options_add_replace_and_extend_parameters():
    assert override(
        reasoning_effort=Effort.LOW,
        provider_options={"reasoning": {"summary": "detailed"}, "truncation": "auto"},
    ) == {"reasoning": {"effort": "low", "summary": "detailed"}, "truncation": "auto"}


@pytest.mark.parametrize("name", ["input", "tools", "stream", "model", "previous_response_id"])
def test_provider_options_cannot_replace_what_the_request_decides(name):
    with pytest.raises(InvalidRequest, match=f"'{name}'"):
        override(provider_options={name: None})


def test_what_is_no_json_is_an_invalid_request():
    with pytest.raises(InvalidRequest, match="JSON"):
        body(user("\ud800"))
    with pytest.raises(InvalidRequest, match="JSON"):
        override(provider_options={"x": object()})


def test_the_body_of_a_turn_begins_the_body_of_the_next_one():
    codec = OpenAiResponsesCodec()
    history: list = []
    bodies = []
    for turn in range(5):
        call = ToolCall(id=f"c{turn}", name="get_weather", arguments={"city": "Paris"})
        block = thought("Hm.", id=f"rs_{turn}", encrypted_content="x")
        history += [user(f"turn {turn}"), assistant(block, [call]), tool_answer(f"c{turn}", "x")]
        asked = request(*history, system=("s",), tools=(WEATHER,))
        bodies.append(codec.encode(asked).body.removesuffix(b"]}"))
        history.append(assistant("done"))

    for before, after in itertools.pairwise(bodies):
        begun = after[: len(before)]
        assert hashlib.sha256(begun).digest() == hashlib.sha256(before).digest()


def test_the_same_request_is_the_same_bytes_in_another_process_and_from_the_cache():
    asked = request(user("a"), assistant("b"), system=("s",), tools=(WEATHER,))
    codec = OpenAiResponsesCodec()

    assert codec.encode(asked) == codec.encode(asked) == OpenAiResponsesCodec().encode(asked)
