import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling import choose_size, sampled

from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.models.errors import (
    AnswerTooLarge,
    ContentFiltered,
    InvalidRequest,
    MalformedAnswer,
    ModelError,
    Overloaded,
    ProviderFailed,
    RateLimited,
    StreamInterrupted,
)
from awaken.contracts.models.inference import (
    BlockStop,
    CallSignature,
    Stop,
    StopReason,
    ThinkingSignature,
    TokenUsage,
    UsageReport,
)
from awaken.outbound.sse import SseDecoder
from awaken.providers.gemini.codec import GeminiCodec


def chunk(*parts: dict, finish: str | None = None, usage: dict | None = None, **fields) -> dict:
    candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    counted = {} if usage is None else {"usageMetadata": usage}
    return {"candidates": [candidate], **counted, "modelVersion": "gemini-3.8-flash", **fields}


def called(name: str, **fields) -> dict:
    return {"functionCall": {"name": name, **fields}}


def read(*events: dict | bytes, is_ended: bool = True) -> list:
    decoder, seen = GeminiCodec().decoder(), []
    for event in events:
        seen += decoder.take(event if isinstance(event, bytes) else json.dumps(event).encode())
    return seen + list(decoder.end()) if is_ended else seen


ANSWER = (
    chunk({"text": "Hm, Päris.", "thought": True}, usage={"promptTokenCount": 10}, responseId="r1"),
    chunk({"text": "I look — "}, usage={"promptTokenCount": 10, "candidatesTokenCount": 3}),
    chunk({"text": "déjà 😀."}, {"text": "", "thoughtSignature": "c2ln"}, responseId="r1"),
    chunk(
        {**called("get_weather", id="fc1", args={"city": "Pâris"}), "thoughtSignature": "Y2FsbA=="},
        called("now", args={}),
        responseId="r1",
    ),
    chunk(
        finish="STOP",
        usage={
            "promptTokenCount": 10,
            "toolUsePromptTokenCount": 1,
            "candidatesTokenCount": 20,
            "thoughtsTokenCount": 7,
            "cachedContentTokenCount": 4,
            "totalTokenCount": 38,
        },
        responseId="r1",
    ),
)
EVENTS = [
    ReasoningDelta(delta="Hm, Päris."),
    TextDelta(delta="I look — "),
    TextDelta(delta="déjà 😀."),
    BlockStop(),
    ThinkingSignature(signature="c2ln", origin="gemini"),
    ToolCallStart(id="fc1", name="get_weather"),
    ToolCallDelta(id="fc1", args_delta='{"city":"Pâris"}'),
    CallSignature(id="fc1", signature="Y2FsbA=="),
    ToolCallStart(id="call_r1_2", name="now"),
    ToolCallDelta(id="call_r1_2", args_delta="{}"),
    UsageReport(
        usage=TokenUsage(
            prompt_tokens=11,
            completion_tokens=27,
            total_tokens=38,
            cache_read_tokens=4,
            thinking_tokens=7,
        )
    ),
    Stop(reason=StopReason.TOOL_USE),
]


def recorded() -> bytes:
    compact = (json.dumps(it, ensure_ascii=False, separators=(",", ":")) for it in ANSWER)
    return "".join(f"data: {each}\r\n\r\n" for each in compact).encode()


def drained(sse: SseDecoder, chunks: list[bytes]) -> list:
    decoder, seen = GeminiCodec().decoder(), []
    for each in chunks:
        for data in sse.feed(each):
            seen += decoder.take(data)
    for data in sse.end():
        seen += decoder.take(data)
    return [*seen, *decoder.end()]


def test_an_answer_with_reasoning_text_and_calls_gives_these_events():
    assert drained(SseDecoder(), [recorded()]) == EVENTS


def test_a_stream_that_is_cut_anywhere_gives_the_same_events():
    stream = recorded()
    for place in range(1, len(stream)):
        assert drained(SseDecoder(), [stream[:place], stream[place:]]) == EVENTS


def test_a_stream_that_comes_byte_by_byte_gives_the_same_events():
    assert drained(SseDecoder(), [bytes([byte]) for byte in recorded()]) == EVENTS


def test_a_stream_that_breaks_off_is_never_taken_for_a_whole_answer():
    for count in range(len(ANSWER)):
        with pytest.raises(StreamInterrupted):
            read(*ANSWER[:count])


def test_models_that_finish_in_every_chunk_are_read_to_the_end():
    events = read(chunk({"text": "A"}, finish="STOP"), chunk({"text": "B"}, finish="STOP"))
    assert events == [TextDelta(delta="A"), TextDelta(delta="B"), Stop(reason=StopReason.END_TURN)]


