"""The signals of one process: it tells what its runs write, and hears what is asked of them."""

from collections.abc import Callable

from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.storage.bus import Bus, Signal, SignalKind, Unsubscribe
from awaken.contracts.storage.store import Commit
from awaken.runtime.engine import RunEngine

from .heartbeat import Heartbeat

_RESTING = (RunStatus.WAITING, RunStatus.DONE)


class RunSignals:
    """Connects the runs of a process with the bus, whether or not it has a worker.

    It hears until it is closed, also while a worker drains: a cancel then reaches the runs that
    are still executing. Every commit of a run with events is told, so that readers in other
    processes need not wait until they look by themselves.
    """

    def __init__(
        self,
        engine: RunEngine,
        bus: Bus,
        heartbeat: Heartbeat,
        *,
        tells: bool,
        address: str = "",
    ) -> None:
        self._engine = engine
        self._bus = bus
        self._heartbeat = heartbeat
        self._tells = tells
        """Whether the bus reaches other processes."""
        self._address = address
        """Where this process can be asked for the live events of its runs."""
        self._stops: list[Unsubscribe | Callable[[], None]] = []

    def open(self) -> None:
        """Begin to hear and to tell; calling it twice is harmless."""
        if self._stops:
            return
        self._stops.append(self._bus.subscribe(self._hear))
        if self._tells:
            watchers = self._engine.services.watchers.commits
            watchers.append(self._tell_commit)
            self._stops.append(lambda: watchers.remove(self._tell_commit))

    def close(self) -> None:
        """Stop both."""
        stops, self._stops = self._stops, []
        for stop in stops:
            stop()

    def _hear(self, signal: Signal) -> None:
        if signal.kind is not SignalKind.CONTROL:
            return
        active = self._engine.active.of_thread(signal.thread_id)
        if active is None:
            return
        if active.lease is None:
            # In an unshared store no heartbeat looks for what was decided.
            active.notify_input()
        else:
            self._heartbeat.look_at(active.lease)

    def _tell_commit(self, commit: Commit) -> None:
        if not commit.events:
            return
        run = commit.run
        self._bus.tell(
            Signal(
                kind=SignalKind.RUN_CHANGED,
                thread_id=commit.thread_id,
                run_id=None if run is None else run.run_id,
                is_resting=run is not None and run.status in _RESTING,
                node=self._address,
            )
        )
