import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic_ai import exceptions as theirs
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel as LibraryTestModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.usage import RequestUsage

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.messages.content import Base64Source, Image, Text, Thinking, UrlSource
from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.messages.message import (
    Message,
    ToolCall,
    assistant,
    system,
    tool_answer,
    user,
)
from awaken.contracts.models import errors as ours
from awaken.contracts.models.inference import (
    BlockStop,
    Effort,
    EffortBudget,
    InferenceOverride,
    InferenceRequest,
    ModelClient,
    ModelEvent,
    ModelTool,
    Stop,
    StopReason,
    ThinkingSignature,
    UsageReport,
    VendorAnswer,
)
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.secrets import RedactedString
from awaken.providers.bridge import BridgeClient
from awaken.providers.bridge import answer as answer_module
from awaken.providers.bridge.answer import AnswerReader

KEY = "very-secret-key"
SPEC = ProviderSpec(id="bridge", adapter="bridge", timeout_ms=5_000)
Streaming = Callable[[list[ModelMessage], AgentInfo], AsyncIterator[Any]]


def ask(
    model: Any, *messages: Message, spec: ProviderSpec = SPEC, **fields: Any
) -> list[ModelEvent]:
    async def read() -> list[ModelEvent]:
        asked = list(messages or [user("Hi")])
        request = InferenceRequest(upstream_model="some:model", messages=asked, **fields)
        client = BridgeClient(spec, lambda _: model)
        return [event async for event in client.stream(request)]

    return asyncio.run(read())


