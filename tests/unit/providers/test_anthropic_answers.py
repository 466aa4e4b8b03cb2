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
    ContextOverflow,
    InvalidRequest,
    MalformedAnswer,
    ModelError,
    ModelTimeout,
    Overloaded,
    ProviderFailed,
    QuotaExceeded,
    RateLimited,
    StreamInterrupted,
    Unauthorized,
)
from awaken.contracts.models.inference import (
    BlockStop,
    Stop,
    StopReason,
    ThinkingSignature,
    TokenUsage,
    UsageReport,
)
from awaken.outbound.sse import SseDecoder
from awaken.providers.anthropic.codec import AnthropicCodec


def started(**usage) -> dict:
    return {"type": "message_start", "message": {"id": "msg_1", "usage": usage or None}}


def block(kind: str, index: int = 0, **fields) -> dict:
    opened = {"type": kind, **fields}
    return {"type": "content_block_start", "index": index, "content_block": opened}


def delta(kind: str, index: int = 0, **fields) -> dict:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def closed(index: int = 0) -> dict:
    return {"type": "content_block_stop", "index": index}


def changed(reason: str | None = "end_turn", details=None, **usage) -> dict:
    told = {"stop_reason": reason, "stop_sequence": None, "stop_details": details}
    return {"type": "message_delta", "delta": told, "usage": usage}


STOPPED = {"type": "message_stop"}


def read(*events: dict | bytes, is_ended: bool = True) -> list:
    decoder, seen = AnthropicCodec().decoder(), []
    for event in events:
        seen += decoder.take(event if isinstance(event, bytes) else json.dumps(event).encode())
    return seen + list(decoder.end()) if is_ended else seen


def said(events: list) -> list:
    return [event for event in events if not isinstance(event, UsageReport)]


ANSWER = (
    started(input_tokens=10, cache_read_input_tokens=100, cache_creation_input_tokens=5),
    {"type": "ping"},
    block("thinking", thinking="", signature=""),
    delta("thinking_delta", thinking="Hm, "),
    delta("thinking_delta", thinking="Päris."),
    delta("signature_delta", signature="c2ln"),
    closed(),
    block("redacted_thinking", 1, data="ZW5j"),
    closed(1),
    block("text", 2, text=""),
    delta("text_delta", 2, text="I look — "),
    delta("text_delta", 2, text="déjà 😀."),
    closed(2),
    block("tool_use", 3, id="toolu_1", name="get_weather", input={}),
    delta("input_json_delta", 3, partial_json=""),
    delta("input_json_delta", 3, partial_json='{"city": "Pa'),
    delta("input_json_delta", 3, partial_json='ris"}'),
    closed(3),
    block("tool_use", 4, id="toolu_2", name="now", input={}),
    closed(4),
    changed("tool_use", output_tokens=42, output_tokens_details={"thinking_tokens": 7}),
    STOPPED,
)
EVENTS = [
    ReasoningDelta(delta="Hm, "),
    ReasoningDelta(delta="Päris."),
    ThinkingSignature(signature="c2ln", origin="anthropic"),
    ThinkingSignature(signature="ZW5j", origin="anthropic_redacted"),
    TextDelta(delta="I look — "),
    TextDelta(delta="déjà 😀."),
    BlockStop(),
    ToolCallStart(id="toolu_1", name="get_weather"),
    ToolCallDelta(id="toolu_1", args_delta='{"city": "Pa'),
    ToolCallDelta(id="toolu_1", args_delta='ris"}'),
    ToolCallStart(id="toolu_2", name="now"),
    UsageReport(
        usage=TokenUsage(
            prompt_tokens=115,
            completion_tokens=42,
            total_tokens=157,
            cache_read_tokens=100,
            cache_creation_tokens=5,
            thinking_tokens=7,
        )
    ),
    Stop(reason=StopReason.TOOL_USE),
]


def recorded() -> bytes:
    parts = [
        f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
        for event in ANSWER
    ]
    return "".join(parts).encode()


def test_an_answer_with_reasoning_text_and_calls_gives_these_events():
    assert read(*ANSWER) == EVENTS


def test_a_stream_that_is_cut_anywhere_gives_the_same_events():
    stream = recorded()
    for place in range(len(stream) + 1):
        sse, decoder, seen = SseDecoder(), AnthropicCodec().decoder(), []
        for chunk in (stream[:place], stream[place:]):
            for data in sse.feed(chunk) if chunk else ():
                seen += decoder.take(data)
        assert decoder.is_over
        assert [*seen, *decoder.end()] == EVENTS


