"""The bus port: signals and packets between the processes that share a store. All may be lost.

A signal only says where to look; the store has the truth. Every listener must also poll the
store from time to time. A packet has what nobody may depend on: the live events of a run.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from awaken.contracts.record import Record

PACKET_MAX = 1024 * 1024
"""The largest packet, and how many bytes may wait for one node, in bytes."""


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
    DEADLINE_SET = "deadline_set"
    """A run began to wait for a time. It has no thread."""


class Signal(Record, frozen=True, kw_only=True):
    """A hint where something has changed."""

    kind: SignalKind
    thread_id: str = ""
    """Blank if the signal is about no thread."""
    run_id: str | None = None
    is_resting: bool = False
    """Whether the run ended or began to wait with this; who waits for a run ignores the rest."""
    node: str = ""
    """The address of the process that executes the run; blank if that is not known."""


Unsubscribe = Callable[[], None]


class BusWatcher(Protocol):
    """Observes the signals of a process. It must not raise and must not wait."""

    def on_signals(self, kind: SignalKind, result: str, count: int) -> None:
        """Called when signals were `sent`, `dropped` or `heard`."""
        ...


class Bus(Protocol):
    """Delivers signals and packets, at most once; those of one sender stay in order.

    A node is a process, or one of several runtimes in a process, under an address that it chooses:
    lower-case letters and digits, new with every start. `RUN_CHANGED` is heard by the processes
    that follow its thread, every other signal by all, unless it is addressed.
    """

    @property
    def watchers(self) -> list[BusWatcher]:
        """Whom it reports what becomes of signals; empty at first."""
        ...

    @property
    def is_up(self) -> bool:
        """Whether the bus has a connection; without one everything is dropped."""
        ...

    @property
    def dropped(self) -> int:
        """How many signals and packets could not be sent."""
        ...

    async def open(self) -> None:
        """Start to deliver; calling it twice is harmless."""
        ...

    async def close(self) -> None:
        """Stop; nothing is called any more."""
        ...

    def tell(self, signal: Signal, to: str | None = None) -> None:
        """Send a signal soon: never waits and never raises; what cannot be sent is lost.

        With an address only the listeners of that node's process are called.
        """
        ...

    def send(self, to: str, payload: bytes) -> bool:
        """Send a packet to a node soon: never waits and never raises.

        Returns False, and drops the packet, if the bus is down, the packet is larger than
        `PACKET_MAX`, or too much waits for that node already.
        """
        ...

    def subscribe(self, listener: Callable[[Signal], None]) -> Unsubscribe:
        """Call the listener with every signal, in the event loop; returns a function that stops it.

        A listener must be fast. If one raises, the others are called all the same.
        """
        ...

    def receive(self, node: str, take: Callable[[bytes], None]) -> Unsubscribe:
        """Call back with every packet to a node, in the event loop; returns what stops it."""
        ...

    def follow(self, thread_id: str | None) -> Unsubscribe:
        """Let this process hear `RUN_CHANGED` of a thread, or of all; returns what stops it.

        Follows are counted: a thread is followed until each of them has been stopped. If a bus
        hears a thread only some time after this, or again after an outage, it calls the listeners
        then as if the thread had changed.
        """
        ...
