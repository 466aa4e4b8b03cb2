"""Errors of stores: the store refused, or could not answer."""

from .awaken_error import AwakenError


class StorageError(AwakenError):
    """The store refused, or could not answer."""

    code = "storage_error"


class InvalidRecord(StorageError):
    """The record breaks a rule of the store; nothing was written."""

    code = "invalid_record"
    template = "{what}: {problem}."
    what: str
    problem: str


class RecordNotFound(StorageError):
    """No such record."""

    code = "record_not_found"
    template = "{kind} '{record_id}' does not exist."
    kind: str
    record_id: str


class AlreadyExists(StorageError):
    """A record with this id exists."""

    code = "already_exists"
    template = "{kind} '{record_id}' already exists."
    kind: str
    record_id: str


class VersionConflict(StorageError):
    """Another writer committed first; nothing was written."""

    code = "version_conflict"
    template = "Thread '{thread_id}' is at version {actual}, the commit expects {expected}."
    thread_id: str
    expected: int
    actual: int


class IdempotencyConflict(StorageError):
    """The same commit id came twice with different contents."""

    code = "idempotency_conflict"
    template = "Commit '{commit_id}' was applied with other contents."
    commit_id: str


class LeaseLost(StorageError):
    """The writer's fencing token is stale; nothing was written."""

    code = "lease_lost"
    template = (
        "The claim on thread '{thread_id}' is not held any more: another worker has taken the "
        "thread over, or it was deleted."
    )
    thread_id: str


class InvalidTranscript(StorageError):
    """The commit would leave a tool call without exactly one result; nothing was written."""

    code = "invalid_transcript"
    template = "Thread '{thread_id}': {problem}."
    thread_id: str
    problem: str


class StoreUnavailable(StorageError):
    """The store cannot be reached."""

    code = "store_unavailable"
    retryable = True
    template = "Store {store} is unavailable: {problem}."
    store: str
    problem: str


class CommitUnknown(StorageError):
    """The commit may or may not be applied; ask for its id before doing anything else."""

    code = "commit_unknown"
    template = "The outcome of commit '{commit_id}' is unknown."
    commit_id: str


class CorruptRecord(StorageError):
    """A stored record cannot be decoded; it is named, and no default takes its place."""

    code = "corrupt_record"
    template = "{what} cannot be decoded: {problem}."
    what: str
    problem: str


class ThreadClaimed(StorageError):
    """Another worker has a claim on the thread; nothing was written."""

    code = "thread_claimed"
    retryable = True
    template = "Thread '{thread_id}' is claimed by '{worker_id}'."
    thread_id: str
    worker_id: str


class DedupeConflict(StorageError):
    """The same dedupe key came with another request; nothing was queued."""

    code = "dedupe_conflict"
    template = (
        "Dedupe key '{dedupe_key}' of thread '{thread_id}' was used for another request; use a "
        "new key for a new request."
    )
    thread_id: str
    dedupe_key: str


class QueueFull(StorageError):
    """Too much is queued already; nothing was queued."""

    code = "queue_full"
    retryable = True
    template = (
        "{what} has {size} queued dispatches, the limit is {limit}; retry in {retry_after_ms} ms."
    )
    what: str
    size: int
    limit: int
    retry_after_ms: int


class TenantQueueFull(QueueFull):
    """A tenant has as much queued as it may; nothing was queued, and others go on."""

    code = "tenant_queue_full"
    template = (
        "{what} has {size} queued dispatches, its limit is {limit}; wait until some have started, "
        "and retry in {retry_after_ms} ms, or let the operator raise `queue_limit` in "
        "`MailboxConfig.tenants`."
    )


class CursorExpired(StorageError):
    """What comes after the cursor was purged; read again from the start."""

    code = "cursor_expired"
    template = "Events of thread '{thread_id}' up to {purged_seq} were purged; read from there."
    thread_id: str
    purged_seq: int


class StoreTooNew(StorageError):
    """The store can be used by newer versions of awaken only; nothing was changed."""

    code = "store_too_new"
    template = (
        "Store {store} has schema {found}, readable from {readable_from}, and this version knows "
        "{known}; upgrade awaken."
    )
    store: str
    found: int
    readable_from: int
    known: int


class StoreCorrupt(StorageError):
    """The store's file is damaged; nothing was changed."""

    code = "store_corrupt"
    template = "Store {store} is damaged: {problem}. Restore it from a backup."
    store: str
    problem: str


class StoreFull(StorageError):
    """There is no room left; nothing was written."""

    code = "store_full"
    retryable = True
    template = "Store {store} has no room left: {problem}."
    store: str
    problem: str


class CursorInvalid(StorageError):
    """The cursor is malformed, expired, or belongs to another query."""

    code = "cursor_invalid"
    template = "The cursor is not valid here: {problem}."
    problem: str
