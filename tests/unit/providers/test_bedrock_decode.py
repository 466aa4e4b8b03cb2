import json
from typing import Any

import pytest

from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.models.errors import (
    AnswerTooLarge,
    ContentFiltered,
    ContextOverflow,
    InvalidRequest,
    MalformedAnswer,
    ModelTimeout,
    Overloaded,
    ProviderFailed,
    RateLimited,
    StreamInterrupted,
)
from awaken.contracts.models.inference import (
    BlockStop,
    ModelEvent,
    Stop,
    StopReason,
    ThinkingSignature,
    TokenUsage,
    UsageReport,
)
from awaken.providers.bedrock.decode import ConverseDecoder, build_error
from awaken.providers.bedrock.frames import BedrockFrame


def event(kind: str, **fields: Any) -> BedrockFrame:
    headers = {":message-type": "event", ":event-type": kind, ":content-type": "application/json"}
    return BedrockFrame(headers=headers, payload=json.dumps({"p": "abcdef", **fields}).encode())


def delta(index: int, **fields: Any) -> BedrockFrame:
    return event("contentBlockDelta", contentBlockIndex=index, delta=fields)


def call(index: int, call_id: str, name: str, **fields: Any) -> BedrockFrame:
    use = {"toolUseId": call_id, "name": name, **fields}
    return event("contentBlockStart", contentBlockIndex=index, start={"toolUse": use})


def ended(index: int) -> BedrockFrame:
    return event("contentBlockStop", contentBlockIndex=index)


def stopped(reason: str = "end_turn") -> BedrockFrame:
    return event("messageStop", stopReason=reason)


USAGE = event("metadata", usage={"inputTokens": 5, "outputTokens": 7, "totalTokens": 12})
BEGIN = event("messageStart", role="assistant")
REPORT = UsageReport(usage=TokenUsage(prompt_tokens=5, completion_tokens=7, total_tokens=12))


def read(*frames: BedrockFrame) -> list[ModelEvent]:
    decoder = ConverseDecoder()
    events = [made for frame in frames for made in decoder.take(frame)]
    return [*events, *decoder.end()]


def test_text_comes_as_it_is_streamed() -> None:
    assert read(BEGIN, delta(0, text="Hel"), delta(0, text="lo"), ended(0), stopped(), USAGE) == [
        TextDelta(delta="Hel"),
        TextDelta(delta="lo"),
        BlockStop(),
        REPORT,
        Stop(reason=StopReason.END_TURN),
    ]


def test_tool_calls_in_parallel_keep_their_own_arguments() -> None:
    frames = (
        BEGIN,
        call(1, "a", "search"),
        call(2, "b", "open"),
        delta(2, toolUse={"input": '{"x":'}),
        delta(1, toolUse={"input": ""}),
        delta(1, toolUse={"input": "{}"}),
        delta(2, toolUse={"input": "1}"}),
        ended(1),
        ended(2),
        stopped("tool_use"),
        USAGE,
    )
    assert read(*frames) == [
        ToolCallStart(id="a", name="search"),
        ToolCallStart(id="b", name="open"),
        ToolCallDelta(id="b", args_delta='{"x":'),
        ToolCallDelta(id="a", args_delta="{}"),
        ToolCallDelta(id="b", args_delta="1}"),
        REPORT,
        Stop(reason=StopReason.TOOL_USE),
    ]


def test_reasoning_keeps_its_signature_and_what_only_the_vendor_can_read() -> None:
    frames = (
        BEGIN,
        delta(0, reasoningContent={"text": "Hm"}),
        delta(0, reasoningContent={"signature": "sig"}),
        delta(0, reasoningContent={"signature": "ned"}),
        ended(0),
        delta(1, reasoningContent={"redactedContent": "c2VjcmV0"}),
        ended(1),
        delta(2, reasoningContent={"text": "unsigned"}),
        ended(2),
        stopped(),
        USAGE,
    )
    assert read(*frames)[:-2] == [
        ReasoningDelta(delta="Hm"),
        ThinkingSignature(signature="signed", origin="bedrock"),
        ThinkingSignature(signature="redacted:c2VjcmV0", origin="bedrock"),
        BlockStop(),
        ReasoningDelta(delta="unsigned"),
        ThinkingSignature(signature=None, origin="bedrock"),
    ]


def test_cached_tokens_are_counted_as_part_of_the_prompt() -> None:
    usage = {
        "inputTokens": 10,
        "outputTokens": 3,
        "totalTokens": 13,
        "cacheReadInputTokens": 100,
        "cacheWriteInputTokens": 20,
    }
    report = read(BEGIN, stopped(), event("metadata", usage=usage, metrics={"latencyMs": 1}))[0]
    assert report == UsageReport(
        usage=TokenUsage(
            prompt_tokens=130,
            completion_tokens=3,
            total_tokens=133,
            cache_read_tokens=100,
            cache_creation_tokens=20,
        )
    )


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", StopReason.END_TURN),
        ("tool_use", StopReason.TOOL_USE),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
        ("model_context_window_exceeded", StopReason.MAX_TOKENS),
        ("a_new_word", StopReason.END_TURN),
    ],
)
def test_the_stop_reason_is_ours(word: str, reason: StopReason) -> None:
    assert read(BEGIN, stopped(word), USAGE)[-1] == Stop(reason=reason)


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("guardrail_intervened", ContentFiltered),
        ("content_filtered", ContentFiltered),
        ("malformed_tool_use", MalformedAnswer),
        ("malformed_model_output", MalformedAnswer),
    ],
)
def test_a_refused_answer_is_an_error_after_its_tokens_were_reported(word, error) -> None:
    decoder = ConverseDecoder()
    decoder.take(stopped(word))
    assert list(decoder.take(USAGE)) == [REPORT]
    with pytest.raises(error, match=word):
        decoder.end()


