"""HTTP errors: one table maps the errors of the runtime to statuses."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from awaken.contracts.config.errors import (
    PROBLEMS_MAX,
    AgentUnusable,
    CanaryConflict,
    ConfigNotEnabled,
    DraftConflict,
    DraftHasConflicts,
    DraftNotFound,
    HeadMoved,
    InvalidConfig,
    LiveConflict,
    MissingSecrets,
    NoCanary,
    OwnedByCode,
    PublishRefused,
    RecordConflict,
    RecordExists,
    RecordInUse,
    RefusedByWorkers,
    SecretInUse,
    SecretsUnavailable,
    SwitchConflict,
    UnknownConfigRecord,
    UnknownNamespace,
    UnknownPublication,
    UnknownSecret,
    VersionNotFound,
    VersionUnusable,
)
from awaken.contracts.errors import (
    AgentPaused,
    AlreadyDecided,
    AlreadyExists,
    AwakenError,
    CursorExpired,
    CursorInvalid,
    DedupeConflict,
    DemoRecord,
    IdempotencyConflict,
    IllegalTransition,
    InstructionsFailed,
    InvalidContext,
    InvalidInput,
    InvalidRecord,
    InvalidResume,
    LeaseLost,
    LimitExceeded,
    QueueFull,
    RecordNotFound,
    StorageError,
    StoreUnavailable,
    TenantQueueFull,
    ThreadBusy,
    ThreadClaimed,
    ThreadHasWorkflow,
    UnknownAgent,
    UnknownAnswer,
    UnknownRun,
    UnknownThread,
    UnknownTicket,
    UnsupportedFeature,
    UsageError,
    VersionConflict,
)
from awaken.contracts.evals.errors import (
    CannotRecord,
    DatasetConflict,
    EvalExists,
    EvalsUnavailable,
    NotComparable,
    TooManyReplays,
    UnknownCase,
    UnknownDataset,
    UnknownEval,
    UnknownReplay,
)
from awaken.contracts.memory.errors import (
    FactExists,
    MemoryFull,
    MemoryUnavailable,
    UnknownDocument,
    UnknownFact,
    UnreadableDocument,
)
from awaken.contracts.models.errors import ModelDisabled
from awaken.contracts.resolver_errors import AgentResolverFailed
from awaken.contracts.storage.schedule_errors import (
    HookRefused,
    NotTheCreator,
    RightsUnverifiable,
    ScheduleChanged,
    ScheduleUsedUp,
    SecretNotAllowed,
    TriggerPaused,
    UnknownSchedule,
    UnknownTrigger,
)
from awaken.contracts.suspension.errors import (
    AmbiguousTicket,
    ArgumentsChanged,
    EditDenied,
    InvalidEdit,
)
from awaken.contracts.tenancy import namespace_of
from awaken.contracts.workflows.errors import (
    EventRefused,
    InvalidWorkflowInput,
    NotAWorkflow,
    ResetRefused,
    RunHasEnded,
    RunStillQueued,
    TooManyEvents,
)

from .asgi import Bytes, Header, as_json

_STATUSES: tuple[tuple[type[AwakenError], int], ...] = (
    (UnknownNamespace, 404),
    (UnknownConfigRecord, 404),
    (UnknownPublication, 404),
    (UnknownSecret, 404),
    (VersionNotFound, 404),
    (DraftNotFound, 404),
    (VersionUnusable, 422),
    (RecordExists, 409),
    (RecordConflict, 409),
    (RecordInUse, 409),
    (OwnedByCode, 409),
    (PublishRefused, 409),
    (RefusedByWorkers, 409),
    (DraftConflict, 409),
    (DraftHasConflicts, 409),
    (HeadMoved, 409),
    (MissingSecrets, 409),
    (SecretsUnavailable, 409),
    (SecretInUse, 409),
    (NoCanary, 409),
    (CanaryConflict, 409),
    (LiveConflict, 409),
    (SwitchConflict, 409),
    (AgentUnusable, 503),
    (ConfigNotEnabled, 400),
    (UnknownDataset, 404),
    (UnknownCase, 404),
    (UnknownEval, 404),
    (UnknownReplay, 404),
    (TooManyReplays, 429),
    (EvalExists, 409),
    (DatasetConflict, 409),
    (NotComparable, 409),
    (UnknownSchedule, 404),
    (UnknownTrigger, 404),
    (ScheduleChanged, 409),
    (ScheduleUsedUp, 409),
    (RightsUnverifiable, 403),
    (NotTheCreator, 403),
    (DemoRecord, 409),
    (SecretNotAllowed, 403),
    (HookRefused, 401),
    (TriggerPaused, 409),
    (CannotRecord, 409),
    (EvalsUnavailable, 501),
    (UnknownThread, 404),
    (UnknownRun, 404),
    (UnknownTicket, 404),
    (UnknownAnswer, 404),
    (UnknownFact, 404),
    (UnknownDocument, 404),
    (FactExists, 409),
    (MemoryFull, 409),
    (UnreadableDocument, 422),
    (MemoryUnavailable, 501),
    (UnknownAgent, 404),
    (RecordNotFound, 404),
    (CursorExpired, 410),
    (LimitExceeded, 413),
    (TenantQueueFull, 429),
    (QueueFull, 503),
    (AgentPaused, 503),
    (ModelDisabled, 503),
    (StoreUnavailable, 503),
    (AgentResolverFailed, 503),
    (UnsupportedFeature, 501),
    (AlreadyDecided, 409),
    (AmbiguousTicket, 409),
    (ArgumentsChanged, 409),
    (InvalidEdit, 422),
    (EditDenied, 403),
    (AlreadyExists, 409),
    (DedupeConflict, 409),
    (IdempotencyConflict, 409),
    (IllegalTransition, 409),
    (InvalidResume, 409),
    (LeaseLost, 409),
    (ThreadBusy, 409),
    (ThreadHasWorkflow, 409),
    (ThreadClaimed, 409),
    (VersionConflict, 409),
    (InvalidContext, 422),
    (InvalidWorkflowInput, 422),
    (EventRefused, 422),
    (RunHasEnded, 409),
    (RunStillQueued, 409),
    (TooManyEvents, 409),
    (NotAWorkflow, 409),
    (ResetRefused, 409),
    (CursorInvalid, 400),
    (InvalidInput, 400),
    (InvalidRecord, 400),
    (UsageError, 400),
    (StorageError, 503),
)


class HttpError(Exception):
    """A refused request: the status, a stable code, and a text for people."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        headers: tuple[Header, ...] = (),
        details: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__(message)
        self.details = details
        """Further fields of the native form, such as a list of problems."""
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers
        self.request_id = ""
        """Set by the server; every error format should include it."""


