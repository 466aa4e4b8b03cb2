"""Finds secrets and personal data in texts, and replaces them.

Belongs here: the detectors of such data, and the replacement. Does not: when to redact, which
guardrails and telemetry decide. Every expression runs on RE2, so that the time stays bounded.
"""

from .detectors import DETECTORS, Detector, Finding, build_detector, select_detectors
from .errors import describe_error, make_loggable, remove_secrets
from .replacement import redact_text, redact_value

__all__ = [
    "DETECTORS",
    "Detector",
    "Finding",
    "build_detector",
    "describe_error",
    "make_loggable",
    "redact_text",
    "redact_value",
    "remove_secrets",
    "select_detectors",
]
