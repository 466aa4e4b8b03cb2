"""The result of a run on a backend: its status, its output and its usage."""

from enum import StrEnum
from typing import Any

from .lifecycle import (
    Blocked,
    Cancelled,
    Failed,
    RunStatus,
    Stopped,
    Suspended,
    Termination,
    reason_text,
    status_after,
)
from .models.inference import TokenUsage
from .record import Record
from .suspension.tickets import Ticket


class BackendRunStatus(StrEnum):
    """The outcome of a run as its backend reports it."""

    COMPLETED = "completed"
    WAITING_INPUT = "waiting_input"
    WAITING_AUTH = "waiting_auth"
    SUSPENDED = "suspended"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"

    @property
    def is_waiting(self) -> bool:
        """Whether the run needs input from outside to continue."""
        return self in _WAITING_REASONS

    def run_status(self, termination: Termination) -> RunStatus:
        """The durable run status."""
        if self is BackendRunStatus.COMPLETED:
            return status_after(termination)
        return RunStatus.WAITING if self.is_waiting else RunStatus.DONE

    def status_reason(self, termination: Termination) -> str:
        """The durable reason as a text for people."""
        if self is BackendRunStatus.COMPLETED:
            return reason_text(termination)
        return _WAITING_REASONS.get(self) or _DONE_REASONS[self]

    def label(self, termination: Termination) -> str:
        """The status that `run_finish` shows."""
        if self is BackendRunStatus.COMPLETED:
            return status_after(termination).value
        return self.value


_WAITING_REASONS = {
    BackendRunStatus.WAITING_INPUT: "input_required",
    BackendRunStatus.WAITING_AUTH: "auth_required",
    BackendRunStatus.SUSPENDED: "suspended",
}
_DONE_REASONS = {
    BackendRunStatus.FAILED: "error",
    BackendRunStatus.CANCELLED: "cancelled",
    BackendRunStatus.TIMEOUT: "timeout",
}


def backend_status(termination: Termination) -> tuple[BackendRunStatus, str | None]:
    """The status and the message that the delegating run sees for a termination."""
    match termination:
        case Cancelled():
            return BackendRunStatus.CANCELLED, None
        case Suspended():
            return BackendRunStatus.SUSPENDED, None
        case Failed(message=message):
            return BackendRunStatus.FAILED, message
        case Stopped(reason=reason):
            detail = f" ({reason.detail})" if reason.detail else ""
            return BackendRunStatus.FAILED, f"stopped: {reason.code}{detail}"
        case Blocked(reason=reason):
            return BackendRunStatus.FAILED, f"blocked: {reason}"
        case _:
            return BackendRunStatus.COMPLETED, None


class BackendOutputArtifact(Record, frozen=True, kw_only=True):
    """A file or object that a remote run produced."""

    content: Any
    id: str | None = None
    name: str | None = None
    media_type: str | None = None


class BackendRunOutput(Record, frozen=True, kw_only=True):
    """Everything a run returned besides events."""

    text: str | None = None
    artifacts: tuple[BackendOutputArtifact, ...] = ()
    raw: Any = None
    data: Any = None
    """The text as a value, if the agent has an output type."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no text, no artifacts and no raw data."""
        return self.text is None and not self.artifacts and self.raw is None


class BackendRunResult(Record, frozen=True, kw_only=True):
    """How a run on a backend ended."""

    agent_id: str
    status: BackendRunStatus
    termination: Termination
    run_id: str = ""
    thread_id: str = ""
    message: str | None = None
    """What the run waits for, or why it failed."""
    status_reason: str | None = None
    """Replaces the reason that the status implies."""
    response: str = ""
    output: BackendRunOutput = BackendRunOutput()
    """If its text is set, even to an empty text, it replaces `response` as the answer."""
    steps: int = 1
    """How many steps this turn took at the backend."""
    usage: TokenUsage = TokenUsage()
    tickets: tuple[Ticket, ...] = ()
    is_work_left: bool = False
    """Whether remote work that could not be stopped may continue; the abort is retried later."""

    @property
    def status_text(self) -> str:
        """The status as people and models read it: `failed: no such city`."""
        return f"{self.status}: {self.message}" if self.message else self.status.value

    @property
    def text(self) -> str:
        """The answer."""
        return self.response if self.output.text is None else self.output.text
