"""Streams of runs and threads: the log after a cursor, the unfinished step, then live events.

The log is the only source. Logged events come once each and in order, whichever process executes
the run; events between two of them are streamed live, from this process or from another one.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING

from awaken.contracts.errors import AwakenError, CursorInvalid, LeaseLost, UnknownRun, UnknownThread
from awaken.contracts.events import (
    LIVE_EVENTS,
    AgentEvent,
    ErrorEvent,
    LoggedEvent,
    RunFinish,
    StreamReset,
    ends_run,
    ends_stream,
    unwrap_event,
)
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.storage.bus import Bus, Signal, Unsubscribe
from awaken.contracts.tenancy import remove_namespace
from awaken.runtime.admission.handles import RunHandle
from awaken.runtime.engine import RunEngine
from awaken.runtime.journal.leases import RunHandedOver
from awaken.runtime.journal.streams import EventReader, OpenReaders, StreamItem

from .control import IDLE_POLL_S, RunControl, run_events
from .tenant_ids import hide_namespace

if TYPE_CHECKING:
    from .live_runs import LiveRun, RemoteThreads

Batch = list[StreamItem]
"""Events that came together; an empty batch is a heartbeat."""

SILENCE_S = 15.0
"""A stream yields a heartbeat after at most this long without an event."""
STOPPING = ErrorEvent(
    message="The server is stopping; attach again with the latest cursor.", code="server_stopping"
)
_GOES_ON = (LeaseLost.code, RunHandedOver.code)
"""The errors of a process that has released a run which another process continues."""
_GOES_ON_ELSEWHERE = StreamReset(reason="the run goes on elsewhere", scope="step")
_LIVE_TYPES = frozenset(LIVE_EVENTS)


class StreamHub:
    """Opens streams of runs and threads, and ends all of them when the process stops."""

    def __init__(
        self,
        engine: RunEngine,
        control: RunControl,
        bus: Bus,
        poll_ms: int,
        remote: "RemoteThreads | None" = None,
    ) -> None:
        self.engine = engine
        self.remote = remote
        """The runs that other processes show; None if none can be asked."""
        self.control = control
        self.poll_s = poll_ms / 1000
        self.is_closing = False
        self.readers = OpenReaders(SILENCE_S / 2)
        self.on_close: list[Callable[[], None]] = []
        """Called when all streams must end."""
        self._bus = bus
        self._unsubscribe: Unsubscribe | None = None

    def open(self) -> None:
        """Allow streams, also after `close`."""
        self.is_closing = False

    def close(self) -> None:
        """End every stream; each ends with `STOPPING`."""
        self.is_closing = True
        for wakers in tuple(self.engine.active.watchers.values()):
            for wake in tuple(wakers):
                wake()
        self.readers.close()
        for stop in tuple(self.on_close):
            stop()

    def stream_started(self, handle: RunHandle, reader: EventReader) -> "EventStream":
        """Stream a run that was started with this reader, up to its end or suspension."""
        stream = EventStream(self, handle.thread_id, handle.run_id, 0)
        stream.attached = reader
        reader.on_drop = stream.drop
        return stream

    async def stream_run(self, run_id: str, after: int | None = None) -> "EventStream":
        """Stream a run's events after a cursor, or from its start, to its end or suspension.

        Raises:
            UnknownRun: There is no such run.
            CursorInvalid: The cursor is ahead of the log.
            CursorExpired: Events after the cursor were purged.
        """
        record = await self.control.record(run_id)
        thread = await self.engine.store.load_thread(record.thread_id)
        latest = 0 if thread is None else thread.event_seq
        start = record.log_start
        if record.started_at is None:
            # Loaded again: if it has still not begun, all its events come after the latest.
            record = await self.control.record(run_id)
            start = latest if record.started_at is None else record.log_start
        stream = EventStream(self, record.thread_id, record.run_id, start)
        if after is not None:
            await stream.skip_to(_check_cursor(after, latest))
        return stream

    async def stream_thread(self, thread_id: str, after: int | None = None) -> "EventStream":
        """Stream all events of a thread after a cursor, or from now on, without an end.

        Raises:
            UnknownThread: There is no such thread.
            CursorInvalid: The cursor is ahead of the log.
            CursorExpired: Events after the cursor were purged.
        """
        thread = await self.engine.store.load_thread(thread_id)
        if thread is None:
            raise UnknownThread(thread_id=thread_id)
        cursor = thread.event_seq if after is None else _check_cursor(after, thread.event_seq)
        await self.engine.store.list_events(thread_id, after=cursor, limit=1)
        return EventStream(self, thread_id, None, cursor)

    def watch(self, thread_id: str, wake: Callable[[], None]) -> Unsubscribe:
        """Call back whenever a thread may have changed, until the returned function is called."""
        active = self.engine.active
        stop_watching, unfollow = active.watch(thread_id, wake), self._bus.follow(thread_id)
        if self._unsubscribe is None:
            self._unsubscribe = self._bus.subscribe(self._on_signal)

        def stop() -> None:
            stop_watching()
            unfollow()
            if not active.watchers and self._unsubscribe is not None:
                self._unsubscribe()
                self._unsubscribe = None

        return stop

    @contextmanager
    def watch_changes(self, thread_id: str) -> Iterator[asyncio.Event]:
        """Provide an event that is set whenever a thread may have changed; follow it live."""
        changed = asyncio.Event()
        stop = self.watch(thread_id, changed.set)
        unfollow = None if self.remote is None else self.remote.follow(thread_id)
        try:
            yield changed
        finally:
            stop()
            if unfollow is not None:
                unfollow()

    def find_live(self, thread_id: str) -> "LiveRun | None":
        """Return a thread's run whose events can be read now: of this process, else of another."""
        active = self.engine.active.of_thread(thread_id)
        if active is not None:
            return None if active.run is None else active
        return None if self.remote is None else self.remote.find_run(thread_id)

    def _on_signal(self, signal: Signal) -> None:
        for wake in tuple(self.engine.active.watchers.get(signal.thread_id, ())):
            wake()


