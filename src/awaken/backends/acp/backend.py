"""The backend: runs are executed by a coding agent in a process of its own."""

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from awaken.contracts import lifecycle as ends
from awaken.contracts.backend_results import BackendRunOutput, BackendRunResult, BackendRunStatus
from awaken.contracts.backends import backend as able
from awaken.contracts.backends import errors as errors
from awaken.contracts.backends import requests as asked
from awaken.contracts.clock import Clock, SystemClock
from awaken.contracts.specs.agents import RemoteEndpoint

from .config import NAME, AcpLimits, Settings, program_of
from .process import AgentProcess, started
from .turn import TIMED_OUT, AcpTurn, Request
from .wire import library

Running = dict[str, AgentProcess]
"""The processes of this process's runs, by the run's id."""

_ENDS: Mapping[str, tuple[BackendRunStatus, ends.Termination]] = {
    "end_turn": (BackendRunStatus.COMPLETED, ends.NaturalEnd()),
    "cancelled": (BackendRunStatus.CANCELLED, ends.Cancelled()),
    TIMED_OUT: (BackendRunStatus.TIMEOUT, ends.Stopped(reason=ends.StoppedReason(code="timeout"))),
}
_FAILURES = {
    "refusal": "the coding agent refused to go on",
    "max_tokens": "the coding agent reached its limit of tokens",
    "max_turn_requests": "the coding agent reached its limit of model requests in one turn",
}


class AcpBackendFactory:
    """Makes backends of the programs that endpoints name."""

    name: ClassVar[str] = NAME

    def __init__(self, *, clock: Clock | None = None, limits: AcpLimits | None = None) -> None:
        self._clock = clock or SystemClock()
        self._limits = limits or AcpLimits()
        self._running: Running = {}

    def validate(self, endpoint: RemoteEndpoint) -> None:
        """Check an endpoint; whether its program exists shows when it is started.

        Raises:
            InvalidBackendConfig: It names no program, or something that there is not.
        """
        program_of(endpoint)

    def build(self, endpoint: RemoteEndpoint) -> "AcpBackend":
        """Make the backend of an endpoint.

        Raises:
            InvalidBackendConfig: It cannot be used, or the extra `acp` is not installed.
        """
        library()
        settings = Settings(
            program=program_of(endpoint),
            timeout_ms=endpoint.timeout_ms,
            limits=self._limits,
            clock=self._clock,
        )
        return AcpBackend(settings, self._running)

    async def close(self) -> None:
        """End every process that is left."""
        await asyncio.gather(*(process.stop() for process in list(self._running.values())))


class AcpBackend:
    """Executes runs, each in a process of its own that is gone when the run is."""

    def __init__(self, settings: Settings, running: Running) -> None:
        self._settings = settings
        self._running = running

    def capabilities(self) -> able.BackendCapabilities:
        """A prompt in, a text out; it can be cancelled, and asks for permission meanwhile."""
        return _CAPABILITIES

    async def execute_root(self, request: asked.BackendRootRunRequest) -> BackendRunResult:
        """Have the agent do what somebody asked for."""
        return await self._executed(request)

    async def execute_delegate(self, request: asked.BackendDelegateRunRequest) -> BackendRunResult:
        """Have the agent do what another run asked for."""
        return await self._executed(request)

    async def abort(self, request: asked.BackendAbortRequest) -> None:
        """End the run's process, if it is a child of this one."""
        process = self._running.get(request.run_identity.run_id)
        if process is not None:
            await process.stop()

    async def _executed(self, request: Request) -> BackendRunResult:
        identity = request.run_identity
        known = _known(request, self._settings.program.target)
        async with started(self._settings.program, self._settings.limits) as process:
            self._running[identity.run_id] = process
            try:
                turn = AcpTurn(request, self._settings, process)
                reason = await turn.stop_reason(known)
            finally:
                del self._running[identity.run_id]
        status, termination, message = _end(reason)
        return BackendRunResult(
            agent_id=request.agent_id,
            run_id=identity.run_id,
            thread_id=identity.thread_id,
            status=status,
            termination=termination,
            message=message,
            response=turn.text,
            output=BackendRunOutput(text=turn.text or None),
            steps=1,
        )


_CAPABILITIES = able.BackendCapabilities(
    cancellation=able.CancellationCapability.COOPERATIVE_TOKEN_AND_REMOTE_ABORT,
    decisions=True,
    overrides=False,
    frontend_tools=False,
    continuation=able.ContinuationCapability.NONE,
    waits=able.WaitCapability.NONE,
    transcript=able.TranscriptCapability.SINGLE_PROMPT,
    output=able.OutputCapability.TEXT,
)


def _known(request: Request, target: str) -> asked.RemoteTarget | None:
    """What this run had begun before; its process is gone with ours.

    Raises:
        BackendExecutionFailed: The agent may have been prompted; nobody knows how far it came.
    """
    if not request.is_recovered:
        return None
    session = "unknown"
    if request.checkpoint is not None:
        known = request.checkpoint.load(target)
        if known is None or known.run_id != request.run_identity.run_id:
            return None
        if known.message_id is None:
            return known
        session = known.context_id or session
    problem = (
        "the coding agent's process was lost and its outcome is unknown "
        f"(session '{session}'); look at what it has done, then ask again"
    )
    raise errors.BackendExecutionFailed(problem=problem)


def _end(reason: str) -> tuple[BackendRunStatus, ends.Termination, str | None]:
    if reason in _ENDS:
        return (*_ENDS[reason], None)
    if reason not in _FAILURES:
        raise errors.RemoteMalformed(problem=f"the coding agent stopped for '{reason}'")
    message = _FAILURES[reason]
    failed = ends.Failed(message=message, code=errors.BackendExecutionFailed.code)
    return BackendRunStatus.FAILED, failed, message
