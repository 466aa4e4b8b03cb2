"""Cooperative cancellation: a one-way flag that keeps its cause, and the task it cancels."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from .timers import Watchdog


class CancellationToken(msgspec.Struct, eq=False):
    """Set once, visible to all holders. Callbacks run in the order they were added."""

    cause: str | None = None
    is_sealed: bool = False
    callbacks: tuple[Callable[[], object], ...] = ()

    @property
    def is_cancelled(self) -> bool:
        """Whether the token was cancelled."""
        return self.cause is not None

    def cancel(self, cause: str = "user") -> bool:
        """Cancel; returns False if the token is sealed or cancelled already (its cause stays)."""
        if self.cause is not None or self.is_sealed:
            return False
        self.cause = cause
        callbacks, self.callbacks = self.callbacks, ()
        for callback in callbacks:
            callback()
        return True

    def seal(self) -> None:
        """Refuse cancellation from now on: the outcome is decided."""
        self.is_sealed = True
        self.callbacks = ()

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back on cancellation, at once if it has happened; returns the way to undo it."""
        if self.cause is not None:
            callback()
        else:
            self.callbacks += (callback,)
        return lambda: self._forget(callback)

    def child(self) -> "CancellationToken":
        """Return a token that is cancelled with this one, and can be cancelled alone."""
        token = CancellationToken()
        self.on_cancel(lambda: token.cancel(self.cause or "parent"))
        return token

    async def wait(self) -> None:
        """Return as soon as the token is cancelled."""
        event = asyncio.Event()
        forget = self.on_cancel(event.set)
        try:
            await event.wait()
        finally:
            forget()

    def _forget(self, callback: Callable[[], object]) -> None:
        self.callbacks = tuple(known for known in self.callbacks if known is not callback)


class TaskCancels(msgspec.Struct, eq=False):
    """The cancellations of the task in which a run executes, without those before the run.

    The task may be the caller's own. Cancelling the token cancels the task; `end` undoes that, so
    that the caller sees only the cancellations that came from elsewhere.
    """

    token: CancellationToken
    watchdog: Watchdog
    limit_ms: int
    """How long work that must finish may take, before and after a cancellation."""
    loop: asyncio.AbstractEventLoop
    _task: asyncio.Task[Any] = None  # type: ignore[assignment]  # `begin` sets it
    _before: int = 0
    _known: int = 0
    _sent: int = 0

    def begin(self) -> None:
        """Watch the current task, which executes the run from now on."""
        task = asyncio.current_task(self.loop)
        assert task is not None
        self._task = task
        self._before = self._known = task.cancelling()
        if self.token.cause is None:
            self.token.callbacks += (self.on_moment,)

    def absorb(self) -> bool:
        """Count a cancellation that was raised; False if the task was not cancelled since."""
        asked = self._task.cancelling()
        is_new = asked > self._known
        self._known = asked
        return is_new

    @property
    def has_pending(self) -> bool:
        """Whether the task was cancelled since the last cancellation that was counted."""
        return self._task.cancelling() > self._known

    async def absorb_pending(self) -> bool:
        """Count a cancellation that may not have been raised yet, so that it interrupts no exit."""
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        return self.absorb()

    async def carry_through(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do work that must finish, even if the task is cancelled meanwhile.

        Raises:
            TimeoutError: The work took longer than twice the limit.
        """
        moment = self.loop.time() + self.limit_ms / 1000
        self.watchdog.set(self, moment)
        try:
            return await work()
        except asyncio.CancelledError:
            if not self.absorb():
                raise
        finally:
            self.watchdog.clear(self)
        await self._carry_on(work)

    def end(self) -> bool:
        """Undo the run's own cancellations; returns whether the task was cancelled otherwise."""
        if not self.token.is_sealed:
            self.token.seal()
        for _ in range(self._sent):
            self._task.uncancel()
        return self._task.cancelling() > self._before

    async def _carry_on(self, work: Callable[[], Awaitable[None]]) -> None:
        # In a separate task, because some callers cancel in every turn of the loop.
        rest = self.loop.create_task(_await_work(work))
        deadline = self.loop.time() + self.limit_ms / 1000
        while not rest.done() and (left := deadline - self.loop.time()) > 0:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([rest], timeout=left)
            self.absorb()
        if not rest.done():
            rest.cancel()
            message = "the end of the run could not be written in time"
            raise TimeoutError(message)
        return rest.result()

    def on_moment(self) -> None:
        """Cancel the task: its token was cancelled, or its work takes too long."""
        self._sent += 1
        self._task.cancel()


async def _await_work(work: Callable[[], Awaitable[None]]) -> None:
    await work()


class CarriedWork:
    """The tasks of an engine that outlive their callers; closing cancels them and waits."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[bool]] = set()

    async def carry(self, work: Coroutine[Any, Any, bool], name: str) -> bool:
        """Await work in a task of its own, which goes on if the caller is cancelled meanwhile."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, task: "asyncio.Task[bool]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # The caller may be gone: mark the exception as retrieved, so that asyncio logs nothing.
            task.exception()

    async def close(self) -> None:
        """Cancel what is under way, and wait for it."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))
