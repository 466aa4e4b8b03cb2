"""Where events go."""

from typing import Protocol

from .events import AgentEvent


class EventSink(Protocol):
    """Takes a run's events in order.

    `emit` never waits, like a stream writer's `write`; a sink that is behind says so with
    `is_full`, and the loop then awaits `drain` before it goes on.
    """

    is_full: bool

    def emit(self, event: AgentEvent) -> None:
        """Take one event."""
        ...

    async def drain(self) -> None:
        """Wait until there is room again."""
        ...
