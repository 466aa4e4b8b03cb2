"""Telemetry: spans, metrics and events for OpenTelemetry, statistics, and logs as JSON.

`ObservabilityPlugin` observes runs and changes nothing in them. `RuntimeStatistics` measures how
long agents, models and tools take. `JsonLogFormatter` and `RunContextFilter` write logs that name
the run and the trace, `TextLogFormatter` writes text lines. All texts of users, models, tools and
errors go through `Redactor` before they leave the process; names and ids do not.
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
