"""The bus port: signals between the processes that share a store. Every signal may be lost.

A signal only says where to look; the store has the truth. Whoever listens must also look by
itself from time to time.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from awaken.contracts.record import Record


class SignalKind(StrEnum):
    """What a signal is about."""

    DISPATCH_QUEUED = "dispatch_queued"
    """A thread has something to do."""
    CONTROL = "control"
    """Whoever executes a run of the thread should look for a cancellation or input."""
    RUN_CHANGED = "run_changed"
    """A run began, went on, waits or ended."""


class Signal(Record, frozen=True, kw_only=True):
    """A hint where something has changed."""

    kind: SignalKind
    thread_id: str
    run_id: str | None = None


Unsubscribe = Callable[[], None]


class Bus(Protocol):
    """Carries signals to everybody who listens, at most once and in no promised order."""

    async def open(self) -> None:
        """Begin to carry signals; calling it twice is harmless."""
        ...

    async def close(self) -> None:
        """Stop; nobody hears anything any more."""
        ...

    async def publish(self, signal: Signal) -> None:
        """Send a signal.

        Raises:
            StorageError: It could not be sent. Nothing is lost but time.
        """
        ...

    def subscribe(self, listener: Callable[[Signal], None]) -> Unsubscribe:
        """Call back with every signal, in the event loop; returns the way to stop that.

        A listener must be quick, and one that fails does not keep others from hearing.
        """
        ...
