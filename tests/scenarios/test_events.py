"""The events of a run: which, in which order, with what in them; live and in the log."""

import asyncio

import msgspec
import pytest

from awaken import (
    AgentEvent,
    AgentRuntime,
    BehaviorRequested,
    Blocked,
    Cancelled,
    Failed,
    Message,
    NaturalEnd,
    ReasoningDelta,
    RunFinish,
    RunStart,
    StateKey,
    StepEnd,
    Stopped,
    Suspended,
    TextDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReady,
    ToolCallStart,
    ToolContext,
    tool,
)
from awaken.contracts.events import extract_response
from awaken.events import (
    ActivityDelta,
    ActivitySnapshot,
    InferenceComplete,
    MessagesSnapshot,
    ReasoningEncryptedValue,
    StateSnapshot,
    StoppedReason,
    Termination,
    ToolCallCancel,
    ToolCallResumed,
    ToolCallStreamDelta,
    decode_event,
    encode_event,
)
from awaken.messages import Base64Source, Image, Text, Thinking
from awaken.models import BlockStop, Stop, StopReason, ThinkingSignature
from awaken.plugins import RUN_LIFECYCLE
from awaken.testing import Entry, Reasoning, ToolCalls, Turn

from .worlds import Story, World, play, simulated

COUNT = StateKey("count", default=0, apply=lambda value, more: value + more, merge="commutative")


@tool(effect="none")
async def echo(text: str, ctx: ToolContext) -> str:
    ctx.state.update(COUNT, 1)
    return text


def say(*texts: str) -> ToolCalls:
    return ToolCalls([("echo", {"text": text}) for text in texts])


STREAMED_CALL = ["tool_call_start", "tool_call_delta"]
TEXT_STEP = ["step_start", "text_delta", "inference_complete", "state_snapshot", "step_end"]
ONE_CALL = ["tool_call_ready", "inference_complete", "tool_call_done", "state_snapshot", "step_end"]
TOOL_STEP = ["step_start", *STREAMED_CALL, *ONE_CALL]
END = ["state_snapshot", "run_finish"]


@pytest.mark.parametrize(
    ("script", "types"),
    [
        (["hi"], ["run_start", *TEXT_STEP, *END]),
        ([say("a"), "hi"], ["run_start", *TOOL_STEP, *TEXT_STEP, *END]),
        ([say("a"), say("b"), "hi"], ["run_start", *TOOL_STEP * 2, *TEXT_STEP, *END]),
        (
            [Turn("hm", calls=say("a", "b")), "hi"],
            [
                *("run_start", "step_start", "text_delta", *STREAMED_CALL * 2),
                *("tool_call_ready", "tool_call_ready", "inference_complete"),
                *("tool_call_done", "tool_call_done", "state_snapshot", "step_end"),
                *(*TEXT_STEP, *END),
            ],
        ),
    ],
    ids=["text", "tool", "three steps", "batch"],
)
def test_events_come_in_the_order_of_the_contract(script: list[Entry], types: list[str]) -> None:
    story = play(script, tools=[echo])

    assert story.types == types
    start, finish = story.events[0], story.events[-1]
    assert isinstance(start, RunStart)
    assert isinstance(finish, RunFinish)
    assert start.thread_id == finish.thread_id == "t"
    assert start.run_id == finish.run_id
    assert start.identity == finish.identity
    assert extract_response(finish.result) == "hi"


def test_step_end_comes_before_run_finish_also_when_a_run_is_stopped() -> None:
    story = play([say("a"), "never"], tools=[echo], max_rounds=1)

    assert isinstance(story.termination, Stopped)
    assert story.types[-4:] == ["state_snapshot", "step_end", *END]


def test_a_call_is_the_same_in_all_its_events_and_done_in_call_order() -> None:
    @tool(effect="none")
    async def wait(seconds: int) -> int:
        await asyncio.sleep(seconds)
        return seconds

    calls = [("wait", {"seconds": 3}, "a"), ("wait", {"seconds": 1}, "b")]
    story = play([ToolCalls(calls, split=4), "ok"], tools=[wait])

    assert [(event.id, event.name) for event in story.of(ToolCallStart)] == [
        ("a", "wait"),
        ("b", "wait"),
    ]
    pieces = [event.args_delta for event in story.of(ToolCallDelta) if event.id == "a"]
    assert len(pieces) == 4
    assert msgspec.json.decode("".join(pieces)) == {"seconds": 3}
    assert [event.arguments for event in story.of(ToolCallReady)] == [
        {"seconds": 3},
        {"seconds": 1},
    ]
    assert [(event.id, event.result.data) for event in story.of(ToolCallDone)] == [
        ("a", 3),
        ("b", 1),
    ]


