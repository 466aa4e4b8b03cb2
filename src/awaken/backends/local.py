"""The local backend: a run executes in this process, in the agent loop."""

from awaken.contracts.backend_results import (
    BackendRunOutput,
    BackendRunResult,
    backend_status,
)
from awaken.contracts.backends.backend import BackendCapabilities
from awaken.contracts.backends.errors import BackendExecutionFailed
from awaken.contracts.backends.requests import (
    BackendAbortRequest,
    BackendDelegateRunRequest,
    BackendRootRunRequest,
)
from awaken.contracts.lifecycle import Suspended
from awaken.runtime.loop.tracing import watched_loop
from awaken.runtime.run import Run

_FULL = BackendCapabilities()


class LocalBackend:
    """Executes prepared runs with everything the runtime can do.

    A delegate is a separate run with its own state, inbox and identity. Nothing it does is
    visible in its parent's state.
    """

    def capabilities(self) -> BackendCapabilities:
        """All capabilities."""
        return _FULL

    async def execute_root(self, request: BackendRootRunRequest) -> BackendRunResult:
        """Drive the loop to the run's end or its suspension."""
        return await _drive_loop(request)

    async def execute_delegate(self, request: BackendDelegateRunRequest) -> BackendRunResult:
        """Drive the loop of a run that another run delegated."""
        return await _drive_loop(request)

    async def abort(self, request: BackendAbortRequest) -> None:
        """Do nothing: the run executes in this process and is cancelled through its token."""


async def _drive_loop(
    request: BackendRootRunRequest | BackendDelegateRunRequest,
) -> BackendRunResult:
    run = request.local
    if not isinstance(run, Run):
        raise BackendExecutionFailed(problem="the local backend needs a run of this process")
    termination = await watched_loop(run)
    status, message = backend_status(termination)
    identity = run.identity
    return BackendRunResult(
        agent_id=identity.active_agent_id or identity.agent_id,
        run_id=identity.run_id,
        thread_id=identity.thread_id,
        status=status,
        termination=termination,
        message=message,
        response=run.response,
        output=BackendRunOutput(text=run.response or None),
        steps=run.record.steps,
        usage=run.usage,
        tickets=tuple(run.tickets.values()) if isinstance(termination, Suspended) else (),
    )
