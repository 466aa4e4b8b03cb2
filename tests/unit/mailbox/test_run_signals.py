"""What a process hears from the bus reaches the runs that execute in it."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from awaken.contracts.storage.bus import Signal, SignalKind
from awaken.mailbox.run_signals import RunSignals


class Listener:
    """A run that executes, or the heartbeat of its lease: counts how often it is told."""

    def __init__(self, lease: Any = None) -> None:
        self.lease = lease
        self.told: list[Any] = []

    def notify_input(self) -> None:
        self.told.append("input")

    def look_at(self, lease: Any) -> None:
        self.told.append(lease)


def hear(active: Listener | None, heartbeat: Listener, kind: SignalKind, thread_id: str) -> None:
    """Let one process hear a signal while `active` executes on thread `t`."""
    runs = {} if active is None else {"t": active}
    engine: Any = SimpleNamespace(active=SimpleNamespace(of_thread=runs.get))
    listeners: list[Callable[[Signal], None]] = []

    def subscribe(listener: Callable[[Signal], None]) -> Callable[[], None]:
        listeners.append(listener)
        return listeners.clear

    bus: Any = SimpleNamespace(subscribe=subscribe)
    given: Any = heartbeat
    signals = RunSignals(engine, bus, given, tells=False)
    signals.open()
    for listener in tuple(listeners):
        listener(Signal(kind=kind, thread_id=thread_id))
    signals.close()
    assert listeners == []


def test_a_run_without_a_lease_is_told_itself_that_something_was_decided() -> None:
    active, heartbeat = Listener(), Listener()
    hear(active, heartbeat, SignalKind.CONTROL, "t")
    assert (active.told, heartbeat.told) == (["input"], [])


def test_of_a_run_with_a_lease_the_heartbeat_is_told() -> None:
    active, heartbeat = Listener(lease="lease"), Listener()
    hear(active, heartbeat, SignalKind.CONTROL, "t")
    assert (active.told, heartbeat.told) == ([], ["lease"])


@pytest.mark.parametrize(
    ("kind", "thread_id"),
    [(SignalKind.CONTROL, "other"), (SignalKind.RUN_CHANGED, "t"), (SignalKind.DEADLINE_SET, "")],
)
def test_what_concerns_no_run_here_is_told_to_none(kind: SignalKind, thread_id: str) -> None:
    active, heartbeat = Listener(), Listener()
    hear(active, heartbeat, kind, thread_id)
    assert (active.told, heartbeat.told) == ([], [])
