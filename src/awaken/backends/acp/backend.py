"""The backend: a coding agent in a separate process executes the run."""

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
from .process import AgentProcess, run_program
from .turn import TIMED_OUT, AcpTurn, Request
from .wire import load_library

Running = dict[str, AgentProcess]
"""The agent processes of the runs in this process, by run id."""

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
    """Builds backends for the programs that endpoints name."""

    name: ClassVar[str] = NAME

    def __init__(self, *, clock: Clock | None = None, limits: AcpLimits | None = None) -> None:
        self._clock = clock or SystemClock()
        self._limits = limits or AcpLimits()
        self._running: Running = {}

    def validate(self, endpoint: RemoteEndpoint) -> None:
        """Check an endpoint; a program that does not exist fails only when it is started.

        Raises:
            InvalidBackendConfig: It names no program, or has an unknown option.
        """
        program_of(endpoint)

    def build(self, endpoint: RemoteEndpoint) -> "AcpBackend":
        """Build the backend of an endpoint.

        Raises:
            InvalidBackendConfig: The endpoint is invalid, or the extra `acp` is not installed.
        """
        load_library()
        settings = Settings(
            program=program_of(endpoint),
            timeout_ms=endpoint.timeout_ms,
            limits=self._limits,
            clock=self._clock,
        )
        return AcpBackend(settings, self._running)

    async def close(self) -> None:
        """Stop every process that still runs."""
        await asyncio.gather(*(process.stop() for process in list(self._running.values())))


class AcpBackend:
    """Executes runs, each in its own process, which ends with the run."""

    def __init__(self, settings: Settings, running: Running) -> None:
        self._settings = settings
        self._running = running

    def capabilities(self) -> able.BackendCapabilities:
        """A prompt in, a text out; it can be cancelled, and the agent may ask for permission."""
        return _CAPABILITIES

    async def execute_root(self, request: asked.BackendRootRunRequest) -> BackendRunResult:
        """Have the agent execute a root run."""
        return await self._execute(request)

    async def execute_delegate(self, request: asked.BackendDelegateRunRequest) -> BackendRunResult:
        """Have the agent execute a run that another run delegated."""
        return await self._execute(request)

    async def abort(self, request: asked.BackendAbortRequest) -> None:
        """Stop the run's process, if this process started it."""
        process = self._running.get(request.run_identity.run_id)
        if process is not None:
            await process.stop()

    async def _execute(self, request: Request) -> BackendRunResult:
        identity = request.run_identity
        known = _load_earlier_target(request, self._settings.program.target)
        async with run_program(self._settings.program, self._settings.limits) as process:
            self._running[identity.run_id] = process
            try:
                turn = AcpTurn(request, self._settings, process)
                reason = await turn.run_until_stop(known)
            finally:
                del self._running[identity.run_id]
        status, termination, message = _read_end(reason)
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


def _load_earlier_target(request: Request, target: str) -> asked.RemoteTarget | None:
    """Load what this run started before a crash; its process ended with the earlier worker.

    Raises:
        BackendExecutionFailed: The agent may have been prompted, and how far it came is unknown.
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


def _read_end(reason: str) -> tuple[BackendRunStatus, ends.Termination, str | None]:
    if reason in _ENDS:
        return (*_ENDS[reason], None)
    if reason not in _FAILURES:
        raise errors.RemoteMalformed(problem=f"the coding agent stopped for '{reason}'")
    message = _FAILURES[reason]
    failed = ends.Failed(message=message, code=errors.BackendExecutionFailed.code)
    return BackendRunStatus.FAILED, failed, message
