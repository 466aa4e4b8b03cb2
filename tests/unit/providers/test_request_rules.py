"""What vendors insist on, as rules that several wire formats share."""

import re

import pytest

from awaken.bootstrap.known_providers import KNOWN_PROVIDERS
from awaken.contracts.messages.message import ToolCall, assistant, tool_answer, user
from awaken.contracts.models.errors import InvalidRequest
from awaken.contracts.models.inference import (
    Effort,
    EffortBudget,
    InferenceRequest,
    ThinkingSignature,
)
from awaken.providers.anthropic.codec import AnthropicCodec
from awaken.providers.gemini.codec import GeminiCodec
from awaken.providers.http.call_ids import make_id_fitter
from awaken.providers.http.efforts import openai_word
from awaken.providers.http.schemas import is_closed, strict_schema
from awaken.providers.http.turns import make_call_ids_distinct
from awaken.providers.openai_chat.codec import OpenAiChatCodec
from awaken.providers.openai_responses.codec import OpenAiResponsesCodec


def test_an_id_that_fits_is_itself_and_another_is_always_the_same_one() -> None:
    fitted = make_id_fitter("[a-z]{1,4}", 9)
    assert [fitted(it) for it in ("a", "abcd")] == ["a", "abcd"]
    odd = [f"id {number}" for number in range(1000)]
    made = [fitted(it) for it in odd]
    assert made == [make_id_fitter("[a-z]{1,4}", 9)(it) for it in odd]
    assert len(set(made)) == 1000
    assert all(re.fullmatch("[A-Z0-9]{9}", it) for it in made)


TEXT = {"type": "string"}


def test_mistral_gets_ids_of_nine_letters_and_digits() -> None:
    codec = OpenAiChatCodec(KNOWN_PROVIDERS["mistral"].options)
    call = ToolCall(id="toolu_01A09q90qw90lq917835lq9", name="t")
    body = codec.encode(
        InferenceRequest(
            upstream_model="m", messages=[assistant("", [call]), tool_answer(call.id, "x")]
        )
    ).body
    (asked,) = re.findall(rb'"id":"([a-zA-Z0-9]{9})"', body)
    assert b'"tool_call_id":"%b"' % asked in body


def closed(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"type": "object"}, closed()),
        (
            {"type": "object", "properties": {"a": {"type": "object"}}, "required": ["a"]},
            {**closed(a=closed()), "required": ["a"]},
        ),
        (
            {"type": "integer", "minimum": 1, "maximum": 9, "description": "A number."},
            {"type": "integer", "description": "A number.\n\n{minimum: 1, maximum: 9}"},
        ),
        (
            {"type": "string", "maxLength": 3, "pattern": "x"},
            {"type": "string", "description": "{maxLength: 3, pattern: x}"},
        ),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        (
            {"type": "string", "format": "phone"},
            {"type": "string", "description": "{format: phone}"},
        ),
        (
            {"oneOf": [{"type": "object"}, {"type": "null"}]},
            {"anyOf": [closed(), {"type": "null"}]},
        ),
        (
            {"type": ["string", "null"], "minLength": 1, "title": "T"},
            {
                "title": "T",
                "anyOf": [{"type": "string", "description": "{minLength: 1}"}, {"type": "null"}],
            },
        ),
        (
            {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}, "description": "x"},
            {"$ref": "#/$defs/A", "$defs": {"A": closed()}},
        ),
        (
            {"type": "array", "items": {"type": "object"}, "minItems": 1},
            {"type": "array", "items": closed(), "minItems": 1},
        ),
        (
            {"type": "array", "minItems": 2},
            {"type": "array", "description": "{minItems: 2}"},
        ),
        (
            {"type": "array", "prefixItems": [TEXT], "items": False},
            {
                "type": "array",
                "description": "{prefixItems: [{'type': 'string'}], items: False}",
            },
        ),
        ({"type": "string", "enum": ["a", "b"]}, {"enum": ["a", "b"]}),
        ({"const": None}, {"const": None}),
        (True, True),
    ],
)
def test_a_schema_says_only_what_claude_enforces_and_the_rest_in_words(
    given: object, made: object
) -> None:
    assert strict_schema(given) == made


def test_a_schema_is_left_as_it_was() -> None:
    given = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}}
    strict_schema(given)
    assert given == {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}}


def test_an_object_of_any_keys_is_refused_with_the_way_out() -> None:
    free = {"type": "object", "additionalProperties": {"type": "integer"}}
    with pytest.raises(InvalidRequest, match="list of key and value"):
        strict_schema({"type": "object", "properties": {"a": free}})


