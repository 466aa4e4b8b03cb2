"""Sends the live events of this process' runs to the nodes that ask for them."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from awaken.contracts.clock import Clock
from awaken.contracts.storage.bus import PACKET_MAX, Bus
from awaken.contracts.storage.store import Commit
from awaken.runtime.engine import RunEngine
from awaken.runtime.journal.streams import EventReader, ReaderDropped, StreamItem
from awaken.runtime.run import Run

from .live_frames import (
    FrameWatcher,
    Gone,
    LiveFrame,
    Want,
    WatchRequest,
    encode_items,
    encode_message,
    encode_packet,
)

INTEREST_MS = 15_000
"""A node that has not asked for so long does not read any more."""
PULSE_MS = 1_000
"""A watched run that is silent sends an empty frame so often."""
WATCHED_MAX = 2_000
"""How many threads of one node others may watch; of more they read the log."""
_FRAME = b'["f",'
"""How an encoded frame begins."""
SLOT_S = 0.002
SLOWER = (1.0, 2.5, 6.25)
"""By how much frames come later when a node's buffer is full."""


class Watcher:
    """One node that reads a run."""

    __slots__ = ("expires_at", "n", "stream")

    def __init__(self, stream: int, expires_at: int) -> None:
        self.stream = stream
        self.n = 0
        self.expires_at = expires_at


class WatchedRun:
    """A run that other nodes read; one reader of its feed serves all of them."""

    __slots__ = ("reader", "run", "sent_at", "watchers")

    def __init__(self, run: Run, now: int) -> None:
        self.run = run
        self.reader = run.feed.attach(EventReader(is_attached=False))
        self.watchers: dict[str, Watcher] = {}
        self.sent_at = now


