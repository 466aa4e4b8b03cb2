"""Work that runs in another thread, and whose result goes back to the waiting event loop."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextvars import Context
from typing import Any, TypeVar

from awaken.stores.sql.session import SqlSession

T = TypeVar("T")


class Job:
    """One transaction, and what the task that waits for it awaits.

    It follows the protocol by which a task of asyncio waits for any kind of future. Unlike a plain
    future, it continues its task as soon as the event loop learns of the result, instead of in the
    loop's next turn. One task may wait, in the loop for which the job was made.
    """

    __slots__ = (
        "_asyncio_future_blocking",
        "_cancelled",
        "_context",
        "_is_settled",
        "_loop",
        "_wake_up",
        "error",
        "outcome",
        "work",
    )

    def __init__(
        self, work: Callable[[SqlSession], Awaitable[Any]], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.work = work
        self.outcome: Any = None
        """What the work returned; set by the other thread, as is `error`."""
        self.error: BaseException | None = None
        self._loop = loop
        self._is_settled = False
        self._cancelled: asyncio.CancelledError | None = None
        self._asyncio_future_blocking = False
        self._wake_up: Callable[[Job], object] | None = None
        self._context: Context | None = None

    def __await__(self) -> Generator["Job", None, Any]:
        """Wait until the job is settled; returns its outcome, or raises its error."""
        if not self._is_settled:
            self._asyncio_future_blocking = True
            yield self
        return self.result()

    def add_done_callback(self, wake_up: Callable[["Job"], object], *, context: Context) -> None:
        """Keep what continues the waiting task."""
        self._wake_up, self._context = wake_up, context

    def result(self) -> Any:
        """Return the outcome of a settled job, or raise its error."""
        error = self._cancelled or self.error
        if error is None:
            return self.outcome
        # The error has this frame in its traceback: no cycle may be left for the collector.
        self._cancelled = self.error = None
        try:
            raise error
        finally:
            del error

    def cancel(self, msg: str | None = None) -> bool:
        """Let the waiting task give up; its work may be done nevertheless."""
        if self._is_settled:
            return False
        self._is_settled = True
        self._cancelled = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        wake_up, self._wake_up = self._wake_up, None
        if wake_up is not None:
            self._loop.call_soon(wake_up, self, context=self._context)
        return True

    def settle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Continue the waiting task if it waits in this loop and has not given up."""
        if self._loop is not loop or self._is_settled:
            return
        self._is_settled = True
        wake_up, self._wake_up = self._wake_up, None
        if wake_up is not None and self._context is not None:
            self._context.run(wake_up, self)


def run_without_suspending(work: Awaitable[T]) -> T:
    """Run an awaitable that never suspends, and return its result."""
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as ended:
        result: T = ended.value
        return result
    message = "the work awaits something outside of its transaction"
    raise RuntimeError(message)


def settle(batch: list[Job]) -> None:
    """Wake the waiting event loops: one that has all jobs of the batch is woken once."""
    woken = None
    for job in batch:
        loop = job._loop  # noqa: SLF001 - asyncio looks for this name
        if loop is not woken:
            woken = loop
            try:
                woken.call_soon_threadsafe(_settle_jobs, woken, batch)
            except RuntimeError:
                # In a closed loop no task waits.
                continue


def _settle_jobs(loop: asyncio.AbstractEventLoop, batch: list[Job]) -> None:
    """Continue the tasks of a loop."""
    for job in batch:
        job.settle(loop)
