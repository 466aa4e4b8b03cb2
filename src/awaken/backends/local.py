"""The local backend: a run executes in this process, in the agent loop."""

from collections.abc import Coroutine
from typing import Any

from awaken.contracts.backend_results import BackendRunResult
from awaken.contracts.backends.backend import FULL_CAPABILITIES, BackendCapabilities
from awaken.contracts.backends.errors import BackendExecutionFailed
from awaken.contracts.backends.requests import (
    BackendAbortRequest,
    BackendDelegateRunRequest,
    BackendRootRunRequest,
)


class LocalBackend:
    """Executes prepared runs with everything the runtime can do.

    A delegate is a run of its own: its state, inbox and identity are its alone, and nothing it
    does is visible in its parent's state.
    """

    def capabilities(self) -> BackendCapabilities:
        """The full set."""
        return FULL_CAPABILITIES

    def execute_root(self, request: BackendRootRunRequest) -> Coroutine[Any, Any, BackendRunResult]:
        """Drive the loop to the run's end or its suspension.

        Raises:
            BackendExecutionFailed: The request carries no run of this process.
        """
        if request.drive is None:
            raise BackendExecutionFailed(problem="the local backend needs a run of this process")
        return request.drive()

    def execute_delegate(
        self, request: BackendDelegateRunRequest
    ) -> Coroutine[Any, Any, BackendRunResult]:
        """Drive the loop of a run that another run asked for.

        Raises:
            BackendExecutionFailed: The request carries no run of this process.
        """
        if request.drive is None:
            raise BackendExecutionFailed(problem="the local backend needs a run of this process")
        return request.drive()

    async def abort(self, request: BackendAbortRequest) -> None:
        """Do nothing: nothing runs anywhere else."""
