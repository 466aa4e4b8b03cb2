"""The signals of one process: it tells what its runs write, and hears what is asked of them."""

from collections.abc import Callable

from awaken.contracts.lifecycle import RunStatus, TicketStatus
from awaken.contracts.storage.bus import Bus, Signal, SignalKind, Unsubscribe
from awaken.contracts.storage.store import Commit
from awaken.contracts.suspension.tickets import Ticket
from awaken.runtime.engine import RunEngine

from .heartbeat import Heartbeat

_RESTING = (RunStatus.WAITING, RunStatus.DONE)


class RunSignals:
    """Connects the runs of a process with the bus, whether or not it has a worker.

    It hears until it is closed, also while a worker drains: a cancel then reaches the runs that
    are still executing. Every commit of a run with events is told, so that readers in other
    processes need not wait until they look by themselves.
    """

    def __init__(  # noqa: PLR0913 - each end of what it connects
        self,
        engine: RunEngine,
        bus: Bus,
        heartbeat: Heartbeat,
        *,
        tells: bool,
        address: str = "",
        told_rests: dict[str, bool] | None = None,
        on_rest: Callable[[str], None] | None = None,
    ) -> None:
        self._engine = engine
        self._bus = bus
        self._heartbeat = heartbeat
        self._tells = tells
        """Whether the bus reaches other processes."""
        self._address = address
        """Where this process can be asked for the live events of its runs."""
        self._told_rests = {} if told_rests is None else told_rests
        """Threads of which it is noted whether their rest was told."""
        self._on_rest = on_rest
        """Told of each thread whose run rests, and that no dispatch of this process executes."""
        self._stops: list[Unsubscribe | Callable[[], None]] = []

    def open(self) -> None:
        """Begin to hear and to tell; calling it twice is harmless."""
        if self._stops:
            return
        self._stops.append(self._bus.subscribe(self._hear))
        if self._tells or self._on_rest is not None:
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
        if self._tells and commit.tickets and any(map(_has_deadline, commit.tickets)):
            # Whichever process lives then meets the deadline.
            self._bus.tell(Signal(kind=SignalKind.DEADLINE_SET, node=self._address))
        if not commit.events:
            return
        run = commit.run
        is_resting = run is not None and run.status in _RESTING
        if is_resting and commit.thread_id in self._told_rests:
            self._told_rests[commit.thread_id] = True
        elif is_resting and self._on_rest is not None:
            self._on_rest(commit.thread_id)
        if not self._tells:
            return
        self._bus.tell(
            Signal(
                kind=SignalKind.RUN_CHANGED,
                thread_id=commit.thread_id,
                run_id=None if run is None else run.run_id,
                is_resting=is_resting,
                node=self._address,
            )
        )


def _has_deadline(ticket: Ticket) -> bool:
    return ticket.status is TicketStatus.OPEN and ticket.expires_at is not None
