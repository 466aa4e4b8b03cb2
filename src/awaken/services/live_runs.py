"""The runs whose events can be read while they happen, in this process or in another one."""

from typing import Protocol

from awaken.contracts.events import AgentEvent
from awaken.contracts.storage.bus import Unsubscribe
from awaken.runtime.engine import RunEngine
from awaken.runtime.journal.streams import EventFeed


class LiveRun(Protocol):
    """A run that executes somewhere. What it has at one moment fits together without a gap."""

    @property
    def run_id(self) -> str:
        """The id of the run."""
        ...

    @property
    def feed(self) -> EventFeed:
        """The events from now on."""
        ...

    @property
    def event_seq(self) -> int:
        """The place in the log up to which its events are durable."""
        ...

    def list_unfinished_events(self) -> list[AgentEvent]:
        """Return what was shown after that place, with streamed pieces joined."""
        ...


class RemoteThreads(Protocol):
    """The threads that are followed here and may have a run elsewhere."""

    def follow(self, thread_id: str) -> Unsubscribe:
        """Ask for the events of a thread's runs, until the returned function is called."""
        ...

    def find_run(self, thread_id: str) -> LiveRun | None:
        """Return the run of a followed thread, if another process sends its events."""
        ...

    def look_again(self, thread_id: str) -> None:
        """Find out soon which process executes a thread's run: something happened there."""
        ...


class LiveRuns:
    """Finds the run of a thread: one of this process first, then one that another shows."""

    __slots__ = ("_engine", "_remote")

    def __init__(self, engine: RunEngine, remote: RemoteThreads | None = None) -> None:
        self._engine = engine
        self._remote = remote
        """None if no other process can be asked."""

    def of_thread(self, thread_id: str) -> LiveRun | None:
        """Return the run of a thread whose events can be read now."""
        active = self._engine.active.of_thread(thread_id)
        if active is not None:
            return active.run
        return None if self._remote is None else self._remote.find_run(thread_id)

    def follow(self, thread_id: str) -> Unsubscribe:
        """Ask for what other processes execute, until the returned function is called."""
        return _do_nothing if self._remote is None else self._remote.follow(thread_id)

    def look_again(self, thread_id: str) -> None:
        """Find out soon which process executes a thread's run: something happened there."""
        if self._remote is not None:
            self._remote.look_again(thread_id)


def _do_nothing() -> None:
    pass