SWITCHED_OFF = (AgentPaused, ModelDisabled, AgentUnusable)
"""Errors with status 503 that an operator has caused: nothing failed."""
_OPEN_503 = (QueueFull, AgentPaused, ModelDisabled, AgentResolverFailed)
"""Errors with status 503 whose message a client may read."""


def to_http_error(error: AwakenError) -> HttpError:
    """Convert an error of the runtime into the error that a client gets."""
    status = next((status for class_, status in _STATUSES if isinstance(error, class_)), 500)
    wait_ms = getattr(error, "retry_after_ms", None)
    headers: tuple[Header, ...] = ()
    if status == 503 or wait_ms is not None:
        headers = ((b"retry-after", str(max(1, -(-(wait_ms or 1000) // 1000))).encode()),)
    if isinstance(error, InstructionsFailed):
        # Why is in the log: the agent's function may have named anything.
        message = f"Agent '{error.agent_id}' could not make its instructions."
        return HttpError(500, error.code, message)
    if status == 500:
        return HttpError(500, "internal_error", "Something went wrong here; the log has more.")
    if isinstance(error, AgentUnusable):
        # What is wrong with it is for those who may read the configuration.
        message = f"Agent '{error.agent_id}' cannot be used in this process."
        return HttpError(503, error.code, message, headers)
    if status == 503 and not isinstance(error, _OPEN_503):
        # The message of a store may name files, servers and SQL statements.
        return HttpError(503, error.code, "The store could not answer; try again later.", headers)
    return HttpError(status, error.code, str(error), headers, _details_of(error))


def _details_of(error: AwakenError) -> dict[str, Any]:
    """What a client needs besides the message to show or mend the error."""
    details: dict[str, Any] = {}
    match error:
        case InvalidConfig(problems=problems) | RefusedByWorkers(problems=problems):
            # Long lists are cut: the count says how many there are.
            details = {"problems": problems[:PROBLEMS_MAX], "problem_count": len(problems)}
        case RecordInUse(used_by=users):
            details = {"used_by": [{"namespace": it[0], "id": it[1]} for it in users]}
        case PublishRefused(unmet=unmet):
            details = {"unmet": unmet}
        case MissingSecrets(refs=refs):
            details = {"missing_secrets": refs}
        case DraftHasConflicts(paths=paths):
            details = {"conflicts": paths}
        case (
            RecordConflict(expected=expected, actual=actual)
            | DraftConflict(expected=expected, actual=actual)
            | LiveConflict(expected=expected, actual=actual)
            | CanaryConflict(expected=expected, actual=actual)
        ):
            details = {"expected": expected, "actual": actual}
        case EditDenied(rule=rule):
            details = {"rule": rule}
        case VersionNotFound():
            details = {"reason": "unknown"}
    return details


def hide_problem_namespace(problem: HttpError, tenant_id: str | None) -> HttpError:
    """Remove the tenant's namespace from the message, so that it has the ids the tenant knows."""
    if namespace := namespace_of(tenant_id):
        problem.message = problem.message.replace(namespace, "")
    return problem


def native_refusal(problem: HttpError) -> Bytes:
    """The error as the native API writes it."""
    body = {"error": problem.message, "code": problem.code, **problem.details}
    if problem.request_id:
        body["request_id"] = problem.request_id
    return as_json(body, problem.status, problem.headers)
