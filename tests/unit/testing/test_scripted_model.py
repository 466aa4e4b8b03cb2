import asyncio
import contextlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken.contracts.messages.deltas import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.contracts.messages.message import user
from awaken.contracts.models.errors import ModelError, RateLimited, StreamInterrupted
from awaken.contracts.models.inference import (
    InferenceRequest,
    ModelClient,
    ModelEvent,
    Stop,
    StopReason,
    ThinkingSignature,
    TokenUsage,
    UsageReport,
)
from awaken.testing.scripted_model import (
    DEFAULT_USAGE,
    Chunks,
    Reasoning,
    ScriptedModel,
    ScriptExhausted,
    ToolCalls,
    Turn,
)

USAGE = UsageReport(usage=DEFAULT_USAGE)
END = Stop(reason=StopReason.END_TURN)
USE = Stop(reason=StopReason.TOOL_USE)


def request(*texts: str) -> InferenceRequest:
    return InferenceRequest(upstream_model="m", messages=[user(text) for text in texts])


async def collect(model: ScriptedModel, asked: InferenceRequest | None = None) -> list[ModelEvent]:
    return [event async for event in model.stream(asked or request("hello"))]


def play(*entries, **options) -> list[ModelEvent]:
    return asyncio.run(collect(ScriptedModel(entries, **options)))


def arguments(events: list[ModelEvent], call_id: str = "call_1") -> list[str]:
    return [e.args_delta for e in events if isinstance(e, ToolCallDelta) and e.id == call_id]


def test_a_text_is_one_delta_with_the_default_usage_and_end():
    assert play("It is sunny.") == [TextDelta(delta="It is sunny."), USAGE, END]
    assert USAGE.usage == TokenUsage(prompt_tokens=10, completion_tokens=20, total_tokens=30)


def test_an_empty_text_is_no_delta():
    assert play("") == [USAGE, END]


def test_chunks_are_one_delta_each_even_when_empty():
    assert play(Chunks(["a", "", "b"])) == [
        TextDelta(delta="a"),
        TextDelta(delta=""),
        TextDelta(delta="b"),
        USAGE,
        END,
    ]


def test_the_model_is_a_model_client():
    model = ScriptedModel([])
    assert isinstance(model, ModelClient)
    assert model.name == "scripted"


def test_entries_answer_in_order_and_remaining_counts_down():
    model = ScriptedModel(["one", "two"])
    assert model.entries_left == 2
    assert asyncio.run(collect(model))[0] == TextDelta(delta="one")
    assert model.entries_left == 1
    assert asyncio.run(collect(model))[0] == TextDelta(delta="two")
    assert model.entries_left == 0


def test_calls_are_streamed_after_the_text_and_stop_with_tool_use():
    events = play(ToolCalls([("get_weather", {"city": "Paris"}), ("now", {})], text="Let me see."))
    assert events == [
        TextDelta(delta="Let me see."),
        ToolCallStart(id="call_1", name="get_weather"),
        ToolCallDelta(id="call_1", args_delta='{"city":"Paris"}'),
        ToolCallStart(id="call_2", name="now"),
        ToolCallDelta(id="call_2", args_delta="{}"),
        USAGE,
        USE,
    ]


def test_call_ids_count_on_over_the_life_of_the_model_and_skip_given_ids():
    model = ScriptedModel([ToolCalls([("a", {}), ("b", {}, "mine")]), ToolCalls([("c", {})])])
    first, second = asyncio.run(collect(model)), asyncio.run(collect(model))
    ids = [event.id for event in first + second if isinstance(event, ToolCallStart)]
    assert ids == ["call_1", "mine", "call_2"]


def test_malformed_arguments_are_streamed_as_given():
    assert arguments(play(ToolCalls([("t", '{"city": "Par')]))) == ['{"city": "Par']


def test_empty_arguments_are_no_delta():
    assert arguments(play(ToolCalls([("t", "")]))) == []


@settings(deadline=None)
@given(text=st.text(min_size=1), split=st.integers(min_value=1, max_value=12))
def test_split_arguments_join_to_the_original_in_at_most_that_many_pieces(text, split):
    pieces = arguments(play(ToolCalls([("t", text)], split=split)))
    assert "".join(pieces) == text
    assert 1 <= len(pieces) <= split
    assert all(pieces)


def test_split_makes_several_pieces_of_long_arguments():
    assert arguments(play(ToolCalls([("t", "abcdef")], split=3))) == ["ab", "cd", "ef"]


def test_reasoning_and_its_signature_come_before_the_text():
    assert play(Turn("Yes.", reasoning=Reasoning("Hm.", signature="sig"))) == [
        ReasoningDelta(delta="Hm."),
        ThinkingSignature(signature="sig"),
        TextDelta(delta="Yes."),
        USAGE,
        END,
    ]
    assert play(Turn("Yes.", reasoning="Hm."))[:2] == [
        ReasoningDelta(delta="Hm."),
        TextDelta(delta="Yes."),
    ]
    assert play(Reasoning("Hm.")) == [ReasoningDelta(delta="Hm."), USAGE, END]