class EventStream:
    """One reader's position in a log; iterate over `batches` once."""

    __slots__ = (
        "_cursor", "_hub", "_is_provisional", "_owes_reset", "_run_id", "_thread_id", "_was_live",
        "attached", "before", "is_open_ended", "is_over", "live", "namespace", "on_drop",
    )  # fmt: skip

    def __init__(self, hub: StreamHub, thread_id: str, run_id: str | None, cursor: int) -> None:
        self._thread_id = thread_id
        self._run_id = run_id
        self.namespace = ""
        """The prefix that is removed from ids, because the reader belongs to that tenant."""
        self.before: list[AgentEvent] = []
        """The events of the run up to the cursor, for an encoder to catch up with."""
        self.attached: EventReader | None = None
        self.on_drop: Callable[[], None] | None = None
        """Called when the reader is too far behind, also while it is blocked in a write."""
        self.is_open_ended = False
        """Whether the stream stays open while the run waits, until the run has ended."""
        self._hub = hub
        self._cursor = cursor
        self._was_live = False
        """Whether the events of a run that executes here were read, up to where it stopped."""
        self.is_over = False
        """Whether the latest batch was the last."""
        self.live: EventReader | None = None
        """The reader at whose position the latest batch ends; None: it ends elsewhere."""
        self._is_provisional = False
        """Whether events were shown that the log may never have."""
        self._owes_reset = False
        """Whether they came from a source that is gone."""

    @property
    def source(self) -> "EventStream":
        """Itself: what reads from it may add to its events."""
        return self

    @property
    def thread_id(self) -> str:
        """The thread's id as the reader knows it."""
        is_shared = not self.namespace
        return self._thread_id if is_shared else remove_namespace(self.namespace, self._thread_id)

    @property
    def run_id(self) -> str | None:
        """The run that is streamed; None: every run of the thread."""
        if self._run_id is None or not self.namespace:
            return self._run_id
        return remove_namespace(self.namespace, self._run_id)

    def batches(self) -> AsyncGenerator[Batch, None]:
        """Yield the events in order, with an empty batch after each long silence.

        Raises:
            ReaderDropped: The reader has fallen too far behind.
        """
        reader = self.attached
        batches = self._follow() if reader is None else self._read_started(reader)
        return self._hide_namespaces(batches) if self.namespace else batches

    async def _hide_namespaces(
        self, batches: AsyncGenerator[Batch, None]
    ) -> AsyncGenerator[Batch, None]:
        async with aclosing(batches):
            try:
                async for batch in batches:
                    yield [hide_namespace(self.namespace, item) for item in batch]
            except AwakenError as error:
                error.args = tuple(str(it).replace(self.namespace, "") for it in error.args)
                raise

    async def _read_started(self, reader: EventReader) -> AsyncGenerator[Batch, None]:
        """Read a run that was started with this reader; follow it if it goes on elsewhere."""
        self._hub.readers.add(reader)
        try:
            while not self.is_over:
                batch = reader.take()
                if batch is not None and not batch:
                    await reader.wait()
                    batch = reader.take()
                if batch is None:
                    break
                yield self._note_batch(batch, reader)
                del batch
        finally:
            self._hub.readers.discard(reader)
        if self.is_over:
            return
        self._leave_source()
        async with aclosing(self._follow()) as later:
            async for batch in later:
                yield batch

    async def _follow(self) -> AsyncGenerator[Batch, None]:
        """Read what is available now, then whatever a change of the thread brings."""
        clock, pause = self._hub.engine.services.clock, self._hub.poll_s
        silent_since = clock.monotonic_ms()
        with self._hub.watch_changes(self._thread_id) as changed:
            while not self._hub.is_closing:
                changed.clear()
                async with aclosing(self._read_available()) as now:
                    async for batch in now:
                        if self._owes_reset and batch:
                            # Not before there is something to show instead of what is dropped.
                            self._owes_reset, later = False, (self.live, self.is_over)
                            # What is said of the batch is not yet true of this one.
                            self.live, self.is_over = None, False
                            yield [_GOES_ON_ELSEWHERE]
                            self.live, self.is_over = later
                        yield batch
                        pause, silent_since = self._hub.poll_s, clock.monotonic_ms()
                if self.is_over:
                    return
                if self._was_live:
                    # The run has stopped, and leaves its slot in the next loop iteration, which
                    # sets no event.
                    self._was_live = False
                    await asyncio.sleep(0)
                    continue
                if clock.monotonic_ms() - silent_since >= SILENCE_S * 1000:
                    yield []
                    silent_since = clock.monotonic_ms()
                pause = await self._wait(changed, pause)
        yield [STOPPING]

    async def skip_to(self, cursor: int) -> None:
        """Move to a cursor, and keep the events before it in `before`.

        Raises:
            CursorExpired: Events after the cursor were purged.
        """
        if cursor <= self._cursor:
            # The cursor is before the run, where the log may have been purged.
            await self._hub.engine.store.list_events(self._thread_id, after=cursor, limit=1)
            return
        async for batch in self._read_log(cursor):
            self.before += map(unwrap_event, batch)
        self.is_over = False

    def close(self) -> None:
        """Release what the stream holds; it is not read any further."""
        self.on_drop = None
        self.before.clear()
        if self.attached is not None:
            self.attached.leave()

    def drop(self) -> None:
        """Notify the writer that it is too slow."""
        if self.on_drop is not None:
            self.on_drop()

    async def _read_available(self) -> AsyncGenerator[Batch, None]:
        """Yield what is available: the live events of a run, else the log."""
        run = self._hub.find_live(self._thread_id)
        if run is None or self._run_id not in (None, run.run_id):
            async for batch in self._read_log_and_end():
                yield batch
            return
        reader = EventReader(is_attached=False)
        reader.on_drop = self.drop
        # Without an await in between: the log up to here, the unfinished step so far, and all
        # later events. So none is lost or repeated.
        run.feed.attach(reader)
        until, unfinished = run.event_seq, run.list_unfinished_events()
        # The log may be ahead of what another process has sent so far.
        is_ahead = self._cursor > until
        try:
            async for batch in self._read_log(until):
                if self._cursor == until and not unfinished:
                    self.live = reader
                yield batch
            self._hub.readers.add(reader)
            if unfinished and not is_ahead:
                yield self._note_batch([*unfinished], reader)
            held: Batch = []
            while not self.is_over:
                later, held = held or reader.take(), []
                if later is not None and not later:
                    await reader.wait()
                    later = reader.take()
                if later is None:
                    break
                if is_ahead:
                    place, level = self._find_level(later)
                    if level:
                        is_ahead, held = False, later[place:]
                        async for batch in self._read_log(level):
                            yield batch
                    continue
                yield self._note_batch(later, reader)
                del later
        finally:
            self._leave_source()
            self._hub.readers.discard(reader)
        self._was_live = True

    def _leave_source(self) -> None:
        """Note that live events are over; what they showed may have to be dropped."""
        self.live = None
        # A source that showed nothing pays no debt of an earlier one.
        self._owes_reset = self._owes_reset or self._is_provisional
        self._is_provisional = False

    def _find_level(self, batch: Batch) -> tuple[int, int]:
        """Find where a batch reaches what the log has brought, and the place in the log there."""
        for place, item in enumerate(batch, 1):
            if type(item) is LoggedEvent and item.seq >= self._cursor:
                return place, item.seq
        return 0, 0

    async def _read_log_and_end(self) -> AsyncGenerator[Batch, None]:
        """Yield what the log has, and end the stream if the run is at rest."""
        is_at_rest = await self._is_at_rest()
        async for batch in self._read_log(None):
            if self._hub.remote is not None:
                self._hub.remote.look_again(self._thread_id)
            yield batch
        if (
            is_at_rest
            and not self.is_over
            and not (self.is_open_ended and await self._is_waiting())
        ):
            self.is_over = True
            for end in await self._end_of_unstarted():
                yield [end]

    async def _read_log(self, until: int | None) -> AsyncGenerator[Batch, None]:
        """Yield what the log has after the cursor, up to a position."""
        store = self._hub.engine.store
        while until is None or self._cursor < until:
            page = await store.list_events(self._thread_id, after=self._cursor)
            if not page:
                return
            known = [it for it in page if until is None or it.seq <= until]
            self._cursor = known[-1].seq
            found: Batch = [it for it in known if self._run_id in (None, it.run_id)]
            for item in found:
                if self._run_id is not None and ends_run(unwrap_event(item)):
                    self.is_over = True
            if found:
                yield found

    def _note_batch(self, batch: Batch, reader: EventReader | None) -> Batch:
        """Follow what the events say about the stream; leave out errors that do not end it."""
        self.live = reader
        handed_over = False
        for item in batch:
            if type(item) is LoggedEvent:
                self._cursor = item.seq
                self._is_provisional = False
                event = item.event
                if type(event) is RunFinish and self._run_id is not None and ends_stream(event):
                    self.is_over = not self.is_open_ended or ends_run(event)
            elif type(item) is ErrorEvent:
                if item.code in _GOES_ON:
                    handed_over = True
                else:
                    self.is_over = self._run_id is not None
            elif not self._is_provisional:
                # Events that are never logged are not sent again after a reset.
                self._is_provisional = type(item) not in _LIVE_TYPES
        if handed_over:
            return [it for it in batch if not (type(it) is ErrorEvent and it.code in _GOES_ON)]
        return batch

    async def _is_at_rest(self) -> bool:
        """Whether nothing more will come until a client sends something."""
        hub = self._hub
        if self._run_id is None:
            if await hub.engine.store.load_thread(self._thread_id) is None:
                raise UnknownThread(thread_id=self._thread_id)
            return False
        try:
            became = await hub.control.find_resting_run(self._run_id)
        except UnknownRun:
            return True
        if became not in (None, self._run_id):
            # Another run took the input: its events are the answer.
            record = await hub.control.record(became)
            self._run_id, self._cursor = record.run_id, max(self._cursor, record.log_start)
            if not await run_events(hub.engine.store, record, self._cursor, 1):
                # That run had ended before the same input came again.
                self._cursor = record.log_start
            return False
        return became is not None and hub.engine.active.of_run(became) is None

    async def _is_waiting(self) -> bool:
        """Whether the run waits, and may resume."""
        try:
            record = await self._hub.control.record(self._run_id or "")
        except UnknownRun:
            return False
        return record.status is RunStatus.WAITING

    async def _end_of_unstarted(self) -> list[RunFinish]:
        """The end of a run that never began, which the log does not have: a cancelled dispatch."""
        run_id = self._run_id or ""
        record = await self._hub.control.record(run_id)
        if record.started_at is not None or record.termination is None:
            return []
        return [RunFinish(thread_id=self._thread_id, run_id=run_id, termination=record.termination)]

    async def _wait(self, changed: asyncio.Event, pause: float) -> float:
        """Wait until the thread may have changed; returns how long to wait the next time.

        Signals of other processes may be lost, so the log is polled as well, less and less often
        while nothing happens.
        """
        limit = pause if self._hub.engine.store.is_shared else SILENCE_S
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await changed.wait()
        return min(pause * 2, IDLE_POLL_S)


def _check_cursor(cursor: int, latest: int) -> int:
    if not 0 <= cursor <= latest:
        raise CursorInvalid(problem=f"the log ends at {latest}")
    return cursor