@pytest.mark.parametrize(
    ("schema", "is_strict"),
    [
        ({**closed(a=TEXT), "required": ["a"]}, True),
        ({**closed(a={"$ref": "#/$defs/A"}), "required": ["a"], "$defs": {"A": closed()}}, True),
        ({**closed(a={"anyOf": [TEXT, {"type": "null"}]}), "required": ["a"]}, True),
        (closed(a=TEXT), False),
        ({"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, False),
        ({**closed(a={"type": "object"}), "required": ["a"]}, False),
        ({**closed(a={"type": "array", "items": {"type": "object"}}), "required": ["a"]}, False),
        ({**closed(), "$defs": {"A": {"type": "object"}}}, False),
        ({**closed(a={"anyOf": [TEXT, {"type": "object"}]}), "required": ["a"]}, False),
        ({**closed(a={"type": "string", "maxLength": 3}), "required": ["a"]}, False),
        ({**closed(a={}), "required": ["a"]}, False),
        ({**closed(a={"$ref": "#", "description": "x"}), "required": ["a"]}, False),
        ({"type": "array", "items": TEXT}, False),
    ],
)
def test_a_schema_is_closed_when_every_object_in_it_is(
    schema: dict[str, object], is_strict: bool
) -> None:
    assert is_closed(schema) is is_strict


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("gpt-5", "minimal low medium high high"),
        ("openai/gpt-5-mini", "minimal low medium high high"),
        ("gpt-5-pro", "high high high high high"),
        ("gpt-5.1", "none low medium high high"),
        ("gpt-5.2-chat-latest", "medium medium medium medium medium"),
        ("gpt-5.4", "none low medium high xhigh"),
        ("gpt-5.5-pro", "medium medium medium high xhigh"),
        ("gpt-5.6-sol", "none low medium high max"),
        ("gpt-6-luna", "none low medium high max"),
        ("gpt-6-astra", "low low medium high max"),
        ("o4-mini", "low low medium high high"),
        ("gpt-oss-120b", "low low medium high high"),
        ("some-model", "none low medium high high"),
    ],
)
def test_an_effort_is_the_nearest_word_that_the_model_takes(model: str, words: str) -> None:
    assert [openai_word(level, model, {}) for level in Effort] == words.split()


def test_a_word_of_ones_own_wins_and_models_that_do_not_reason_get_none() -> None:
    assert openai_word(Effort.MAX, "gpt-5", {Effort.MAX: "turbo"}) == "turbo"
    assert openai_word(Effort.MAX, "gpt-4o", {}) is None
    assert openai_word(None, "gpt-5", {Effort.MAX: "turbo"}) is None
    assert openai_word(EffortBudget(budget=1), "gpt-5", {}) == "low"


def test_new_ids_differ_from_all_that_were_used_before() -> None:
    calls = [ToolCall(id=it, name="t") for it in ("a", "a_2", "a", "a_2", "b")]
    made = make_call_ids_distinct(
        [assistant("", calls), *(tool_answer(it.id, "x") for it in calls)]
    )
    ids = [call.id for call in made[0].tool_calls or ()]
    assert ids == ["a", "a_2", "a_3", "a_2_2", "b"]
    assert [message.tool_call_id for message in made[1:]] == ids


def test_messages_without_a_second_use_of_an_id_stay_the_same_objects() -> None:
    call = ToolCall(id="a", name="t")
    first = [user("x"), assistant("", [call]), tool_answer("a", "1")]
    assert make_call_ids_distinct(first) is first
    made = make_call_ids_distinct([*first, assistant("", [call]), tool_answer("a", "2")])
    assert all(one is other for one, other in zip(first, made, strict=False))


ANTHROPIC = (
    b'{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}',
    b'{"type":"content_block_stop","index":0}',
    b'{"type":"content_block_start","index":1,"content_block":'
    b'{"type":"redacted_thinking","data":"x"}}',
    b'{"type":"content_block_stop","index":1}',
)
GEMINI = (b'{"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"s"}]}}]}',)
CHAT = (
    b'{"choices":[{"delta":{"reasoning_content":"Hm."}}]}',
    b'{"choices":[{"delta":{"content":"x"}}]}',
)
RESPONSES = (
    b'{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"r"}}',
)


@pytest.mark.parametrize(
    ("codec", "events", "origins"),
    [
        (AnthropicCodec, ANTHROPIC, ["anthropic{}", "anthropic_redacted{}"]),
        (GeminiCodec, GEMINI, ["gemini{}"]),
        (OpenAiChatCodec, CHAT, ["openai_chat{}"]),
        (OpenAiResponsesCodec, RESPONSES, ["openai_responses{}"]),
    ],
)
@pytest.mark.parametrize("suffix", ["", ":mine"])
def test_reasoning_is_marked_with_the_origin_of_its_codec(
    codec: type, events: tuple[bytes, ...], origins: list[str], suffix: str
) -> None:
    made = codec({}, codec().origin + suffix)
    decoder = made.decoder()
    found = [event for data in events for event in decoder.take(data)]
    marked = [event.origin for event in found if isinstance(event, ThinkingSignature)]
    assert marked == [origin.format(suffix) for origin in origins]


@pytest.mark.parametrize("codec", [AnthropicCodec, GeminiCodec])
def test_a_conversation_of_nothing_gets_no_first_words(codec: type) -> None:
    asked = InferenceRequest(upstream_model="m", messages=[assistant("")])
    assert b"begins here" not in codec().encode(asked).body
