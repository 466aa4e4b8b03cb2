"""A real OpenTelemetry SDK that keeps everything in memory, and a plugin that tells it."""

import tomllib
from pathlib import Path
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Metric
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from awaken.extensions.observability import ObservabilityPlugin, Providers

REGISTRY: dict[str, Any] = tomllib.loads(
    (Path(__file__).parent / "genai_registry.toml").read_text(encoding="utf-8")
)


class Telemetry:
    """What was told."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._logs = InMemoryLogRecordExporter()
        self._metrics = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        loggers = LoggerProvider()
        loggers.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        meters = MeterProvider(metric_readers=[self._metrics])
        self.providers = Providers(tracers=self.tracers, meters=meters, loggers=loggers)

    def plugin(self, **options: Any) -> ObservabilityPlugin:
        """A plugin that tells it here."""
        return ObservabilityPlugin(providers=self.providers, **options)

    @property
    def spans(self) -> list[ReadableSpan]:
        """Every span that has ended, in the order in which they began."""
        return sorted(self._spans.get_finished_spans(), key=lambda it: it.start_time or 0)

    def named(self, start: str) -> list[ReadableSpan]:
        """Those whose names begin so."""
        return [span for span in self.spans if span.name.startswith(start)]

    def one(self, start: str) -> ReadableSpan:
        """The only one whose name begins so."""
        (span,) = self.named(start)
        return span

    @property
    def events(self) -> list[ReadableLogRecord]:
        """Every event."""
        return list(self._logs.get_finished_logs())

    @property
    def metrics(self) -> dict[str, Metric]:
        """Every metric by its name."""
        data = self._metrics.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: metric
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def said(span: ReadableSpan) -> dict[str, Any]:
    """The attributes of a span."""
    return dict(span.attributes or {})


def is_below(span: ReadableSpan, above: ReadableSpan) -> bool:
    """Whether a span is a child of another."""
    mine, theirs = span.parent, above.context
    assert theirs is not None
    return mine is not None and (mine.span_id, mine.trace_id) == (theirs.span_id, theirs.trace_id)


def traceparent(span: ReadableSpan) -> str:
    """A span as a header names it."""
    found = span.context
    assert found is not None
    return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"
