"""Timing statistics: the figures, and the port of the component that collects them."""

from math import exp, log
from typing import Literal, Protocol

from awaken.contracts.messages.message import TokenUsage
from awaken.contracts.record import Record

Kind = Literal["agents", "models", "tools"]
Event = Literal["suspensions", "handoffs", "delegations"]
BIN = log(1.04)
"""The width of a bin of durations, as a logarithm: 4 %."""


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


class CallFigures(Record, frozen=True, kw_only=True):
    """Counts of calls in a form that can be added up: those of several processes, or names."""

    count: int = 0
    errors: int = 0
    total_ms: float = 0
    min_ms: float = 0
    max_ms: float = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nanos: int = 0
    bins: tuple[tuple[int, int], ...] = ()
    """How many calls took how long: the number of the bin, the count."""

    def plus(self, other: "CallFigures") -> "CallFigures":
        """Add the figures of other calls."""
        if not self.count or not other.count:
            return self if self.count else other
        bins = dict(self.bins)
        for place, count in other.bins:
            bins[place] = bins.get(place, 0) + count
        return CallFigures(
            count=self.count + other.count,
            errors=self.errors + other.errors,
            total_ms=self.total_ms + other.total_ms,
            min_ms=min(self.min_ms, other.min_ms),
            max_ms=max(self.max_ms, other.max_ms),
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_nanos=self.cost_nanos + other.cost_nanos,
            bins=tuple(sorted(bins.items())),
        )

    @property
    def mean_ms(self) -> float:
        """The mean duration; 0 without calls."""
        return round(self.total_ms / self.count, 3) if self.count else 0.0

    def percentile_ms(self, share: float) -> float:
        """The duration that this share of the calls did not exceed, at most 2 % off."""
        passed, wanted = 0, self.count * share
        for place, count in self.bins:
            passed += count
            if passed >= wanted:
                return round(exp((place + 0.5) * BIN), 3)
        return 0.0

    def timing(self) -> Timing:
        """The figures as they are shown."""
        return Timing(
            count=self.count,
            errors=self.errors,
            mean_ms=self.mean_ms,
            p50_ms=self.percentile_ms(0.5),
            p95_ms=self.percentile_ms(0.95),
            p99_ms=self.percentile_ms(0.99),
        )


class AgentFigures(Record, frozen=True, kw_only=True):
    """The figures of one agent; `delegations` are runs of it that another agent began."""

    runs: CallFigures = CallFigures()
    inferences: CallFigures = CallFigures()
    tools: dict[str, CallFigures] = {}
    suspensions: int = 0
    handoffs: int = 0
    delegations: int = 0

    def plus(self, other: "AgentFigures") -> "AgentFigures":
        """Add the figures of the same agent in another process."""
        return AgentFigures(
            runs=self.runs.plus(other.runs),
            inferences=self.inferences.plus(other.inferences),
            tools=add_figures(self.tools, other.tools),
            suspensions=self.suspensions + other.suspensions,
            handoffs=self.handoffs + other.handoffs,
            delegations=self.delegations + other.delegations,
        )


class StatisticsSummary(Record, frozen=True, kw_only=True):
    """The figures of one process, or of several, in a form that can be added up."""

    window_ms: int = 0
    agents: dict[str, AgentFigures] = {}
    models: dict[str, CallFigures] = {}

    def plus(self, other: "StatisticsSummary") -> "StatisticsSummary":
        """Add the figures of another process."""
        agents = dict(self.agents)
        for name, figures in other.agents.items():
            agents[name] = agents.get(name, AgentFigures()).plus(figures)
        return StatisticsSummary(
            window_ms=max(self.window_ms, other.window_ms),
            agents=agents,
            models=add_figures(self.models, other.models),
        )


def add_figures(
    one: dict[str, CallFigures], other: dict[str, CallFigures]
) -> dict[str, CallFigures]:
    """Add figures by name."""
    added = dict(one)
    for name, figures in other.items():
        added[name] = added[name].plus(figures) if name in added else figures
    return added


class StatisticsKeeper(Protocol):
    """Collects statistics over the runs of one process, in bounded memory."""

    def record(
        self,
        kind: Kind,
        name: str,
        ms: float,
        *,
        is_error: bool,
        agent_id: str = "",
        usage: TokenUsage | None = None,
    ) -> None:
        """Count something that is over, for the agent that did it."""
        ...

    def count_event(self, event: Event, agent_id: str) -> None:
        """Count something that has no duration."""
        ...

    def snapshot(self) -> Statistics:
        """The statistics of the current window."""
        ...

    def summarize(self, window_ms: int | None = None) -> StatisticsSummary:
        """The figures of the last `window_ms`; None, or more than is kept: all that is kept."""
        ...