def test_a_turn_can_set_everything():
    usage = TokenUsage(prompt_tokens=1)
    turn = Turn(
        ["a", "b"],
        calls=ToolCalls([("t", "{}")]),
        usage=usage,
        stop=StopReason.MAX_TOKENS,
    )
    assert play(turn) == [
        TextDelta(delta="a"),
        TextDelta(delta="b"),
        ToolCallStart(id="call_1", name="t"),
        ToolCallDelta(id="call_1", args_delta="{}"),
        UsageReport(usage=usage),
        Stop(reason=StopReason.MAX_TOKENS),
    ]


def test_usage_can_be_set_or_left_out_for_the_whole_model():
    usage = TokenUsage(total_tokens=7)
    assert play("x", usage=usage)[1] == UsageReport(usage=usage)
    assert play("x", usage=None) == [TextDelta(delta="x"), END]


def test_the_error_of_a_turn_comes_after_its_deltas_and_replaces_the_end():
    async def scenario():
        seen = []

        async def read():
            turn = Turn("half", calls=[("t", '{"a"')], error=StreamInterrupted("goaway"))
            async for event in ScriptedModel([turn]).stream(request()):
                seen.append(event)

        with pytest.raises(StreamInterrupted, match="goaway"):
            await read()
        return seen

    assert asyncio.run(scenario()) == [
        TextDelta(delta="half"),
        ToolCallStart(id="call_1", name="t"),
        ToolCallDelta(id="call_1", args_delta='{"a"'),
    ]


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        (RateLimited("slow down", retry_after_ms=5), RateLimited),
        (RateLimited, RateLimited),
        (ValueError, ValueError),
        (asyncio.CancelledError, asyncio.CancelledError),
    ],
)
def test_an_exception_or_its_class_is_raised_at_once(entry, kind):
    async def scenario():
        with pytest.raises(kind) as caught:
            await collect(ScriptedModel([entry]))
        return caught.value

    error = asyncio.run(scenario())
    assert error is entry or str(error) == f"Scripted {kind.__name__}."


def test_an_exception_that_is_raised_again_keeps_no_old_traceback():
    def depth(error):
        trace, frames = error.__traceback__, 0
        while trace:
            trace, frames = trace.tb_next, frames + 1
        return frames

    failure = RateLimited("again")
    model = ScriptedModel([failure], cycle=True)
    depths = []
    for _ in range(3):
        with pytest.raises(RateLimited):
            asyncio.run(collect(model))
        depths.append(depth(failure))
    assert len(set(depths)) == 1


def test_a_callable_sees_the_request_and_decides():
    async def later(asked: InferenceRequest):
        await asyncio.sleep(0)
        return ToolCalls([("echo", {"text": asked.messages[-1].text})])

    model = ScriptedModel([lambda asked: f"You said {asked.messages[-1].text}", later])
    assert asyncio.run(collect(model))[0] == TextDelta(delta="You said hello")
    assert arguments(asyncio.run(collect(model))) == ['{"text":"hello"}']


def test_a_callable_may_return_or_raise_a_failure():
    def fails(_asked):
        raise RateLimited("raised")

    for entry in (fails, lambda _asked: RateLimited("returned")):
        with pytest.raises(RateLimited):
            asyncio.run(collect(ScriptedModel([entry])))


def test_running_out_says_how_many_entries_were_used():
    model = ScriptedModel(["one", "two"])
    asyncio.run(collect(model))
    asyncio.run(collect(model))
    with pytest.raises(ScriptExhausted, match="2 of 2 entries") as caught:
        asyncio.run(collect(model))
    assert caught.value.used == 2
    assert isinstance(caught.value, ModelError)
    assert not caught.value.retryable
    assert len(model.requests) == 3


def test_a_cycle_starts_again_but_not_from_nothing():
    model = ScriptedModel(["one", "two"], cycle=True)
    texts = [asyncio.run(collect(model))[0].delta for _ in range(5)]
    assert texts == ["one", "two", "one", "two", "one"]
    assert model.entries_left == 0
    with pytest.raises(ScriptExhausted):
        asyncio.run(collect(ScriptedModel([], cycle=True)))


def test_requests_keep_the_messages_of_their_moment():
    asked = request("one")
    model = ScriptedModel(["x"])
    asyncio.run(collect(model, asked))
    asked.messages.append(user("two"))
    [kept] = model.requests
    assert [message.text for message in kept.messages] == ["one"]
    assert msgspec.structs.replace(kept, messages=asked.messages) == asked