def test_the_answer_is_over_only_with_the_stream():
    decoder = GeminiCodec().decoder()
    decoder.take(json.dumps(chunk({"text": "A"}, finish="STOP")).encode())
    assert not decoder.is_over
    decoder.end()
    assert decoder.is_over


@pytest.mark.parametrize("usage", [{"promptTokenCount": -1}, {"promptTokenCount": 1.5}, [], 7])
def test_counts_that_cannot_be_read_do_not_cost_the_answer(usage):
    events = read(chunk({"text": "hi"}, finish="STOP", usage=usage))
    assert events == [TextDelta(delta="hi"), Stop(reason=StopReason.END_TURN)]


def test_a_chunk_without_counts_does_not_take_them_back():
    told = chunk({"text": "hi"}, usage={"promptTokenCount": 3.0})
    (_, report, _) = read(told, chunk(finish="STOP", usageMetadata=None))
    assert report.usage.prompt_tokens == 3


@pytest.mark.parametrize("message", [None, 7, {}])
def test_an_error_without_a_text_keeps_its_kind(message):
    error = {"code": 429.0, "message": message, "status": "RESOURCE_EXHAUSTED"}
    with pytest.raises(RateLimited):
        read({"error": error})


def test_usage_that_comes_with_every_chunk_is_told_once():
    counts = ({"promptTokenCount": 3, "candidatesTokenCount": count} for count in (1, 2, 5))
    events = read(*(chunk({"text": "x"}, usage=each, finish="STOP") for each in counts))
    (report,) = (event for event in events if isinstance(event, UsageReport))
    assert report.usage == TokenUsage(prompt_tokens=3, completion_tokens=5, total_tokens=8)


def test_a_signed_thought_is_one_block_of_reasoning():
    events = read(chunk({"text": "Hm.", "thought": True, "thoughtSignature": "s"}), is_ended=False)
    assert events == [
        ReasoningDelta(delta="Hm."),
        ThinkingSignature(signature="s", origin="gemini"),
    ]


def test_a_signature_on_text_comes_after_the_text_as_a_block_of_its_own():
    events = read(chunk({"text": "Hi.", "thoughtSignature": "s"}), is_ended=False)
    assert events == [
        TextDelta(delta="Hi."),
        BlockStop(),
        ThinkingSignature(signature="s", origin="gemini"),
    ]


def ids(events: list) -> list[str]:
    return [event.id for event in events if isinstance(event, ToolCallStart)]


def test_calls_without_an_id_get_ids_that_no_other_call_and_no_other_answer_has():
    twice = chunk(called("f"), called("f"), usage={"promptTokenCount": 1})
    later = chunk(called("f"), called("f"), usage={"promptTokenCount": 2})
    first, second = ids(read(twice, twice, is_ended=False)), ids(read(later, is_ended=False))
    assert len({*first, *second}) == 6
    assert first == ids(read(twice, twice, is_ended=False))


def test_a_call_without_arguments_has_none():
    events = read(chunk(called("f"), called("g", args=None)), is_ended=False)
    deltas = [event.args_delta for event in events if isinstance(event, ToolCallDelta)]
    assert deltas == ["{}", "{}"]


@pytest.mark.parametrize(
    ("finish", "told", "told_with_calls"),
    [
        ("STOP", StopReason.END_TURN, StopReason.TOOL_USE),
        ("MAX_TOKENS", StopReason.MAX_TOKENS, StopReason.MAX_TOKENS),
        ("SOMETHING_NEW", StopReason.END_TURN, StopReason.TOOL_USE),
    ],
)
def test_every_finish_reason_has_its_meaning(finish, told, told_with_calls):
    assert read(chunk(finish=finish)) == [Stop(reason=told)]
    assert read(chunk(called("f"), finish=finish))[-1] == Stop(reason=told_with_calls)


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("OTHER", ProviderFailed),
        ("IMAGE_OTHER", ProviderFailed),
        ("TOO_MANY_TOOL_CALLS", MalformedAnswer),
        ("LANGUAGE", ContentFiltered),
        ("SAFETY", ContentFiltered),
        ("RECITATION", ContentFiltered),
        ("BLOCKLIST", ContentFiltered),
        ("PROHIBITED_CONTENT", ContentFiltered),
        ("SPII", ContentFiltered),
        ("IMAGE_SAFETY", ContentFiltered),
        ("MALFORMED_FUNCTION_CALL", MalformedAnswer),
        ("UNEXPECTED_TOOL_CALL", MalformedAnswer),
    ],
)
def test_an_answer_that_was_stopped_is_paid_for_and_then_an_error(finish, expected):
    decoder = GeminiCodec().decoder()
    stopped = chunk({"text": "never"}, finish=finish, usage={"promptTokenCount": 5})
    (report,) = decoder.take(json.dumps(stopped).encode())
    assert report.usage.prompt_tokens == 5
    assert decoder.take(json.dumps(chunk(usage={"promptTokenCount": 5})).encode()) == ()
    with pytest.raises(ModelError, match=finish) as caught:
        decoder.end()
    assert type(caught.value) is expected


