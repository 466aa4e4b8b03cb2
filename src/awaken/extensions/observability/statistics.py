"""How long agents, models and tools take in this process, over the last day.

Time is divided into buckets; each keeps exact counts, and durations in bins that are 4 % wide.
Memory is bounded by the number of distinct names; all further names are counted as `other`.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from math import exp, log
from types import TracebackType

from awaken.contracts.clock import Clock
from awaken.contracts.identity import RunIdentity
from awaken.contracts.lifecycle import Failed, Termination
from awaken.contracts.messages.message import TokenUsage, ToolCall
from awaken.contracts.models.inference import StreamResult
from awaken.contracts.plugins.instruments import Instrument, ModelCall
from awaken.contracts.plugins.statistics import Kind, Statistics, Timing
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.tool import ToolDescriptor

BUCKET_MS = 600_000
BUCKETS = 144
NAMES_MAX = 200
OTHER = "other"
_BIN = log(1.04)
_LEAST_MS, _MOST_MS = 0.001, BUCKETS * BUCKET_MS
"""Shorter and longer durations share a bin, so that there are few bins."""


class _Bucket:
    __slots__ = ("bins", "count", "errors", "index", "total")

    def __init__(self, index: int) -> None:
        self.index = index
        self.count = 0
        self.errors = 0
        self.total = 0.0
        self.bins: dict[int, int] = {}


class Series:
    """The durations of one agent, model or tool."""

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        self._buckets: deque[_Bucket] = deque(maxlen=BUCKETS)

    def add(self, index: int, ms: float, *, is_error: bool) -> None:
        """Add one duration."""
        if not self._buckets or self._buckets[-1].index < index:
            self._buckets.append(_Bucket(index))
        bucket = self._buckets[-1]
        bucket.count += 1
        bucket.errors += is_error
        bucket.total += ms
        if ms < _LEAST_MS:
            ms = _LEAST_MS
        elif ms > _MOST_MS:
            ms = _MOST_MS
        place, bins = int(log(ms) // _BIN), bucket.bins
        bins[place] = bins[place] + 1 if place in bins else 1

    def summarize(self, first: int) -> Timing | None:
        """The timing since a bucket began; None without durations."""
        recent = [it for it in self._buckets if it.index >= first]
        count = sum(it.count for it in recent)
        if not count:
            return None
        p50, p95, p99 = _percentiles(recent, count)
        return Timing(
            count=count,
            errors=sum(it.errors for it in recent),
            mean_ms=round(sum(it.total for it in recent) / count, 3),
            p50_ms=p50,
            p95_ms=p95,
            p99_ms=p99,
        )


class RuntimeStatistics:
    """Measures the runs of one process."""

    def __init__(self, clock: Clock, seconds: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.seconds = seconds
        self._series: dict[Kind, dict[str, Series]] = {"agents": {}, "models": {}, "tools": {}}

    def instrument(self, run: RunIdentity, agent: AgentSpec) -> Instrument:
        """Make the instrument of one run."""
        return RunCounter(self, agent)

    def record(self, kind: Kind, name: str, ms: float, *, is_error: bool) -> None:
        """Count something that is over."""
        known = self._series[kind]
        if name not in known:
            name = name if len(known) < NAMES_MAX else OTHER
            known.setdefault(name, Series())
        known[name].add(self._clock.now_ms() // BUCKET_MS, ms, is_error=is_error)

    def snapshot(self) -> Statistics:
        """The statistics of the last day."""
        first = self._clock.now_ms() // BUCKET_MS - BUCKETS + 1
        return Statistics(
            window_ms=BUCKETS * BUCKET_MS,
            agents=_timings(self._series["agents"], first),
            models=_timings(self._series["models"], first),
            tools=_timings(self._series["tools"], first),
        )


class RunCounter:
    """Measures one run and its calls."""

    __slots__ = ("_agent_id", "_statistics")

    def __init__(self, statistics: RuntimeStatistics, agent: AgentSpec) -> None:
        self._statistics = statistics
        self._agent_id = agent.id

    def watch_run(self, *, is_continued: bool) -> "CountedRun":
        """Measure the run until it ends or waits."""
        statistics = self._statistics
        return CountedRun(statistics, "agents", self._agent_id)

    def watch_model_call(self, call: ModelCall) -> "CountedModelCall":
        """Measure a model call."""
        return CountedModelCall(self._statistics, "models", call.model_id)

    def watch_tool_call(
        self, call: ToolCall, tool: ToolDescriptor, attempt: int
    ) -> "CountedToolCall":
        """Measure a tool call."""
        return CountedToolCall(self._statistics, "tools", tool.id)

    def on_handoff(self, agent: AgentSpec) -> None:
        """Do nothing: the run counts for the agent that it began with."""


class Counted:
    """Measures something while it runs."""

    __slots__ = ("_is_error", "_kind", "_name", "_started", "_statistics")

    def __init__(self, statistics: RuntimeStatistics, kind: Kind, name: str) -> None:
        self._statistics = statistics
        self._kind = kind
        self._name = name
        self._is_error = False
        self._started = statistics.seconds()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        is_error = self._is_error or kind is not None
        ms = (self._statistics.seconds() - self._started) * 1000
        self._statistics.record(self._kind, self._name, ms, is_error=is_error)


class CountedRun(Counted):
    """A run."""

    __slots__ = ()

    def __enter__(self) -> "CountedRun":
        return self

    def on_end(self, termination: Termination, usage: TokenUsage) -> None:
        """Note whether it failed."""
        self._is_error = isinstance(termination, Failed)


class CountedModelCall(Counted):
    """A call of a model."""

    __slots__ = ()

    def __enter__(self) -> "CountedModelCall":
        return self

    def on_first_piece(self) -> None:
        """Do nothing: the whole answer is measured."""

    def on_end(self, answer: StreamResult, usage: TokenUsage | None) -> None:
        """Do nothing: a failed call exits with its error."""


class CountedToolCall(Counted):
    """A call of a tool."""

    __slots__ = ()

    def __enter__(self) -> "CountedToolCall":
        return self

    def on_end(self, result: ToolResult) -> None:
        """Note whether it failed."""
        self._is_error = result.status is ToolStatus.ERROR


def _timings(kind: dict[str, Series], first: int) -> dict[str, Timing]:
    found = ((name, series.summarize(first)) for name, series in sorted(kind.items()))
    return {name: timing for name, timing in found if timing is not None}


def _percentiles(buckets: Iterable[_Bucket], count: int) -> tuple[float, float, float]:
    """The percentiles over the buckets; each is at most 2 % off."""
    bins = Counter[int]()
    for bucket in buckets:
        for place, times in bucket.bins.items():
            bins[place] += times
    found, passed = list[float](), 0
    wanted = [count * share for share in (0.5, 0.95, 0.99)]
    for place in sorted(bins):
        passed += bins[place]
        while len(found) < len(wanted) and passed >= wanted[len(found)]:
            found.append(round(exp((place + 0.5) * _BIN), 3))
    return found[0], found[1], found[2]
