"""Time and identity as ports, so that a run can be replayed and a test can own both."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall and monotonic time. All times are integer milliseconds."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back; only differences mean something."""
        ...


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back."""
        return time.monotonic_ns() // 1_000_000


class IdSource(Protocol):
    """Hands out ids that are unique and sort by the time they were made (UUIDv7)."""

    def new_id(self) -> str:
        """Return a fresh id."""
        ...
