import asyncio
from collections.abc import AsyncIterator

import pytest

from awaken import Agent, AgentRuntime, tool
from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.events import AgentEvent, RunStart, StepEnd
from awaken.contracts.lifecycle import Stopped
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.specs.agents import Timeout
from awaken.testing.fakes import EventRecorder, FakeClock, LoopClock, SequentialIds
from awaken.testing.scripted_model import ScriptedModel, ToolCalls
from awaken.testing.simulation import replay


def test_the_clock_stands_still_until_it_is_advanced():
    clock: Clock = FakeClock(start_ms=1_000)
    assert (clock.now_ms(), clock.now_ms(), clock.monotonic_ms()) == (1_000, 1_000, 0)


def test_advancing_moves_both_times():
    clock = FakeClock(start_ms=1_000)
    clock.advance(250)
    clock.advance(0)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1_250, 250)


def test_time_does_not_go_back():
    clock = FakeClock()
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)
    assert clock.monotonic_ms() == 0


def test_a_loop_clock_follows_the_loop_that_runs():
    async def scenario() -> list[tuple[int, int]]:
        clock: Clock = LoopClock(start_ms=1_000)
        before = (clock.now_ms(), clock.monotonic_ms())
        await asyncio.sleep(2.5)
        return [before, (clock.now_ms(), clock.monotonic_ms())]

    for _ in range(2):
        assert replay(scenario, seed=0) == [(1_000, 0), (3_500, 2_500)]


def test_a_loop_clock_tells_no_time_without_a_loop():
    with pytest.raises(RuntimeError, match="no running event loop"):
        LoopClock().now_ms()


@tool(effect="none")
async def nap() -> str:
    """Sleep for ten seconds."""
    await asyncio.sleep(10)
    return "rested"


@pytest.mark.parametrize(("clock", "code"), [(LoopClock(), "timeout"), (FakeClock(), None)])
def test_a_simulated_run_times_out_when_its_clock_follows_the_loop(clock, code):
    async def scenario() -> str | None:
        model = ScriptedModel([ToolCalls([("nap", {})])] * 3 + ["Good morning."])
        agent = Agent("a", model=model, tools=[nap], stop=[Timeout(seconds=15)])
        async with AgentRuntime([agent], clock=clock) as runtime:
            result = await runtime.run("a", "Sleep well.", thread_id="t")
        assert asyncio.get_running_loop().time() == (20 if code else 30)
        ended = result.termination
        return ended.reason.code if isinstance(ended, Stopped) else None

    assert replay(scenario, seed=0) == code


def test_ids_are_sequential_and_sort_by_age():
    ids: IdSource = SequentialIds()
    made = [ids.new_id() for _ in range(1_200)]
    assert made[:2] == ["id-000001", "id-000002"]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_carry_their_prefix_and_sources_do_not_share_a_count():
    assert SequentialIds("run").new_id() == "run-000001"
    assert SequentialIds("run").new_id() == "run-000001"


def recorded() -> EventRecorder:
    recorder = EventRecorder()
    recorder.emit(RunStart(thread_id="t", run_id="r"))
    recorder.emit(TextDelta(delta="a"))
    recorder.emit(TextDelta(delta="b"))
    recorder.emit(StepEnd())
    return recorder


def test_events_come_back_in_order_by_type_and_by_kind():
    recorder = recorded()
    assert recorder.types == ["run_start", "text_delta", "text_delta", "step_end"]
    assert recorder.of(TextDelta) == [TextDelta(delta="a"), TextDelta(delta="b")]
    assert recorder.of(RunStart) == [RunStart(thread_id="t", run_id="r")]


def test_the_events_are_a_copy():
    recorder = recorded()
    recorder.events.clear()
    assert len(recorder.events) == 4


def test_taking_the_events_forgets_them():
    recorder = recorded()
    taken = recorder.take()
    recorder.emit(StepEnd())
    assert len(taken) == 4
    assert recorder.events == [StepEnd()]


async def telling(*events: AgentEvent, then: Exception | None = None) -> AsyncIterator[AgentEvent]:
    for event in events:
        yield event
    if then is not None:
        raise then


def test_recording_a_stream_keeps_its_events_beside_the_older_ones_and_returns_its_own():
    recorder = recorded()
    own = asyncio.run(recorder.record(telling(TextDelta(delta="c"), StepEnd())))
    assert own == [TextDelta(delta="c"), StepEnd()]
    assert recorder.types[-3:] == ["step_end", "text_delta", "step_end"]
    own.clear()
    assert len(recorder.events) == 6


def test_a_stream_that_fails_leaves_what_it_told():
    recorder = EventRecorder()
    with pytest.raises(OSError, match="gone"):
        asyncio.run(recorder.record(telling(StepEnd(), then=OSError("gone"))))
    assert recorder.events == [StepEnd()]


def test_a_run_is_recorded_as_it_is_streamed():
    async def scenario() -> EventRecorder:
        recorder = EventRecorder()
        async with AgentRuntime([Agent("a", model=ScriptedModel(["Hi."]))]) as runtime:
            assert await recorder.record(runtime.stream("a", "Hello!")) == recorder.events
        return recorder

    types = asyncio.run(scenario()).types
    assert (types[0], types[-1]) == ("run_start", "run_finish")
    assert "text_delta" in types
