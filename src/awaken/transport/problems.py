"""HTTP errors: one table maps the errors of the runtime to statuses."""

from awaken.contracts.errors import (
    AgentPaused,
    AlreadyDecided,
    AlreadyExists,
    AwakenError,
    CursorExpired,
    CursorInvalid,
    DedupeConflict,
    IdempotencyConflict,
    IllegalTransition,
    InvalidInput,
    InvalidRecord,
    InvalidResume,
    LeaseLost,
    LimitExceeded,
    QueueFull,
    RecordNotFound,
    StorageError,
    StoreUnavailable,
    ThreadBusy,
    ThreadClaimed,
    UnknownAgent,
    UnknownAnswer,
    UnknownRun,
    UnknownThread,
    UnknownTicket,
    UnsupportedFeature,
    UsageError,
    VersionConflict,
)
from awaken.contracts.models.errors import ModelDisabled
from awaken.contracts.resolver_errors import AgentResolverFailed
from awaken.contracts.suspension.errors import AmbiguousTicket, ArgumentsChanged
from awaken.contracts.tenancy import namespace_of

from .asgi import Bytes, Header, as_json

_STATUSES: tuple[tuple[type[AwakenError], int], ...] = (
    (UnknownThread, 404),
    (UnknownRun, 404),
    (UnknownTicket, 404),
    (UnknownAnswer, 404),
    (UnknownAgent, 404),
    (RecordNotFound, 404),
    (CursorExpired, 410),
    (LimitExceeded, 413),
    (QueueFull, 503),
    (AgentPaused, 503),
    (ModelDisabled, 503),
    (StoreUnavailable, 503),
    (AgentResolverFailed, 503),
    (UnsupportedFeature, 501),
    (AlreadyDecided, 409),
    (AmbiguousTicket, 409),
    (ArgumentsChanged, 409),
    (AlreadyExists, 409),
    (DedupeConflict, 409),
    (IdempotencyConflict, 409),
    (IllegalTransition, 409),
    (InvalidResume, 409),
    (LeaseLost, 409),
    (ThreadBusy, 409),
    (ThreadClaimed, 409),
    (VersionConflict, 409),
    (CursorInvalid, 400),
    (InvalidInput, 400),
    (InvalidRecord, 400),
    (UsageError, 400),
    (StorageError, 503),
)


class HttpError(Exception):
    """A refused request: the status, a stable code, and a text for people."""

    def __init__(
        self, status: int, code: str, message: str, headers: tuple[Header, ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers
        self.request_id = ""
        """Set by the server; every error format should include it."""


_OPEN_503 = (QueueFull, AgentPaused, ModelDisabled, AgentResolverFailed)
"""Errors with status 503 whose message a client may read."""


def to_http_error(error: AwakenError) -> HttpError:
    """Convert an error of the runtime into the error that a client gets."""
    status = next((status for class_, status in _STATUSES if isinstance(error, class_)), 500)
    wait_ms = getattr(error, "retry_after_ms", None)
    headers: tuple[Header, ...] = ()
    if status == 503:
        headers = ((b"retry-after", str(max(1, -(-(wait_ms or 1000) // 1000))).encode()),)
    if status == 500:
        return HttpError(500, "internal_error", "Something went wrong here; the log has more.")
    if status == 503 and not isinstance(error, _OPEN_503):
        # The message of a store may name files, servers and SQL statements.
        return HttpError(503, error.code, "The store could not answer; try again later.", headers)
    return HttpError(status, error.code, str(error), headers)


def hide_problem_namespace(problem: HttpError, tenant_id: str | None) -> HttpError:
    """Remove the tenant's namespace from the message, so that it has the ids the tenant knows."""
    if namespace := namespace_of(tenant_id):
        problem.message = problem.message.replace(namespace, "")
    return problem


def native_refusal(problem: HttpError) -> Bytes:
    """The error as the native API writes it."""
    body = {"error": problem.message, "code": problem.code}
    if problem.request_id:
        body["request_id"] = problem.request_id
    return as_json(body, problem.status, problem.headers)
