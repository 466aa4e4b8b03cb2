"""How long agents, models and tools take in this process, over the last day.

Time is divided into buckets; each keeps exact counts, and durations in bins that are 4 % wide.
Memory is bounded by the number of distinct names; all further names are counted as `other`.
Model and tool calls are kept by the agent that made them, so that they can be added up both ways.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from math import log
from types import TracebackType

from awaken.contracts.clock import Clock
from awaken.contracts.identity import RunIdentity
from awaken.contracts.lifecycle import Failed, Termination
from awaken.contracts.messages.message import TokenUsage, ToolCall
from awaken.contracts.models.inference import StreamResult
from awaken.contracts.plugins.instruments import Instrument, ModelCall
from awaken.contracts.plugins.statistics import (
    BIN,
    AgentFigures,
    CallFigures,
    Event,
    Kind,
    Statistics,
    StatisticsSummary,
    Timing,
    add_figures,
)
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.tool import ToolDescriptor

BUCKET_MS = 600_000
BUCKETS = 144
WINDOW_MS = BUCKETS * BUCKET_MS
NAMES_MAX = 200
OTHER = "other"
_LEAST_MS, _MOST_MS = 0.001, BUCKETS * BUCKET_MS
"""Shorter and longer durations share a bin, so that there are few bins."""

Name = tuple[str, str]
"""An agent, and its model or tool; without an agent the first is blank."""


class _Bucket:
    __slots__ = (
        "bins", "cost", "count", "errors", "index", "inputs", "least", "most", "outputs", "total",
    )  # fmt: skip

    def __init__(self, index: int) -> None:
        self.index = index
        self.count = self.errors = self.inputs = self.outputs = self.cost = 0
        self.total = self.most = 0.0
        self.least = float(_MOST_MS)
        self.bins: dict[int, int] = {}

    def figures(self) -> CallFigures:
        """The counts in the form that can be added up."""
        return CallFigures(
            count=self.count,
            errors=self.errors,
            total_ms=self.total,
            min_ms=self.least,
            max_ms=self.most,
            input_tokens=self.inputs,
            output_tokens=self.outputs,
            cost_nanos=self.cost,
            bins=tuple(sorted(self.bins.items())),
        )


class Series:
    """The durations of one agent, model or tool."""

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        self._buckets: deque[_Bucket] = deque(maxlen=BUCKETS)

    def add(self, index: int, ms: float, *, is_error: bool, usage: TokenUsage | None) -> None:
        """Add one duration."""
        if not self._buckets or self._buckets[-1].index < index:
            self._buckets.append(_Bucket(index))
        bucket = self._buckets[-1]
        bucket.count += 1
        bucket.errors += is_error
        bucket.total += ms
        if ms < bucket.least:
            bucket.least = ms
        if ms > bucket.most:
            bucket.most = ms
        if usage is not None:
            bucket.inputs += usage.prompt_tokens or 0
            bucket.outputs += usage.completion_tokens or 0
            bucket.cost += usage.cost_nanos or 0
        if ms < _LEAST_MS:
            ms = _LEAST_MS
        elif ms > _MOST_MS:
            ms = _MOST_MS
        place, bins = int(log(ms) // BIN), bucket.bins
        bins[place] = bins[place] + 1 if place in bins else 1

    def summarize(self, first: int) -> CallFigures:
        """The figures since a bucket began."""
        figures = CallFigures()
        for bucket in self._buckets:
            if bucket.index >= first:
                figures = figures.plus(bucket.figures())
        return figures


class RuntimeStatistics:
    """Measures the runs of one process."""

    def __init__(self, clock: Clock, seconds: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.seconds = seconds
        self._series: dict[Kind, dict[Name, Series]] = {"agents": {}, "models": {}, "tools": {}}
        self._events: dict[str, dict[Event, deque[list[int]]]] = {}
        """By agent and event: the counts of the buckets, as index and count."""

    def instrument(self, run: RunIdentity, agent: AgentSpec) -> Instrument:
        """Make the instrument of one run."""
        return RunCounter(self, agent)

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
        known = self._series[kind]
        place = (agent_id, name)
        if place not in known:
            place = _bounded(known, place)
            known.setdefault(place, Series())
        index = self._clock.now_ms() // BUCKET_MS
        known[place].add(index, ms, is_error=is_error, usage=usage)

    def count_event(self, event: Event, agent_id: str) -> None:
        """Count something that has no duration."""
        if agent_id not in self._events and len(self._events) >= NAMES_MAX:
            agent_id = OTHER
        counts = self._events.setdefault(agent_id, {}).setdefault(event, deque(maxlen=BUCKETS))
        index = self._clock.now_ms() // BUCKET_MS
        if not counts or counts[-1][0] < index:
            counts.append([index, 0])
        counts[-1][1] += 1

    def snapshot(self) -> Statistics:
        """The statistics of the last day."""
        first = self._first_bucket(None)
        return Statistics(
            window_ms=WINDOW_MS,
            agents=_timings(self._by_name("agents", first)),
            models=_timings(self._by_name("models", first)),
            tools=_timings(self._by_name("tools", first)),
        )

    def summarize(self, window_ms: int | None = None) -> StatisticsSummary:
        """The figures of the last `window_ms`, at most of the last day, by agent and by model."""
        first = self._first_bucket(window_ms)
        agents: dict[str, AgentFigures] = {}

        def add(agent_id: str, figures: AgentFigures) -> None:
            agents[agent_id] = agents.get(agent_id, AgentFigures()).plus(figures)

        for (_, name), calls in self._figures("agents", first):
            add(name, AgentFigures(runs=calls))
        for (agent_id, _), calls in self._figures("models", first):
            add(agent_id, AgentFigures(inferences=calls))
        for (agent_id, name), calls in self._figures("tools", first):
            add(agent_id, AgentFigures(tools={name: calls}))
        for agent_id, events in self._events.items():
            counts = {
                name: sum(count for index, count in counted if index >= first)
                for name, counted in events.items()
            }
            if any(counts.values()):
                figures = AgentFigures(
                    suspensions=counts.get("suspensions", 0),
                    handoffs=counts.get("handoffs", 0),
                    delegations=counts.get("delegations", 0),
                )
                add(agent_id, figures)
        agents.pop("", None)
        return StatisticsSummary(
            window_ms=min(window_ms or WINDOW_MS, WINDOW_MS),
            agents=agents,
            models=self._by_name("models", first),
        )

    def _first_bucket(self, window_ms: int | None) -> int:
        """The first bucket of a window; a bucket that began before it is included."""
        now = self._clock.now_ms()
        oldest = now // BUCKET_MS - BUCKETS + 1
        return oldest if window_ms is None else max(oldest, (now - window_ms) // BUCKET_MS)

    def _figures(self, kind: Kind, first: int) -> Iterable[tuple[Name, CallFigures]]:
        for place, series in self._series[kind].items():
            figures = series.summarize(first)
            if figures.count:
                yield place, figures

    def _by_name(self, kind: Kind, first: int) -> dict[str, CallFigures]:
        """The figures by model or tool, of all agents together."""
        found: dict[str, CallFigures] = {}
        for (_, name), figures in self._figures(kind, first):
            found = add_figures(found, {name: figures})
        return found


def _bounded(known: dict[Name, Series], place: Name) -> Name:
    """The name under which something is counted: itself, or `other` if there are too many.

    Too many agents leave the name of the model or tool, until there are too many of these as well.
    """
    if len(known) < NAMES_MAX:
        return place
    shared = (OTHER, place[1]) if place[0] else (OTHER, OTHER)
    return shared if shared in known or len(known) < 2 * NAMES_MAX else (OTHER, OTHER)


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
        return CountedModelCall(self._statistics, "models", call.model_id, self._agent_id)

    def watch_tool_call(
        self, call: ToolCall, tool: ToolDescriptor, attempt: int
    ) -> "CountedToolCall":
        """Measure a tool call."""
        return CountedToolCall(self._statistics, "tools", tool.id, self._agent_id)

    def on_handoff(self, agent: AgentSpec) -> None:
        """Count it; the run counts for the agent that it began with."""
        self._statistics.count_event("handoffs", self._agent_id)


class Counted:
    """Measures something while it runs."""

    __slots__ = (
        "_agent_id", "_is_error", "_kind", "_name", "_started", "_statistics", "_usage",
    )  # fmt: skip

    def __init__(
        self, statistics: RuntimeStatistics, kind: Kind, name: str, agent_id: str = ""
    ) -> None:
        self._statistics = statistics
        self._agent_id = agent_id
        self._usage: TokenUsage | None = None
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
        self._statistics.record(
            self._kind,
            self._name,
            ms,
            is_error=is_error,
            agent_id=self._agent_id,
            usage=self._usage,
        )


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
        """Keep what was used; a failed call exits with its error."""
        self._usage = usage


class CountedToolCall(Counted):
    """A call of a tool."""

    __slots__ = ()

    def __enter__(self) -> "CountedToolCall":
        return self

    def on_end(self, result: ToolResult) -> None:
        """Note whether it failed."""
        self._is_error = result.status is ToolStatus.ERROR


def _timings(figures: dict[str, CallFigures]) -> dict[str, Timing]:
    return {name: figures[name].timing() for name in sorted(figures)}
