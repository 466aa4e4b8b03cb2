"""Statistics by agent, in the form of the other implementation of this API: times are seconds."""

import re
from math import exp
from typing import Literal

import msgspec

from awaken.contracts.plugins.statistics import (
    BIN,
    AgentFigures,
    CallFigures,
    StatisticsSummary,
)
from awaken.contracts.record import StrictRecord
from awaken.services.workers import list_workers, sum_statistics
from awaken.transport.asgi import Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall

from .context import OperatorContext

BOUNDARIES_MS = (10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)
BUCKET_S = 600
_WINDOW = re.compile(r"([0-9]{1,9})([smhd]?)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


class StatsQuery(StrictRecord, frozen=True, kw_only=True):
    """The window, such as `1h`, `24h`, `7d` or `90s`, and whose runs."""

    window: str | None = None
    """At most the last day is kept, in buckets of ten minutes."""
    scope: Literal["process", "all"] = "process"
    """`all` adds up the processes of the store, always over the last day."""


class HistogramBucket(msgspec.Struct, frozen=True, kw_only=True):
    """How many calls took longer than the bucket before and up to this bound; None: no bound."""

    upper_bound_ms: int | None
    count: int


class ToolRuntimeStats(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one tool by one agent."""

    tool: str
    call_count: int
    failure_count: int
    total_duration_ms: int
    avg_duration_ms: float
    min_duration_ms: int
    max_duration_ms: int
    p50_duration_ms: int
    p95_duration_ms: int
    p99_duration_ms: int
    duration_histogram: tuple[HistogramBucket, ...]


class AgentRuntimeStats(msgspec.Struct, frozen=True, kw_only=True):
    """The model and tool calls of one agent in a window."""

    agent_id: str
    window_seconds: int
    bucket_window_seconds: int
    bucket_count: int
    run_count: int
    run_error_count: int
    inference_count: int
    error_count: int
    input_tokens: int
    output_tokens: int
    cost_nanos: int
    avg_inference_duration_ms: float
    min_inference_duration_ms: int
    max_inference_duration_ms: int
    p50_inference_duration_ms: int
    p95_inference_duration_ms: int
    p99_inference_duration_ms: int
    inference_duration_histogram: tuple[HistogramBucket, ...]
    suspensions: int
    handoffs: int
    delegations: int
    tool_calls_by_tool: tuple[ToolRuntimeStats, ...]


class AllRuntimeStats(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of every agent that ran in the window, by id."""

    agents: tuple[AgentRuntimeStats, ...]


class StatsRoutes:
    """Shows how often and how long agents called models and tools."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    async def list_stats(self, call: RouteCall) -> Reply:
        """Show the statistics of every agent that ran."""
        summary = await self._summarize(call)
        agents = sorted(summary.agents.items())
        return as_json(AllRuntimeStats(agents=tuple(_stats(*it, summary) for it in agents)))

    async def get_stats(self, call: RouteCall) -> Reply:
        """Show the statistics of one agent."""
        agent_id = call.path["agent_id"]
        summary = await self._summarize(call)
        figures = summary.agents.get(agent_id)
        if figures is None:
            await call.view.agent(agent_id)
        return as_json(_stats(agent_id, figures or AgentFigures(), summary))

    async def _summarize(self, call: RouteCall) -> StatisticsSummary:
        asked: StatsQuery = call.query
        window_ms = None if asked.window is None else parse_window(asked.window)
        own = self._context.statistics.summarize(window_ms)
        if asked.scope == "process":
            return own
        if window_ms is not None:
            message = "window cannot be combined with scope=all, which is about the last day"
            raise HttpError(400, "invalid_query", message)
        services = self._context.services
        report = services.report
        workers = await list_workers(services.profile, await services.store.now_ms())
        known = {it.id: it.statistics for it in workers if it.statistics is not None}
        known["" if report is None else report.identity.id] = own
        return sum_statistics(known)


def parse_window(text: str) -> int:
    """Return a window such as `1h`, `24h`, `7d` or `90s` in milliseconds.

    Raises:
        HttpError: It is no window.
    """
    match = _WINDOW.fullmatch(text.strip())
    if match is None or not int(match[1]):
        message = "window must be a number above 0 and one of s, m, h, d, such as 24h"
        raise HttpError(400, "invalid_query", message)
    return int(match[1]) * _SECONDS[match[2]] * 1000


def _stats(agent_id: str, figures: AgentFigures, summary: StatisticsSummary) -> AgentRuntimeStats:
    calls = figures.inferences
    window_s = summary.window_ms // 1000
    return AgentRuntimeStats(
        agent_id=agent_id,
        window_seconds=window_s,
        bucket_window_seconds=BUCKET_S,
        bucket_count=-(-window_s // BUCKET_S),
        run_count=figures.runs.count,
        run_error_count=figures.runs.errors,
        inference_count=calls.count,
        error_count=calls.errors,
        input_tokens=calls.input_tokens,
        output_tokens=calls.output_tokens,
        cost_nanos=calls.cost_nanos,
        avg_inference_duration_ms=calls.mean_ms,
        min_inference_duration_ms=round(calls.min_ms),
        max_inference_duration_ms=round(calls.max_ms),
        p50_inference_duration_ms=round(calls.percentile_ms(0.5)),
        p95_inference_duration_ms=round(calls.percentile_ms(0.95)),
        p99_inference_duration_ms=round(calls.percentile_ms(0.99)),
        inference_duration_histogram=build_histogram(calls),
        suspensions=figures.suspensions,
        handoffs=figures.handoffs,
        delegations=figures.delegations,
        tool_calls_by_tool=tuple(_tool(*it) for it in sorted(figures.tools.items())),
    )


def _tool(name: str, calls: CallFigures) -> ToolRuntimeStats:
    return ToolRuntimeStats(
        tool=name,
        call_count=calls.count,
        failure_count=calls.errors,
        total_duration_ms=round(calls.total_ms),
        avg_duration_ms=calls.mean_ms,
        min_duration_ms=round(calls.min_ms),
        max_duration_ms=round(calls.max_ms),
        p50_duration_ms=round(calls.percentile_ms(0.5)),
        p95_duration_ms=round(calls.percentile_ms(0.95)),
        p99_duration_ms=round(calls.percentile_ms(0.99)),
        duration_histogram=build_histogram(calls),
    )


def build_histogram(calls: CallFigures) -> tuple[HistogramBucket, ...]:
    """Return the calls by fixed bounds; empty without calls."""
    if not calls.count:
        return ()
    counts = [0] * (len(BOUNDARIES_MS) + 1)
    for place, count in calls.bins:
        ms = exp((place + 0.5) * BIN)
        counts[sum(ms > bound for bound in BOUNDARIES_MS)] += count
    bounds: tuple[int | None, ...] = (*BOUNDARIES_MS, None)
    return tuple(
        HistogramBucket(upper_bound_ms=bound, count=count)
        for bound, count in zip(bounds, counts, strict=True)
    )
