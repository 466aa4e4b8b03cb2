"""Timing statistics: the figures, and the port of the component that collects them."""

from typing import Literal, Protocol

from awaken.contracts.record import Record

Kind = Literal["agents", "models", "tools"]


class Timing(Record, frozen=True, kw_only=True, omit_defaults=False):
    """How often something happened, how often it failed, and how long it took."""

    count: int
    errors: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float


class Statistics(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Timings by name."""

    window_ms: int
    agents: dict[str, Timing]
    models: dict[str, Timing]
    tools: dict[str, Timing]


class StatisticsKeeper(Protocol):
    """Collects statistics over the runs of one process, in bounded memory."""

    def record(self, kind: Kind, name: str, ms: float, *, is_error: bool) -> None:
        """Count something that is over."""
        ...

    def snapshot(self) -> Statistics:
        """The statistics of the current window."""
        ...
