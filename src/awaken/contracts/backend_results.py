"""How a run on a backend went, and what it gave back."""

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
    """How a backend says a run went."""

    COMPLETED = "completed"
    WAITING_INPUT = "waiting_input"
    WAITING_AUTH = "waiting_auth"
    SUSPENDED = "suspended"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"

    @property
    def is_waiting(self) -> bool:
        """Whether the run needs something from outside to go on."""
        return self in _WAITING_REASONS

    def run_status(self, termination: Termination) -> RunStatus:
        """The durable run status."""
        if self is BackendRunStatus.COMPLETED:
            return status_after(termination)
        return RunStatus.WAITING if self.is_waiting else RunStatus.DONE

    def status_reason(self, termination: Termination) -> str:
        """The durable reason, for people."""
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
    """How a termination looks to whoever delegated the run, and what is to be said about it."""
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
    """Everything a run gave back besides events."""

    text: str | None = None
    artifacts: tuple[BackendOutputArtifact, ...] = ()
    raw: Any = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing worth keeping."""
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
    """Takes the place of the reason that the status stands for."""
    response: str = ""
    output: BackendRunOutput = BackendRunOutput()
    """Its text, also an empty one, is the answer in the place of `response`."""
    steps: int = 1
    """How many steps this turn took there."""
    usage: TokenUsage = TokenUsage()
    tickets: tuple[Ticket, ...] = ()
    is_work_left: bool = False
    """Whether work may go on there that could not be stopped: it is tried again later."""

    @property
    def shown_status(self) -> str:
        """The status as people and models read it: `failed: no such city`."""
        return f"{self.status}: {self.message}" if self.message else self.status.value

    @property
    def text(self) -> str:
        """The answer."""
        return self.response if self.output.text is None else self.output.text