class WatchedRuns:
    """The runs of this process that other nodes read.

    Nothing is sent, and no run pays anything, while no node asks. Every `frame_ms`, and after each
    commit, all events for one node go into one packet.
    """

    def __init__(
        self,
        engine: RunEngine,
        bus: Bus,
        clock: Clock,
        address: str,
        frame_ms: int,
        watchers: Sequence[FrameWatcher],
    ) -> None:
        self._watchers = watchers
        self._engine = engine
        self._bus = bus
        self._clock = clock
        self._address = address
        self._frame_s = frame_ms / 1000
        self._runs: dict[str, WatchedRun] = {}
        self._outgoing: dict[str, list[bytes]] = {}
        self._streams = 0
        self._pressure = 0
        self._commits = engine.services.watchers.commits
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0
        """How many packets a full buffer refused; their readers ask for a snapshot."""

    @property
    def count(self) -> int:
        """How many threads are watched."""
        return len(self._runs)

    def take_watch(self, node: str, asked: WatchRequest) -> None:
        """Note what a node wants of a thread; the answer goes with the next packet."""
        thread_id, now = asked.thread_id, self._clock.monotonic_ms()
        if asked.want == Want.NOTHING:
            self._drop_watcher(thread_id, node)
            return
        active = self._engine.active.of_thread(thread_id)
        run = None if active is None else active.run
        if run is None or run.feed.is_closed:
            if active is None or run is not None:
                self._put(node, encode_message(Gone(thread_id)))
            return
        watched = self._find_watched(thread_id, run, now)
        if watched is None:
            return
        watcher = watched.watchers.get(node)
        if watcher is not None and asked.want == Want.MORE:
            watcher.expires_at = now + INTEREST_MS
            return
        self._send_snapshot(watched, node, now)

    async def close(self) -> None:
        """Stop to send; the readers notice it by the silence."""
        for thread_id in tuple(self._runs):
            self._forget(thread_id)
        self._outgoing.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _find_watched(self, thread_id: str, run: Run, now: int) -> WatchedRun | None:
        watched = self._runs.get(thread_id)
        if watched is not None and watched.run is not run:
            self._end_watched(thread_id, watched)
            watched = None
        if watched is None and len(self._runs) < WATCHED_MAX:
            if not self._runs:
                self._commits.append(self._on_commit)
            watched = self._runs[thread_id] = WatchedRun(run, now)
        return watched

    def _send_snapshot(self, watched: WatchedRun, node: str, now: int) -> None:
        """Begin anew for one node: how far the log counts, and what was shown after that."""
        # Without an await in between: what the others have not got yet, the place in the log and
        # the unfinished events are of one moment.
        self._collect(watched, now)
        run = watched.run
        self._streams += 1
        watched.watchers[node] = Watcher(self._streams, now + INTEREST_MS)
        frame = LiveFrame(
            thread_id=run.identity.thread_id,
            run_id=run.identity.run_id,
            version=run.journal.version,
            stream=self._streams,
            n=0,
            seq=run.journal.event_seq,
            items=encode_items(run.list_unfinished_events()),
            made_at=self._clock.now_ms(),
        )
        self._put(node, encode_message(frame))

    def _put(self, node: str, message: bytes) -> None:
        self._outgoing.setdefault(node, []).append(message)
        self._wake.set()
        if self._task is None:
            self._task = asyncio.create_task(self._send(), name="live frames")

    async def _send(self) -> None:
        """Send what there is, until no node reads any more."""
        try:
            while self._runs or self._outgoing:
                self.flush()
                self._wake.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._frame_s * SLOWER[self._pressure]):
                        await self._wake.wait()
                        # What is asked or committed at the same time shares a packet.
                        await asyncio.sleep(SLOT_S)
        finally:
            if self._task is asyncio.current_task():
                self._task = None

    def flush(self) -> None:
        """Send all events since the last time, each node its own in as few packets as possible."""
        now = self._clock.monotonic_ms()
        for thread_id, watched in tuple(self._runs.items()):
            for node, watcher in tuple(watched.watchers.items()):
                if watcher.expires_at <= now:
                    self._drop_watcher(thread_id, node)
            if thread_id in self._runs and not self._collect(watched, now):
                self._end_watched(thread_id, watched)
        outgoing, self._outgoing = self._outgoing, {}
        is_full = False
        for node, messages in outgoing.items():
            for some in _split(messages):
                packet = encode_packet(self._address, some)
                is_sent = self._bus.send(node, packet)
                if not is_sent:
                    self.dropped += 1
                    is_full = True
                if self._watchers:
                    self._report(some, len(packet), is_sent=is_sent)
        step = 1 if is_full else -1
        self._pressure = min(max(self._pressure + step, 0), len(SLOWER) - 1)

    def _report(self, messages: list[bytes], size: int, *, is_sent: bool) -> None:
        frames = sum(it.startswith(_FRAME) for it in messages)
        for watcher in self._watchers:
            watcher.on_frames("out", "sent" if is_sent else "dropped", frames)
            if is_sent:
                watcher.on_packet("out", size)

    def _collect(self, watched: WatchedRun, now: int) -> bool:
        """Make frames of what a run has shown; False if it shows nothing any more."""
        try:
            items = watched.reader.take()
        except ReaderDropped:
            # Too much at once: everybody begins anew, with the pieces joined.
            watched.reader.leave()
            watched.reader = watched.run.feed.attach(EventReader(is_attached=False))
            for node in tuple(watched.watchers):
                self._send_snapshot(watched, node, now)
            return not watched.run.feed.is_closed
        if items is None:
            return False
        if items or now - watched.sent_at >= PULSE_MS:
            self._send_items(watched, items, now)
        return True

    def _send_items(self, watched: WatchedRun, items: list[StreamItem], now: int) -> None:
        watched.sent_at = now
        raw, run, made_at = encode_items(items), watched.run, self._clock.now_ms()
        for node, watcher in watched.watchers.items():
            watcher.n += 1
            frame = LiveFrame(
                thread_id=run.identity.thread_id,
                run_id=run.identity.run_id,
                version=run.journal.version,
                stream=watcher.stream,
                n=watcher.n,
                seq=0,
                items=raw,
                made_at=made_at,
            )
            self._put(node, encode_message(frame))

    def _end_watched(self, thread_id: str, watched: WatchedRun) -> None:
        """Tell the nodes that a run shows nothing any more here."""
        for node in watched.watchers:
            self._put(node, encode_message(Gone(thread_id)))
        self._forget(thread_id)

    def _drop_watcher(self, thread_id: str, node: str) -> None:
        watched = self._runs.get(thread_id)
        if watched is not None:
            watched.watchers.pop(node, None)
            if not watched.watchers:
                self._forget(thread_id)

    def _forget(self, thread_id: str) -> None:
        watched = self._runs.pop(thread_id, None)
        if watched is not None:
            watched.reader.leave()
            if not self._runs:
                self._commits.remove(self._on_commit)

    def _on_commit(self, commit: Commit) -> None:
        """Send soon: the events of the commit are shown before the task wakes up."""
        if commit.thread_id in self._runs:
            self._wake.set()


def _split(messages: list[bytes]) -> list[list[bytes]]:
    """Divide messages into packets of half the size that may wait for a node."""
    packets: list[list[bytes]] = [[]]
    size = 0
    for message in messages:
        if packets[-1] and size + len(message) > PACKET_MAX // 2:
            packets.append([])
            size = 0
        packets[-1].append(message)
        size += len(message)
    return packets