def test_an_answer_without_a_stop_reason_is_interrupted() -> None:
    for frames in (
        (),
        (BEGIN,),
        (BEGIN, delta(0, text="x")),
        (BEGIN, delta(0, text="x"), ended(0)),
    ):
        with pytest.raises(StreamInterrupted):
            read(*frames)


def test_an_answer_whose_tokens_are_not_reported_is_whole() -> None:
    assert read(BEGIN, delta(0, text="x"), stopped()) == [
        TextDelta(delta="x"),
        Stop(reason=StopReason.END_TURN),
    ]
    assert read(BEGIN, stopped(), event("metadata")) == [Stop(reason=StopReason.END_TURN)]


def test_what_the_vendor_runs_or_adds_is_passed_over() -> None:
    frames = (
        event("initial-response"),
        event("something-new", x=[1]),
        call(0, "s", "code", type="server_tool_use"),
        delta(0, toolUse={"input": "{}"}),
        ended(0),
        event("contentBlockStart", contentBlockIndex=1, start={"toolResult": {"toolUseId": "s"}}),
        delta(1, toolResult=[{"text": "42"}]),
        delta(2, citation={"title": "t"}),
        delta(3, text=""),
        stopped(),
        USAGE,
    )
    assert read(*frames) == [REPORT, Stop(reason=StopReason.END_TURN)]


@pytest.mark.parametrize(
    ("kind", "message", "error"),
    [
        ("throttlingException", "Too many tokens, please wait", RateLimited),
        ("modelStreamErrorException", "boom", ProviderFailed),
        ("internalServerException", "boom", ProviderFailed),
        ("serviceUnavailableException", "boom", Overloaded),
        ("validationException", "Input is too long for requested model.", ContextOverflow),
        ("validationException", "bad field", InvalidRequest),
        ("modelTimeoutException", "slow", ModelTimeout),
    ],
)
def test_an_exception_in_the_stream_is_the_error_it_names(kind, message, error) -> None:
    headers = {":message-type": "exception", ":exception-type": kind}
    frame = BedrockFrame(headers=headers, payload=json.dumps({"message": message}).encode())
    with pytest.raises(error, match=message):
        read(BEGIN, delta(0, text="x"), frame)


def test_an_error_of_the_stream_itself_is_told_by_its_headers() -> None:
    headers = {":message-type": "error", ":error-code": "InternalServerException"}
    frame = BedrockFrame(headers={**headers, ":error-message": "it broke"}, payload=b"")
    with pytest.raises(ProviderFailed, match="it broke"):
        read(BEGIN, frame)


def test_a_failure_of_the_model_is_not_blamed_on_the_request() -> None:
    body = b'{"message":"the model failed","originalStatusCode":500}'
    assert type(build_error(424, "ModelErrorException", body, None)) is ProviderFailed
    assert type(build_error(429, "ModelNotReadyException", b"{}", 5)) is Overloaded
    assert build_error(429, "ThrottlingException", b"{}", 5).retry_after_ms == 5


def test_what_is_not_the_protocol_is_malformed() -> None:
    bad = [
        b"",
        b"{",
        b"[]",
        b'{"contentBlockIndex":"x"}',
        b'{"delta":NaN}',
        b'{"delta":{"text":1}}',
        b'{"delta":{"text":"\xff"}}',
        b'{"x":' + b"[" * 100_000,
        b'{"delta":{"toolUse":{"input":"{}"}},"contentBlockIndex":9}',
    ]
    for payload in bad:
        frame = BedrockFrame(headers={":event-type": "contentBlockDelta"}, payload=payload)
        with pytest.raises(MalformedAnswer):
            read(BEGIN, frame)
    with pytest.raises(MalformedAnswer):
        read(BEGIN, USAGE)
    with pytest.raises(MalformedAnswer):
        read(BEGIN, stopped(), event("metadata", usage={"inputTokens": -1}))


def test_blocks_without_an_end_are_bounded() -> None:
    with pytest.raises(AnswerTooLarge):
        read(*(call(index, str(index), "t") for index in range(100_000)))
    with pytest.raises(AnswerTooLarge):
        read(*(delta(index, reasoningContent={"text": "x"}) for index in range(100_000)))


def test_many_calls_one_after_the_other_are_read() -> None:
    frames = [
        frame for index in range(2_000) for frame in (call(index, str(index), "t"), ended(index))
    ]
    assert len(read(BEGIN, *frames, stopped(), USAGE)) == 2_002
