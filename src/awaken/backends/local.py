"""The local backend: a run executes in this process, in the agent loop."""

from typing import cast

from awaken.contracts.backends import (
    BackendCapabilities,
    BackendRunOutput,
    BackendRunResult,
    BackendRunStatus,
    RootRun,
)
from awaken.contracts.lifecycle import (
    Blocked,
    Cancelled,
    Failed,
    Stopped,
    Suspended,
    Termination,
    reason_text,
)
from awaken.runtime.loop import run_loop
from awaken.runtime.run import Run

_FULL = BackendCapabilities()


class LocalBackend:
    """Executes prepared runs with everything the runtime can do."""

    def capabilities(self) -> BackendCapabilities:
        """The full set."""
        return _FULL

    async def execute_root(self, run: RootRun) -> BackendRunResult:
        """Drive the loop to the run's end or its suspension."""
        local = cast(Run, run)
        termination = await run_loop(local)
        status, message = status_of(termination)
        identity = local.identity
        is_waiting = isinstance(termination, Suspended)
        return BackendRunResult(
            agent_id=identity.active_agent_id or identity.agent_id,
            run_id=identity.run_id,
            thread_id=identity.thread_id,
            status=status,
            termination=termination,
            message=message,
            response=local.response,
            output=BackendRunOutput(text=local.response or None),
            steps=local.record.steps,
            usage=local.usage,
            tickets=tuple(local.tickets.values()) if is_waiting else (),
        )


def status_of(termination: Termination) -> tuple[BackendRunStatus, str | None]:
    """How a local termination looks to whoever delegated the run."""
    match termination:
        case Cancelled():
            return BackendRunStatus.CANCELLED, None
        case Suspended():
            return BackendRunStatus.SUSPENDED, None
        case Failed(message=message):
            return BackendRunStatus.FAILED, message
        case Stopped() | Blocked():
            return BackendRunStatus.FAILED, reason_text(termination)
        case _:
            return BackendRunStatus.COMPLETED, None
