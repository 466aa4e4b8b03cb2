"""Reminders: texts of the operator that a model reads after certain tool results.

`ReminderPlugin` reads the rules from the section `reminder`. Belongs here: which result triggers
which text. Does not: where in a request the text is placed and how often; the loop decides that.
"""

from .config import (
    FieldMatch,
    FieldsMatch,
    OutputMatch,
    ReminderConfig,
    ReminderMessage,
    ReminderRule,
)
from .plugin import ReminderPlugin

__all__ = [
    "FieldMatch",
    "FieldsMatch",
    "OutputMatch",
    "ReminderConfig",
    "ReminderMessage",
    "ReminderPlugin",
    "ReminderRule",
]
