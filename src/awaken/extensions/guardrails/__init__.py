"""Checks of what goes in and comes out: block it, take it out, or ask somebody.

Belongs here: which texts are checked, and what is done about what is found. What secrets and
personal data look like is in `awaken.redaction`; checks of one's own are given to the plugin.
"""

from .checks import Check, CheckFinding
from .config import Action, CheckPlace, GuardrailsConfig, GuardRule
from .plugin import GuardrailsPlugin

__all__ = [
    "Action",
    "Check",
    "CheckFinding",
    "CheckPlace",
    "GuardRule",
    "GuardrailsConfig",
    "GuardrailsPlugin",
]
