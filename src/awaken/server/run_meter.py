"""The instrument with which a server measures how long models, tools and runs take."""

import time
from typing import Protocol, Self

from awaken.contracts.errors import AwakenError
from awaken.contracts.lifecycle import Failed, Termination
from awaken.contracts.messages.message import TokenUsage, ToolCall
from awaken.contracts.models.inference import StreamResult
from awaken.contracts.plugins.instruments import ModelCall
from awaken.contracts.plugins.statistics import StatisticsKeeper
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.tool import ToolDescriptor

from .metrics import Counter, Histogram


class Counts(Protocol):
    """The metrics that a `RunMeter` updates."""

    turns: Counter
    turn_durations: Histogram
    turn_errors: Counter
    tokens: Counter
    tool_durations: Histogram
    handoffs: Counter
    sessions: Histogram

    def count_error(self, code: str) -> None:
        """Count an error by its code."""
        ...


class RunMeter:
    """Measures one run, for the metrics and for the statistics of the server."""

    __slots__ = ("_agent_id", "_counts", "_statistics")

    def __init__(self, counts: Counts, statistics: StatisticsKeeper, agent: AgentSpec) -> None:
        self._counts = counts
        self._statistics = statistics
        self._agent_id = agent.id

    def watch_run(self, *, is_continued: bool) -> "MeasuredRun":
        """Measure how long the run executes here."""
        return MeasuredRun(self._counts, self._statistics, (self._agent_id,))

    def watch_model_call(self, call: ModelCall) -> "MeasuredModelCall":
        """Measure a model call."""
        names = (call.model_id, call.provider)
        return MeasuredModelCall(self._counts, self._statistics, names, self._agent_id)

    def watch_tool_call(
        self, call: ToolCall, tool: ToolDescriptor, attempt: int
    ) -> "MeasuredToolCall":
        """Measure a tool call."""
        return MeasuredToolCall(self._counts, self._statistics, (tool.id,), self._agent_id)

    def on_handoff(self, agent: AgentSpec) -> None:
        """Count a handoff."""
        self._counts.handoffs.add(1)
        self._statistics.count_event("handoffs", self._agent_id)


class Measured:
    """Something that takes time; a subclass says what it counts as."""

    __slots__ = (
        "_agent_id", "_counts", "_is_error", "_names", "_started", "_statistics", "_usage",
    )  # fmt: skip

    def __init__(
        self,
        counts: Counts,
        statistics: StatisticsKeeper,
        names: tuple[str, ...],
        agent_id: str = "",
    ) -> None:
        self._agent_id = agent_id
        self._counts = counts
        self._statistics = statistics
        self._names = names
        self._is_error = False
        self._usage: TokenUsage | None = None
        self._started = time.perf_counter()

    def __enter__(self) -> Self:
        return self


class MeasuredRun(Measured):
    """A run, up to its end or until it waits."""

    __slots__ = ()

    def on_end(self, termination: Termination, usage: TokenUsage) -> None:
        """Note whether it failed."""
        self._is_error = isinstance(termination, Failed)

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: object
    ) -> None:
        ms = (time.perf_counter() - self._started) * 1000
        self._counts.sessions.observe(ms)
        is_error = self._is_error or kind is not None
        self._statistics.record("agents", self._names[0], ms, is_error=is_error)


class MeasuredModelCall(Measured):
    """A model call, up to the end of its answer."""

    __slots__ = ()

    def on_first_piece(self) -> None:
        """Only whole calls are measured."""

    def on_end(self, answer: StreamResult, usage: TokenUsage | None) -> None:
        """Keep what was used."""
        self._usage = usage

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: object
    ) -> None:
        ms = (time.perf_counter() - self._started) * 1000
        counts, names, status = self._counts, self._names, "ok"
        if error is not None:
            status = "error"
            code = error.code if isinstance(error, AwakenError) else type(error).__name__
            counts.turn_errors.add(1, *names, code)
            counts.count_error(code)
        counts.turns.add(1, *names, status)
        counts.turn_durations.observe(ms, *names, status)
        if (usage := self._usage) is not None:
            for name, count in (
                ("prompt", usage.prompt_tokens),
                ("completion", usage.completion_tokens),
                ("cache_read", usage.cache_read_tokens),
                ("cache_creation", usage.cache_creation_tokens),
                ("thinking", usage.thinking_tokens),
            ):
                if count is not None:
                    counts.tokens.add(count, *names, name)
        self._statistics.record(
            "models",
            names[0],
            ms,
            is_error=kind is not None,
            agent_id=self._agent_id,
            usage=self._usage,
        )


class MeasuredToolCall(Measured):
    """A tool call."""

    __slots__ = ("_status",)

    def on_end(self, result: ToolResult) -> None:
        """Note how it ended."""
        self._status = result.status.value
        self._is_error = result.status is ToolStatus.ERROR

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: object
    ) -> None:
        ms = (time.perf_counter() - self._started) * 1000
        status = getattr(self, "_status", "error")
        self._counts.tool_durations.observe(ms, self._names[0], status)
        is_error = self._is_error or kind is not None
        self._statistics.record(
            "tools", self._names[0], ms, is_error=is_error, agent_id=self._agent_id
        )
