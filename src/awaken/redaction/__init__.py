"""Finds secrets and personal data in texts, and replaces them.

Belongs here: the detectors of such data, and the replacement. Does not: when to redact, which
guardrails and telemetry decide. Every expression runs on RE2, so that the time stays bounded.
Importing this package is cheap: the first text that is searched imports RE2 and the detectors.
"""

from .errors import describe_error, make_loggable, remove_secrets

__all__ = ["describe_error", "make_loggable", "remove_secrets"]
