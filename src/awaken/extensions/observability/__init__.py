"""Telemetry: spans, metrics and events for OpenTelemetry, statistics, and logs as JSON.

`ObservabilityPlugin` watches runs from around and changes nothing in them. `RuntimeStatistics`
counts how long agents, models and tools take. `JsonLogFormatter` and `RunContextFilter` write logs
that name the run and the trace, `TextLogFormatter` lines for people. Whatever people, models,
tools and errors said goes through `Redactor` before it leaves the process; names and ids do not.
"""

from awaken.contracts.plugins.statistics import Statistics, Timing

from .config import ContentCapture, ObservabilityConfig
from .logs import JsonLogFormatter, RunContextFilter, TextLogFormatter
from .plugin import ObservabilityPlugin
from .redactor import Redactor
from .statistics import RuntimeStatistics
from .telemetry import Providers

__all__ = [
    "ContentCapture",
    "JsonLogFormatter",
    "ObservabilityConfig",
    "ObservabilityPlugin",
    "Providers",
    "Redactor",
    "RunContextFilter",
    "RuntimeStatistics",
    "Statistics",
    "TextLogFormatter",
    "Timing",
]
