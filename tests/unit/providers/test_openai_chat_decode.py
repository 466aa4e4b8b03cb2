import json

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
    Overloaded,
    ProviderFailed,
    RateLimited,
    StreamInterrupted,
    Unauthorized,
)
from awaken.contracts.models.inference import (
    ModelEvent,
    Stop,
    StopReason,
    ThinkingSignature,
    TokenUsage,
    UsageReport,
)
from awaken.outbound.sse import SseDecoder
from awaken.providers.openai_chat.codec import OpenAiChatCodec

THOUGHT = ThinkingSignature(signature=None, origin="openai_chat")
DONE = "[DONE]"
END = Stop(reason=StopReason.END_TURN)
USE = Stop(reason=StopReason.TOOL_USE)


def chunk(finish=None, **delta) -> dict:
    return {"id": "cc-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def piece(arguments=None, *, index=0, call_id=None, name=None) -> dict:
    return {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}


def calls(*pieces, finish=None) -> dict:
    return chunk(finish, tool_calls=list(pieces))


def wire(*chunks) -> list[bytes]:
    return [it.encode() if isinstance(it, str) else json.dumps(it).encode() for it in chunks]


def read(*chunks) -> list[ModelEvent]:
    decoder = OpenAiChatCodec().decoder()
    events = [event for data in wire(*chunks) for event in decoder.take(data)]
    return [*events, *decoder.end()]


def texts(*deltas: str) -> list[TextDelta]:
    return [TextDelta(delta=delta) for delta in deltas]


def call_events(call_id: str, name: str, *deltas: str) -> list[ModelEvent]:
    start = ToolCallStart(id=call_id, name=name)
    return [start, *(ToolCallDelta(id=call_id, args_delta=delta) for delta in deltas)]


RECORDED = [
    chunk(role="assistant", content="", refusal=None),
    chunk(reasoning_content="Hm, "),
    chunk(reasoning_content="so 😀"),
    chunk(content="Ich prüfe "),
    chunk(content="das ✓"),
    calls(piece("", call_id="c1", name="get_weather")),
    calls(piece('{"city":')),
    calls(piece('"Köln"}')),
    calls(piece("", index=1, call_id="c2", name="get_time")),
    calls(piece("{}", index=1)),
    chunk("tool_calls"),
    {
        "id": "cc-1",
        "choices": [],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 50,
            "total_tokens": 150,
            "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8},
            "completion_tokens_details": {"reasoning_tokens": 30},
        },
    },
    DONE,
]
HEARD = [
    ReasoningDelta(delta="Hm, "),
    ReasoningDelta(delta="so 😀"),
    THOUGHT,
    *texts("Ich prüfe ", "das ✓"),
    *call_events("c1", "get_weather", '{"city":', '"Köln"}'),
    *call_events("c2", "get_time", "{}"),
    UsageReport(
        usage=TokenUsage(
            prompt_tokens=100,
            completion_tokens=50,
            total_tokens=150,
            cache_read_tokens=64,
            cache_creation_tokens=8,
            thinking_tokens=30,
        )
    ),
    USE,
]


def test_a_whole_answer_is_read_in_order_with_usage_and_the_stop_at_its_end():
    assert read(*RECORDED) == HEARD


def test_a_stream_that_is_cut_into_chunks_anywhere_reads_the_same():
    stream = b"".join(b"data: " + data + b"\n\n" for data in wire(*RECORDED))
    for cut in range(len(stream) + 1):
        sse, decoder = SseDecoder(), OpenAiChatCodec().decoder()
        found = [*sse.feed(stream[:cut]), *sse.feed(stream[cut:]), *sse.end()]
        events = [event for data in found for event in decoder.take(data)]
        assert [*events, *decoder.end()] == HEARD, cut


def test_a_stream_read_byte_by_byte_with_escapes_reads_the_same():
    stream = b"".join(b"data: " + json.dumps(it).encode() + b"\r\n\r\n" for it in RECORDED[:-1])
    sse, decoder, events = SseDecoder(), OpenAiChatCodec().decoder(), []
    for byte in stream:
        for data in sse.feed(bytes((byte,))):
            events += decoder.take(data)
    for data in sse.end():
        events += decoder.take(data)

    assert [*events, *decoder.end()] == HEARD


