"""Everything that could grow or hang has a bound, and a bound that is met harms nobody else."""

import asyncio
import threading
from typing import Any

import msgspec
import pytest

from awaken import (
    AwakenError,
    Failed,
    InvalidInput,
    Limits,
    NaturalEnd,
    ToolCallDone,
    ToolContext,
    ToolResult,
    tool,
    user,
)
from awaken.errors import LimitExceeded
from awaken.messages import Role, Visibility
from awaken.stores import MessageQuery, VisibilityFilter
from awaken.testing import Chunks, ToolCalls, Turn

from .worlds import Story, World, play, simulated

MARK = "\n[Output cut: {} characters, {} shown]"


@tool(effect="none")
async def echo(text: str) -> str:
    return text


@pytest.mark.parametrize(
    ("value", "limit", "text"),
    [
        ("x" * 10, 10, "x" * 10),
        ("x" * 11, 10, "x" * 10 + MARK.format(11, 10)),
        ("🎈" * 11, 10, "🎈" * 10 + MARK.format(11, 10)),
        ({"a": "x" * 10}, 10, '{"a":"xxxx' + MARK.format(18, 10)),
        ("x" * 10_000_000, None, "x" * 200_000 + MARK.format(10_000_000, 200_000)),
    ],
    ids=["fits", "one too many", "characters", "json", "10 MB"],
)
@pytest.mark.parametrize("effect", ["none", "once"])
def test_output_is_cut_at_a_character_and_nothing_keeps_the_rest(
    value: object, limit: int | None, text: str, effect: Any
) -> None:
    @tool(output_limit=limit, effect=effect)
    async def big() -> Any:
        return value

    async def scenario() -> tuple[Story, list[bytes]]:
        async with World([ToolCalls([("big", {})]), "ok"], tools=[big]) as world:
            story = await world.tell()
            return story, [msgspec.json.encode(commit.events) for commit in world.store.commits]

    story, stored = simulated(scenario)
    assert story.answers == [text]
    assert max(map(len, stored)) < 2_000 + 3 * len(text.encode())


def test_a_long_answer_for_programs_is_cut_also_when_the_model_reads_a_short_one() -> None:
    @tool
    async def both() -> ToolResult:
        return ToolResult.success("both", list(range(100_000)), "a list")

    story = play([ToolCalls([("both", {})]), "ok"], tools=[both])

    assert story.answers == ["a list"]
    (done,) = story.of(ToolCallDone)
    assert len(done.result.data) < 201_000


def test_calls_beyond_the_limit_of_a_step_are_refused_in_order() -> None:
    calls = ToolCalls([("echo", {"text": str(index)}) for index in range(300)])
    story = play([calls, "ok"], tools=[echo])

    assert story.answers[:256] == [str(index) for index in range(256)]
    assert set(story.answers[256:]) == {"Not executed: at most 256 calls in one step."}
    assert len(story.answers) == 300
    assert story.termination == NaturalEnd()


@pytest.mark.parametrize("parallel", [True, False])
def test_calls_beyond_the_limit_are_answered_although_another_call_waits(parallel: bool) -> None:
    @tool
    async def ask(ctx: ToolContext) -> object:
        return ctx.suspend("May I?")

    calls = ToolCalls([("ask", {}), *[("echo", {"text": "a"})] * 3])
    limits = Limits(calls_per_step=2)
    story = play([calls], tools=[ask, echo], limits=limits, parallel_tools=parallel)

    refused = "Not executed: at most 2 calls in one step."
    first = "a" if parallel else "[Tool execution was interrupted]"
    assert story.answers == [first, refused, refused]


@pytest.mark.parametrize("effect", ["none", "once"])
def test_arguments_that_are_too_large_are_an_error_of_their_call(effect: Any) -> None:
    ran: list[int] = []

    @tool(effect=effect)
    async def take(text: str) -> int:
        ran.append(len(text))
        return len(text)

    calls = ToolCalls([("take", {"text": "x" * 100}), ("take", {"text": "x" * 10})])
    story = play([calls, "ok"], tools=[take], limits=Limits(argument_bytes=50))

    assert story.answers == ["Invalid arguments: 111 bytes, the limit is 50", "10"]
    assert ran == [10]


def test_a_tool_runs_no_more_often_at_once_than_it_allows_over_all_runs() -> None:
    running = [0, 0]

    @tool(effect="none", concurrency=2)
    async def narrow() -> str:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(1)
        running[0] -= 1
        return "ok"

    async def scenario() -> tuple[list[Story], float]:
        batch = ToolCalls([("narrow", {})] * 3)
        async with World([batch, batch, "ok", "ok"], tools=[narrow]) as world:
            runs = [world.tell(thread_id=name) for name in ("a", "b")]
            stories = await asyncio.gather(*runs)
            return stories, asyncio.get_running_loop().time()

    stories, seconds = simulated(scenario)
    assert [len(story.answers) for story in stories] == [3, 3]
    assert (running, seconds) == ([0, 2], 3)


