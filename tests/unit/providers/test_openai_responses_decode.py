import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling import choose_size, sampled

from awaken.contracts.messages.content import Text, Thinking
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.messages.message import ToolCall, assistant
from awaken.contracts.models.errors import (
    AnswerTooLarge,
    ContentFiltered,
    ContextOverflow,
    InvalidRequest,
    MalformedAnswer,
    ModelError,
    ProviderFailed,
    RateLimited,
    StreamInterrupted,
)
from awaken.contracts.models.inference import (
    BlockStop,
    InferenceRequest,
    ModelEvent,
    Stop,
    StopReason,
    ThinkingSignature,
    TokenUsage,
    UsageReport,
)
from awaken.outbound.sse import SseDecoder
from awaken.providers.openai_responses.codec import OpenAiResponsesCodec

END = Stop(reason=StopReason.END_TURN)
USE = Stop(reason=StopReason.TOOL_USE)


def event(kind: str, index: int = 0, **fields) -> dict:
    return {"type": f"response.{kind}", "sequence_number": 1, "output_index": index, **fields}


def text(delta: str, index: int = 0) -> dict:
    return event("output_text.delta", index, item_id="msg_1", content_index=0, delta=delta)


def added(index: int = 0, **item) -> dict:
    return event("output_item.added", index, item=item)


def done(index: int = 0, **item) -> dict:
    return event("output_item.done", index, item=item)


def call(index: int = 0, call_id: str = "c1", **more) -> dict:
    return {"index": index, "type": "function_call", "id": "fc", "call_id": call_id, **more}


def arguments(delta: str, index: int = 0) -> dict:
    return event("function_call_arguments.delta", index, delta=delta)


def completed(**response) -> dict:
    return event("completed", response={"status": "completed", **response})


def wire(*events) -> list[bytes]:
    return [it if isinstance(it, bytes) else json.dumps(it).encode() for it in events]


def read(*events) -> list[ModelEvent]:
    decoder = OpenAiResponsesCodec().decoder()
    found = [heard for data in wire(*events) for heard in decoder.take(data)]
    return [*found, *decoder.end()]


def kept(**fields) -> ThinkingSignature:
    signature = json.dumps(fields, separators=(",", ":"))
    return ThinkingSignature(signature=signature, origin="openai_responses")