def test_the_decoder_is_over_at_done_and_hears_nothing_after_it():
    decoder = OpenAiChatCodec().decoder()
    for data in wire(chunk(content="a"), chunk("stop")):
        decoder.take(data)
    assert not decoder.is_over

    assert list(decoder.take(b"[DONE]")) == [END]
    assert decoder.is_over
    assert list(decoder.take(b"[DONE]")) == []
    assert list(decoder.take(wire(chunk(content="b"))[0])) == []
    assert list(decoder.end()) == []


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", StopReason.END_TURN),
        ("length", StopReason.MAX_TOKENS),
        ("model_length", StopReason.MAX_TOKENS),
        ("tool_calls", StopReason.TOOL_USE),
        ("function_call", StopReason.TOOL_USE),
    ],
)
def test_a_finish_reason_is_a_stop_reason(finish, reason):
    assert read(chunk(finish, content="a"), DONE) == [*texts("a"), Stop(reason=reason)]


def test_a_finish_reason_that_nobody_knows_is_no_stop_reason():
    assert read(chunk("novel", content="a"), DONE) == texts("a")


def test_stop_after_calls_means_that_the_calls_are_wanted():
    found = read(calls(piece("{}", call_id="c", name="t"), finish="stop"), DONE)

    assert found == [*call_events("c", "t", "{}"), USE]


def test_length_after_calls_stays_a_cut_answer():
    found = read(calls(piece("{", call_id="c", name="t"), finish="length"))

    assert found[-1] == Stop(reason=StopReason.MAX_TOKENS)


@pytest.mark.parametrize(
    ("finish", "error"),
    [
        ("content_filter", ContentFiltered),
        ("insufficient_system_resource", Overloaded),
        ("error", ProviderFailed),
    ],
)
def test_an_answer_that_the_provider_gives_up_is_an_error_after_its_usage(finish, error):
    decoder = OpenAiChatCodec().decoder()
    usage = {"choices": [], "usage": {"prompt_tokens": 1}}
    events = [e for data in wire(chunk(finish), usage, DONE) for e in decoder.take(data)]

    assert events == [UsageReport(usage=TokenUsage(prompt_tokens=1))]
    with pytest.raises(error):
        decoder.end()


@pytest.mark.parametrize("chunks", [(), (chunk(content="a"),), (DONE,)])
def test_a_stream_without_a_finish_is_interrupted(chunks):
    with pytest.raises(StreamInterrupted):
        read(*chunks)


def test_done_without_a_finish_reason_ends_the_turn():
    assert read(chunk(content="a"), DONE) == [*texts("a"), END]


def test_a_finish_without_done_ends_the_turn():
    assert read(chunk(content="a"), chunk("stop")) == [*texts("a"), END]


def test_reasoning_is_read_under_both_names_and_not_twice():
    found = read(chunk(reasoning="a", reasoning_content="a"), chunk(reasoning="b"), chunk("stop"))

    assert found == [ReasoningDelta(delta="a"), ReasoningDelta(delta="b"), THOUGHT, END]


def test_reasoning_before_a_call_is_closed_before_it():
    found = read(
        chunk(reasoning="a"), calls(piece("{}", call_id="c", name="t"), finish="tool_calls")
    )

    assert found == [ReasoningDelta(delta="a"), THOUGHT, *call_events("c", "t", "{}"), USE]


def test_content_in_parts_is_reasoning_and_text():
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    found = read(chunk(content=[thinking]), chunk(content=[{"type": "text", "text": "a"}]), DONE)

    assert found == [ReasoningDelta(delta="hm"), THOUGHT, *texts("a"), END]


def test_a_refusal_is_what_the_model_says():
    assert read(chunk(refusal="No."), chunk("stop")) == [*texts("No."), END]


def test_other_choices_are_not_read():
    other = {"choices": [{"index": 1, "delta": {"content": "x"}, "finish_reason": "length"}]}

    assert read(chunk(content="a"), other, chunk("stop")) == [*texts("a"), END]


def test_calls_that_come_in_turns_are_told_apart_by_index():
    found = read(
        calls(piece("", call_id="a", name="t"), piece("", index=1, call_id="b", name="u")),
        calls(piece("{", index=1), piece("[")),
        calls(piece("]"), piece("}", index=1)),
        DONE,
    )

    assert found == [
        *call_events("a", "t"),
        *call_events("b", "u", "{"),
        *call_events("a", "t", "[", "]")[1:],
        *call_events("b", "u", "}")[1:],
        USE,
    ]


def test_a_call_begins_when_its_late_name_and_id_are_known_and_loses_no_arguments():
    found = read(
        calls(piece('{"a"')),
        calls(piece(":", name="t")),
        calls(piece("1", call_id="c")),
        calls(piece("}")),
        DONE,
    )

    assert found == [*call_events("c", "t", '{"a":1', "}"), USE]


def test_a_repeated_name_and_id_begin_nothing_new():
    again = piece("1", call_id="c", name="t")
    changed = piece("2", call_id="other")

    assert read(calls(again), calls(again), calls(changed), DONE) == [
        *call_events("c", "t", "1", "1", "2"),
        USE,
    ]


