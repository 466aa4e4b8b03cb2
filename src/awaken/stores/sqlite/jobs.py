"""Work that runs in another thread, and whose result goes back to the waiting event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from awaken.stores.sql.session import SqlSession

T = TypeVar("T")


class Job:
    """One transaction and the future of the task that waits for it."""

    __slots__ = ("error", "future", "loop", "result", "work")

    def __init__(
        self, work: Callable[[SqlSession], Awaitable[Any]], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.work = work
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None


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
        if job.loop is not woken:
            woken = job.loop
            try:
                woken.call_soon_threadsafe(_settle_jobs, woken, batch)
            except RuntimeError:
                # In a closed loop no task waits.
                continue


def _settle_jobs(loop: asyncio.AbstractEventLoop, batch: list[Job]) -> None:
    """Set the results of a loop's futures, unless the waiting task gave up."""
    for job in batch:
        if job.loop is not loop or job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)
