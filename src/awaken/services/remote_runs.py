"""Reads the runs of other processes live, for the streams that are open in this one."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from awaken.contracts.clock import Clock
from awaken.contracts.errors import StorageError
from awaken.contracts.storage.bus import Bus, Signal, SignalKind, Unsubscribe
from awaken.contracts.storage.nodes import find_address
from awaken.contracts.storage.store import ThreadStore
from awaken.runtime.engine import RunEngine

from .live_frames import (
    FrameWatcher,
    Gone,
    LiveFrame,
    RemoteSource,
    WatchRequest,
    decode_packet,
    encode_message,
    encode_packet,
)
from .live_runs import LiveRun
from .watched_runs import WATCHED_MAX, WatchedRuns

logger = logging.getLogger(__name__)

TICK_S = 0.25
FIND_MS, FIND_MAX_MS = 250, 16_000
"""The pauses between two looks for the process that executes a thread's run."""
HEED_MS = 100
"""The least time between two looks for one thread that signals have asked for."""
FINDS = 8
"""How many threads are looked for at once."""
FIND_S = 5.0
"""How long one look may take."""


class FollowedThread:
    """One thread that streams of this process read, however many they are."""

    __slots__ = ("find_at", "find_ms", "readers", "source", "stop", "told", "told_at")

    def __init__(self, source: RemoteSource, stop: Callable[[], None], now: int) -> None:
        self.source = source
        self.stop = stop
        self.readers = 0
        self.told: str | None = None
        """The node that a signal has named, until the store has said who it is."""
        self.told_at = now - HEED_MS
        self.find_at = now
        self.find_ms = FIND_MS