def streaming(*items: Any, error: Exception | None = None) -> FunctionModel:
    async def stream(_messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[Any]:
        for item in items:
            yield item
        if error is not None:
            raise error

    return FunctionModel(stream_function=stream)


def seen_by(*messages: Message, **fields: Any) -> tuple[list[ModelMessage], AgentInfo]:
    seen: list[Any] = []

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        seen.extend((messages, info))
        yield "ok"

    profile = fields.pop("profile", None)
    ask(FunctionModel(stream_function=stream, profile=profile), *messages, **fields)
    return seen[0], seen[1]


def without_usage(events: list[ModelEvent]) -> list[ModelEvent]:
    return [event for event in events if not isinstance(event, UsageReport)]


def test_text_comes_as_it_is_streamed_and_its_tokens_are_reported() -> None:
    events = ask(streaming("Hel", "lo"))
    assert events[:3] == [TextDelta(delta="Hel"), TextDelta(delta="lo"), BlockStop()]
    report, stop = events[3:]
    assert isinstance(report, UsageReport)
    assert report.usage.prompt_tokens == 50
    assert report.usage.total_tokens == 50 + report.usage.completion_tokens
    assert stop == Stop(reason=StopReason.END_TURN)


def test_tool_calls_come_with_their_arguments_in_pieces() -> None:
    events = ask(
        streaming(
            {0: DeltaToolCall(name="look", tool_call_id="a")},
            {0: DeltaToolCall(json_args='{"q":')},
            {0: DeltaToolCall(json_args="1}")},
            {1: DeltaToolCall(name="open", json_args="{}", tool_call_id="b")},
        )
    )
    assert without_usage(events) == [
        ToolCallStart(id="a", name="look"),
        ToolCallDelta(id="a", args_delta='{"q":'),
        ToolCallDelta(id="a", args_delta="1}"),
        ToolCallStart(id="b", name="open"),
        ToolCallDelta(id="b", args_delta="{}"),
        Stop(reason=StopReason.TOOL_USE),
    ]


def test_arguments_that_come_as_an_object_are_sent_whole() -> None:
    tool = ModelTool(
        id="look",
        description="",
        parameters={"type": "object", "properties": {"q": {"type": "integer"}}, "required": ["q"]},
    )
    events = without_usage(ask(LibraryTestModel(), tools=(tool,)))
    start, delta, stop = events
    assert isinstance(start, ToolCallStart)
    assert start.name == "look"
    assert delta == ToolCallDelta(id=start.id, args_delta='{"q":0}')
    assert stop == Stop(reason=StopReason.TOOL_USE)


def test_reasoning_goes_back_as_it_came() -> None:
    events = ask(
        streaming(
            {0: DeltaThinkingPart(content="Hm")},
            {0: DeltaThinkingPart(content=" hm", signature="sig")},
            "Yes",
        )
    )
    thought, more, signed, *rest = without_usage(events)
    assert [thought, more] == [ReasoningDelta(delta="Hm"), ReasoningDelta(delta=" hm")]
    assert isinstance(signed, ThinkingSignature)
    assert signed.origin == "bridge"
    assert rest == [TextDelta(delta="Yes"), BlockStop(), Stop(reason=StopReason.END_TURN)]
    block = Thinking(thinking="Hm hm", signature=signed.signature, origin=signed.origin)
    foreign = Thinking(thinking="no", signature="x", origin="anthropic")
    plain = Thinking(thinking="plain", origin="bridge")
    messages, _ = seen_by(
        user("a"), assistant((foreign, block, plain, Text(text="Yes"))), user("b")
    )
    said = messages[1]
    assert isinstance(said, ModelResponse)
    assert list(said.parts) == [
        ThinkingPart("Hm hm", signature="sig", provider_name="function"),
        ThinkingPart("plain"),
        TextPart("Yes"),
    ]
    assert said.provider_name == "function"


def test_reasoning_without_a_signature_ends_all_the_same() -> None:
    events = without_usage(ask(streaming({0: DeltaThinkingPart(content="Hm")}, "Yes")))
    assert events[1] == ThinkingSignature(signature=None, origin="bridge")


def test_a_conversation_is_told_in_the_words_of_the_library() -> None:
    picture = Image(source=Base64Source(media_type="image/png", data="aGk="))
    linked = Image(source=UrlSource(url="https://host/cat.png"))
    calls = (
        ToolCall(id="a", name="look", arguments={"q": 1}),
        ToolCall(id="b", name="open", arguments=[1]),
    )
    messages, _ = seen_by(
        user((Text(text="What is it?"), picture, linked)),
        assistant("I look.", calls),
        tool_answer("a", "a cat"),
        tool_answer("b", (Text(text="see"), picture)),
        system("Be brief."),
        user("So?"),
        system=("Be kind.",),
    )
    first, said, last = messages
    assert isinstance(first, ModelRequest)
    assert isinstance(said, ModelResponse)
    assert isinstance(last, ModelRequest)
    told, asked = first.parts
    assert isinstance(told, SystemPromptPart)
    assert told.content == "Be kind."
    assert isinstance(asked, UserPromptPart)
    words, image, link = asked.content
    assert words == "What is it?"
    assert isinstance(image, BinaryContent)
    assert (image.data, image.media_type) == (b"hi", "image/png")
    assert isinstance(link, ImageUrl)
    assert link.url == "https://host/cat.png"
    assert list(said.parts) == [
        TextPart("I look."),
        ToolCallPart("look", {"q": 1}, "a"),
        ToolCallPart("open", "[1]", "b"),
    ]
    cat, seen, brief, so = last.parts
    assert isinstance(cat, ToolReturnPart)
    assert (cat.tool_name, cat.content, cat.tool_call_id) == ("look", "a cat", "a")
    assert isinstance(seen, ToolReturnPart)
    assert (seen.tool_name, seen.tool_call_id) == ("open", "b")
    assert isinstance(seen.content, list)
    assert seen.content[0] == "see"
    assert isinstance(brief, SystemPromptPart)
    assert isinstance(so, UserPromptPart)
    assert so.content == ["So?"]


def test_settings_and_tools_are_passed_on() -> None:
    overrides = InferenceOverride(
        max_tokens=9,
        temperature=0.5,
        top_p=0.25,
        provider_options={"seed": 7},
    )
    tool = ModelTool(id="look", description="Looks.", parameters={"type": "object"})
    _, info = seen_by(overrides=overrides, tools=(tool,))
    assert info.model_settings == {"max_tokens": 9, "temperature": 0.5, "top_p": 0.25, "seed": 7}
    (known,) = info.function_tools
    assert (known.name, known.description) == ("look", "Looks.")
    assert known.parameters_json_schema == {"type": "object"}


def test_an_effort_is_passed_on_and_a_budget_is_refused() -> None:
    thinking = ModelProfile(supports_thinking=True)
    for effort, wanted in ((Effort.HIGH, "high"), (Effort.NONE, False), (Effort.MAX, "max")):
        asked = InferenceOverride(reasoning_effort=effort)
        _, info = seen_by(overrides=asked, profile=thinking)
        assert info.model_request_parameters.thinking == wanted
    budget = InferenceOverride(reasoning_effort=EffortBudget(budget=5))
    with pytest.raises(ours.InvalidRequest, match="budget"):
        ask(streaming("x"), overrides=budget)


def test_the_schema_of_the_answer_is_enforced_or_else_asked_for() -> None:
    schema = {"type": "object", "properties": {"zebra": {"type": "integer"}}}
    _, info = seen_by(output_schema=schema)
    assert info.model_request_parameters.output_mode == "native"
    known = info.model_request_parameters.output_object
    assert known is not None
    assert known.json_schema["properties"] == schema["properties"]
    _, info = seen_by(output_schema=schema, profile=ModelProfile())
    assert info.model_request_parameters.output_mode == "prompted"
    assert "zebra" in (info.instructions or "")


@pytest.mark.parametrize(
    ("error", "made"),
    [
        (theirs.ModelHTTPError(429, "m", {"message": "slow down"}), ours.RateLimited),
        (theirs.ModelHTTPError(401, "m", "no"), ours.Unauthorized),
        (theirs.ModelHTTPError(400, "m", "maximum context length"), ours.ContextOverflow),
        (theirs.ModelHTTPError(400, "m", "bad"), ours.InvalidRequest),
        (theirs.ModelHTTPError(529, "m", "busy"), ours.Overloaded),
        (
            theirs.ModelHTTPError(400, "m", "pay", provider_error_code="insufficient_quota"),
            ours.QuotaExceeded,
        ),
        (theirs.ModelRateLimitError("m", "slow"), ours.RateLimited),
        (theirs.ModelQuotaExceededError("m", "pay"), ours.QuotaExceeded),
        (theirs.ModelOverloadedError("m", "busy"), ours.Overloaded),
        (theirs.ModelServerError("m", "broke"), ours.ProviderFailed),
        (theirs.ModelContextWindowExceededError("m", "long"), ours.ContextOverflow),
        (theirs.ModelAuthenticationError("m", "who"), ours.Unauthorized),
        (theirs.ModelNotFoundError("m", "what"), ours.ModelNotFound),
        (theirs.ModelRequestRejectedError("m", "no"), ours.InvalidRequest),
        (theirs.ModelTimeoutError("m", "late"), ours.ModelTimeout),
        (theirs.ModelConnectionError("m", "gone"), ours.TransportFailed),
        (theirs.ContentFilterError("no"), ours.ContentFiltered),
        (theirs.UnexpectedModelBehavior("odd"), ours.MalformedAnswer),
        (theirs.UsageLimitExceeded("enough"), ours.QuotaExceeded),
        (theirs.UserError("wrong"), ours.InvalidRequest),
        (ConnectionResetError("gone"), ours.TransportFailed),
        (KeyError("surprise"), ours.ProviderFailed),
    ],
)
def test_an_error_of_the_library_is_one_of_ours(error: Exception, made: type) -> None:
    with pytest.raises(ours.ModelError) as caught:
        ask(streaming(error=error))
    assert type(caught.value) is made


def test_a_connection_that_breaks_in_the_answer_interrupts_it() -> None:
    for error in (theirs.ModelConnectionError("m", "gone"), ConnectionResetError("gone")):
        with pytest.raises(ours.StreamInterrupted):
            ask(streaming("He", error=error))


def test_the_wait_that_is_asked_for_is_told() -> None:
    for error in (
        theirs.ModelHTTPError(429, "m", headers={"Retry-After": "2.5"}),
        theirs.ModelRateLimitError("m", "slow", retry_after=2.5),
    ):
        with pytest.raises(ours.RateLimited) as caught:
            ask(streaming(error=error))
        assert caught.value.retry_after_ms == 2_500
    with pytest.raises(ours.RateLimited) as caught:
        ask(streaming(error=theirs.ModelRateLimitError("m", "slow", retry_after=float("inf"))))
    assert caught.value.retry_after_ms is None


def test_no_error_shows_the_key() -> None:
    spec = ProviderSpec(id="bridge", adapter="bridge", api_key=RedactedString(KEY))
    error = theirs.ModelHTTPError(400, "m", f"bad key {KEY}")
    with pytest.raises(ours.InvalidRequest) as caught:
        ask(streaming(error=error), spec=spec)
    assert "bad key ***" in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert KEY not in str(caught.value) + repr(BridgeClient(spec))


def test_silence_is_a_timeout() -> None:
    async def stream(_messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str]:
        yield "x"
        await asyncio.Event().wait()

    spec = ProviderSpec(id="bridge", adapter="bridge", timeout_ms=50)
    with pytest.raises(ours.ModelTimeout, match="50 ms"):
        ask(FunctionModel(stream_function=stream), spec=spec)


def test_closing_the_stream_closes_the_library_s_own() -> None:
    closed: list[bool] = []

    async def stream(_messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str]:
        try:
            yield "x"
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async def read() -> None:
        client = BridgeClient(SPEC, lambda _: FunctionModel(stream_function=stream))
        request = InferenceRequest(upstream_model="some:model", messages=[user("Hi")])
        events = client.stream(request)
        assert await anext(events) == TextDelta(delta="x")
        await events.aclose()

    asyncio.run(read())
    assert closed == [True]


def test_an_endless_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_module, "_ANSWER_CHARS", 100)
    with pytest.raises(ours.AnswerTooLarge):
        ask(streaming(*["x" * 10] * 20))


