"""What goes wrong where a run executes."""

from awaken.contracts.errors import RunError, UsageError


class InvalidBackendConfig(UsageError):
    """An endpoint cannot be used by its backend."""

    code = "invalid_backend_config"
    template = "Endpoint of backend '{backend}': {problem}."
    backend: str
    problem: str


class ExecutionBackendError(RunError):
    """A run could not be executed by its backend."""

    code = "backend_error"


class AgentNotFound(ExecutionBackendError):
    """The backend has no such agent."""

    code = "agent_not_found"
    template = "agent not found: {problem}"
    problem: str


class BackendExecutionFailed(ExecutionBackendError):
    """The backend refused or failed."""

    code = "backend_execution_failed"
    template = "execution failed: {problem}"
    problem: str


class RemoteError(ExecutionBackendError):
    """The other side answered with an error, or with something that is none of its answers."""

    code = "remote_error"
    template = "remote error: {problem}"
    problem: str
    is_work_left: bool = False
    """Whether work may go on there that could not be stopped: it is tried again later."""


class RemoteUnreachable(RemoteError):
    """The other side could not be asked, or the connection broke."""

    code = "remote_unreachable"
    retryable = True


class RemoteRefused(RemoteError):
    """The other side refused: credentials, or what was asked for."""

    code = "remote_refused"


class RemoteMalformed(RemoteError):
    """The answer is not of the form that the protocol has."""

    code = "remote_malformed"


class RemoteTooLarge(RemoteError):
    """The answer is larger, deeper or longer than is read."""

    code = "remote_too_large"


class RemoteUnsupported(RemoteError):
    """The other side cannot do what was asked for."""

    code = "remote_unsupported"
