"""Execution backends: where a run executes, and what it can do there."""

from enum import StrEnum
from typing import Protocol, runtime_checkable

from awaken.contracts.backend_results import BackendRunResult
from awaken.contracts.errors import UnsupportedFeature
from awaken.contracts.record import Record
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.specs.agents import RemoteEndpoint

from .errors import BackendExecutionFailed
from .requests import (
    BackendAbortRequest,
    BackendDelegateContinuation,
    BackendDelegatePersistence,
    BackendDelegateRunRequest,
    BackendRootRunRequest,
)


class CancellationCapability(StrEnum):
    """How a run on a backend can be stopped."""

    NONE = "none"
    COOPERATIVE_TOKEN = "cooperative_token"
    REMOTE_ABORT = "remote_abort"
    COOPERATIVE_TOKEN_AND_REMOTE_ABORT = "cooperative_token_and_remote_abort"

    @property
    def has_token(self) -> bool:
        """Whether the backend observes the run's cancellation signal itself."""
        return self in (
            CancellationCapability.COOPERATIVE_TOKEN,
            CancellationCapability.COOPERATIVE_TOKEN_AND_REMOTE_ABORT,
        )

    @property
    def has_abort(self) -> bool:
        """Whether the runtime has to send an abort to the remote side."""
        return self in (
            CancellationCapability.REMOTE_ABORT,
            CancellationCapability.COOPERATIVE_TOKEN_AND_REMOTE_ABORT,
        )


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
    """How much of the conversation the backend accepts."""

    FULL_TRANSCRIPT = "full_transcript"
    INCREMENTAL_USER_MESSAGES_WITH_REMOTE_STATE = "incremental_user_messages_with_remote_state"
    SINGLE_PROMPT = "single_prompt"


class OutputCapability(StrEnum):
    """What the backend returns."""

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
        if request.output_schema is not None and not self.overrides:
            missing.append("output_schema")
        if request.tool_choice is not None and not self.overrides:
            missing.append("tool_choice")
        if continues and self.continuation is ContinuationCapability.NONE:
            missing.append("continuation")
        return missing

    def unsupported_delegate_features(self, request: BackendDelegateRunRequest) -> list[str]:
        """Name what a delegated run needs and the backend lacks, always in the same order."""
        missing = []
        if request.policy.persistence is not BackendDelegatePersistence.EPHEMERAL:
            missing.append("delegate_persistence")
        is_continued = request.policy.continuation is not BackendDelegateContinuation.DISABLED
        if is_continued and self.continuation is ContinuationCapability.NONE:
            missing.append("continuation")
        return missing


FULL_CAPABILITIES = BackendCapabilities()


def check_delegate_request(
    capabilities: BackendCapabilities, request: BackendDelegateRunRequest
) -> None:
    """Refuse a delegated run that the backend cannot serve.

    Raises:
        UnsupportedFeature: Naming everything that is missing.
    """
    missing = capabilities.unsupported_delegate_features(request)
    if missing:
        raise UnsupportedFeature(agent_id=request.agent_id, features=", ".join(missing))


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


class ExecutionBackend(Protocol):
    """Executes runs.

    A backend reports its capabilities before a run is admitted; the runtime never asks for more.
    Every await in it must let cancellation pass. An exception that it raises ends the run as
    failed; the classes of `backends.errors` carry codes that programs can read. The methods that a
    backend does not define have the defaults given here, even if it does not subclass this.
    """

    def capabilities(self) -> BackendCapabilities:
        """What the backend can do, read before a run is admitted; by default the minimum."""
        return BackendCapabilities.remote_stateless_text()

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        """Execute a run that a caller outside of any run requested, until it ends or waits.

        Raises:
            ExecutionBackendError: The run fails; by default because it cannot be executed at all.
        """
        raise BackendExecutionFailed(problem="backend does not support root execution")

    async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        """Execute a run that another run requested, until it ends or waits.

        Raises:
            ExecutionBackendError: The run fails; by default because it cannot be executed at all.
        """
        raise BackendExecutionFailed(problem="backend does not support delegated execution")

    async def abort(self, request: BackendAbortRequest) -> None:
        """Stop what a run has started at the remote side; if there is nothing, do nothing."""
        return


@runtime_checkable
class ExecutionBackendFactory(Protocol):
    """Makes backends for the endpoints that agents name."""

    def validate(self, endpoint: RemoteEndpoint) -> None:
        """Check an endpoint without any network access; by default by building its backend.

        Raises:
            InvalidBackendConfig: It cannot be used; says why.
        """
        self.build(endpoint)

    def build(self, endpoint: RemoteEndpoint) -> ExecutionBackend:
        """Make the backend of a validated endpoint.

        Raises:
            InvalidBackendConfig: It cannot be used; says why.
        """
        ...

    async def close(self) -> None:
        """Release the connections and processes of every backend that this factory built."""
        return
