import asyncio

import pytest

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.deltas import TextDelta
from awaken.contracts.events import RunStart, StepEnd
from awaken.contracts.streams import EventSink
from awaken.testing.fakes import EventRecorder, FakeClock, SequentialIds


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
    sink: EventSink = recorder
    sink.emit(RunStart(thread_id="t", run_id="r"))
    sink.emit(TextDelta(delta="a"))
    sink.emit(TextDelta(delta="b"))
    sink.emit(StepEnd())
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


def test_the_recorder_is_never_full_and_drains_at_once():
    recorder = recorded()
    assert recorder.is_full is False
    asyncio.run(recorder.drain())
    assert len(recorder.events) == 4