def test_what_a_tool_reports_appears_between_its_start_and_its_end() -> None:
    @tool
    async def busy(ctx: ToolContext) -> str:
        ctx.progress("running", "half", 0.5, loaded=1, total=2)
        ctx.report_activity("plan", {"todo": ["a"]})
        ctx.report_activity_delta("plan", {"op": "add"})
        ctx.emit_output("some ")
        ctx.emit_output("output")
        return "ok"

    story = play([ToolCalls([("busy", {}, "c1")]), "done"], tools=[busy])

    begin, end = story.types.index("inference_complete"), story.types.index("tool_call_done")
    between = story.events[begin + 1 : end]
    kinds = [ActivitySnapshot, ActivitySnapshot, ActivityDelta, ToolCallStreamDelta]
    assert [type(event) for event in between] == [*kinds, ToolCallStreamDelta]
    progress = between[0]
    assert isinstance(progress, ActivitySnapshot)
    assert progress.activity_type == "tool-call-progress"
    assert (progress.content["call_id"], progress.content["progress"]) == ("c1", 0.5)
    assert "".join(event.delta for event in story.of(ToolCallStreamDelta)) == "some output"


def test_a_slow_call_is_heard_while_a_finished_one_is_shown_already() -> None:
    @tool(effect="none")
    async def slow(ctx: ToolContext) -> str:
        await asyncio.sleep(5)
        ctx.emit_output("still here")
        await asyncio.sleep(5)
        return "ok"

    heard: list[tuple[str, float]] = []

    async def listen(_runtime: AgentRuntime, event: AgentEvent) -> None:
        if isinstance(event, ToolCallDone | ToolCallStreamDelta):
            heard.append((event.id, asyncio.get_running_loop().time()))

    calls = [("echo", {"text": "fast"}, "fast"), ("slow", {}, "slow")]
    play([ToolCalls(calls), "ok"], tools=[echo, slow], react=listen)

    assert heard == [("fast", 0), ("slow", 5), ("slow", 10)]


def test_state_snapshots_have_growing_revisions_and_show_the_runs_life() -> None:
    story = play([say("a"), say("b"), "hi"], tools=[echo])

    shown = [event.snapshot for event in story.of(StateSnapshot)]
    assert len(shown) == len(story.of(StepEnd)) + 1
    revisions = [snapshot["revision"] for snapshot in shown]
    assert revisions == sorted(set(revisions))
    assert revisions[0] > 0
    lives = [snapshot["extensions"][RUN_LIFECYCLE.name] for snapshot in shown]
    assert [life["step_count"] for life in lives] == [1, 2, 3, 3]
    assert [life["status"] for life in lives] == ["running", "running", "running", "done"]
    assert {life["run_id"] for life in lives} == {story.record and story.record.run_id}
    assert [snapshot["extensions"]["count"] for snapshot in shown] == [1, 2, 2, 2]
    assert not [event for event in story.log if isinstance(event, StateSnapshot)]


def test_a_suspended_run_shows_its_state_and_that_it_waits() -> None:
    @tool(effect="none")
    async def ask(ctx: ToolContext) -> object:
        return ctx.suspend("May I?")

    story = play([ToolCalls([("ask", {})])], tools=[ask])

    assert story.types[-3:] == ["step_end", "state_snapshot", "run_finish"]
    life = story.of(StateSnapshot)[-1].snapshot["extensions"][RUN_LIFECYCLE.name]
    assert life["status"] == "waiting"
    (finish,) = story.of(RunFinish)
    assert finish.result == {"response": "", "status": "waiting", "status_reason": "suspended"}


class Streams:
    """A model that streams exactly these events."""

    name = "raw"

    def __init__(self, *turns: list[object]) -> None:
        self._turns = list(turns)

    async def stream(self, _request: object):  # type: ignore[no-untyped-def]
        for event in self._turns.pop(0):
            yield event


@pytest.mark.parametrize(
    ("streamed", "content"),
    [
        (["", "a", "", "b"], [Text(text="ab")]),
        (["a", BlockStop(), "b"], [Text(text="a"), Text(text="b")]),
        (["a", BlockStop(), ""], [Text(text="a")]),
        (["", BlockStop(), ""], []),
        ([Reasoning("hm"), "a"], [Thinking(thinking="hm"), Text(text="a")]),
        (
            [Reasoning("hm"), ThinkingSignature(signature="s"), "a"],
            [Thinking(thinking="hm", signature="s"), Text(text="a")],
        ),
        (
            ["a", ThinkingSignature(signature="s")],
            [Text(text="a"), Thinking(thinking="", signature="s")],
        ),
        (
            ["a", Reasoning("hm"), "b"],
            [Text(text="a"), Thinking(thinking="hm"), Text(text="b")],
        ),
    ],
    ids=[
        "joined",
        "blocks",
        "empty block",
        "empty",
        "reasoning",
        "signed",
        "signed late",
        "between",
    ],
)
def test_streamed_pieces_become_the_blocks_of_one_message(
    streamed: list[object], content: list[object]
) -> None:
    def event(piece: object) -> object:
        if isinstance(piece, Reasoning):
            return ReasoningDelta(delta=piece.text)
        return TextDelta(delta=piece) if isinstance(piece, str) else piece

    turn = [*map(event, streamed), Stop(reason=StopReason.END_TURN)]
    story = play(model=Streams(turn))

    assert [block for m in story.messages[1:] for block in m.content] == content


