"""The handle that a caller gets for a started run."""

from collections.abc import AsyncGenerator, Awaitable, Callable

from awaken.contracts.events import AgentEvent
from awaken.contracts.runs.records import RunResult
from awaken.contracts.storage.store import EventStore
from awaken.runtime.journal.streams import EventReader
from awaken.runtime.run import Run

from .active_runs import ActiveRun


class RunHandle:
    """A run that was started. Dropping the handle does not stop the run."""

    __slots__ = ("_active", "_cancel", "_run", "_store")

    def __init__(
        self,
        active: ActiveRun,
        run: Run,
        store: EventStore,
        cancel: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._active = active
        self._run = run
        self._store = store
        self._cancel = cancel

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._run.identity.run_id

    @property
    def thread_id(self) -> str:
        """The thread the run executes on."""
        return self._run.identity.thread_id

    async def result(self) -> RunResult:
        """Wait until the run ends or is suspended; then its thread is free.

        Unlike `AgentRuntime.run`, it returns the result of a failed run instead of raising.
        """
        return await self._active.result()

    async def events(self) -> AsyncGenerator[AgentEvent, None]:
        """Yield the run's events from its start: the log first, then live events.

        The run never waits for a reader. A reader that falls too far behind gets `ReaderDropped`.
        """
        run = self._run
        # Taken together, before anything else can happen: the log up to here, the unfinished
        # step so far, and everything from now on.
        reader = run.feed.attach(EventReader(is_attached=False))
        until, unfinished = run.journal.event_seq, run.list_unfinished_events()
        if self._active.released.is_set():
            reader.close()
        try:
            for event in await self._read_log(until):
                yield event
            for event in unfinished:
                yield event
            async for event in reader:
                yield event
        finally:
            run.feed.detach(reader)

    async def cancel(self) -> bool:
        """Cancel the run, wherever it executes or waits; False when it has already ended.

        The request is durable when this returns: it also holds if the executing process dies.
        """
        return await self._cancel(self.run_id)

    async def _read_log(self, until: int) -> list[AgentEvent]:
        found: list[AgentEvent] = []
        after = self._run.record.log_start
        while after < until:
            page = await self._store.list_events(self.thread_id, after=after)
            if not page:
                break
            found += [
                entry.event for entry in page if entry.run_id == self.run_id and entry.seq <= until
            ]
            after = page[-1].seq
        return found
