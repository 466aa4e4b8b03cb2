"""Tasks that run side by side: started together, owned by one parent, which outlives them."""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

from awaken.redaction import make_loggable

from .timers import Watchdog

logger = logging.getLogger(__name__)
T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]

# Tasks that ignored their cancellation. They are kept here so that they are not collected before
# they end, and so that their late exceptions are logged.
_abandoned: set[asyncio.Task[Any]] = set()


class Siblings(Generic[T]):
    """A group of tasks whose parent is woken whenever some of them finish.

    Tasks that finish in the same turn of the event loop are reported together.
    """

    __slots__ = ("_finished", "_is_new", "_loop", "_waiter", "deadline", "tasks")

    def __init__(self, works: Sequence[Work[T]], deadline: float = math.inf) -> None:
        self.deadline = deadline
        """When the parent is woken at the latest, in the loop's time, if it has a watchdog."""
        loop = self._loop = asyncio.get_running_loop()
        self._finished: list[int] = []
        self._is_new = True
        """Whether the tasks have not had their first turn yet."""
        self._waiter: asyncio.Future[None] | None = None
        """Present while the parent waits."""
        self.tasks: list[asyncio.Task[T]] = [
            loop.create_task(self._run_work(index, work)) for index, work in enumerate(works)
        ]

    async def next_finished(self, watchdog: Watchdog | None = None) -> list[int]:
        """Wait until at least one more task is over; returns the indexes of those that are.

        With a watchdog, the list is empty if the deadline comes first.
        """
        if self._is_new:
            # Tasks that wait for nothing are over after one turn, without a timer and a wake-up.
            self._is_new = False
            await asyncio.sleep(0)
        if not self._finished:
            waiter = self._waiter = self._loop.create_future()
            if watchdog is not None:
                watchdog.set(self, self.deadline)
            try:
                await waiter
            finally:
                self._waiter = None
                if watchdog is not None:
                    watchdog.clear(self)
        finished, self._finished = self._finished, []
        return finished

    def abandon(self, index: int) -> None:
        """Stop waiting for a task that ignored its cancellation."""
        _abandon(self.tasks[index])

    async def stop(self, grace_s: float) -> None:
        """Cancel the running tasks and wait for them, at most for the grace period.

        If the parent is cancelled meanwhile, that is raised at the end, not before.
        """
        running = {task for task in self.tasks if not task.done() and task not in _abandoned}
        for task in running:
            task.cancel()
        deadline = self._loop.time() + grace_s
        cancelled: asyncio.CancelledError | None = None
        while running and (left := deadline - self._loop.time()) > 0:
            try:
                _, running = await asyncio.wait(running, timeout=left)
            except asyncio.CancelledError as error:
                cancelled = error
        for task in running:
            _abandon(task)
        if cancelled is not None:
            raise cancelled

    def errors(self) -> list[BaseException]:
        """The errors of the tasks that are over, in the order of the tasks."""
        over = (task for task in self.tasks if task.done() and not task.cancelled())
        return [error for task in over if (error := task.exception()) is not None]

    def has_failed(self) -> bool:
        """Whether a task failed and all before it are over, so that its error comes first."""
        for task in self.tasks:
            if not task.done():
                return False
            if not task.cancelled() and task.exception() is not None:
                return True
        return False

    def forget(self) -> None:
        """Release the tasks: those that raised refer to the group through their tracebacks."""
        self.tasks.clear()

    async def _run_work(self, index: int, work: Work[T]) -> T:
        # Recorded inside the task, because a callback would run one turn of the loop later.
        try:
            return await work()
        finally:
            self._finished.append(index)
            if self._waiter is not None:
                self.on_moment()

    def on_moment(self) -> None:
        """Wake the parent: a task is over, or the deadline has come."""
        waiter, self._waiter = self._waiter, None
        # A waiter that is done belongs to a parent that was cancelled in this turn of the loop.
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


async def gather_all(works: Sequence[Work[T]]) -> list[T]:
    """Do works side by side; results in their order, else the first error in their order.

    No task outlives the call: on an error or a cancellation the others are cancelled and awaited.
    """
    if len(works) == 1:
        return [await works[0]()]
    siblings = Siblings(works)
    waiting = len(works)
    try:
        while waiting and not siblings.has_failed():
            waiting -= len(await siblings.next_finished())
    finally:
        await siblings.stop(grace_s=5.0)
        errors = siblings.errors()
    if errors:
        siblings.forget()
        try:
            raise errors[0]
        finally:
            # The traceback of the error refers to this frame.
            del errors
    return [task.result() for task in siblings.tasks]


def _abandon(task: asyncio.Task[Any]) -> None:
    logger.warning("Abandoned %s: it ignored its cancellation.", task.get_name())
    _abandoned.add(task)
    task.add_done_callback(_retire)


def _retire(task: asyncio.Task[Any]) -> None:
    _abandoned.discard(task)
    error = None if task.cancelled() else task.exception()
    if error is not None:
        shown = make_loggable(error)
        logger.warning("Abandoned %s ended with an error.", task.get_name(), exc_info=shown)
