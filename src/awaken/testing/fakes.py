"""Time, ids and a place for events that a test owns. Nothing here waits or looks outside."""

from typing import TypeVar

from awaken.contracts.deltas import Event
from awaken.contracts.events import AgentEvent

E = TypeVar("E", bound=Event)


class FakeClock:
    """A clock that moves only when it is told to; wall and monotonic time move together."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
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
    """Keeps every event in order and is never full."""

    is_full = False

    def __init__(self) -> None:
        self._events: list[AgentEvent] = []

    def emit(self, event: AgentEvent) -> None:
        """Keep one event."""
        self._events.append(event)

    async def drain(self) -> None:
        """Return at once: there is always room."""

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
