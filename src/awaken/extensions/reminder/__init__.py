"""Reminders: words of the operator that a model is told after certain results of tools.

`ReminderPlugin` reads the rules from the section `reminder`. Belongs here: which result calls for
which words. Does not: where they stand in a request and how often, which the loop decides.
"""

from .config import FieldMatch, OutputMatch, ReminderConfig, ReminderMessage, ReminderRule
from .plugin import ReminderPlugin

__all__ = [
    "FieldMatch",
    "OutputMatch",
    "ReminderConfig",
    "ReminderMessage",
    "ReminderPlugin",
    "ReminderRule",
]
