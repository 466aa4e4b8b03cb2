"""Many streams over a healthy carrier: every delta is seen elsewhere, none is asked for twice."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from tests.nats_servers.cluster import nats_server
from tests.postgres.server import new_schema, server

from awaken.buses.nats import NatsBus
from awaken.buses.postgres import PostgresBus
from awaken.services import live_frames
from awaken.stores import Bus

from .test_live_frames import TEXT, WORDS, Kept, Pair, play

STREAMS = 50
PROBE_MS = 60_000
"""A machine that is busy is no carrier that broke."""


def postgres_buses() -> Callable[[], Bus]:
    channel = new_schema()
    return lambda: PostgresBus(server().url, channel=channel, probe_ms=PROBE_MS)


def nats_buses() -> Callable[[], Bus]:
    url = f"{nats_server().url}/?namespace={new_schema()}"
    return lambda: NatsBus(url, probe_ms=PROBE_MS)


class FrameCounts(Counter[str]):
    """What becomes of the frames of a process."""

    def on_frames(self, way: str, result: str, count: int) -> None:
        self[f"{way} {result}"] += count

    def on_packet(self, way: str, size: int) -> None:
        self[f"{way} bytes"] += size

    def on_resync(self) -> None:
        self["resyncs"] += 1

    def on_lag(self, ms: int) -> None:
        self["lags"] += 1


@pytest.mark.parametrize("buses", [postgres_buses, nats_buses])
def test_no_delta_of_many_streams_is_lost_or_asked_for_again(
    buses: Callable[[], Callable[[], Bus]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_frames, "SILENCE_MS", PROBE_MS)
    make = buses()

    async def scenario() -> None:
        pair = Pair(make(), other_bus=make())
        async with pair.here, pair.there:
            sent, taken = FrameCounts(), FrameCounts()
            pair.frames(pair.here).watchers.append(sent)
            pair.frames(pair.there).watchers.append(taken)
            handles = [
                await pair.here.start("agent", "go", thread_id=f"t-{number}")
                for number in range(STREAMS)
            ]
            readers = [asyncio.create_task(Kept().read(pair.there, it.run_id)) for it in handles]
            # Before there is any text: a reader that comes later gets what was shown as one piece.
            await pair.until_watched(STREAMS)
            pair.go.set()
            for kept in await asyncio.gather(*readers):
                assert (kept.text, kept.deltas, kept.resets) == (TEXT, len(WORDS), 0)
            assert (sent["out dropped"], taken["resyncs"]) == (0, 0)
            assert pair.bus.dropped == 0
            assert taken["in taken"] >= STREAMS
            assert taken["lags"] == taken["in taken"]

    play(scenario)
