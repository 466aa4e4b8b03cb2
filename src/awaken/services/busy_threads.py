"""Decides what happens to a request whose thread is busy, for Python callers and every protocol.

A run that waits for a thread which its own caller holds, directly or through other runs, would
never end. Such a request is refused; runs of other processes are not visible here.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import TypeVar

import msgspec

from awaken.contracts.errors import ThreadBusy, VersionConflict
from awaken.contracts.events import AgentEvent, unwrap_event
from awaken.contracts.identity import RunIdentity
from awaken.contracts.runs.records import OnBusy, RunRequest, RunResult
from awaken.contracts.storage.dispatch import InputMode
from awaken.contracts.tracing import CURRENT_RUN
from awaken.mailbox.receipts import SubmitReceipt
from awaken.runtime.admission.handles import RunHandle
from awaken.runtime.engine import RunEngine

from .control import RunControl
from .event_streams import StreamHub

T = TypeVar("T")

BUSY = (ThreadBusy, VersionConflict)
"""Another run holds the thread, here or in another process; nothing was written."""
CALLER = "caller"
"""The cancel cause of a run whose caller is gone."""


class BusyThreads:
    """Queues a request behind the run of its thread, interrupts that run, or refuses."""

    def __init__(self, engine: RunEngine, control: RunControl, streams: StreamHub) -> None:
        self._engine = engine
        self._control = control
        self._streams = streams
        self._waits: list[tuple[frozenset[str], str]] = []
        """The runs that wait in this process, with their callers, and the thread they wait for."""

    async def resolve(
        self,
        request: RunRequest,
        refusal: ThreadBusy | VersionConflict,
        start: Callable[[RunRequest], Awaitable[T]],
    ) -> T | SubmitReceipt:
        """Apply the request's `on_busy`: start the request after an interrupt, or queue it.

        Raises:
            ThreadBusy: The request rejects a busy thread, or cannot be queued.
        """
        request = request.with_stored_ids()
        thread_id = await self._check(request, refusal)
        mode = InputMode.QUEUE
        if request.on_busy is OnBusy.INTERRUPT:
            mode = InputMode.INTERRUPT
            if await self._control.clear_thread(thread_id):
                # Another request may have taken the thread first.
                with suppress(*BUSY):
                    return await start(request)
        if not self._engine.services.may_rest:
            raise _busy(thread_id, refusal)
        # Once it is queued, it does not matter whether the thread is busy.
        queued = msgspec.structs.replace(request, on_busy=OnBusy.QUEUE)
        return await self._control.submit(queued, mode, {})

    async def run(self, request: RunRequest, refusal: ThreadBusy) -> RunResult:
        """Execute a refused request after `resolve`; the run is cancelled with its caller."""
        begun = await self.resolve(request, refusal, self._engine.run)
        if isinstance(begun, RunResult):
            return begun
        try:
            return await self.wait(begun)
        except BaseException:
            await self._control.cancel_run(begun.run_id, CALLER)
            raise

    async def start(self, request: RunRequest, refusal: ThreadBusy | VersionConflict) -> RunHandle:
        """Start a refused request after `resolve`."""
        begun = await self.resolve(request, refusal, self._engine.start)
        return begun if isinstance(begun, RunHandle) else QueuedRun(self, begun)

    async def stream(
        self, request: RunRequest, refusal: ThreadBusy
    ) -> AsyncGenerator[AgentEvent, None]:
        """Execute a refused request and yield its events; closing the iterator cancels the run."""
        handle = await self.start(request, refusal)
        is_over = False
        try:
            async with aclosing(handle.events()) as events:
                async for event in events:
                    yield event
            is_over = True
        finally:
            if not is_over:
                await self._control.cancel_run(handle.run_id, CALLER)

    async def wait(self, queued: SubmitReceipt) -> RunResult:
        """Wait for the result of queued input."""
        with self._register_wait(await self._callers(), queued.thread_id):
            return await self._control.wait(queued.run_id, None)

    async def events(self, queued: SubmitReceipt) -> AsyncGenerator[AgentEvent, None]:
        """Yield the events of the run that takes queued input."""
        stream = await self._streams.stream_run(queued.run_id)
        with self._register_wait(await self._callers(), queued.thread_id):
            async with aclosing(stream.batches()) as batches:
                async for batch in batches:
                    for item in batch:
                        yield unwrap_event(item)

    async def cancel(self, queued: SubmitReceipt) -> bool:
        """Cancel queued input, or the run that took it."""
        return await self._control.cancel_run(queued.run_id)

    async def check_not_own(self, thread_id: str) -> None:
        """Refuse to wait for a thread that the caller's own code holds.

        Raises:
            ThreadBusy: The run of the thread waits for the caller.
        """
        if (callers := await self._callers()) and self._is_held_by(callers, thread_id):
            raise ThreadBusy(thread_id=thread_id, run_id=self._holder(thread_id))

    async def _check(self, request: RunRequest, refusal: ThreadBusy | VersionConflict) -> str:
        thread_id = request.thread_id
        is_other = isinstance(refusal, ThreadBusy) and refusal.thread_id != thread_id
        is_new = not (request.continue_run_id or request.decisions or request.dispatch_id_hint)
        is_placed = request.expected_messages is not None
        if thread_id is None or is_other or is_placed or not is_new:
            # A run of that id is active, the run to continue is running already, or the thread
            # has messages after the position that the request is for.
            raise refusal
        if request.on_busy is OnBusy.REJECT:
            raise _busy(thread_id, refusal)
        await self.check_not_own(thread_id)
        return thread_id

    def _is_held_by(self, callers: frozenset[str], thread_id: str) -> bool:
        """Whether the thread's run is one of these, or waits for a thread they hold."""
        seen: set[str] = set()
        threads = [thread_id]
        while threads:
            holder = self._holder(threads.pop())
            if holder in callers:
                return True
            if holder and holder not in seen:
                seen.add(holder)
                threads += [wanted for waiting, wanted in self._waits if holder in waiting]
        return False

    def _holder(self, thread_id: str) -> str:
        active = self._engine.active.of_thread(thread_id)
        return "" if active is None else active.run_id

    async def _callers(self) -> frozenset[str]:
        """The run whose code calls, and the runs that wait for it."""
        found: set[str] = set()
        level: list[RunIdentity | None] = [CURRENT_RUN.get()]
        while level:
            identity = level.pop()
            if identity is None or identity.run_id in found:
                continue
            found.add(identity.run_id)
            active = self._engine.active.of_run(identity.run_id)
            if active is not None:
                level.append(active.started_by)
            if identity.parent_run_id is not None:
                parent = await self._engine.store.load_run(identity.parent_run_id)
                level.append(None if parent is None else parent.identity)
        return frozenset(found)

    @contextmanager
    def _register_wait(self, callers: frozenset[str], thread_id: str) -> Iterator[None]:
        entry = (callers, thread_id)
        self._waits.append(entry)
        try:
            yield
        finally:
            self._waits.remove(entry)