def test_why_the_model_stopped_decides_how_the_answer_ends() -> None:
    def ended(**fields: Any) -> list[ModelEvent]:
        return list(AnswerReader().end(ModelResponse([], **fields)))

    assert ended(finish_reason="length") == [Stop(reason=StopReason.MAX_TOKENS)]
    named = ended(finish_reason="stop", provider_response_id="r1", model_name="big-1")
    assert named[1:] == [VendorAnswer(id="r1", model="big-1")]
    assert ended(finish_reason="stop", model_name="big-1") == [Stop(reason=StopReason.END_TURN)]
    assert ended(finish_reason="stop") == [Stop(reason=StopReason.END_TURN)]
    assert ended(finish_reason="tool_call") == [Stop(reason=StopReason.TOOL_USE)]
    with pytest.raises(ours.ContentFiltered):
        ended(finish_reason="content_filter")
    with pytest.raises(ours.ProviderFailed):
        ended(finish_reason="error")
    with pytest.raises(ours.StreamInterrupted):
        ended(finish_reason="stop", state="incomplete")


def test_all_counts_of_tokens_are_reported() -> None:
    usage = RequestUsage(
        input_tokens=10,
        output_tokens=5,
        cache_read_tokens=3,
        cache_write_tokens=2,
        output_reasoning_tokens=4,
    )
    report = next(AnswerReader().end(ModelResponse([], usage=usage)))
    assert isinstance(report, UsageReport)
    told = report.usage
    assert (told.prompt_tokens, told.completion_tokens, told.total_tokens) == (10, 5, 15)
    assert (told.cache_read_tokens, told.cache_creation_tokens, told.thinking_tokens) == (3, 2, 4)