def test_waiting_for_a_slot_is_bounded_and_does_not_use_up_the_time_of_the_tool() -> None:
    @tool(effect="none", concurrency=1, timeout=3)
    async def narrow() -> str:
        await asyncio.sleep(2)
        return "ok"

    story = play([ToolCalls([("narrow", {})] * 3), "ok"], tools=[narrow])

    assert story.answers == ["ok", "ok", "Timed out: no result within 3000 ms"]


def test_every_tool_without_a_time_of_its_own_has_the_runtimes() -> None:
    @tool(effect="none")
    async def hang() -> None:
        await asyncio.sleep(10_000)

    story = play([ToolCalls([("hang", {})]), "ok"], tools=[hang])

    assert story.answers == ["Timed out: no result within 600000 ms"]


def test_a_sync_tool_that_takes_too_long_is_left_to_its_thread() -> None:
    release = threading.Event()
    late: list[str] = []

    @tool(timeout=0.001)
    def block() -> str:
        release.wait(10)
        late.append("done")
        return "late"

    async def scenario() -> Story:
        async with World([ToolCalls([("block", {})]), "ok"], tools=[block]) as world:
            try:
                return await world.tell()
            finally:
                release.set()

    story = asyncio.run(scenario())
    assert story.answers == ["Timed out: no result within 1 ms"]
    assert late == ["done"]


@pytest.mark.parametrize("pause_s", [59, 91])
def test_a_model_that_falls_silent_times_out_and_a_slow_one_does_not(pause_s: int) -> None:
    story = play([Chunks(["a", "b", "c"], delay_ms=pause_s * 1000)])

    if pause_s == 59:
        assert story.termination == NaturalEnd()
        assert story.lines[-1] == ("assistant", "abc")
    else:
        assert isinstance(story.termination, Failed)
        assert story.termination.code == "model_timeout"
        assert story.lines[-1] == ("assistant", "a")


def test_a_model_that_never_begins_times_out() -> None:
    story = play([Turn("late", delay_ms=3_600_000)])

    assert isinstance(story.termination, Failed)
    assert story.termination.code == "model_timeout"
    assert story.record is not None
    assert story.record.finished_at is not None
    assert 60_000 <= story.record.finished_at - story.record.created_at <= 90_000


BAD_CALLS = [
    ([("echo", "{oops")], "the arguments of 'echo' are not valid JSON", []),
    ([("echo", '{"text": "\ud800"')], "the arguments of 'echo' are not valid JSON", []),
    ([("echo", "[" * 100_000)], "the arguments of 'echo' are not valid JSON", []),
    ([("echo", "{oops"), ("echo", {"text": "a"})], "are not valid JSON", ["a"]),
    (
        [("echo", {"text": "a"}, "x"), ("echo", {"text": "b"}, "x"), ("echo", {"text": "c"}, "y")],
        "call id 'x' was used twice",
        ["a", "c"],
    ),
    ([("echo", {"text": "a"}, ""), ("echo", {"text": "b"})], "a call has no id", ["b"]),
    ([("", {"text": "a"}), ("echo", {"text": "b"})], "a call has no id or no name", ["b"]),
]


@pytest.mark.parametrize(
    ("calls", "reason", "answers"),
    BAD_CALLS,
    ids=["malformed", "surrogate", "deep", "beside a good one", "id twice", "no id", "no name"],
)
def test_a_call_that_cannot_be_executed_is_told_to_the_model_in_a_hidden_hint(
    calls: list[Any], reason: str, answers: list[str]
) -> None:
    async def scenario() -> tuple[Story, list[str]]:
        async with World([ToolCalls(calls), "ok"], tools=[echo]) as world:
            story = await world.tell()
            shown = MessageQuery(visibility=VisibilityFilter.EXTERNAL)
            entries = await world.runtime.messages("t", shown)
            return story, [entry.message.text for entry in entries]

    story, shown = simulated(scenario)
    assert not [text for text in shown if reason in text]
    assert story.answers == answers
    hint = story.requests[1].messages[-1]
    assert (hint.role, hint.visibility) == (Role.USER, Visibility.INTERNAL)
    assert reason in hint.text
    assert story.termination == NaturalEnd()


@pytest.mark.parametrize("arguments", ["", "{}", "null"])
def test_a_call_without_arguments_is_no_malformed_one(arguments: str) -> None:
    @tool(effect="none")
    async def now() -> str:
        return "noon"

    story = play([ToolCalls([("now", arguments)]), "ok"], tools=[now])

    assert story.answers == ["noon"]
    assert [message.visibility for message in story.messages] == [Visibility.ALL] * 4


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (user("x" * 1_000), LimitExceeded),
        (user("\ud800"), InvalidInput),
        ([3], InvalidInput),
    ],
    ids=["too large", "no text", "no message"],
)
def test_input_that_cannot_be_taken_is_refused_before_anything_is_written(
    given: Any, error: type[AwakenError]
) -> None:
    async def scenario() -> World:
        async with World(["never"], limits=Limits(message_bytes=500)) as world:
            with pytest.raises(error):
                await world.runtime.run("agent", given, thread_id="t")
            return world

    world = simulated(scenario)
    assert world.store.commits == []
    assert world.model.requests == []
