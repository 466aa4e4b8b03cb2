"""Time, ids and a place for events that a test owns. Nothing here looks outside."""

import asyncio
from collections.abc import AsyncIterable
from typing import TypeVar

from awaken.contracts.events import AgentEvent
from awaken.contracts.messages.deltas import Event

E = TypeVar("E", bound=Event)

DEFAULT_START_MS = 1_700_000_000_000


class FakeClock:
    """A clock that moves only when the test moves it; wall and monotonic time move together."""

    def __init__(self, start_ms: int = DEFAULT_START_MS) -> None:
        self._start_ms = start_ms
        self._elapsed_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return self._start_ms + self._elapsed_ms

    def monotonic_ms(self) -> int:
        """Milliseconds since the clock was made."""
        return self._elapsed_ms

    def advance(self, ms: int) -> None:
        """Let time pass.

        Raises:
            ValueError: `ms` is negative.
        """
        if ms < 0:
            raise ValueError("Time does not go back; advance by zero or more.")
        self._elapsed_ms += ms


class LoopClock:
    """A clock that follows the running loop, so that virtual sleep lets time pass for the runtime.

    Every simulated loop begins at `start_ms`. Other threads, such as those that extend leases, see
    the time of the loop that asked last, while it runs. Without a running loop there is no time to
    tell, and both methods raise `RuntimeError`.
    """

    def __init__(self, start_ms: int = DEFAULT_START_MS) -> None:
        self._start_ms = start_ms
        self._loop: asyncio.AbstractEventLoop | None = None

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, as if the loop's time had begun at `start_ms`."""
        return self._start_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        """The running loop's time in milliseconds."""
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            if self._loop is None or not self._loop.is_running():
                raise
        return round(self._loop.time() * 1000)


class SequentialIds:
    """Hands out "id-000001", "id-000002", …; the first million sort by the time they were made."""

    def __init__(self, prefix: str = "id") -> None:
        self._prefix = prefix
        self._count = 0

    def new_id(self) -> str:
        """Return a fresh id."""
        self._count += 1
        return f"{self._prefix}-{self._count:06d}"


class EventRecorder:
    """Keeps every event in order."""

    def __init__(self) -> None:
        self._events: list[AgentEvent] = []

    def emit(self, event: AgentEvent) -> None:
        """Keep one event."""
        self._events.append(event)

    async def record(self, events: AsyncIterable[AgentEvent]) -> list[AgentEvent]:
        """Keep each event of a stream as it comes, and return them when the stream ends.

        What was kept stays when the stream fails or the caller is cancelled.
        """
        recorded: list[AgentEvent] = []
        async for event in events:
            self.emit(event)
            recorded.append(event)
        return recorded

    @property
    def events(self) -> list[AgentEvent]:
        """A copy of what was kept; later events do not enter it."""
        return list(self._events)

    @property
    def types(self) -> list[str]:
        """The `event_type` of each event, in order."""
        return [str(event.__struct_config__.tag) for event in self._events]

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of one kind, in order."""
        return [event for event in self._events if isinstance(event, kind)]

    def take(self) -> list[AgentEvent]:
        """Return what was kept and forget it."""
        taken, self._events = self._events, []
        return taken