def test_a_model_is_built_once_for_each_name() -> None:
    built: list[str] = []

    def build(name: str) -> FunctionModel:
        built.append(name)
        return streaming("x")

    async def read() -> None:
        client = BridgeClient(SPEC, build)
        for name in ("a:1", "b:2", "a:1"):
            request = InferenceRequest(upstream_model=name, messages=[user("Hi")])
            assert [event async for event in client.stream(request)]

    asyncio.run(read())
    assert built == ["a:1", "b:2"]


def inferred(name: str, **fields: Any) -> None:
    async def read() -> None:
        client = BridgeClient(ProviderSpec(id="bridge", adapter="bridge", **fields))
        request = InferenceRequest(upstream_model=name, messages=[user("Hi")])
        assert [event async for event in client.stream(request)]

    asyncio.run(read())


def test_the_library_builds_the_model_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    inferred("test")
    with pytest.raises(ours.ModelNotFound, match="nobody:x"):
        inferred("nobody:x")
    with pytest.raises(ours.ModelNotFound, match="no-provider"):
        inferred("no-provider")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ours.Unauthorized, match="OPENAI_API_KEY"):
        inferred("openai:gpt-5")
    with pytest.raises(ours.ModelNotFound, match="no_such_option"):
        inferred("openai:gpt-5", adapter_options={"no_such_option": 1})
    with pytest.raises(ours.TransportFailed):
        inferred("openai:gpt-5", api_key=RedactedString(KEY), base_url="http://127.0.0.1:1/v1")


def test_importing_the_provider_does_not_load_the_library() -> None:
    code = "import sys, awaken.providers.bridge; print('pydantic_ai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("awaken.providers.bridge.client.find_spec", lambda _: None)
    with pytest.raises(InvalidSpec, match=r"pip install 'awaken\[providers\]'"):
        BridgeClient(SPEC)


def test_it_is_a_model_client() -> None:
    client = BridgeClient(SPEC)
    assert isinstance(client, ModelClient)
    assert (client.name, repr(client)) == ("bridge", "BridgeClient('bridge')")
