"""Makes a span current: for spans below it, and for the headers of outgoing requests."""

from contextvars import Token

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from awaken.contracts.errors import AwakenError
from awaken.contracts.tracing import CURRENT_TRACE, TraceContext

_W3C = TraceContextTextMapPropagator()


class Scope:
    """The part of the call stack below one span."""

    __slots__ = ("_context", "_trace")

    def __init__(self, span: trace.Span, below: otel.Context) -> None:
        self._context = otel.attach(trace.set_span_in_context(span, below))
        found = trace_context(span)
        self._trace: Token[TraceContext | None] | None = (
            None if found is None else CURRENT_TRACE.set(found)
        )

    def leave(self) -> None:
        """Restore the previous context, in the task that entered it."""
        if self._trace is not None:
            CURRENT_TRACE.reset(self._trace)
        otel.detach(self._context)


def trace_context(span: trace.Span) -> TraceContext | None:
    """The trace headers of a span; None for an invalid span."""
    found = span.get_span_context()
    if not found.is_valid:
        return None
    parent = f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"
    return TraceContext(traceparent=parent, tracestate=found.trace_state.to_header() or None)


def span_context(found: TraceContext) -> trace.SpanContext:
    """The span that trace headers name."""
    return trace.get_current_span(_W3C.extract(found.headers, otel.Context())).get_span_context()


def context_above() -> otel.Context:
    """The parent context of a run: the current span, or else the trace that the run was given.

    The current span counts only if it is part of the run's trace, so that a run that resumes in
    the call stack of another request stays in its own trace.
    """
    here = otel.get_current()
    given = CURRENT_TRACE.get()
    if given is None:
        return here
    above = span_context(given)
    if trace.get_current_span(here).get_span_context().trace_id == above.trace_id:
        return here
    return trace.set_span_in_context(trace.NonRecordingSpan(above), here)


def error_type(error: BaseException) -> str:
    """A short name of an error: its code, or the name of the exception."""
    return error.code if isinstance(error, AwakenError) else type(error).__qualname__
