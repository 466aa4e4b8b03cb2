"""Where runs execute: the backends, and the protocol and the requests for those who write one.

Belongs here: implementations of `ExecutionBackend`.
The local backend drives the runtime's loop; no other package above the runtime does.
"""

from typing import TYPE_CHECKING

from awaken._deferred_imports import defer_imports

if TYPE_CHECKING:
    from awaken.backends.a2a.backend import (
        A2ABackend,
        A2ABackendFactory,
    )
    from awaken.backends.acp.backend import (
        AcpBackend,
        AcpBackendFactory,
    )
    from awaken.backends.acp.config import (
        AcpLimits,
    )
    from awaken.backends.local import (
        LocalBackend,
    )
    from awaken.contracts.backend_results import (
        BackendOutputArtifact,
        BackendRunOutput,
        BackendRunResult,
        BackendRunStatus,
    )
    from awaken.contracts.backends.backend import (
        BackendCapabilities,
        CancellationCapability,
        ContinuationCapability,
        ExecutionBackend,
        ExecutionBackendFactory,
        OutputCapability,
        TranscriptCapability,
        WaitCapability,
    )
    from awaken.contracts.backends.requests import (
        BackendAbortRequest,
        BackendCheckpoint,
        BackendControl,
        BackendDelegateContinuation,
        BackendDelegatePersistence,
        BackendDelegatePolicy,
        BackendDelegateRunRequest,
        BackendParentContext,
        BackendRootRunRequest,
        CancelSignal,
        DecisionChannel,
        EventSink,
        ExecutionResolver,
        RemoteTarget,
    )
    from awaken.contracts.specs.agents import (
        RemoteEndpoint,
    )
    from awaken.contracts.specs.remote_registries import (
        CardSource,
        RemoteRegistry,
        RemoteStatus,
    )

__all__ = [
    "A2ABackend",
    "A2ABackendFactory",
    "AcpBackend",
    "AcpBackendFactory",
    "AcpLimits",
    "BackendAbortRequest",
    "BackendCapabilities",
    "BackendCheckpoint",
    "BackendControl",
    "BackendDelegateContinuation",
    "BackendDelegatePersistence",
    "BackendDelegatePolicy",
    "BackendDelegateRunRequest",
    "BackendOutputArtifact",
    "BackendParentContext",
    "BackendRootRunRequest",
    "BackendRunOutput",
    "BackendRunResult",
    "BackendRunStatus",
    "CancelSignal",
    "CancellationCapability",
    "CardSource",
    "ContinuationCapability",
    "DecisionChannel",
    "EventSink",
    "ExecutionBackend",
    "ExecutionBackendFactory",
    "ExecutionResolver",
    "LocalBackend",
    "OutputCapability",
    "RemoteEndpoint",
    "RemoteRegistry",
    "RemoteStatus",
    "RemoteTarget",
    "TranscriptCapability",
    "WaitCapability",
]

_HOMES = {
    "A2ABackend": "awaken.backends.a2a.backend",
    "A2ABackendFactory": "awaken.backends.a2a.backend",
    "AcpBackend": "awaken.backends.acp.backend",
    "AcpBackendFactory": "awaken.backends.acp.backend",
    "AcpLimits": "awaken.backends.acp.config",
    "BackendAbortRequest": "awaken.contracts.backends.requests",
    "BackendCapabilities": "awaken.contracts.backends.backend",
    "BackendCheckpoint": "awaken.contracts.backends.requests",
    "BackendControl": "awaken.contracts.backends.requests",
    "BackendDelegateContinuation": "awaken.contracts.backends.requests",
    "BackendDelegatePersistence": "awaken.contracts.backends.requests",
    "BackendDelegatePolicy": "awaken.contracts.backends.requests",
    "BackendDelegateRunRequest": "awaken.contracts.backends.requests",
    "BackendOutputArtifact": "awaken.contracts.backend_results",
    "BackendParentContext": "awaken.contracts.backends.requests",
    "BackendRootRunRequest": "awaken.contracts.backends.requests",
    "BackendRunOutput": "awaken.contracts.backend_results",
    "BackendRunResult": "awaken.contracts.backend_results",
    "BackendRunStatus": "awaken.contracts.backend_results",
    "CancelSignal": "awaken.contracts.backends.requests",
    "CancellationCapability": "awaken.contracts.backends.backend",
    "CardSource": "awaken.contracts.specs.remote_registries",
    "ContinuationCapability": "awaken.contracts.backends.backend",
    "DecisionChannel": "awaken.contracts.backends.requests",
    "EventSink": "awaken.contracts.backends.requests",
    "ExecutionBackend": "awaken.contracts.backends.backend",
    "ExecutionBackendFactory": "awaken.contracts.backends.backend",
    "ExecutionResolver": "awaken.contracts.backends.requests",
    "LocalBackend": "awaken.backends.local",
    "OutputCapability": "awaken.contracts.backends.backend",
    "RemoteEndpoint": "awaken.contracts.specs.agents",
    "RemoteRegistry": "awaken.contracts.specs.remote_registries",
    "RemoteStatus": "awaken.contracts.specs.remote_registries",
    "RemoteTarget": "awaken.contracts.backends.requests",
    "TranscriptCapability": "awaken.contracts.backends.backend",
    "WaitCapability": "awaken.contracts.backends.backend",
}
"""The module that each name is imported from."""

if not TYPE_CHECKING:  # Type checkers see the imports above, and refuse every other name.
    __getattr__, __dir__ = defer_imports(__name__, _HOMES)
