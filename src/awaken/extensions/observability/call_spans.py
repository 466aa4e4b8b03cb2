"""The common part of the spans of model calls and tool calls."""

from abc import ABC, abstractmethod
from types import TracebackType

from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from . import names
from .run_telemetry import Attributes, RunTelemetry
from .scopes import Scope, error_type


class CallSpan(ABC):
    """A span with its scope, entered before the call and left after it in the same task."""

    __slots__ = ("_failure", "_run", "_scope", "_span", "_started")

    def __init__(self, run: RunTelemetry) -> None:
        self._run = run
        self._span: trace.Span = trace.INVALID_SPAN
        self._scope: Scope | None = None
        self._started = 0.0
        self._failure: str | None = None

    def _begin(self, name: str, kind: SpanKind, attributes: Attributes) -> None:
        telemetry, above = self._run.telemetry, self._run.context()
        self._started = telemetry.seconds()
        self._span = telemetry.tracer.start_span(name, above, kind, attributes)
        self._scope = Scope(self._span, above)

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._failure = error_type(error)
        if self._failure is not None:
            self._span.set_attribute(names.ERROR_TYPE, self._failure)
            self._span.set_status(StatusCode.ERROR)
        try:
            self._finish(self._run.telemetry.seconds() - self._started, error)
        finally:
            if self._scope is not None:
                self._scope.leave()
            self._span.end()

    def _error(self) -> Attributes:
        return {} if self._failure is None else {names.ERROR_TYPE: self._failure}

    @abstractmethod
    def _finish(self, took: float, error: BaseException | None) -> None:
        """Record the metrics of the call."""