RECORDED = [
    event("created", response={"id": "resp_1", "status": "in_progress"}),
    added(0, type="reasoning", id="rs_1", summary=[], encrypted_content="half"),
    event("reasoning_summary_part.added", summary_index=0, part={"type": "summary_text"}),
    event("reasoning_summary_text.delta", summary_index=0, delta="Hm "),
    event("reasoning_summary_text.delta", summary_index=0, delta="😀"),
    event("reasoning_summary_part.added", summary_index=1, part={"type": "summary_text"}),
    event("reasoning_summary_text.delta", summary_index=1, delta="So."),
    event("reasoning_summary_text.done", summary_index=1, text="So."),
    done(0, type="reasoning", id="rs_1", summary=[], encrypted_content="whole"),
    added(1, type="message", id="msg_1", role="assistant", content=[], phase="commentary"),
    event("content_part.added", 1, part={"type": "output_text", "text": ""}),
    text("Ich prüfe ", 1),
    text("das ✓", 1),
    event("output_text.done", 1, text="Ich prüfe das ✓"),
    done(1, type="message", id="msg_1", content=[{"type": "output_text", "text": "…"}]),
    added(**call(2, name="get_weather", arguments="")),
    arguments('{"city":', 2),
    arguments('"Köln"}', 2),
    event("function_call_arguments.done", 2, arguments='{"city":"Köln"}'),
    done(**call(2, name="get_weather", arguments='{"city":"Köln"}')),
    added(**call(3, "c2", name="get_time", arguments="")),
    arguments("{}", 3),
    done(**call(3, "c2", name="get_time", arguments="{}")),
    completed(
        usage={
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8},
            "output_tokens": 50,
            "output_tokens_details": {"reasoning_tokens": 30},
            "total_tokens": 150,
        }
    ),
]
HEARD = [
    ReasoningDelta(delta="Hm "),
    ReasoningDelta(delta="😀"),
    ReasoningDelta(delta="\n\n"),
    ReasoningDelta(delta="So."),
    kept(id="rs_1", encrypted_content="whole"),
    kept(phase="commentary"),
    TextDelta(delta="Ich prüfe "),
    TextDelta(delta="das ✓"),
    BlockStop(),
    ToolCallStart(id="c1", name="get_weather"),
    ToolCallDelta(id="c1", args_delta='{"city":'),
    ToolCallDelta(id="c1", args_delta='"Köln"}'),
    ToolCallStart(id="c2", name="get_time"),
    ToolCallDelta(id="c2", args_delta="{}"),
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


def test_a_whole_answer_is_read_in_order_and_unknown_events_are_passed_over():
    assert read(*RECORDED, event("novel", delta={"a": 1}, item=7)) == HEARD
    assert read(event("novel", delta={"a": 1}, item=7), *RECORDED) == HEARD


def test_a_stream_that_is_cut_into_chunks_anywhere_reads_the_same():
    stream = b"".join(
        b"event: " + it["type"].encode() + b"\ndata: " + json.dumps(it).encode() + b"\n\n"
        for it in RECORDED
    )
    for cut in range(0, len(stream) + 1):
        sse, decoder = SseDecoder(), OpenAiResponsesCodec().decoder()
        found = [*sse.feed(stream[:cut]), *sse.feed(stream[cut:]), *sse.end()]
        events = [heard for data in found for heard in decoder.take(data)]
        assert [*events, *decoder.end()] == HEARD, cut


def test_what_is_kept_of_an_answer_goes_back_in_the_order_of_the_answer():
    found = read(
        added(0, type="reasoning", id="rs_1"),
        done(0, type="reasoning", id="rs_1", encrypted_content="x"),
        done(**call(1, "c1", name="t", arguments="{}")),
        added(2, type="reasoning", id="rs_2"),
        done(2, type="reasoning", id="rs_2", encrypted_content="y"),
        added(3, type="message", phase="final_answer"),
        text("a", 3),
        done(**call(4, "c2", name="t", arguments="{}")),
        completed(),
    )
    signatures = [it.signature for it in found if isinstance(it, ThinkingSignature)]
    blocks = [Thinking(thinking="", signature=it, origin="openai_responses") for it in signatures]
    calls = [ToolCall(id=it.id, name=it.name) for it in found if isinstance(it, ToolCallStart)]
    message = assistant([*blocks, Text(text="a")], calls)
    request = InferenceRequest(upstream_model="m", messages=[message])

    items = json.loads(OpenAiResponsesCodec().encode(request).body)["input"]

    names = [it.get("id") or it.get("call_id") or it["phase"] for it in items]
    assert names == ["rs_1", "c1", "rs_2", "final_answer", "c2"]


def test_the_decoder_is_over_with_the_last_event_and_hears_nothing_after_it():
    decoder = OpenAiResponsesCodec().decoder()
    assert not decoder.is_over

    assert list(decoder.take(wire(completed())[0])) == [END]
    assert decoder.is_over
    assert list(decoder.take(wire(completed())[0])) == []
    assert list(decoder.take(b"[DONE]")) == []
    assert list(decoder.end()) == []


@pytest.mark.parametrize("events", [(), (text("a"),), (b"[DONE]",)])
def test_a_stream_without_a_last_event_is_interrupted(events):
    with pytest.raises(StreamInterrupted):
        read(*events)


def test_an_answer_without_calls_ends_the_turn():
    assert read(text("a"), completed(incomplete_details=None)) == [TextDelta(delta="a"), END]


def test_an_answer_that_reached_the_limit_is_cut_off():
    usage = {"input_tokens": 1}
    cut = event(
        "incomplete",
        response={"incomplete_details": {"reason": "max_output_tokens"}, "usage": usage},
    )

    assert read(text("a"), cut) == [
        TextDelta(delta="a"),
        UsageReport(usage=TokenUsage(prompt_tokens=1)),
        Stop(reason=StopReason.MAX_TOKENS),
    ]


@pytest.mark.parametrize("details", [None, {"reason": "novel"}, {}])
def test_an_answer_that_is_incomplete_for_another_reason_has_no_stop_reason(details):
    cut = event("incomplete", response={"incomplete_details": details})

    assert read(text("a"), cut) == [TextDelta(delta="a")]


@pytest.mark.parametrize("usage", [{"input_tokens": -1}, {"output_tokens": 1.5}, 7, []])
def test_counts_that_cannot_be_read_do_not_cost_the_answer(usage):
    assert read(text("hi"), completed(usage=usage)) == [TextDelta(delta="hi"), END]


@pytest.mark.parametrize("message", [None, 7, {}])
def test_a_failure_without_a_text_keeps_its_kind(message):
    error = {"code": "rate_limit_exceeded", "message": message}
    with pytest.raises(RateLimited):
        read(event("failed", response={"error": error}))


def test_an_end_with_blanks_around_it_is_passed_over():
    assert read(text("hi"), b" [DONE] ", completed()) == [TextDelta(delta="hi"), END]


def test_a_filtered_answer_is_an_error_after_its_usage():
    decoder = OpenAiResponsesCodec().decoder()
    response = {"incomplete_details": {"reason": "content_filter"}, "usage": {"input_tokens": 1}}

    events = decoder.take(wire(event("incomplete", response=response))[0])

    assert list(events) == [UsageReport(usage=TokenUsage(prompt_tokens=1))]
    with pytest.raises(ContentFiltered):
        decoder.end()


def test_a_refusal_is_what_the_model_says():
    assert read(event("refusal.delta", delta="No."), completed()) == [TextDelta(delta="No."), END]


def test_reasoning_in_the_open_is_kept_as_such():
    found = read(
        added(0, type="reasoning", id="rs_1"),
        event("reasoning_text.delta", delta="Hm."),
        done(0, type="reasoning", id="rs_1", encrypted_content=None),
        added(1, type="reasoning", id="rs_2"),
        done(1, type="reasoning", id="rs_2", encrypted_content="x"),
        completed(),
    )

    assert found == [
        ReasoningDelta(delta="Hm."),
        kept(id="rs_1", is_raw=True),
        kept(id="rs_2", encrypted_content="x"),
        END,
    ]


@pytest.mark.parametrize("begin", [True, False])
def test_a_call_that_is_sent_only_as_a_whole_is_read_once(begin):
    whole = call(name="t", arguments='{"a":1}')
    found = read(*([added(**call(name="t"))] if begin else []), done(**whole), completed())

    assert found == [
        ToolCallStart(id="c1", name="t"),
        ToolCallDelta(id="c1", args_delta='{"a":1}'),
        USE,
    ]


def test_calls_that_come_in_turns_are_told_apart_by_their_place():
    found = read(
        added(**call(0, "a", name="t")),
        added(**call(1, "b", name="u")),
        arguments("{", 1),
        arguments("[", 0),
        completed(),
    )

    assert found[2:4] == [
        ToolCallDelta(id="b", args_delta="{"),
        ToolCallDelta(id="a", args_delta="["),
    ]


def test_a_call_without_a_call_id_gets_that_of_its_item():
    found = read(added(0, type="function_call", id="fc_1", name="t"), completed())

    assert found == [ToolCallStart(id="fc_1", name="t"), USE]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (
            event("failed", response={"error": {"code": "rate_limit_exceeded", "message": "m"}}),
            RateLimited,
        ),
        (event("failed", response={"error": {"code": "server_error"}}), ProviderFailed),
        (event("failed", response={"error": {"code": "invalid_image"}}), InvalidRequest),
        (event("failed", response={"error": {"code": "image_too_large"}}), InvalidRequest),
        (event("failed", response={"error": {"code": "bio_policy"}}), ContentFiltered),
        (event("failed", response={"error": {"code": "invalid_prompt"}}), ContentFiltered),
        (event("failed", response={"error": None}), ProviderFailed),
        ({"type": "error", "code": "context_length_exceeded", "message": "m"}, ContextOverflow),
        ({"type": "error", "code": None, "message": "too many requests"}, RateLimited),
        (
            {"type": "error", "error": {"type": "invalid_request_error", "message": "m"}},
            InvalidRequest,
        ),
    ],
)
def test_an_error_in_the_stream_is_the_error_of_its_cause(data, error):
    with pytest.raises(error):
        read(text("a"), data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"NaN",
        b'{"type":"response.output_text.delta"}',
        b'{"type":"response.output_text.delta","delta":{}}',
        b'{"type":"response.output_text.delta","delta":"\xff"}',
        b'{"type":"response.output_item.added","item":{"type":1}}',
        b'{"type":"response.output_item.added","item":[]}',
        b'{"type":"response.completed","response":{"usage":{"input_tokens":NaN}}}',
        b'{"a":' * 100_000,
        b'{"type":"x","item":' + b"[" * 100_000,
        b'{"type":"response.output_text.delta","delta":' + b"[" * 100_000,
    ],
)
def test_what_is_not_the_protocol_is_a_malformed_answer(data):
    with pytest.raises(MalformedAnswer):
        OpenAiResponsesCodec().decoder().take(data)


