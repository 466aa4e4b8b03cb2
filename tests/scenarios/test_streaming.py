"""Readers of a run: attached ones are waited for, watchers never, and late ones miss nothing."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from awaken import (
    AgentEvent,
    AgentRuntime,
    Cancelled,
    Failed,
    NaturalEnd,
    RunFinish,
    RunStart,
    RunStatus,
    TextDelta,
    ThreadBusy,
    ToolCallDone,
    UnknownAgent,
    tool,
)
from awaken.errors import ProviderFailed, ReaderDropped, StoreUnavailable
from awaken.events import LIVE_EVENTS
from awaken.models import Stop, StopReason
from awaken.runtime.journal.streams import READER_LIMIT
from awaken.testing import Chunks, Entry, ToolCalls, Turn, assert_valid_events

from .worlds import WatchedStore, World, play, simulated

SLOW = Chunks(["one ", "two ", "three"], delay_ms=1000)


@tool
async def wait(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


def text_of(events: list[AgentEvent]) -> str:
    return "".join(event.delta for event in events if isinstance(event, TextDelta))


def test_closing_a_stream_cancels_its_run_and_waits_until_it_is_durable() -> None:
    async def scenario() -> World:
        async with World([SLOW]) as world:
            async with aclosing(world.runtime.stream("agent", "go", thread_id="t")) as stream:
                async for event in stream:
                    if isinstance(event, TextDelta):
                        break
            (record,) = await world.runtime.list_runs("t")
            assert record.termination == Cancelled(cause="caller")
            assert record.final_output == "one "
            return world

    assert simulated(scenario).model.open_streams == 0


def test_a_failed_run_ends_its_stream_with_an_event_and_raises_nothing() -> None:
    story = play([Turn("so", error=ProviderFailed("boom"))])

    assert story.error is None
    assert story.termination == Failed(message="boom", code="provider_failed")


def test_a_request_that_is_refused_raises_at_the_first_event_and_writes_nothing() -> None:
    async def scenario() -> None:
        async with World([SLOW]) as world:
            with pytest.raises(UnknownAgent):
                async for _ in world.runtime.stream("nobody", "go", thread_id="t"):
                    pass
            assert world.store.commits == []
            await world.runtime.start("agent", "go", thread_id="t")
            with pytest.raises(ThreadBusy):
                async for _ in world.runtime.stream("agent", "go", thread_id="t", on_busy="reject"):
                    pass

    simulated(scenario)


SCRIPT: list[Entry] = [
    Turn(SLOW, calls=[("wait", {"seconds": 2}), ("wait", {"seconds": 4})]),
    SLOW,
]


@pytest.mark.parametrize("seconds", [0, 0.5, 1.5, 2.5, 4.5, 6.5, 8.5, 20])
@pytest.mark.parametrize("ending", ["end", "cancel", "fail"])
def test_a_reader_that_attaches_at_any_time_gets_the_whole_story_once(
    seconds: float, ending: str
) -> None:
    """Late readers get the log, then the unfinished step as it stands, then what happens."""
    script = [*SCRIPT[:1], Turn(SLOW, error=ProviderFailed("boom"))] if ending == "fail" else SCRIPT

    async def scenario() -> None:
        async with World(script, tools=[wait]) as world:
            handle = await world.runtime.start("agent", "go", thread_id="t")
            whole = asyncio.ensure_future(_read(handle))
            await asyncio.sleep(seconds)
            late = asyncio.ensure_future(_read(handle))
            if ending == "cancel":
                await asyncio.sleep(7.5 - min(seconds, 7))
                await handle.cancel()
            result = await handle.result()
            stories = [await whole, await late, await _read(handle)]
            for events in stories:
                assert_valid_events(_durable(events))
                assert text_of(events) == text_of(stories[0])
                assert _durable(events) == _durable(stories[0])
            assert isinstance(stories[0][-1], RunFinish)
            assert stories[0][-1].termination == result.termination

    simulated(scenario)


async def _read(handle: Any) -> list[AgentEvent]:
    return [event async for event in handle.events()]


def _durable(events: list[AgentEvent]) -> list[AgentEvent]:
    """Without what only a live reader sees."""
    return [event for event in events if not isinstance(event, (*LIVE_EVENTS, TextDelta))]


class Flood:
    """A model that talks as fast as it may."""

    name = "flood"
    sent = 0

    async def stream(self, _request: object) -> Any:
        await asyncio.sleep(1)
        for index in range(3 * READER_LIMIT):
            self.sent = index
            yield TextDelta(delta="x")
        yield Stop(reason=StopReason.END_TURN)


def test_an_attached_reader_slows_the_model_down_and_loses_nothing() -> None:
    async def scenario() -> tuple[int, list[AgentEvent]]:
        model = Flood()
        async with World(model=model) as world:
            stream = world.runtime.stream("agent", "go", thread_id="t")
            events = [await anext(stream)]
            await asyncio.sleep(1_000)
            held_at = model.sent
            events += [event async for event in stream]
            return held_at, events

    held_at, events = simulated(scenario)
    assert held_at <= READER_LIMIT
    assert len(text_of(events)) == 3 * READER_LIMIT
    assert isinstance(events[-1], RunFinish)
    assert events[-1].termination == NaturalEnd()


def test_a_held_back_run_can_still_be_cancelled() -> None:
    async def scenario() -> list[AgentEvent]:
        async with World(model=Flood()) as world:
            stream = world.runtime.stream("agent", "go", thread_id="t")
            first = await anext(stream)
            await asyncio.sleep(10)
            assert await world.runtime.cancel_and_wait("t")
            return [first, *[event async for event in stream]]

    events = simulated(scenario)
    assert isinstance(events[-1], RunFinish)
    assert events[-1].termination == Cancelled(cause="user")


def test_a_watcher_that_falls_behind_is_dropped_and_the_run_never_waits() -> None:
    async def scenario() -> None:
        async with World(model=Flood()) as world:
            handle = await world.runtime.start("agent", "go", thread_id="t")
            watcher = handle.events()
            assert isinstance(await anext(watcher), RunStart)
            result = await handle.result()
            assert (result.termination, len(result.text)) == (NaturalEnd(), 3 * READER_LIMIT)
            again = await _read(handle)
            assert len(text_of(again)) == 3 * READER_LIMIT
            with pytest.raises(ReaderDropped):
                async for _ in watcher:
                    pass

    simulated(scenario)


def test_dropping_a_handle_or_its_events_stops_nothing() -> None:
    async def scenario() -> RunStatus:
        async with World([SLOW]) as world:
            handle = await world.runtime.start("agent", "go", thread_id="t")
            async with aclosing(handle.events()) as events:
                await anext(events)
            run_id = handle.run_id
            del handle
            return (await world.runtime.wait(run_id)).status

    assert simulated(scenario) is RunStatus.DONE


def test_start_returns_when_the_run_is_durable_and_raises_when_it_cannot_be() -> None:
    async def scenario() -> None:
        async with World([SLOW]) as world:
            handle = await world.runtime.start("agent", "go", thread_id="t")
            assert (await world.runtime.get_run(handle.run_id)).status is RunStatus.RUNNING
        down = WatchedStore(lambda _: StoreUnavailable(store="x", problem="down"))
        async with World([SLOW], store=down) as world:
            with pytest.raises(StoreUnavailable):
                await world.runtime.start("agent", "go", thread_id="t")
            assert not await world.runtime.cancel("t")

    simulated(scenario)


def test_two_runs_stream_side_by_side_and_each_reader_sees_its_own() -> None:
    async def scenario() -> list[list[AgentEvent]]:
        calls = ToolCalls([("wait", {"seconds": 1})])
        async with World([calls, calls, "done", "done"], tools=[wait]) as world:
            runs = [world.tell(thread_id=name) for name in ("a", "b")]
            return [story.events for story in await asyncio.gather(*runs)]

    for name, events in zip("ab", simulated(scenario), strict=True):
        assert isinstance(events[0], RunStart)
        assert events[0].thread_id == name
        assert len([event for event in events if isinstance(event, ToolCallDone)]) == 1


def test_a_reader_that_cancels_from_its_loop_sees_the_end() -> None:
    async def react(runtime: AgentRuntime, event: AgentEvent) -> None:
        if isinstance(event, TextDelta):
            await runtime.cancel("t")

    story = play([SLOW], react=react)
    assert story.types[-2:] == ["state_snapshot", "run_finish"]
