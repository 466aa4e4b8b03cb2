"""Access to OpenTelemetry: the providers that the application installed, or none."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from opentelemetry import metrics, trace
from opentelemetry._logs import Logger, LoggerProvider, get_logger_provider

from .meters import Meters

_SCOPE = "awaken"
_LOOK_S = 1.0
_SILENT = frozenset({"opentelemetry.trace", "opentelemetry.metrics", "opentelemetry._logs"})
"""The modules of the providers that do nothing; those of an SDK are in other modules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Providers:
    """Where telemetry goes; absent ones default to those of the process."""

    tracers: trace.TracerProvider | None = None
    meters: metrics.MeterProvider | None = None
    loggers: LoggerProvider | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """The tracer, meters and logger in use."""

    tracer: trace.Tracer
    meters: Meters
    logger: Logger
    seconds: Callable[[], float]


class TelemetrySource:
    """Finds the installed providers; while there are none, it looks at most once a second."""

    __slots__ = ("_found", "_given", "_looked_at", "_seconds")

    def __init__(self, given: Providers, seconds: Callable[[], float] = time.perf_counter) -> None:
        self._given = given
        self._seconds = seconds
        self._found: Telemetry | None = None
        self._looked_at: float | None = None

    def telemetry(self, *, is_urgent: bool = False) -> Telemetry | None:
        """The telemetry, or None while no provider is installed; `is_urgent` always looks."""
        if self._found is None:
            now = self._seconds()
            if is_urgent or self._looked_at is None or now - self._looked_at >= _LOOK_S:
                self._looked_at = now
                self._found = self._build_telemetry()
        return self._found

    def _build_telemetry(self) -> Telemetry | None:
        given = self._given
        tracers = given.tracers or trace.get_tracer_provider()
        meters = given.meters or metrics.get_meter_provider()
        loggers = given.loggers or get_logger_provider()
        if all(_is_silent(it) for it in (tracers, meters, loggers)):
            return None
        return Telemetry(
            tracer=tracers.get_tracer(_SCOPE),
            meters=Meters(meters.get_meter(_SCOPE)),
            logger=loggers.get_logger(_SCOPE),
            seconds=self._seconds,
        )


def _is_silent(provider: object) -> bool:
    module = type(provider).__module__
    return module.removesuffix("._internal") in _SILENT