def test_an_answer_with_a_hundred_thousand_calls_is_too_large():
    with pytest.raises(AnswerTooLarge, match="1024"):
        read(*(added(**call(n, f"c{n}", name="t")) for n in range(100_000)))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "id",
                    "type",
                    "call_id",
                    "name",
                    "arguments",
                    "usage",
                    "error",
                    "incomplete_details",
                    "reason",
                    "code",
                    "message",
                    "input_tokens",
                    "input_tokens_details",
                    "phase",
                    "encrypted_content",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
KINDS = st.sampled_from(
    [
        "error",
        *(
            f"response.{name}"
            for name in (
                "output_text.delta",
                "function_call_arguments.delta",
                "reasoning_summary_text.delta",
                "reasoning_summary_part.added",
                "output_item.added",
                "output_item.done",
                "completed",
                "incomplete",
                "failed",
                "novel",
            )
        ),
    ]
)
ITEMS = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "reasoning", "function_call", "novel", None])},
    optional={
        "id": st.sampled_from(["", "i", None]),
        "call_id": st.sampled_from(["", "c", "d", None]),
        "name": st.sampled_from(["", "t", None]),
        "arguments": st.sampled_from(["", "{}", None]),
        "phase": st.sampled_from(["commentary", None]),
    },
)
EVENTS = st.fixed_dictionaries(
    {"type": KINDS},
    optional={
        "delta": st.text(max_size=3) | ANYTHING,
        "output_index": st.integers(-1, 3),
        "item": ITEMS | ANYTHING,
        "response": ANYTHING,
        "error": ANYTHING,
    },
)


@sampled
@settings(max_examples=choose_size(60, 300), deadline=None)
@given(st.lists(EVENTS | ANYTHING, max_size=8))
def test_whatever_comes_is_events_or_a_model_error_and_calls_are_consistent(events):
    try:
        found = read(*events, completed())
    except ModelError:
        return
    begun: set[str] = set()
    for heard in found:
        if isinstance(heard, ToolCallStart):
            begun.add(heard.id)
            assert heard.id
        if isinstance(heard, ToolCallDelta):
            assert heard.id in begun
    assert sum(isinstance(heard, Stop) for heard in found) <= 1


@sampled
@settings(max_examples=choose_size(40, 200), deadline=None)
@given(st.binary(max_size=60))
def test_bytes_that_are_no_json_are_a_model_error(data):
    decoder = OpenAiResponsesCodec().decoder()
    try:
        decoder.take(data)
        decoder.end()
    except ModelError:
        return
