"""The instrument with which a server measures how long models, tools and runs take."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from awaken.contracts.errors import AwakenError
from awaken.contracts.lifecycle import Termination
from awaken.contracts.messages.message import TokenUsage, ToolCall
from awaken.contracts.models.inference import StreamResult
from awaken.contracts.plugins.instruments import ModelCall, ModelWatch, RunWatch, ToolWatch
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tool_results import ToolResult
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

    def failed(self, code: str) -> None:
        """Count an error by its code."""
        ...


class RunMeter:
    """Measures one run."""

    __slots__ = ("_counts",)

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    @contextmanager
    def run(self, *, is_continued: bool) -> Iterator[RunWatch]:
        """Measure how long the run executes in this process."""
        started = time.perf_counter()
        try:
            yield _UsageWatch()
        finally:
            self._counts.sessions.observe(_since(started))

    def model_call(self, call: ModelCall) -> AbstractContextManager[ModelWatch]:
        """Measure a call of a model."""
        return self._model_call(call)

    def tool_call(
        self, call: ToolCall, tool: ToolDescriptor, attempt: int
    ) -> AbstractContextManager[ToolWatch]:
        """Measure a call of a tool."""
        return self._tool_call(tool)

    def handed_over(self, agent: AgentSpec) -> None:
        """Count a change of agent."""
        self._counts.handoffs.add(1)

    @contextmanager
    def _model_call(self, call: ModelCall) -> Iterator[ModelWatch]:
        names, status, started = (call.model_id, call.provider), "error", time.perf_counter()
        counts, watch = self._counts, _UsageWatch()
        try:
            yield watch
            status = "ok"
        except BaseException as error:
            code = error.code if isinstance(error, AwakenError) else type(error).__name__
            counts.turn_errors.add(1, *names, code)
            counts.failed(code)
            raise
        finally:
            counts.turns.add(1, *names, status)
            counts.turn_durations.observe(_since(started), *names, status)
            for kind, tokens in _tokens(watch.usage):
                counts.tokens.add(tokens, *names, kind)

    @contextmanager
    def _tool_call(self, tool: ToolDescriptor) -> Iterator[ToolWatch]:
        started, watch = time.perf_counter(), _StatusWatch()
        try:
            yield watch
        finally:
            self._counts.tool_durations.observe(_since(started), tool.id, watch.status)


class _UsageWatch:
    """Keeps the usage that a run or a model call reports."""

    __slots__ = ("usage",)

    def __init__(self) -> None:
        self.usage: TokenUsage | None = None

    def begun(self) -> None:
        """Do nothing: whole calls are measured."""

    def ended(self, _end: Termination | StreamResult, usage: TokenUsage | None) -> None:
        """Keep the usage."""
        self.usage = usage


class _StatusWatch:
    __slots__ = ("status",)

    def __init__(self) -> None:
        self.status = "error"

    def ended(self, result: ToolResult) -> None:
        """Keep the status of the result."""
        self.status = result.status.value


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def _tokens(usage: TokenUsage | None) -> Iterator[tuple[str, int]]:
    if usage is None:
        return
    counts = {
        "prompt": usage.prompt_tokens,
        "completion": usage.completion_tokens,
        "cache_read": usage.cache_read_tokens,
        "cache_creation": usage.cache_creation_tokens,
        "thinking": usage.thinking_tokens,
    }
    yield from ((kind, count) for kind, count in counts.items() if count is not None)
