"""What becomes of a request whose thread is busy: one decision, for Python and for every wire.

A run that waits for a thread which is held, directly or through others, by the code that waits
would never end. Such a request is refused; runs of other processes are not seen here.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import TypeVar

import msgspec

from awaken.contracts.errors import ThreadBusy, VersionConflict
from awaken.contracts.events import AgentEvent, plain
from awaken.contracts.identity import RunIdentity
from awaken.contracts.runs.records import OnBusy, RunRequest, RunResult
from awaken.contracts.storage.dispatch import InputMode
from awaken.contracts.tracing import CURRENT_RUN
from awaken.mailbox.receipts import SubmitReceipt
from awaken.runtime.admission.handles import RunHandle
from awaken.runtime.engine import RunEngine

from .control import RunControl
from .following import Following

T = TypeVar("T")

BUSY = (ThreadBusy, VersionConflict)
"""Another run has the thread, here or in another process; nothing was written."""
CALLER = "caller"
"""The cause of a run that is cancelled because its caller went away."""


class BusyThreads:
    """Queues a request behind what its thread does, puts it in its place, or refuses it."""

    def __init__(self, engine: RunEngine, control: RunControl, following: Following) -> None:
        self._engine = engine
        self._control = control
        self._following = following
        self._waits: list[tuple[frozenset[str], str]] = []
        """Who waits in this process, as runs within runs, and for which thread."""

    async def resolve(
        self,
        request: RunRequest,
        refusal: ThreadBusy | VersionConflict,
        start: Callable[[RunRequest], Awaitable[T]],
    ) -> T | SubmitReceipt:
        """Do what a refused request says for a busy thread: start it after all, or queue it.

        Raises:
            ThreadBusy: The request rejects a busy thread, or can only be served now.
        """
        request = request.owned()
        thread_id = await self._check(request, refusal)
        mode = InputMode.QUEUE
        if request.on_busy is OnBusy.INTERRUPT:
            mode = InputMode.INTERRUPT
            if await self._control.make_way(thread_id):
                # Another request may have come first.
                with suppress(*BUSY):
                    return await start(request)
        if not self._engine.services.may_rest:
            raise _busy(thread_id, refusal)
        # Queued, it has its place: what the thread does then is no matter any more.
        queued = msgspec.structs.replace(request, on_busy=OnBusy.QUEUE)
        return await self._control.submit(queued, mode, {})

    async def run(self, request: RunRequest, refusal: ThreadBusy) -> RunResult:
        """Execute a refused request as `resolve` lets it; the run ends with its caller."""
        begun = await self.resolve(request, refusal, self._engine.run)
        if isinstance(begun, RunResult):
            return begun
        try:
            return await self.wait(begun)
        except BaseException:
            await self._control.cancel_run(begun.run_id, CALLER)
            raise

    async def start(self, request: RunRequest, refusal: ThreadBusy | VersionConflict) -> RunHandle:
        """Start a refused request as `resolve` lets it."""
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
        """Wait for what queued input comes to."""
        with self._waiting(await self._callers(), queued.thread_id):
            return await self._control.wait(queued.run_id, None)

    async def events(self, queued: SubmitReceipt) -> AsyncGenerator[AgentEvent, None]:
        """Yield the events of what queued input comes to."""
        stream = await self._following.of_run(queued.run_id)
        with self._waiting(await self._callers(), queued.thread_id):
            async with aclosing(stream.batches()) as batches:
                async for batch in batches:
                    for item in batch:
                        yield plain(item)

    async def cancel(self, queued: SubmitReceipt) -> bool:
        """Cancel what queued input comes to."""
        return await self._control.cancel_run(queued.run_id)

    async def check_not_own(self, thread_id: str) -> None:
        """Refuse to wait for a thread that the caller's own code holds.

        Raises:
            ThreadBusy: What the thread does waits for the caller.
        """
        if (callers := await self._callers()) and self._is_held_by(callers, thread_id):
            raise ThreadBusy(thread_id=thread_id, run_id=self._holder(thread_id))

    async def _check(self, request: RunRequest, refusal: ThreadBusy | VersionConflict) -> str:
        thread_id = request.thread_id
        is_other = isinstance(refusal, ThreadBusy) and refusal.thread_id != thread_id
        is_new = not (request.continue_run_id or request.decisions or request.dispatch_id_hint)
        is_placed = request.expected_messages is not None
        if thread_id is None or is_other or is_placed or not is_new:
            # A run of that id is active, the run that it continues goes on already, or the thread
            # has gone on from the place that the request is for.
            raise refusal
        if request.on_busy is OnBusy.REJECT:
            raise _busy(thread_id, refusal)
        await self.check_not_own(thread_id)
        return thread_id

    def _is_held_by(self, callers: frozenset[str], thread_id: str) -> bool:
        """Whether the thread's run is one of these, or waits for a thread that one of them has."""
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
        """The run whose code calls, and those that wait for it."""
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
    def _waiting(self, callers: frozenset[str], thread_id: str) -> Iterator[None]:
        entry = (callers, thread_id)
        self._waits.append(entry)
        try:
            yield
        finally:
            self._waits.remove(entry)


class QueuedRun(RunHandle):
    """A run that begins when its thread is free; a run that waited may have taken its input in."""

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