def test_whole_calls_with_one_index_are_told_apart_by_their_ids():
    found = read(
        calls(piece("{}", call_id="a", name="t"), piece("[]", call_id="b", name="t")), DONE
    )

    assert found == [*call_events("a", "t", "{}"), *call_events("b", "t", "[]"), USE]


def test_whole_calls_without_an_index_are_calls_of_their_own():
    found = read(
        calls(
            piece("{}", index=None, call_id="a", name="t"),
            piece("[]", index=None, call_id="b", name="t"),
            piece("1", index=None),
        ),
        DONE,
    )

    assert found == [*call_events("a", "t", "{}"), *call_events("b", "t", "[]", "1"), USE]


def test_calls_without_ids_get_ids_that_no_other_answer_has():
    found = read(calls(piece("{}", index=None, name="t"), piece("[]", index=None, name="t")), DONE)

    assert found == [
        *call_events("call_cc-1_0", "t", "{}"),
        *call_events("call_cc-1_1", "t", "[]"),
        USE,
    ]


def test_a_call_that_waits_for_its_id_stays_before_the_calls_after_it():
    found = read(calls(piece("{}", name="t"), piece("[]", index=1, call_id="b", name="u")), DONE)

    assert found == [*call_events("call_cc-1_0", "t", "{}"), *call_events("b", "u", "[]"), USE]


def test_a_call_without_a_name_is_told_so_that_the_runtime_can_refuse_it():
    assert read(calls(piece("{}", call_id="c")), DONE) == [*call_events("c", "", "{}"), USE]


def test_arguments_that_are_an_object_are_read_as_its_json():
    assert read(calls(piece({"a": 1}, call_id="c", name="t")), DONE) == [
        *call_events("c", "t", '{"a":1}'),
        USE,
    ]


@pytest.mark.parametrize("count", ["-1", "1e400", "9" * 5_000, "1.5", "[]", '"x"'])
def test_counts_that_cannot_be_read_do_not_cost_the_answer(count):
    bad = f'{{"choices":[],"usage":{{"prompt_tokens":{count}}}}}'
    assert read(chunk("stop", content="hi"), bad, DONE) == [*texts("hi"), END]


def test_counts_with_a_fraction_of_nought_are_kept_though_nothing_follows():
    good = '{"choices":[],"usage":{"prompt_tokens":3.0}}'
    report = UsageReport(usage=TokenUsage(prompt_tokens=3))
    later = {"choices": [], "usage": None}
    assert read(chunk("stop", content="hi"), good, later, DONE) == [*texts("hi"), report, END]


def test_an_end_with_blanks_around_it_is_one():
    assert read(chunk("stop", content="hi"), " [DONE] ") == [*texts("hi"), END]


def detail(kind: str, **fields) -> dict:
    return {"type": f"reasoning.{kind}", "format": "anthropic-claude-v1", **fields}


def test_details_of_the_reasoning_are_put_together_and_kept():
    events = read(
        chunk(reasoning="Hm, ", reasoning_details=[detail("text", index=0, text="Hm, ")]),
        chunk(reasoning="so.", reasoning_details=[detail("text", index=0, text="so.")]),
        chunk(reasoning_details=[detail("text", index=0, text=None, signature="s1")]),
        chunk(reasoning_details=[detail("encrypted", index=1, data="e1")]),
        chunk(reasoning_details=[detail("encrypted", index=1, data="e2")]),
        chunk(content="Hi", reasoning_details=[]),
        chunk("stop", reasoning_details=[detail("text", index=0, id="new", text="later")]),
        DONE,
    )
    first, last = [event for event in events if isinstance(event, ThinkingSignature)]
    assert json.loads(first.signature) == [
        detail("text", index=0, text="Hm, so.", signature="s1"),
        detail("encrypted", index=1, data="e1"),
        detail("encrypted", index=1, data="e2"),
    ]
    assert json.loads(last.signature) == [detail("text", index=0, id="new", text="later")]
    assert first.origin == last.origin == "openai_chat"
    assert [type(it) for it in events if it not in (first, last)] == [
        ReasoningDelta,
        ReasoningDelta,
        TextDelta,
        Stop,
    ]


@pytest.mark.parametrize("odd", [{"type": []}, {"text": 7}, {"type": "reasoning.text", "text": []}])
def test_details_of_any_shape_are_kept(odd):
    events = read(chunk(reasoning_details=[odd, odd]), chunk("stop", content="Hi"), DONE)
    assert odd in json.loads(events[0].signature)


def test_usage_that_is_repeated_counts_once():
    def used(count, **delta):
        return {**chunk(**delta), "usage": {"completion_tokens": count}}

    found = read(used(1, content="a"), used(2, content="b"), used(2, finish="stop"), DONE)

    assert found == [
        *texts("a", "b"),
        UsageReport(usage=TokenUsage(completion_tokens=2)),
        END,
    ]


