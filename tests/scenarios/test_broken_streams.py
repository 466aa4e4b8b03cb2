"""Models that fail and streams that break: asked again, continued, and never said twice."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from awaken import (
    Agent,
    AgentRuntime,
    Cancelled,
    Failed,
    ModelPool,
    NaturalEnd,
    PoolMember,
    RunFailed,
    StreamReset,
    TextDelta,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStart,
    tool,
)
from awaken.contracts.models.stream_recovery import INTERRUPTED_PROMPT
from awaken.errors import (
    AnswerTooLarge,
    ContentFiltered,
    ContextOverflow,
    InvalidRequest,
    InvalidSpec,
    ModelError,
    ModelNotFound,
    ModelTimeout,
    Overloaded,
    ProviderFailed,
    QuotaExceeded,
    RateLimited,
    StreamInterrupted,
    TransportFailed,
    Unauthorized,
)
from awaken.events import InferenceComplete, ToolCallCancel
from awaken.messages import Visibility
from awaken.models import (
    Alive,
    CallSignature,
    Effort,
    InferenceOverride,
    InferenceRequest,
    ModelEvent,
    RetryPolicy,
    Stop,
    StopReason,
    TokenUsage,
    UsageReport,
)
from awaken.runtime.inference.retry_planner import backoff_ms
from awaken.testing import Chunks, LoopClock, Reasoning, Turn

from . import worlds
from .worlds import Story, World, simulated

LOST = StreamInterrupted("connection reset")
FULL = [("echo", {"text": "a"}, "c1")]
OPEN = [("echo", '{"text": "b', "c2")]
PASSING = [
    ProviderFailed("x"), RateLimited("x"), Overloaded("x"), ModelTimeout("x"), TransportFailed("x"),
]  # fmt: skip
PERMANENT = [
    ContextOverflow("x"), InvalidRequest("x"), Unauthorized("x"), ModelNotFound("x"),
    ContentFiltered("x"), QuotaExceeded("x"), AnswerTooLarge("x"),
]  # fmt: skip


@tool(effect="none")
async def echo(text: str) -> str:
    return text


def play(*script: Any, **world: Any) -> Story:
    """Play a run that is retried as runs are by default."""
    return worlds.play(*script, **{"config": {}, **world})


def told(story: Story) -> str:
    """What a reader has before it at the end: a reset takes back what came before."""
    shown = ""
    for event in story.events:
        if isinstance(event, StreamReset):
            shown = ""
        elif isinstance(event, TextDelta):
            shown += event.delta
    return shown


@pytest.mark.parametrize("error", PASSING, ids=lambda error: error.code)
def test_a_failure_that_passes_is_followed_by_another_call(error: ModelError) -> None:
    story = play([error, error, "here"])
    assert story.lines[-1] == ("assistant", "here")
    assert len(story.requests) == 3
    assert story.requests[0].messages == story.requests[2].messages
    assert story.of(StreamReset) == []


@pytest.mark.parametrize("error", PERMANENT, ids=lambda error: error.code)
@pytest.mark.parametrize("text", ["", "said "])
def test_a_failure_that_stays_is_never_retried(error: ModelError, text: str) -> None:
    story = play([Turn(text, error=error), "never"])
    assert story.termination == Failed(message="x", code=error.code)
    assert len(story.requests) == 1


def test_the_calls_end_with_the_budget_and_the_last_error_is_told() -> None:
    story = play([RateLimited("1"), RateLimited("2"), Overloaded("3"), "never"])
    assert story.termination == Failed(message="3", code="overloaded")
    none = play([RateLimited("1"), "never"], config={"retry": {"max_retries": 0}})
    assert none.termination == Failed(message="1", code="rate_limited")


@pytest.mark.parametrize("error", [LOST, ProviderFailed("x"), ModelTimeout("x")])
def test_text_that_breaks_off_is_continued_and_joined(error: ModelError) -> None:
    story = play([Turn("The answer ", error=error), "is 42."])
    assert story.lines[-1] == ("assistant", "The answer is 42.")
    assert len(story.messages[-1].content) == 1
    assert story.of(StreamReset) == story.of(ToolCallCancel) == []
    asked = story.requests[1].messages
    assert [(str(m.role), m.text) for m in asked[-2:]] == [
        ("assistant", "The answer "), ("user", INTERRUPTED_PROMPT),
    ]  # fmt: skip
    assert asked[-1].visibility is Visibility.INTERNAL
    assert told(story) == "The answer is 42."


def test_text_that_breaks_off_again_and_again_is_continued_from_all_of_it() -> None:
    story = play([Turn("a", error=LOST), Turn("b", error=LOST), "c"])
    assert story.lines[-1] == ("assistant", "abc")
    assert [request.messages[-2].text for request in story.requests[1:]] == ["a", "ab"]


def test_a_stream_that_always_breaks_off_ends_as_interrupted_and_keeps_what_was_said() -> None:
    story = play([Turn(text, error=RateLimited("slow")) for text in "abcd"])
    assert story.termination == Failed(
        message="the stream broke off: slow", code="stream_interrupted"
    )
    assert story.lines[-1] == ("assistant", "abc")
    assert len(story.requests) == 3


def test_calls_that_are_complete_are_taken_as_they_are_and_the_open_one_is_given_up() -> None:
    broken = Turn("Let me see. ", calls=[*FULL, *OPEN], error=LOST)
    story = play([broken, "done"], tools=[echo])
    assert story.answers == ["a"]
    assert [event.id for event in story.of(ToolCallCancel)] == ["c2"]
    assert [event.id for event in story.of(ToolCallReady)] == ["c1"]
    assert len(story.requests) == 2
    hint = story.requests[1].messages[-1].text
    assert "the arguments of 'echo' were cut off" in hint
    assert story.termination == NaturalEnd()


def test_a_call_of_which_nothing_came_but_its_name_is_not_run_without_arguments() -> None:
    bare: list[tuple[str, Any, str]] = [("echo", "", "c2")]
    story = play([Turn("", calls=[*FULL, *bare], error=LOST), "done"], tools=[echo])
    assert story.answers == ["a"]
    assert "the arguments of 'echo' were cut off" in story.requests[1].messages[-1].text
    alone = play([Turn("", calls=bare, error=LOST), "done"], tools=[echo])
    assert alone.answers == []


def test_text_before_an_open_call_is_continued_without_the_call() -> None:
    story = play([Turn("First ", calls=OPEN, error=LOST), "second."], tools=[echo])
    assert story.lines[-1] == ("assistant", "First second.")
    assert [event.id for event in story.of(ToolCallCancel)] == ["c2"]
    assert story.of(StreamReset) == []


def test_an_answer_without_text_is_asked_for_again_and_readers_are_told() -> None:
    thought = Turn(reasoning=Reasoning("hm"), calls=OPEN, error=LOST)
    story = play([thought, "fresh"], tools=[echo])
    assert story.lines[-1] == ("assistant", "fresh")
    assert len(story.of(StreamReset)) == 1
    assert [event.id for event in story.of(ToolCallCancel)] == ["c2"]
    assert story.requests[0].messages == story.requests[1].messages
    assert [type(block).__name__ for block in story.messages[-1].content] == ["Text"]


def test_half_of_a_structured_answer_is_not_continued() -> None:
    story = play([Turn('{"a": 1', error=LOST), "[1, 2]"], output_type=list[int])
    assert story.lines[-1] == ("assistant", "[1, 2]")
    assert len(story.of(StreamReset)) == 1
    assert told(story) == "[1, 2]"


def test_a_truncated_answer_whose_continuation_breaks_off_is_still_one_answer() -> None:
    script = [Turn("a", stop=StopReason.MAX_TOKENS), Turn("b", error=LOST), "c"]
    story = play(script)
    assert story.lines[-1] == ("assistant", "abc")
    assert len(story.requests[2].messages) == len(story.requests[0].messages) + 2


def test_silence_is_broken_off_and_the_text_is_continued() -> None:
    stalled = Chunks(["one ", "never"], delay_ms=200_000)
    story = play([stalled, "two"])
    assert story.lines[-1] == ("assistant", "one two")


@pytest.mark.parametrize(
    ("effort", "is_given_up"), [(None, True), (Effort.HIGH, False)], ids=["plain", "reasons"]
)
def test_a_model_that_reasons_may_be_silent_twice_as_long(
    effort: Effort | None, is_given_up: bool
) -> None:
    quiet = Chunks(["one ", "two"], delay_ms=95_000)
    story = play([quiet, "again"], reasoning_effort=effort)
    assert (len(story.requests) == 2) is is_given_up


def test_whoever_cancels_ends_the_pause_between_two_calls() -> None:
    async def scenario() -> None:
        slow = RateLimited("later", retry_after_ms=300_000)
        async with World([slow, "never"], config={}) as world:
            handle = await world.runtime.start("agent", "go", thread_id="t")
            await asyncio.sleep(1)
            before = asyncio.get_running_loop().time()
            assert await world.runtime.cancel_and_wait(handle.run_id)
            assert asyncio.get_running_loop().time() - before < 1
            result = await handle.result()
            assert isinstance(result.termination, Cancelled)
            assert len(world.model.requests) == 1

    simulated(scenario)


def test_a_provider_that_asks_for_more_time_gets_it_unless_that_is_beyond_the_deadline() -> None:
    async def waited(entry: ModelError, **retry: int) -> tuple[float, Story]:
        async with World([entry, "ok"], config={"retry": retry}) as world:
            began = asyncio.get_running_loop().time()
            story = await world.tell()
            return asyncio.get_running_loop().time() - began, story

    passed, story = simulated(lambda: waited(RateLimited("x", retry_after_ms=90_000)))
    assert 90 <= passed < 91
    assert story.lines[-1] == ("assistant", "ok")
    passed, story = simulated(
        lambda: waited(RateLimited("x", retry_after_ms=90_000), deadline_ms=60_000)
    )
    assert passed < 1
    assert story.termination == Failed(message="x", code="rate_limited")


def test_pauses_grow_to_their_cap_and_runs_that_fail_together_come_back_apart() -> None:
    policy, error = RetryPolicy(), ProviderFailed("x")
    pauses = [backoff_ms(policy, error, attempt, "r") for attempt in range(8)]
    assert pauses[:4] == sorted(pauses[:4])
    assert all(500 * 2**n <= pause <= 625 * 2**n for n, pause in enumerate(pauses[:4]))
    assert all(8_000 <= pause <= 10_000 for pause in pauses[4:])
    assert backoff_ms(policy, Overloaded("x"), 0, "r") >= 2_000
    assert backoff_ms(RetryPolicy(backoff_base_ms=0), error, 3, "r") == 0
    assert backoff_ms(policy, ProviderFailed("x", retry_after_ms=99_000), 0, "r") == 99_000
    assert len({backoff_ms(policy, error, 3, f"run {n}") for n in range(50)}) > 40
    assert pauses == [backoff_ms(policy, error, attempt, "r") for attempt in range(8)]


def test_what_broken_calls_have_used_is_counted_once() -> None:
    class Reporting:
        name = "reporting"

        def __init__(self) -> None:
            self.calls = 0

        async def stream(self, _request: InferenceRequest) -> Any:
            self.calls += 1
            yield UsageReport(usage=TokenUsage(prompt_tokens=10, completion_tokens=self.calls))
            yield TextDelta(delta=f"part {self.calls} ")
            if self.calls == 1:
                raise LOST
            yield Stop(reason=StopReason.END_TURN)

    story = play(model=Reporting())
    assert story.result is not None
    assert story.result.usage == TokenUsage(prompt_tokens=20, completion_tokens=3)
    (complete,) = story.of(InferenceComplete)
    assert complete.usage == story.result.usage


def test_a_bug_in_a_provider_is_reported_and_not_retried() -> None:
    story = play([ValueError("oops"), "never"])
    assert story.termination == Failed(message="ValueError: oops", code="provider_broken")
    assert len(story.requests) == 1


def test_a_retry_policy_that_makes_no_sense_is_refused_with_the_agent() -> None:

    for section in ({"max_retries": "many"}, {"tries": 3}, {"max_retries": -1}):
        agent = Agent("a", model="scripted", config={"retry": section})
        with pytest.raises(InvalidSpec, match="retry"):
            AgentRuntime([agent])


class Told:
    """A model that streams what it is told to, call by call; the last answer is repeated."""

    name = "told"

    def __init__(self, *calls: list[ModelEvent | Exception]) -> None:
        self._calls = list(calls)
        self.requests: list[InferenceRequest] = []

    async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        for event in self._calls.pop(0) if len(self._calls) > 1 else self._calls[0]:
            if isinstance(event, Exception):
                raise event
            yield event


END = Stop(reason=StopReason.END_TURN)


def said(text: str) -> list[ModelEvent | Exception]:
    return [TextDelta(delta=text), END]


def test_an_answer_whose_connection_breaks_after_its_end_is_whole() -> None:
    model = Told([TextDelta(delta="all of it"), END, LOST], said(" and more"))
    story = play(model=model)
    assert story.lines[-1] == ("assistant", "all of it")
    assert len(model.requests) == 1


def test_an_answer_that_is_refused_after_its_end_is_no_answer() -> None:
    story = play(model=Told([TextDelta(delta="oh"), END, ContentFiltered("not that")]))
    assert story.termination == Failed(message="not that", code="content_filtered")


def test_a_short_failure_of_the_model_harms_no_run_that_may_still_try() -> None:
    class Blinking:
        name = "blinking"

        async def stream(self, _request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
            await asyncio.sleep(0.05)
            if asyncio.get_running_loop().time() < 0.1:
                raise TransportFailed("gone for a moment")
            yield TextDelta(delta="back")
            yield END

    async def scenario() -> list[str]:
        async with AgentRuntime([Agent("a", model=Blinking())], clock=LoopClock()) as runtime:
            runs = [runtime.run("a", "go", thread_id=f"t{n}") for n in range(10)]
            return [result.text for result in await asyncio.gather(*runs)]

    assert simulated(scenario) == ["back"] * 10


def test_whoever_waits_in_vain_for_a_breaker_is_told_what_failed() -> None:
    story = play(cycle_of(TransportFailed("no route")), config={"retry": {"max_retries": 99}})
    assert story.termination == Failed(message="no route", code="transport_failed")


def cycle_of(error: ModelError) -> list[ModelError]:
    return [error] * 200


def test_text_that_was_taken_back_is_not_kept_when_the_next_call_is_refused() -> None:
    half = Turn('{"a": 1', error=LOST)
    story = play([half, QuotaExceeded("empty")], output_type=list[int])
    assert isinstance(story.termination, Failed)
    assert [role for role, _ in story.lines] == ["user"]
    assert told(story) == ""


def test_a_structured_answer_that_reached_its_limit_is_asked_for_again() -> None:
    cut = Turn("[1, 2", stop=StopReason.MAX_TOKENS)
    story = play([cut, "[1, 2, 3]"], output_type=list[int])
    assert story.lines[-1] == ("assistant", "[1, 2, 3]")
    assert len(story.requests) == 2
    assert story.requests[0].messages == story.requests[1].messages


def test_a_model_named_for_the_run_has_a_breaker_of_its_own() -> None:
    class Picky:
        name = "picky"

        async def stream(self, request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
            if request.upstream_model == "preview":
                raise ProviderFailed("not ready")
            yield TextDelta(delta="fine")
            yield END

    async def scenario() -> str:
        agent = Agent("a", model=Picky(), config={"retry": worlds.NO_RETRIES})
        async with AgentRuntime([agent], clock=LoopClock()) as runtime:
            for number in range(6):
                with pytest.raises(RunFailed):
                    await runtime.run(
                        "a",
                        "go",
                        thread_id=f"p{number}",
                        overrides=InferenceOverride(upstream_model="preview"),
                    )
            return (await runtime.run("a", "go", thread_id="t")).text

    assert simulated(scenario) == "fine"


def test_a_call_with_an_empty_piece_of_arguments_has_none_and_runs() -> None:
    @tool(effect="none")
    async def now() -> str:
        return "noon"

    call = [ToolCallStart(id="c1", name="now"), ToolCallDelta(id="c1", args_delta="")]
    story = play(model=Told([*call, Stop(reason=StopReason.TOOL_USE)], said("ok")), tools=[now])
    assert story.answers == ["noon"]


def test_a_signature_belongs_to_the_call_of_its_own_stream() -> None:
    start = ToolCallStart(id="c1", name="echo")
    first = [start, CallSignature(id="c1", signature="old"), LOST]
    whole = ToolCallDelta(id="c1", args_delta='{"text": "a"}')
    second = [start, whole, Stop(reason=StopReason.TOOL_USE)]
    story = play(model=Told(first, second, said("ok")), tools=[echo])
    (call,) = story.messages[1].tool_calls or ()
    assert call.signature is None


def test_a_member_of_a_pool_that_wants_a_long_pause_is_left_for_another() -> None:
    asked: list[str] = []

    class Member:
        def __init__(self, name: str) -> None:
            self.name = name

        async def stream(self, _request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
            asked.append(self.name)
            if len(asked) == 1:
                raise RateLimited("later", retry_after_ms=60_000)
            yield TextDelta(delta="here")
            yield END

    async def scenario() -> tuple[str, float]:
        members = tuple(PoolMember(model_id=f"{name}:m") for name in ("one", "two"))
        async with AgentRuntime(
            [Agent("a", model="pool")],
            providers={name: Member(name) for name in ("one", "two")},
            models=[ModelPool(id="pool", members=members)],
            clock=LoopClock(),
        ) as runtime:
            text = (await runtime.run("a", "go", thread_id="t")).text
            return text, asyncio.get_running_loop().time()

    text, took = simulated(scenario)
    assert text == "here"
    assert sorted(asked) == ["one", "two"]
    assert took < 1


@pytest.mark.parametrize(("minutes", "is_patient"), [(20, True), (45, False)])
def test_signs_of_life_are_waited_for_but_not_for_ever(minutes: int, is_patient: bool) -> None:
    class Pondering:
        name = "pondering"

        async def stream(self, _request: InferenceRequest) -> AsyncGenerator[ModelEvent, None]:
            for _ in range(minutes * 2):
                await asyncio.sleep(30)
                yield Alive()
            yield TextDelta(delta="at last")
            yield END

    story = play(model=Pondering(), config={"retry": worlds.NO_RETRIES})
    if is_patient:
        assert story.lines[-1] == ("assistant", "at last")
    else:
        assert isinstance(story.termination, Failed)
        assert story.termination.code == "model_timeout"
