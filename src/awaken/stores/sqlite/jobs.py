"""Work that runs in another thread, and whose result goes back to the waiting event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
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

    def settle(self) -> None:
        """Set the result of the future, unless the waiting task gave up."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


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
    """Wake each waiting event loop once."""
    for loop in {job.loop for job in batch}:
        jobs = [job for job in batch if job.loop is loop]
        with suppress(RuntimeError):
            # In a closed loop no task waits.
            loop.call_soon_threadsafe(_settle_all, jobs)


def _settle_all(jobs: list[Job]) -> None:
    for job in jobs:
        job.settle()