def test_the_log_keeps_reasoning_before_its_signature_and_text_after_both() -> None:
    story = play([Turn("so", reasoning=Reasoning("hm", "sig"))])

    logged = [str(event.__struct_config__.tag) for event in story.log]
    assert logged[1:6] == [
        *("step_start", "reasoning_delta", "reasoning_encrypted_value", "text_delta"),
        "inference_complete",
    ]
    assert story.of(ReasoningEncryptedValue) == [ReasoningEncryptedValue(encrypted_value="sig")]


@pytest.mark.parametrize("silence", [Reasoning("only a thought"), "", "  \n"])
def test_an_answer_that_says_nothing_is_never_sent_back_to_a_model(silence: Entry) -> None:
    async def scenario() -> Story:
        async with World([silence, "yes"]) as world:
            await world.tell("1")
            return await world.tell("2")

    story = simulated(scenario)
    assert story.lines == [("user", "1"), ("user", "2"), ("assistant", "yes")]


def test_a_streamed_call_that_comes_to_nothing_is_called_off() -> None:
    story = play(
        [ToolCalls([("echo", "{oops", "bad"), ("echo", {"text": "a"})]), "ok"], tools=[echo]
    )

    (cancel,) = story.of(ToolCallCancel)
    assert (cancel.id, cancel.name) == ("bad", "echo")
    assert [event.id for event in story.of(ToolCallReady)] == ["call_1"]


def test_declining_a_call_emits_its_decision_as_the_result_and_the_run_finishes() -> None:
    @tool(effect="none")
    async def ask(ctx: ToolContext) -> object:
        return ctx.suspend("May I?")

    async def scenario() -> Story:
        async with World([ToolCalls([("ask", {}, "c1")]), "fine"], tools=[ask]) as world:
            first = await world.tell()
            assert first.result is not None
            ticket = first.result.tickets[0].ticket_id
            receipt = await world.runtime.decide(ticket, "cancel", result={"no": True})
            await world.runtime.wait(receipt.run_id)
            events = [entry.event for entry in await world.store.list_events("t")]
            return await world.judged(events, is_live=False)

    story = simulated(scenario)
    (resumed,) = story.of(ToolCallResumed)
    assert (resumed.target_id, resumed.result) == ("c1", {"no": True})
    assert [type(event) for event in story.events].count(RunFinish) == 2
    assert story.lines[-2:] == [("tool", '{"no":true}'), ("assistant", "fine")]


def test_every_event_of_a_run_survives_the_wire_and_so_does_its_transcript() -> None:
    picture = Image(source=Base64Source(media_type="image/png", data="aGk="))
    script = [Turn("hm", reasoning="why", calls=say("a")), "done"]
    story = play(script, tools=[echo], input=["look", picture])

    whole = MessagesSnapshot(messages=tuple(story.messages))
    finish = msgspec.structs.replace(story.of(RunFinish)[0], result={"messages": whole.messages})
    events = [*story.events, whole]
    assert [decode_event(encode_event(event)) for event in events] == events
    result = decode_event(encode_event(finish)).result
    assert msgspec.convert(result["messages"], tuple[Message, ...]) == whole.messages


@pytest.mark.parametrize(
    "termination",
    [
        NaturalEnd(),
        BehaviorRequested(),
        Stopped(reason=StoppedReason(code="max_rounds", detail="3 rounds")),
        Cancelled(cause="caller"),
        Blocked(reason="locked"),
        Suspended(),
        Failed(message="boom", code="provider_failed"),
    ],
    ids=lambda termination: type(termination).__name__,
)
def test_every_way_to_end_survives_in_the_last_event(termination: Termination) -> None:
    event = RunFinish(thread_id="t", run_id="r", termination=termination)
    assert decode_event(encode_event(event)) == event


def test_a_turn_reports_its_model_and_how_long_it_took() -> None:
    story = play([Turn("hi", delay_ms=250)])

    (complete,) = story.of(InferenceComplete)
    assert (complete.model, complete.duration_ms) == ("agent:model", 250)
