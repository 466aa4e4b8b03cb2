"""Two runtimes in one event loop with a bus that a test controls: what readers elsewhere get.

The store is shared and in memory, and polls are short: whatever the bus does to packets and
signals, the stream of every reader is that of the log, only later.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.lying_bus import LyingBus

from awaken import Agent, AgentRuntime, MailboxConfig, tool
from awaken.buses.memory import MemoryBus
from awaken.contracts.events import LoggedEvent, RunFinish, StepStart, StreamReset, unwrap_event
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.storage.bus import PACKET_MAX
from awaken.services import live_frames, remote_runs, watched_runs
from awaken.stores import Bus, MemoryStore
from awaken.testing import Chunks, ScriptedModel, ToolCalls

WORDS = [f"w{number} " for number in range(40)]
TEXT = "".join(WORDS)
QUICK = MailboxConfig(poll_ms=20, frame_ms=5)
SOON_S = 60


class Pair:
    """Two runtimes that share a store and a bus; the first one executes."""

    def __init__(
        self,
        bus: Bus | None = None,
        config: MailboxConfig = QUICK,
        store: MemoryStore | None = None,
        other_bus: Bus | None = None,
    ) -> None:
        self.bus = bus or MemoryBus()
        self.store = store or MemoryStore("shared", is_shared=True)
        self.go = asyncio.Event()
        self.model = ScriptedModel([self._answer], cycle=True)
        self.here = self._open(config, self.bus)
        self.there = self._open(config, other_bus or self.bus)

    async def _answer(self, request: Any) -> Any:
        if any(it.role == "tool" for it in request.messages):
            return Chunks(WORDS, delay_ms=1)
        return ToolCalls([("wait", {})])

    def _open(self, config: MailboxConfig, bus: Bus) -> AgentRuntime:
        @tool(effect="none")
        async def wait() -> str:
            """Wait until the test says so."""
            await self.go.wait()
            return "waited"

        agent = Agent("agent", model=self.model, tools=[wait])
        return AgentRuntime([agent], store=self.store, bus=bus, mailbox=config, has_worker=False)

    def frames(self, runtime: AgentRuntime) -> Any:
        return runtime._parts.node.frames

    async def until_watched(self, threads: int = 1) -> None:
        """Wait until the first runtime sends its frames to the second."""
        while self.frames(self.here).watched.count < threads:
            await asyncio.sleep(0.001)


class Kept:
    """What a careful client keeps of a run."""

    def __init__(self) -> None:
        self.text = self._kept = ""
        self.ids: list[int] = []
        self.deltas = self.resets = 0
        self.is_ended = False

    async def read(self, runtime: AgentRuntime, run_id: str) -> "Kept":
        stream = await runtime._parts.streams.stream_run(run_id)
        batches = stream.batches()
        async for batch in batches:
            for item in batch:
                self._take(item)
            if stream.is_over:
                # As every transport does: nothing is sent after it.
                break
        await batches.aclose()
        return self

    def _take(self, item: Any) -> None:
        match unwrap_event(item):
            case TextDelta(delta=text):
                self.text += text
                self.deltas += 1
            case StreamReset(scope="step"):
                self.text = self._kept
                self.resets += 1
            case StepStart():
                assert not self.text
            case RunFinish():
                self.is_ended = True
        if type(item) is LoggedEvent:
            assert item.seq > (self.ids[-1] if self.ids else 0)
            self.ids.append(item.seq)
            self._kept = self.text


def play(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SOON_S):
            await scenario()

    asyncio.run(bounded())


def test_deltas_are_seen_elsewhere_and_one_packet_serves_all_readers() -> None:
    async def scenario() -> None:
        pair = Pair()
        async with pair.here, pair.there:
            handle = await pair.here.start("agent", "go", thread_id="t")
            readers = [
                asyncio.create_task(Kept().read(runtime, handle.run_id))
                for runtime in (pair.here, pair.there, pair.there, pair.there)
            ]
            await pair.until_watched()
            pair.go.set()
            near, *far = await asyncio.gather(*readers)
            for kept in far:
                assert (kept.text, kept.ids, kept.resets) == (TEXT, near.ids, 0)
                # Deltas came one by one, not as the one text of the log.
                assert kept.deltas == near.deltas == len(WORDS)
            assert pair.frames(pair.there).count == 0

    play(scenario)


def test_a_reader_whose_source_is_lost_sees_the_run_end_also_if_it_has_ended_meanwhile() -> None:
    async def scenario() -> None:
        pair = Pair()
        async with pair.here, pair.there:
            handle = await pair.here.start("agent", "go", thread_id="t")
            kept = Kept()
            reading = asyncio.create_task(kept.read(pair.there, handle.run_id))
            await pair.until_watched()
            pair.go.set()
            while not kept.text:
                await asyncio.sleep(0.001)
            # The rest of the run comes from the log in one batch, and the reset before it.
            await pair.bus.close()
            near = await Kept().read(pair.here, handle.run_id)
            pair.frames(pair.there)._threads["t"].source.lose()
            await reading
            assert (kept.is_ended, kept.resets) == (True, 1)
            assert (kept.text, kept.ids[-1]) == (TEXT, near.ids[-1])

    play(scenario)


def test_without_frames_everything_is_seen_when_it_is_committed() -> None:
    async def scenario() -> None:
        pair = Pair(config=MailboxConfig(poll_ms=20, frame_ms=0))
        async with pair.here, pair.there:
            assert pair.frames(pair.here) is None
            handle = await pair.here.start("agent", "go", thread_id="t")
            pair.go.set()
            kept = await Kept().read(pair.there, handle.run_id)
            assert (kept.text, kept.deltas) == (TEXT, 1)

    play(scenario)


@pytest.mark.parametrize("seed", range(6))
def test_a_bus_that_lies_makes_streams_late_and_nothing_else(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Short times, so that a source is lost and found several times in one run.
    monkeypatch.setattr(live_frames, "SILENCE_MS", 40)
    monkeypatch.setattr(live_frames, "ASK_MS", 10)
    monkeypatch.setattr(remote_runs, "TICK_S", 0.005)
    monkeypatch.setattr(remote_runs, "FIND_MS", 10)

    async def scenario() -> None:
        pair = Pair(LyingBus(MemoryBus(), seed))
        async with pair.here, pair.there:
            handles = [
                await pair.here.start("agent", "go", thread_id=f"t-{number}") for number in range(5)
            ]
            readers = [
                asyncio.create_task(Kept().read(pair.there, it.run_id))
                for it in (*handles, *handles)
            ]
            pair.go.set()
            for kept in await asyncio.gather(*readers):
                assert kept.is_ended
                assert kept.text == TEXT
                assert kept.ids[-1] == max(kept.ids)

    play(scenario)


def test_ten_thousand_readers_that_come_and_go_leave_nothing_behind() -> None:
    async def scenario() -> None:
        pair = Pair()
        async with pair.here, pair.there:
            handle = await pair.here.start("agent", "go", thread_id="t")
            streams, frames = pair.there._parts.streams, pair.frames(pair.there)
            for number in range(10_000):
                stream = await streams.stream_run(handle.run_id)
                batches = stream.batches()
                await anext(batches)
                if number % 50 == 0:
                    # The others have left before their node has asked for anything.
                    await pair.until_watched()
                await batches.aclose()
            staying = asyncio.create_task(Kept().read(pair.there, handle.run_id))
            await pair.until_watched()
            staying.cancel()
            await asyncio.wait([staying])
            assert frames.count == 0
            assert not pair.bus._local.followed
            assert not streams.engine.active.watchers
            sender = pair.frames(pair.here).watched
            while sender.count or sender._task is not None or frames._task is not None:
                await asyncio.sleep(0.01)
            (active,) = pair.here._parts.engine.active
            assert active.run is not None
            assert active.run.feed.readers == ()
            pair.go.set()
            assert (await handle.result()).text == TEXT
        gc.collect()
        assert not [it for it in asyncio.all_tasks() if it is not asyncio.current_task()]

    play(scenario)


class SlowLooks(MemoryStore):
    """Says who executes the run of one thread only when the test lets it."""

    def __init__(self) -> None:
        super().__init__("shared", is_shared=True)
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def find_claim_holder(self, thread_id: str) -> str | None:
        if thread_id == "slow":
            self.is_asked.set()
            await self.may_answer.wait()
        return await super().find_claim_holder(thread_id)


def test_a_reader_that_comes_during_a_look_for_others_does_not_wait_for_the_next_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_runs, "TICK_S", 24 * 3_600)

    async def scenario() -> None:
        store = SlowLooks()
        pair = Pair(store=store)
        async with pair.here, pair.there:
            handles = [await pair.here.start("agent", "go", thread_id=it) for it in ("slow", "t")]
            readers = [asyncio.create_task(Kept().read(pair.there, handles[0].run_id))]
            await store.is_asked.wait()
            readers.append(asyncio.create_task(Kept().read(pair.there, handles[1].run_id)))
            while pair.frames(pair.there).count < 2:
                await asyncio.sleep(0.001)
            store.may_answer.set()
            await pair.until_watched(2)
            pair.go.set()
            for kept in await asyncio.gather(*readers):
                assert (kept.text, kept.deltas) == (TEXT, len(WORDS))

    play(scenario)


def test_interest_ends_by_itself_when_the_reading_node_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watched_runs, "INTEREST_MS", 50)

    async def scenario() -> None:
        pair = Pair()
        async with pair.here, pair.there:
            handle = await pair.here.start("agent", "go", thread_id="t")
            reading = asyncio.create_task(Kept().read(pair.there, handle.run_id))
            await pair.until_watched()
            # It cannot say that it leaves.
            pair.frames(pair.there)._stops[0]()
            pair.frames(pair.there)._task.cancel()
            sender = pair.frames(pair.here).watched
            while sender.count:
                await asyncio.sleep(0.01)
            (active,) = pair.here._parts.engine.active
            assert active.run is not None
            assert active.run.feed.readers == ()
            pair.go.set()
            await handle.result()
            reading.cancel()
            await asyncio.wait([reading])

    play(scenario)


class FullBus(MemoryBus):
    """Refuses packets to one node while it is full."""

    is_full = False

    def send(self, to: str, payload: bytes) -> bool:
        assert len(payload) <= PACKET_MAX
        return not self.is_full and super().send(to, payload)


def test_a_full_buffer_drops_a_flush_and_the_reader_asks_for_a_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_frames, "ASK_MS", 10)
    monkeypatch.setattr(remote_runs, "TICK_S", 0.005)

    async def scenario() -> None:
        bus = FullBus()
        pair = Pair(bus)
        async with pair.here, pair.there:
            handle = await pair.here.start("agent", "go", thread_id="t")
            kept = Kept()
            reading = asyncio.create_task(kept.read(pair.there, handle.run_id))
            await pair.until_watched()
            pair.go.set()
            while not kept.text:
                await asyncio.sleep(0.001)
            bus.is_full = True
            sender = pair.frames(pair.here).watched
            while not sender.dropped:
                await asyncio.sleep(0.001)
            assert sender._pressure
            bus.is_full = False
            await reading
            assert kept.text == TEXT

    play(scenario)


def test_more_threads_than_a_node_may_watch_are_read_from_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_runs, "WATCHED_MAX", 1)

    async def scenario() -> None:
        pair = Pair()
        async with pair.here, pair.there:
            first, second = [
                await pair.here.start("agent", "go", thread_id=name) for name in ("t", "u")
            ]
            one = asyncio.create_task(Kept().read(pair.there, first.run_id))
            await pair.until_watched()
            other = asyncio.create_task(Kept().read(pair.there, second.run_id))
            while pair.bus._local.followed["u"] == 0:
                await asyncio.sleep(0.001)
            pair.go.set()
            assert (await one).deltas == len(WORDS)
            assert (await other).deltas == 1

    play(scenario)


def test_a_snapshot_and_the_frames_after_it_are_of_one_moment() -> None:
    async def scenario() -> None:
        pair = Pair()
        texts: dict[tuple[str, int], str] = {}

        def listen(node: str) -> None:
            def take(payload: bytes) -> None:
                for message in live_frames.decode_packet(payload)[1]:
                    if isinstance(message, live_frames.LiveFrame):
                        key = (node, message.stream)
                        for item in message.decode_items():
                            if isinstance(item, TextDelta):
                                texts[key] = texts.get(key, "") + item.delta

            pair.bus.receive(node, take)

        listen("stays")
        listen("asks")
        async with pair.here:
            handle = await pair.here.start("agent", "go", thread_id="t")
            sender = pair.frames(pair.here).watched
            ask = live_frames.WatchRequest("t", live_frames.Want.SNAPSHOT)
            sender.take_watch("stays", ask)
            pair.go.set()
            result = asyncio.create_task(handle.result())
            while not result.done():
                sender.take_watch("asks", ask)
                await asyncio.sleep(0.001)
            while sender._task is not None:
                await asyncio.sleep(0.001)
        (whole,) = [text for (node, _), text in texts.items() if node == "stays"]
        assert whole == TEXT
        asked = [text for (node, _), text in texts.items() if node == "asks"]
        assert len(asked) > 2
        for text in asked:
            assert TEXT.startswith(text)

    play(scenario)


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xff", b"null", b'[1,"a",3]', b'[2,"a",[]]', b'[1,"a",[["f","t"]]]', b'[1,"a",[7,{}]]'],
)
def test_what_is_no_packet_is_nothing(payload: bytes) -> None:
    assert live_frames.decode_packet(payload)[1] == []


def test_an_unknown_message_is_left_out_and_a_later_field_ignored() -> None:
    payload = b'[1,"a",[["x",1],["w","t",2,"later"],["g","t"]]]'
    watch, gone = live_frames.WatchRequest("t", 2), live_frames.Gone("t")
    assert live_frames.decode_packet(payload) == ("a", [watch, gone])
