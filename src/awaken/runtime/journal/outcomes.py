"""The outcome of a step. Control flow is a value here, never an exception."""

from awaken.contracts.lifecycle import Termination
from awaken.contracts.record import Record


class Continue(Record, frozen=True, kw_only=True):
    """Take another step."""


class SuspendRun(Record, frozen=True, kw_only=True):
    """At least one tool call waits for a decision."""


class Finish(Record, frozen=True, kw_only=True):
    """The run is over."""

    termination: Termination


StepOutcome = Continue | SuspendRun | Finish

CONTINUE = Continue()
SUSPEND = SuspendRun()