@pytest.mark.parametrize("entry", [3, None, ["list"]])
def test_what_is_no_entry_is_refused_when_the_script_is_given(entry):
    with pytest.raises(TypeError, match="not an entry"):
        ScriptedModel([entry])


A_CALL_IS = r"a call is \(name, arguments\) or \(name, arguments, id\)"
WRAP = r"wrap calls in ToolCalls\(\[\.\.\.\]\)"
MISTAKES = {
    "a name is no call": (lambda: ToolCalls(["get_weather"]), A_CALL_IS),
    "a call needs arguments": (lambda: ToolCalls([("f",)]), A_CALL_IS),
    "one call is no list of calls": (lambda: ToolCalls(("f", {})), A_CALL_IS),
    "one name is no list of calls": (lambda: ToolCalls("f"), A_CALL_IS),
    "a generator can be read only once": (lambda: ToolCalls(("f", {}) for _ in "a"), A_CALL_IS),
    "a call has no fourth part": (lambda: ToolCalls([("f", {}, "id", "more")]), A_CALL_IS),
    "a name is a text": (lambda: ToolCalls([(f_is_a_function, {})]), A_CALL_IS),
    "an id is a text": (lambda: ToolCalls([("f", {}, 1)]), A_CALL_IS),
    "a turn has calls, too": (lambda: Turn(calls=[("f",)]), A_CALL_IS),
    "a call is no entry": (lambda: ScriptedModel([("f", {})]), WRAP),
    "a list of calls is no entry": (lambda: ScriptedModel([[("f", {})]]), WRAP),
    "a class cannot be said": (lambda: ScriptedModel([int]), "int is no exception"),
    "an entry is made": (lambda: ScriptedModel([Turn]), "Turn is no exception"),
    "an error is an exception": (lambda: Turn(error="failed"), "str is no exception"),
}


def f_is_a_function() -> None: ...


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_script_is_refused_where_it_is_made(name):
    make, problem = MISTAKES[name]
    with pytest.raises(TypeError, match=problem):
        make()


@pytest.mark.parametrize("call", [("f", {}), ("f", "{", "c1"), ["f", None], ("f", [1], None)])
def test_a_call_is_a_name_and_arguments_and_maybe_an_id(call):
    given = call[2] if len(call) == 3 else None
    for entry in (ToolCalls([call]), ToolCalls((call,)), Turn(calls=[call])):
        assert play(entry)[0] == ToolCallStart(id=given or "call_1", name="f")


def test_one_text_instead_of_a_list_is_refused():
    with pytest.raises(TypeError, match="list of entries"):
        ScriptedModel("hello")


def test_delays_come_before_the_turn_and_between_chunks(monkeypatch):
    log: list[object] = []

    async def sleep(seconds):
        log.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)

    async def scenario():
        turn = Turn(Chunks(["a", "b", "c"], delay_ms=20), reasoning="r", delay_ms=1500)
        model = ScriptedModel([turn, Chunks(["d", "e"])], usage=None)
        for _ in range(2):
            async for event in model.stream(request()):
                log.append(getattr(event, "delta", None))

    asyncio.run(scenario())
    assert log == [1.5, "r", "a", 0.02, "b", 0.02, "c", None, "d", "e", None]


def test_cancelling_a_waiting_stream_closes_it_and_the_model_goes_on():
    async def scenario():
        model = ScriptedModel([Chunks(["a", "b"], delay_ms=3_600_000), "next"])
        begun = asyncio.Event()
        seen = []

        async def read():
            async for event in model.stream(request()):
                seen.append(event)
                begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        assert model.open_streams == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert model.open_streams == 0
        assert seen == [TextDelta(delta="a")]
        return await collect(model)

    assert asyncio.run(scenario())[0] == TextDelta(delta="next")


def test_cancelling_reaches_an_async_callable():
    async def scenario():
        begun, cancelled = asyncio.Event(), []

        async def never(_asked):
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(True)
                raise
            return "x"

        model = ScriptedModel([never])
        task = asyncio.create_task(collect(model))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return cancelled, model.open_streams

    assert asyncio.run(scenario()) == ([True], 0)


def test_a_reader_that_stops_early_can_close_the_stream():
    async def scenario():
        model = ScriptedModel([Chunks(["a", "b"])])
        async with contextlib.aclosing(model.stream(request())) as stream:
            async for _ in stream:
                break
            assert model.open_streams == 1
        return model.open_streams

    assert asyncio.run(scenario()) == 0


def test_concurrent_runs_each_get_a_whole_entry():
    async def scenario():
        model = ScriptedModel([Chunks([f"{n}", f"{n}"]) for n in range(20)])
        return await asyncio.gather(*(collect(model) for _ in range(20)))

    pairs = [(events[0].delta, events[1].delta) for events in asyncio.run(scenario())]
    assert all(first == second for first, second in pairs)
    assert {first for first, _ in pairs} == {f"{n}" for n in range(20)}