def test_a_stream_that_comes_byte_by_byte_gives_the_same_events():
    sse, decoder, seen = SseDecoder(), AnthropicCodec().decoder(), []
    for byte in recorded():
        for data in sse.feed(bytes([byte])):
            seen += decoder.take(data)
    assert [*seen, *decoder.end()] == EVENTS


def test_a_stream_that_breaks_off_is_never_taken_for_a_whole_answer():
    for count in range(len(ANSWER) - 1):
        with pytest.raises(StreamInterrupted):
            read(*ANSWER[:count])


def test_an_answer_is_whole_once_it_is_said_why_it_stopped():
    assert ANSWER[-1] == STOPPED
    assert read(*ANSWER[:-1]) == EVENTS


def test_usage_is_told_once_even_if_it_comes_several_times():
    events = read(
        started(input_tokens=3, output_tokens=1),
        changed(None, output_tokens=5),
        changed("end_turn", output_tokens=9),
        changed("end_turn", output_tokens=9),
        STOPPED,
    )
    usage = TokenUsage(prompt_tokens=3, completion_tokens=9, total_tokens=12)
    assert events == [UsageReport(usage=usage), Stop(reason=StopReason.END_TURN)]


@pytest.mark.parametrize("count", [-1, 10**20, "x", [], 1.5])
def test_counts_that_cannot_be_read_do_not_cost_the_answer(count):
    events = read(started(input_tokens=count, output_tokens=1), changed(output_tokens=9), STOPPED)
    usage = TokenUsage(completion_tokens=9)
    assert events == [UsageReport(usage=usage), Stop(reason=StopReason.END_TURN)]


def test_a_count_with_a_fraction_of_nought_is_a_count():
    (report, _) = read(changed(output_tokens=9.0), STOPPED)
    assert report.usage.completion_tokens == 9


def test_input_tokens_that_come_at_the_end_only_are_counted():
    late = changed(input_tokens=30, cache_read_input_tokens=2, output_tokens=1)
    (report, _) = read(started(input_tokens=0, output_tokens=0), late, STOPPED)
    assert report.usage.prompt_tokens == 32
    assert report.usage.cache_read_tokens == 2


def test_a_nought_at_the_end_does_not_undo_what_was_counted():
    late = changed(input_tokens=0, output_tokens=1)
    (report, _) = read(started(input_tokens=7), late, STOPPED)
    assert report.usage.prompt_tokens == 7


def test_a_nought_is_a_count_when_there_was_none():
    (report, _) = read(started(input_tokens=7), changed(output_tokens=0), STOPPED)
    assert report.usage.completion_tokens == 0


def test_no_usage_at_all_is_told_as_unknown():
    (report, _) = read(started(), changed(), STOPPED)
    assert report.usage == TokenUsage()


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("end_turn", StopReason.END_TURN),
        ("pause_turn", StopReason.END_TURN),
        ("something_new", StopReason.END_TURN),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("model_context_window_exceeded", StopReason.MAX_TOKENS),
        ("tool_use", StopReason.TOOL_USE),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
    ],
)
def test_every_stop_reason_has_its_meaning(reason, told):
    assert said(read(changed(reason), STOPPED)) == [Stop(reason=told)]


def test_a_message_that_stops_without_a_reason_is_a_whole_turn():
    assert said(read(started(), STOPPED)) == [Stop(reason=StopReason.END_TURN)]


def test_a_refusal_is_paid_for_and_then_a_content_filter_error():
    decoder = AnthropicCodec().decoder()
    details = {"type": "refusal", "category": "bio", "explanation": "Not this."}
    events = decoder.take(json.dumps(changed("refusal", details, output_tokens=3)).encode())
    assert events[0].usage.completion_tokens == 3
    with pytest.raises(ContentFiltered, match=r"Not this\."):
        decoder.end()
    with pytest.raises(ContentFiltered, match="refused"):
        read(changed("refusal"), STOPPED)


def test_reasoning_that_is_not_shown_still_gives_its_signature():
    events = read(
        block("thinking", thinking="", signature=""),
        delta("signature_delta", signature="c2"),
        delta("signature_delta", signature="ln"),
        closed(),
        is_ended=False,
    )
    assert events == [ThinkingSignature(signature="c2ln", origin="anthropic")]


def test_signatures_of_two_blocks_do_not_mix():
    events = read(
        block("thinking"),
        delta("signature_delta", signature="a"),
        closed(),
        block("thinking", 1),
        closed(1),
        is_ended=False,
    )
    assert [event.signature for event in events] == ["a", None]


