"""Finds secrets and personal data in texts, and replaces them.

Belongs here: the detectors of such data, and the replacement. Does not: when to redact, which
guardrails and telemetry decide. Every expression runs on RE2, so that the time stays bounded.
"""

from .detectors import DETECTORS, Detector, Finding, custom_detector, detectors_named
from .errors import describe_error, loggable_error, without_secrets
from .replacing import redacted, redacted_value

__all__ = [
    "DETECTORS",
    "Detector",
    "Finding",
    "custom_detector",
    "describe_error",
    "detectors_named",
    "loggable_error",
    "redacted",
    "redacted_value",
    "without_secrets",
]
