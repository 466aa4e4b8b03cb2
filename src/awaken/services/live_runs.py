"""The ports between streams and the runs that they read while they happen."""

from typing import TYPE_CHECKING, Protocol

from awaken.contracts.events import AgentEvent
from awaken.contracts.storage.bus import Unsubscribe
from awaken.runtime.journal.streams import EventFeed

if TYPE_CHECKING:
    from .live_frames import FrameWatcher


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

    @property
    def watchers(self) -> "list[FrameWatcher]":
        """Whom it reports what becomes of frames; empty at first."""
        ...

    def follow(self, thread_id: str) -> Unsubscribe:
        """Ask for the events of a thread's runs, until the returned function is called."""
        ...

    def find_run(self, thread_id: str) -> LiveRun | None:
        """Return the run of a followed thread, if another process sends its events."""
        ...

    def look_again(self, thread_id: str) -> None:
        """Find out soon which process executes a thread's run: something happened there."""
        ...