def test_servers_that_send_a_block_whole_with_its_start_are_understood():
    events = read(
        block("thinking", thinking="Hm.", signature="sig"),
        closed(),
        block("text", 1, text="Hi."),
        closed(1),
        block("tool_use", 2, id="a", name="f", input={"x": [1, "é"]}),
        closed(2),
        is_ended=False,
    )
    assert events[:4] == [
        ReasoningDelta(delta="Hm."),
        ThinkingSignature(signature="sig", origin="anthropic"),
        TextDelta(delta="Hi."),
        BlockStop(),
    ]
    assert json.loads(events[-1].args_delta) == {"x": [1, "é"]}


def test_arguments_that_are_streamed_are_not_repeated_at_the_end():
    events = read(
        block("tool_use", id="a", name="f", input={"x": 1}),
        delta("input_json_delta", partial_json='{"x":1}'),
        closed(),
        is_ended=False,
    )
    assert [event.args_delta for event in events[1:]] == ['{"x":1}']


def test_blocks_and_events_that_are_not_ours_are_passed_over():
    events = read(
        block("server_tool_use", id="srv", name="web_search", input={}),
        delta("input_json_delta", partial_json='{"q":1}'),
        closed(),
        block("web_search_tool_result", 1, tool_use_id="srv", content=[{"type": "x"}]),
        closed(1),
        block("hologram", 2, id="h"),
        delta("hologram_delta", 2, light=3),
        delta("citations_delta", 2, citation={"a": 1}),
        closed(2),
        closed(99),
        {"type": "brand_new", "delta": None},
        delta("text_delta", text=""),
        is_ended=False,
    )
    assert events == []


def test_nothing_is_read_after_the_answer_is_over():
    assert said(read(changed(), STOPPED, b"{", delta("text_delta", text="late"))) == [
        Stop(reason=StopReason.END_TURN)
    ]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("overloaded_error", "Overloaded", Overloaded),
        ("rate_limit_error", "slow", RateLimited),
        ("api_error", "oops", ProviderFailed),
        ("timeout_error", "late", ModelTimeout),
        ("authentication_error", "key", Unauthorized),
        ("billing_error", "pay", QuotaExceeded),
        ("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", ContextOverflow),
        ("invalid_request_error", "bad field", InvalidRequest),
    ],
)
def test_an_error_in_the_stream_is_the_error_of_its_cause(kind, text, expected):
    with pytest.raises(ModelError) as caught:
        read(started(), {"type": "error", "error": {"type": kind, "message": text}})
    assert type(caught.value) is expected
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b'{"type":3}',
        b'{"type":"message_start","message":{"usage":{"input_tokens":NaN}}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":7}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\xff"}}',
        b'{"type":"content_block_delta","index":1e999,"delta":{}}',
        b'{"type":"x","deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_not_the_protocol_is_a_malformed_answer(data):
    with pytest.raises(MalformedAnswer):
        read(data)


def test_arguments_that_are_no_text_are_a_malformed_answer():
    with pytest.raises(MalformedAnswer):
        read(
            b'{"type":"content_block_start","content_block":{"type":"tool_use","input":"\xff"}}',
            closed(),
        )


def test_a_key_that_comes_twice_counts_as_the_last_one():
    twice = b'{"type":"ping","type":"content_block_delta","delta":{"type":"text_delta","text":"x"}}'
    assert read(twice, is_ended=False) == [TextDelta(delta="x")]


def test_the_number_of_calls_is_bounded():
    decoder = AnthropicCodec().decoder()

    def flood(index: int) -> None:
        decoder.take(json.dumps(block("tool_use", index, id=f"c{index}", name="f")).encode())
        decoder.take(json.dumps(closed(index)).encode())

    for index in range(1024):
        flood(index)
    with pytest.raises(AnswerTooLarge, match="1024"):
        flood(1024)


def test_the_number_of_open_blocks_is_bounded():
    with pytest.raises(AnswerTooLarge, match="1024"):
        read(*(block("text", index) for index in range(1025)))


WORDS = st.sampled_from(
    sorted(
        {word for event in ANSWER for word in json.dumps(event).split('"') if word.isidentifier()}
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
    sse, decoder = SseDecoder(), AnthropicCodec().decoder()
    with suppress(ModelError):
        for event in [*sse.feed(bytes(stream)), *sse.end()]:
            decoder.take(event)
        decoder.end()