class QueuedRun(RunHandle):
    """A run that begins when its thread is free; a waiting run may take its input instead."""

    __slots__ = ("_busy", "_queued")

    def __init__(self, busy: BusyThreads, queued: SubmitReceipt) -> None:
        self._busy = busy
        self._queued = queued

    @property
    def run_id(self) -> str:
        """The id under which the run begins."""
        return self._queued.run_id

    @property
    def thread_id(self) -> str:
        """The thread that it is queued on."""
        return self._queued.thread_id

    async def result(self) -> RunResult:
        """Wait until the run ends or waits for a decision."""
        return await self._busy.wait(self._queued)

    async def events(self) -> AsyncGenerator[AgentEvent, None]:
        """Yield the run's events from its start, once it has begun."""
        async with aclosing(self._busy.events(self._queued)) as events:
            async for event in events:
                yield event

    async def cancel(self) -> bool:
        """Cancel the run, wherever it is by now; False when it is over already."""
        return await self._busy.cancel(self._queued)


def _busy(thread_id: str, refusal: ThreadBusy | VersionConflict) -> ThreadBusy:
    if isinstance(refusal, ThreadBusy):
        return refusal
    busy = ThreadBusy(thread_id=thread_id, run_id="")
    busy.__cause__ = refusal
    return busy
