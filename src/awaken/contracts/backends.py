"""Execution backends: where a run executes, and what it can do there."""

from enum import StrEnum
from typing import Any, Protocol

from .errors import UnsupportedFeature
from .identity import RunIdentity
from .inference import TokenUsage
from .lifecycle import RunStatus, Termination, reason_text, status_after
from .record import Record
from .runs import RunRequest
from .suspension import Ticket


class CancellationCapability(StrEnum):
    """How a backend can be told to stop."""

    NONE = "none"
    COOPERATIVE_TOKEN = "cooperative_token"
    REMOTE_ABORT = "remote_abort"
    COOPERATIVE_TOKEN_AND_REMOTE_ABORT = "cooperative_token_and_remote_abort"


class ContinuationCapability(StrEnum):
    """Where the state of a waiting run is kept."""

    NONE = "none"
    IN_PROCESS_STATE = "in_process_state"
    REMOTE_STATE = "remote_state"


class WaitCapability(StrEnum):
    """What a run on the backend can wait for."""

    NONE = "none"
    INPUT = "input"
    AUTH = "auth"
    INPUT_AND_AUTH = "input_and_auth"


class TranscriptCapability(StrEnum):
    """How much of the conversation the backend takes."""

    FULL_TRANSCRIPT = "full_transcript"
    INCREMENTAL_USER_MESSAGES_WITH_REMOTE_STATE = "incremental_user_messages_with_remote_state"
    SINGLE_PROMPT = "single_prompt"


class OutputCapability(StrEnum):
    """What the backend gives back."""

    TEXT = "text"
    TEXT_AND_ARTIFACTS = "text_and_artifacts"


class BackendCapabilities(Record, frozen=True, kw_only=True):
    """What a backend can do. The default is the full set of the local backend."""

    cancellation: CancellationCapability = CancellationCapability.COOPERATIVE_TOKEN
    decisions: bool = True
    overrides: bool = True
    frontend_tools: bool = True
    continuation: ContinuationCapability = ContinuationCapability.IN_PROCESS_STATE
    waits: WaitCapability = WaitCapability.INPUT_AND_AUTH
    transcript: TranscriptCapability = TranscriptCapability.FULL_TRANSCRIPT
    output: OutputCapability = OutputCapability.TEXT_AND_ARTIFACTS

    @classmethod
    def remote_stateless_text(cls) -> "BackendCapabilities":
        """The least a backend can do: take a prompt, return a text."""
        return cls(
            cancellation=CancellationCapability.NONE,
            decisions=False,
            overrides=False,
            frontend_tools=False,
            continuation=ContinuationCapability.NONE,
            waits=WaitCapability.NONE,
            transcript=TranscriptCapability.SINGLE_PROMPT,
            output=OutputCapability.TEXT,
        )

    def unsupported_root_features(self, request: RunRequest, *, continues: bool) -> list[str]:
        """Name what the request needs and the backend lacks, always in the same order."""
        missing = []
        if request.decisions and not self.decisions:
            missing.append("decisions")
        if request.overrides is not None and not self.overrides:
            missing.append("overrides")
        if request.frontend_tools and not self.frontend_tools:
            missing.append("frontend_tools")
        if continues and self.continuation is ContinuationCapability.NONE:
            missing.append("continuation")
        return missing


def check_root_request(
    capabilities: BackendCapabilities, agent_id: str, request: RunRequest, *, continues: bool
) -> None:
    """Refuse a request that the backend cannot serve, before a slot is taken.

    Raises:
        UnsupportedFeature: Naming everything that is missing.
    """
    missing = capabilities.unsupported_root_features(request, continues=continues)
    if missing:
        raise UnsupportedFeature(agent_id=agent_id, features=", ".join(missing))


class BackendRunStatus(StrEnum):
    """How a backend says a run went."""

    COMPLETED = "completed"
    WAITING_INPUT = "waiting_input"
    WAITING_AUTH = "waiting_auth"
    SUSPENDED = "suspended"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"

    def run_status(self, termination: Termination) -> RunStatus:
        """The durable run status."""
        if self is BackendRunStatus.COMPLETED:
            return status_after(termination)
        return RunStatus.WAITING if self in _WAITING_REASONS else RunStatus.DONE

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


class BackendRunResult(Record, frozen=True, kw_only=True):
    """How a run on a backend ended."""

    agent_id: str
    run_id: str
    thread_id: str
    status: BackendRunStatus
    termination: Termination
    message: str | None = None
    response: str = ""
    output: BackendRunOutput = BackendRunOutput()
    steps: int = 0
    usage: TokenUsage = TokenUsage()
    tickets: tuple[Ticket, ...] = ()


class RootRun(Protocol):
    """A prepared run that a backend is asked to execute; the runtime's own object."""

    identity: RunIdentity


class ExecutionBackend(Protocol):
    """Executes runs.

    `execute_root` must end with exactly one terminal event, and must let cancellation pass.
    """

    def capabilities(self) -> BackendCapabilities:
        """What the backend can do; read before a run is admitted."""
        ...

    async def execute_root(self, run: RootRun) -> BackendRunResult:
        """Execute a prepared run to its end or its suspension."""
        ...
