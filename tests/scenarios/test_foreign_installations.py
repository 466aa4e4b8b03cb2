"""Two installations on one bus, with the same ids: neither shows what the other's runs say."""

import asyncio
from typing import Any

import pytest

from awaken.buses.memory import MemoryBus
from awaken.contracts.events import unwrap_event
from awaken.contracts.messages.deltas import TextDelta
from awaken.contracts.storage.bus import Signal, SignalKind
from awaken.services import remote_runs

from .test_live_frames import TEXT, Kept, Pair, play


async def show_thread(pair: Pair, shown: list[str]) -> None:
    """Read everything that a thread shows, at the process that executes nothing."""
    stream = await pair.there._parts.streams.stream_thread("t", 0)
    async for batch in stream.batches():
        shown += [it.delta for it in map(unwrap_event, batch) if isinstance(it, TextDelta)]


@pytest.mark.parametrize("is_busy", [False, True], ids=["nothing runs here", "a run executes here"])
def test_a_thread_shows_no_text_of_a_thread_with_the_same_id_elsewhere(is_busy: bool) -> None:
    async def scenario() -> None:
        bus = MemoryBus()
        ours, theirs = Pair(bus), Pair(bus)
        async with ours.here, ours.there, theirs.here:
            ours.go.set()
            await ours.here.run("agent", "first", thread_id="t")
            ours.go.clear()
            shown: list[str] = []
            reading = asyncio.create_task(show_thread(ours, shown))
            own = (
                asyncio.create_task(ours.here.run("agent", "go", thread_id="t"))
                if is_busy
                else None
            )
            await asyncio.sleep(0.2)
            before = list(shown)
            # A version above ours, as any thread gets that lives longer.
            theirs.go.set()
            for _ in range(4):
                await theirs.here.run("agent", "secret", thread_id="t")
            assert shown == before, "it is not ours"
            assert theirs.frames(theirs.here).watched.count == 0, "nobody asks there"
            ours.go.set()
            if own is not None:
                await own
                async with asyncio.timeout(20):
                    while "".join(shown) != 2 * TEXT:
                        await asyncio.sleep(0.01)
            reading.cancel()
            await asyncio.wait([reading])

    play(scenario)


def test_a_signal_is_a_hint_where_to_look_and_the_store_says_who_executes() -> None:
    async def scenario() -> None:
        pair = Pair()
        async with pair.here, pair.there:
            handle = await pair.here.start("agent", "go", thread_id="t")
            reading = asyncio.create_task(Kept().read(pair.there, handle.run_id))
            await pair.until_watched()
            lie = {"kind": SignalKind.RUN_CHANGED, "thread_id": "t", "node": "feedfeedfeed"}
            asked: list[Any] = []
            pair.bus.receive("feedfeedfeed", asked.append)
            looks, find = list[str](), pair.store.find_claim_holder

            async def count_looks(thread_id: str) -> str | None:
                looks.append(thread_id)
                return await find(thread_id)

            pair.store.find_claim_holder = count_looks  # type: ignore[method-assign]
            began = asyncio.get_running_loop().time()
            for _ in range(100):
                pair.bus.tell(Signal(**lie))
                await asyncio.sleep(0.002)
            assert asked == []
            took_ms = 1000 * (asyncio.get_running_loop().time() - began)
            assert 0 < len(looks) <= took_ms / remote_runs.HEED_MS + 1, "a flood is few looks"
            pair.go.set()
            kept = await reading
            assert (kept.text, kept.resets) == (TEXT, 0)

    play(scenario)