class FrameExchange:
    """The live events between this node and the others: sends them, and reads them.

    Everything here may fail or be late without harm: streams read the log then.
    """

    def __init__(
        self,
        engine: RunEngine,
        bus: Bus,
        store: ThreadStore,
        clock: Clock,
        address: str,
        frame_ms: int,
    ) -> None:
        self._engine = engine
        self._bus = bus
        self._store = store
        self._clock = clock
        self._address = address
        self.watchers: list[FrameWatcher] = []
        """Who is told what becomes of frames."""
        self.watched = WatchedRuns(engine, bus, clock, address, frame_ms, self.watchers)
        self._threads: dict[str, FollowedThread] = {}
        self._outgoing: dict[str, list[bytes]] = {}
        self._stops: list[Unsubscribe] = []
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to receive; calling it twice is harmless."""
        if not self._stops:
            self._stops = [
                self._bus.receive(self._address, self.take_packet),
                self._bus.subscribe(self._hear),
            ]

    async def close(self) -> None:
        """Stop to send and to receive."""
        stops, self._stops = self._stops, []
        for stop in stops:
            stop()
        for thread_id in tuple(self._threads):
            self._forget(thread_id)
        self._send_asked()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self.watched.close()

    @property
    def count(self) -> int:
        """How many threads are followed."""
        return len(self._threads)

    def follow(self, thread_id: str) -> Unsubscribe:
        """Ask for the events of a thread's runs, until the returned function is called."""
        followed = self._threads.get(thread_id)
        if followed is None:
            if len(self._threads) >= WATCHED_MAX or not self._stops:
                return _do_nothing
            followed = self._add(thread_id)
        followed.readers += 1
        is_reading = True

        def stop() -> None:
            nonlocal is_reading
            if is_reading:
                is_reading = False
                followed.readers -= 1
                if not followed.readers and self._threads.get(thread_id) is followed:
                    self._forget(thread_id)
                    self._send_asked()

        return stop

    def find_run(self, thread_id: str) -> LiveRun | None:
        """Return the run of a followed thread, if another process sends its events."""
        followed = self._threads.get(thread_id)
        return None if followed is None else followed.source.run

    def look_again(self, thread_id: str) -> None:
        """Find out soon which process executes a thread's run: something happened there."""
        followed = self._threads.get(thread_id)
        if followed is not None and followed.source.asked is None:
            followed.find_ms = FIND_MS
            followed.find_at = min(followed.find_at, self._clock.monotonic_ms() + FIND_MS)

    def take_packet(self, payload: bytes) -> None:
        """Take what another node sent."""
        sender, messages = decode_packet(payload)
        now = self._clock.monotonic_ms()
        for watcher in self.watchers:
            watcher.on_packet("in", len(payload))
        for message in messages:
            if isinstance(message, WatchRequest):
                self.watched.take_watch(sender, message)
                continue
            followed = self._threads.get(message.thread_id)
            if followed is None:
                if isinstance(message, LiveFrame):
                    # Its request was lost with which this node left.
                    self._ask(sender, WatchRequest(message.thread_id, 0))
                    self._report_frame(message, is_taken=False, is_missed=False)
            elif isinstance(message, Gone):
                followed.source.take_gone(sender)
                self._note_loss(followed, now)
            else:
                source, missed = followed.source, followed.source.resyncs
                is_taken = source.take_frame(sender, message, now)
                if self.watchers:
                    is_missed = source.resyncs > missed
                    self._report_frame(message, is_taken=is_taken, is_missed=is_missed)
        self._send_asked()

    def _report_frame(self, frame: LiveFrame, *, is_taken: bool, is_missed: bool) -> None:
        for watcher in self.watchers:
            watcher.on_frames("in", "taken" if is_taken else "ignored", 1)
            if is_missed:
                watcher.on_resync()
            if is_taken and frame.made_at:
                # The clocks of two machines differ: no duration is negative.
                watcher.on_lag(max(0, self._clock.now_ms() - frame.made_at))

    def _add(self, thread_id: str) -> FollowedThread:
        def wake() -> None:
            for change in tuple(self._engine.active.watchers.get(thread_id, ())):
                change()

        def check_local() -> None:
            if self._engine.active.of_thread(thread_id) is not None:
                source.lose()

        source = RemoteSource(thread_id, self._ask, wake)
        stop = self._engine.active.watch(thread_id, check_local)
        followed = FollowedThread(source, stop, self._clock.monotonic_ms())
        self._threads[thread_id] = followed
        if self._task is None:
            self._task = asyncio.create_task(self._keep(), name="followed threads")
        self._changed.set()
        return followed

    def _forget(self, thread_id: str) -> None:
        followed = self._threads.pop(thread_id)
        followed.stop()
        followed.source.leave()
        self._changed.set()

    def _hear(self, signal: Signal) -> None:
        """A commit of another node than the one that is asked: find out at once who it is.

        The store says it. Whoever shares the bus may have a thread with the same id.
        """
        if signal.kind is not SignalKind.RUN_CHANGED or signal.is_resting:
            return
        followed = self._threads.get(signal.thread_id)
        if followed is None or signal.node in ("", self._address, followed.source.asked):
            return
        followed.told = signal.node
        self._changed.set()

    def _ask(self, node: str, watch: WatchRequest) -> None:
        self._outgoing.setdefault(node, []).append(encode_message(watch))

    def _send_asked(self) -> None:
        outgoing, self._outgoing = self._outgoing, {}
        for node, messages in outgoing.items():
            packet = encode_packet(self._address, messages)
            if self._bus.send(node, packet):
                for watcher in self.watchers:
                    watcher.on_packet("out", len(packet))

    async def _keep(self) -> None:
        """Look after the followed threads while there are any."""
        try:
            while self._threads:
                # Before the look: a thread that is added during it must not wait for the tick.
                self._changed.clear()
                now = self._clock.monotonic_ms()
                for followed in tuple(self._threads.values()):
                    if followed.source.asked is not None:
                        followed.source.tick(now)
                        self._note_loss(followed, now)
                due = [it for it in self._threads.items() if self._is_due(it[1], now)]
                await asyncio.gather(*(self._find(*it) for it in due[:FINDS]))
                self._send_asked()
                if len(due) > FINDS:
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S):
                        await self._changed.wait()
        finally:
            if self._task is asyncio.current_task():
                self._task = None

    def _is_due(self, followed: FollowedThread, now: int) -> bool:
        if followed.told is not None and now - followed.told_at >= HEED_MS:
            return True
        return followed.source.asked is None and followed.find_at <= now

    def _note_loss(self, followed: FollowedThread, now: int) -> None:
        if followed.source.asked is None:
            followed.find_ms = FIND_MS
            followed.find_at = now + FIND_MS

    async def _find(self, thread_id: str, followed: FollowedThread) -> None:
        """Ask the node that has claimed a thread, if there is one."""
        holder: str | None = None
        # Before the look: what is told during it is looked for again.
        if followed.told is not None:
            followed.told, followed.told_at = None, self._clock.monotonic_ms()
        if self._engine.active.of_thread(thread_id) is None:
            try:
                async with asyncio.timeout(FIND_S):
                    holder = await self._store.find_claim_holder(thread_id)
            except (StorageError, TimeoutError) as error:
                logger.info("The process of thread '%s' is not known: %s", thread_id, error)
        now = self._clock.monotonic_ms()
        followed.find_at = now + followed.find_ms
        followed.find_ms = min(2 * followed.find_ms, FIND_MAX_MS)
        node = None if holder is None else find_address(holder)
        is_here = node == self._address or self._engine.active.of_thread(thread_id) is not None
        if node is not None and not is_here and self._threads.get(thread_id) is followed:
            followed.source.watch(node, now)


def _do_nothing() -> None:
    pass