def test_a_blocked_prompt_is_paid_for_and_then_a_content_filter_error():
    decoder = GeminiCodec().decoder()
    blocked = {
        "promptFeedback": {"blockReason": "SAFETY"},
        "usageMetadata": {"promptTokenCount": 5},
    }
    (report,) = decoder.take(json.dumps(blocked).encode())
    assert report.usage.prompt_tokens == 5
    with pytest.raises(ContentFiltered, match="SAFETY"):
        decoder.end()


@pytest.mark.parametrize(
    ("code", "status", "text", "expected"),
    [
        (503, "UNAVAILABLE", "The model is overloaded.", Overloaded),
        (429, "RESOURCE_EXHAUSTED", "Quota.", RateLimited),
        (500, "INTERNAL", "Oops.", ProviderFailed),
        (400, "INVALID_ARGUMENT", "Bad field.", InvalidRequest),
        (None, "UNAVAILABLE", "Later.", Overloaded),
        ("503", "UNAVAILABLE", "Later.", Overloaded),
        (10**100, "UNAVAILABLE", "Later.", Overloaded),
    ],
)
def test_an_error_in_the_stream_is_the_error_of_its_cause(code, status, text, expected):
    error = {"error": {"code": code, "message": text, "status": status}}
    with pytest.raises(ModelError) as caught:
        read(chunk({"text": "A"}), error)
    assert type(caught.value) is expected
    assert text in str(caught.value)
    assert len(str(caught.value)) < 100


def test_parts_and_chunks_that_are_not_ours_are_passed_over():
    events = read(
        {"usageMetadata": {"promptTokenCount": 1}},
        {"candidates": []},
        {"candidates": [{"index": 0}]},
        {"candidates": [{"content": {}}]},
        chunk({"executableCode": {"code": "1"}}, {"toolCall": {"id": "x"}}, {"text": ""}),
        is_ended=False,
    )
    assert events == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'{"candidates":3}',
        b'{"candidates":[{"content":{"parts":[{"text":7}]}}]}',
        b'{"candidates":[{"content":{"parts":[{"text":"\xff"}]}}]}',
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":"\xff"}}]}}]}',
        b'{"usageMetadata":{"promptTokenCount":NaN}}',
        b'{"deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"args":'
        + b"[" * 100_000
        + b"]" * 100_000
        + b"}}]}}]}",
    ],
)
def test_what_is_not_the_protocol_is_a_malformed_answer(data):
    with pytest.raises(MalformedAnswer):
        read(data)


def test_the_number_of_calls_is_bounded_within_a_chunk_and_over_chunks():
    with pytest.raises(AnswerTooLarge, match="1024"):
        read(chunk(*[called("f")] * 1025))
    with pytest.raises(AnswerTooLarge, match="1024"):
        read(*[chunk(called("f"))] * 1025)
    assert len(ids(read(chunk(*[called("f")] * 1024), is_ended=False))) == 1024


def test_an_endless_id_of_an_answer_makes_no_endless_ids_of_calls():
    (call_id,) = ids(read(chunk(called("f"), responseId="x" * 100_000), is_ended=False))
    assert len(call_id) < 100


MORE = ["error", "promptFeedback", "blockReason", "SAFETY", "code", "status", "message"]
WORDS = st.sampled_from(
    sorted(
        {
            *MORE,
            *(it for event in ANSWER for it in json.dumps(event).split('"') if it.isidentifier()),
        }
    )
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@sampled
@settings(max_examples=choose_size(24, 120), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ANSWER), st.dictionaries(WORDS, JSON)), max_size=6))
def test_whatever_a_provider_sends_gives_events_or_a_model_error(changes):
    with suppress(ModelError):
        read(*({**event, **change} for event, change in changes))


@sampled
@settings(max_examples=choose_size(60, 300), deadline=None)
@given(st.data())
def test_a_damaged_stream_gives_events_or_a_model_error(data):
    stream = bytearray(recorded())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(stream) - 1))
        stream[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=3))
    with suppress(ModelError):
        drained(SseDecoder(), [bytes(stream)])
