"""The bus port: signals between the processes that share a store. Every signal may be lost.

A signal only says where to look; the store has the truth. Every listener must also poll the
store from time to time.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from awaken.contracts.record import Record


class SignalKind(StrEnum):
    """What a signal is about."""

    DISPATCH_QUEUED = "dispatch_queued"
    """A dispatch of the thread was queued."""
    CONTROL = "control"
    """The worker that executes a run of the thread should check for a cancellation or input."""
    RUN_CHANGED = "run_changed"
    """A run wrote events: it began, took a step, waits or ended."""
    CONFIG_CHANGED = "config_changed"
    """The head of the configuration moved, or a switch or a secret changed. It has no thread."""
    SCHEDULES_CHANGED = "schedules_changed"
    """A schedule is new, was changed or has to be looked at again. It has no thread."""


class Signal(Record, frozen=True, kw_only=True):
    """A hint where something has changed."""

    kind: SignalKind
    thread_id: str = ""
    """Blank if the signal is about no thread."""
    run_id: str | None = None
    is_resting: bool = False
    """Whether the run ended or began to wait with this; who waits for a run ignores the rest."""


Unsubscribe = Callable[[], None]


class Bus(Protocol):
    """Delivers signals to all listeners, at most once and in no guaranteed order."""

    async def open(self) -> None:
        """Start to deliver signals; calling it twice is harmless."""
        ...

    async def close(self) -> None:
        """Stop; no listener is called any more."""
        ...

    def tell(self, signal: Signal) -> None:
        """Send a signal soon: never waits and never raises; what cannot be sent is lost."""
        ...

    def subscribe(self, listener: Callable[[Signal], None]) -> Unsubscribe:
        """Call the listener with every signal, in the event loop; returns a function that stops it.

        A listener must be fast. If one raises, the others are called all the same.
        """
        ...
