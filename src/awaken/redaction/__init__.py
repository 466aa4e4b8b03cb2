"""Finding secrets and personal data in texts, and taking them out.

Belongs here: what such data looks like, and how it is replaced. Does not: what to do about it,
which guardrails and telemetry decide. Every expression runs on RE2, so that no text takes long.
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
