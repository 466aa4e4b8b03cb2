"""Cooperative cancellation: a one-way flag that remembers who asked."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable


def absorb_cancellation() -> bool:
    """Forget that the current task was cancelled; False when it was not."""
    task = asyncio.current_task()
    if task is None or not task.cancelling():
        return False
    while task.uncancel():
        pass
    return True


async def was_cancelled_meanwhile() -> bool:
    """Take in a cancellation that may not have been raised yet, so that the way out is free."""
    task = asyncio.current_task()
    if task is None or not task.cancelling():
        return False
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    return absorb_cancellation()


async def carried_through(work: Callable[[], Awaitable[None]]) -> None:
    """Do work that must be finished: begin it again whenever the task is cancelled meanwhile."""
    while True:
        try:
            return await work()
        except asyncio.CancelledError:
            if not absorb_cancellation():
                raise


class CancellationToken:
    """Set once, seen by all holders. Callbacks run in the order they were added."""

    __slots__ = ("_callbacks", "cause", "is_sealed")

    def __init__(self) -> None:
        self.cause: str | None = None
        self.is_sealed = False
        self._callbacks: list[Callable[[], object]] = []

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody cancelled."""
        return self.cause is not None

    def cancel(self, cause: str = "user") -> bool:
        """Cancel; returns False when it is too late or happened before, whose cause then stays."""
        if self.cause is not None or self.is_sealed:
            return False
        self.cause = cause
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
        return True

    def seal(self) -> None:
        """Refuse cancellation from now on: the outcome is decided."""
        self.is_sealed = True
        self._callbacks.clear()

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back on cancellation, at once if it has happened; returns the way to undo this."""
        if self.cause is not None:
            callback()
        else:
            self._callbacks.append(callback)
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
        if callback in self._callbacks:
            self._callbacks.remove(callback)
