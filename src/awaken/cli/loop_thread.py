"""An event loop in a thread of its own: the main thread belongs to the terminal.

The terminal waits for a person, and the runtime goes on meanwhile: its background tasks, its
leases and its connections. A signal reaches the main thread even if a tool blocks the loop.
"""

import asyncio
import queue
import threading
from collections.abc import AsyncIterable, Callable, Coroutine
from types import TracebackType
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_POLL_S = 0.5
"""A wait is cut into pieces: on some systems a signal does not end it."""


class LoopThread:
    """Runs coroutines in an event loop in another thread; a context manager."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        # A daemon: a tool that hangs does not keep the process when its user wants to leave.
        self._thread = threading.Thread(target=self._run, name="awaken-loop", daemon=True)

    def __enter__(self) -> "LoopThread":
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop, and wait for its result."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        while True:
            try:
                return future.result(_POLL_S)
            except TimeoutError:
                if future.done():
                    return future.result()

    def spawn(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Start a coroutine in the loop, from any thread or signal handler; its result is lost."""
        self._loop.call_soon_threadsafe(self._keep, work)

    def read(self, items: AsyncIterable[list[T]]) -> "ItemQueue[T]":
        """Start to read batches of items in the loop."""
        found: ItemQueue[T] = ItemQueue()
        self.spawn(lambda: found.fill(items))
        return found

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            self._tasks: set[asyncio.Task[Any]] = set()
            self._ready.set()
            self._loop.run_forever()

    def _keep(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        task = self._loop.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class ItemQueue(Generic[T]):
    """Items that one thread puts and another takes, up to an end or an error."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[tuple[T, ...] | BaseException | None] = queue.SimpleQueue()
        self._batch: list[T] = []

    async def fill(self, items: AsyncIterable[list[T]]) -> None:
        """Put what an iterator yields, and then the end."""
        try:
            async for batch in items:
                self._items.put(tuple(batch))
        except Exception as error:  # noqa: BLE001 - raised again by `take`
            self._items.put(error)
        finally:
            self._items.put(None)

    def take(self) -> T | None:
        """Wait for the next item; None at the end.

        Raises:
            BaseException: The iterator raised it.
        """
        while not self._batch:
            try:
                found = self._items.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if found is None:
                return None
            if isinstance(found, BaseException):
                raise found
            self._batch = list(found)
        return self._batch.pop(0)
