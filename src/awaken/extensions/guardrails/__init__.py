"""Checks of input and output: block the text, redact it, or ask a person.

Belongs here: which texts are checked, and what follows from a finding. The detectors of secrets and
personal data are in `awaken.redaction`; an application passes its own checks to the plugin.
"""

from awaken.redaction.detectors import Finding

from .checks import Check, CheckFinding
from .config import (
    Action,
    CheckPlace,
    GuardrailsConfig,
    GuardRule,
    GuardVerdict,
    OnJudgeFailure,
)
from .plugin import GuardrailsPlugin

__all__ = [
    "Action",
    "Check",
    "CheckFinding",
    "CheckPlace",
    "Finding",
    "GuardRule",
    "GuardVerdict",
    "GuardrailsConfig",
    "GuardrailsPlugin",
    "OnJudgeFailure",
]