def test_reasoning_that_is_not_counted_as_completion_is_added_to_it():
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 22,
        "completion_tokens_details": {"reasoning_tokens": 7},
    }

    (report, _) = read({**chunk("stop"), "usage": usage}, DONE)

    assert report.usage == TokenUsage(
        prompt_tokens=10, completion_tokens=12, total_tokens=22, thinking_tokens=7
    )


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({"error": {"message": "slow", "code": "rate_limit_exceeded"}}, RateLimited),
        ({"error": {"message": "no key", "code": 401}}, Unauthorized),
        ({"error": {"message": "too hot", "code": 503}, **chunk("error")}, Overloaded),
        ({"error": {"message": "m", "type": "invalid_request_error", "code": "x"}}, InvalidRequest),
        ({"error": {"message": "This model's maximum context length is 8"}}, ContextOverflow),
        ({"error": "it broke"}, ProviderFailed),
        ({"object": "error", "message": "bad", "code": 400}, InvalidRequest),
    ],
)
def test_an_error_in_the_stream_is_the_error_of_its_cause(data, error):
    with pytest.raises(error):
        read(chunk(content="a"), data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"NaN",
        b'{"choices":NaN}',
        b'{"choices":[{"delta":{"content":"\xff"}}]}',
        b'{"choices":[{"delta":{"content":1}}]}',
        b'{"choices":[{"delta":{"tool_calls":[{"index":"0"}]}}]}',
        b'{"a":' * 100_000,
        b'{"error":' + b"[" * 100_000,
        b'{"choices":[{"delta":{"content":[{"thinking":' * 50_000,
    ],
)
def test_what_is_not_the_protocol_is_a_malformed_answer(data):
    with pytest.raises(MalformedAnswer):
        OpenAiChatCodec().decoder().take(data)


def test_duplicate_keys_are_no_surprise():
    data = b'{"choices":[{"delta":{"content":"a","content":"b"}}]}'

    assert list(OpenAiChatCodec().decoder().take(data)) == texts("b")


@pytest.mark.parametrize("is_one_chunk", [True, False])
def test_an_answer_with_a_hundred_thousand_calls_is_too_large(is_one_chunk):
    pieces = [piece("{}", index=n, call_id=f"c{n}", name="t") for n in range(100_000)]
    chunks = [calls(*pieces)] if is_one_chunk else [calls(it) for it in pieces]
    with pytest.raises(AnswerTooLarge, match="1024"):
        read(*chunks)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "id",
                    "index",
                    "choices",
                    "delta",
                    "content",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "usage",
                    "error",
                    "finish_reason",
                    "reasoning",
                    "prompt_tokens",
                    "thinking",
                    "text",
                    "message",
                    "code",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
NEARLY = st.builds(
    lambda finish, pieces, text, call_id: {
        "id": call_id,
        "choices": [
            {"delta": {"content": text, "tool_calls": pieces}, "finish_reason": finish},
        ],
    },
    st.sampled_from([None, "", "stop", "tool_calls", "content_filter", "x"]),
    st.lists(
        st.builds(
            lambda index, call_id, name, arguments: {
                "index": index,
                "id": call_id,
                "function": {"name": name, "arguments": arguments},
            },
            st.sampled_from([None, 0, 1, -1, 2**70]),
            st.sampled_from([None, "", "a", "b"]),
            st.sampled_from([None, "", "t"]),
            st.sampled_from([None, "", "{}", {"a": []}]),
        ),
        max_size=3,
    ),
    st.sampled_from([None, "", "a", [{"text": "a"}]]),
    st.sampled_from([None, "", "cc"]),
)


@sampled
@settings(max_examples=choose_size(60, 300), deadline=None)
@given(st.lists(ANYTHING | NEARLY, max_size=6), st.booleans())
def test_whatever_comes_is_events_or_a_model_error_and_calls_are_consistent(chunks, is_done):
    try:
        events = read(*(json.dumps(it) for it in chunks), *([DONE] if is_done else []))
    except ModelError:
        return
    begun: set[str] = set()
    for event in events:
        if isinstance(event, ToolCallStart):
            begun.add(event.id)
            assert event.id
        if isinstance(event, ToolCallDelta):
            assert event.id in begun
    assert sum(isinstance(event, Stop | UsageReport) for event in events) <= 2


@sampled
@settings(max_examples=choose_size(40, 200), deadline=None)
@given(st.binary(max_size=60))
def test_bytes_that_are_no_json_are_a_model_error(data):
    decoder = OpenAiChatCodec().decoder()
    try:
        decoder.take(data)
        decoder.end()
    except ModelError:
        return
