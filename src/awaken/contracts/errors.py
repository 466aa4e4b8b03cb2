"""Every error awaken raises, as one tree. Catch broad, recover narrow.

    AwakenError                    code: stable string · retryable: may the same call succeed later
    ├── UsageError                 the caller is wrong
    │   ├── UnknownAgent  UnknownThread  UnknownRun  UnknownTicket  UnknownAnswer
    │   ├── InvalidInput  InvalidSpec  IllegalTransition
    │   ├── ThreadBusy  AlreadyDecided  InvalidResume  UnsupportedFeature
    │   └── DuplicateRegistration  UnknownReference  InvalidPluginConfig
    ├── StateError                 a state command cannot be applied
    ├── RunError                   a run, a model call or a tool went wrong
    │   ├── RunFailed  PluginFailed  LimitExceeded
    │   ├── ModelError             see `model_errors.py` for the classes
    │   └── ToolError              see `tools.py` for the kinds
    └── StorageError               the store refused or could not answer

An error's message is built from its fields, so that callers read fields and people read text.
"""

from typing import Any, ClassVar


class AwakenError(Exception):
    """Root of every error that awaken raises on purpose."""

    code: ClassVar[str] = "awaken_error"
    retryable: ClassVar[bool] = False
    template: ClassVar[str] = "{message}"

    def __init__(self, message: str | None = None, **fields: Any) -> None:
        self.fields = fields
        self.__dict__.update(fields)
        super().__init__(self.template.format(**fields) if message is None else message)


class UsageError(AwakenError):
    """The caller asked for something that cannot be."""

    code = "usage_error"


class UnknownAgent(UsageError):
    """No such agent is registered."""

    code = "unknown_agent"
    template = "Agent '{agent_id}' is not registered; known agents: {known}."
    agent_id: str


class UnknownThread(UsageError):
    """No such thread exists, or it is not the tenant's who asks."""

    code = "unknown_thread"
    template = "thread not found: {thread_id}"
    thread_id: str


class UnknownRun(UsageError):
    """No such run exists."""

    code = "unknown_run"
    template = "run not found: {run_id}"
    run_id: str


class UnknownTicket(UsageError):
    """No such ticket exists, or it belongs to another run."""

    code = "unknown_ticket"
    template = "Ticket '{ticket_id}' does not exist; list the open ones with `tickets()`."
    ticket_id: str


class UnknownAnswer(UsageError):
    """No such remembered answer is kept where it was looked for."""

    code = "unknown_answer"
    template = "Answer '{answer_id}' is not remembered here; list those that are."
    answer_id: str


class InvalidInput(UsageError):
    """An argument is malformed; nothing was changed."""

    code = "invalid_input"
    template = "{what} is invalid: {problem}."
    what: str
    problem: str


class InvalidSpec(UsageError):
    """A declarative spec cannot be accepted; nothing was changed."""

    code = "invalid_spec"
    template = "{what} is invalid: {problem}."
    what: str
    problem: str


class InvalidValue(InvalidSpec, ValueError):
    """A value that was made in code cannot be; where one is decoded, the decoder adds its place."""


class IllegalTransition(UsageError):
    """A life cycle does not allow this move."""

    code = "illegal_transition"
    template = "{thing} cannot go from '{old}' to '{new}'."
    thing: str
    old: str
    new: str


class ThreadBusy(UsageError):
    """The thread (or the run id) is active; one run per thread at a time."""

    code = "thread_busy"
    retryable = True
    template = (
        "Thread '{thread_id}' has an active run '{run_id}'; steer it, wait for it or cancel it."
    )
    thread_id: str
    run_id: str


class AlreadyDecided(UsageError):
    """The ticket was decided differently, or closed, before this decision arrived."""

    code = "already_decided"
    template = "Ticket '{ticket_id}' is {status}; a decision is taken once."
    ticket_id: str
    status: str


class InvalidResume(UsageError):
    """The run to continue does not exist or cannot be continued."""

    code = "invalid_resume"
    template = "Run '{run_id}' cannot be continued: {problem}."
    run_id: str
    problem: str


class UnsupportedFeature(UsageError):
    """The agent's backend lacks what the request needs; refused before the run began."""

    code = "unsupported_feature"
    template = "agent '{agent_id}' backend does not support: {features}"
    agent_id: str
    features: str


class DuplicateRegistration(UsageError):
    """The same id was registered twice."""

    code = "duplicate_registration"
    template = "{kind} '{name}' is registered twice; ids must be unique."
    kind: str
    name: str


class UnknownReference(UsageError):
    """A spec names something that is not registered."""

    code = "unknown_reference"
    template = "{owner} names {kind} '{name}', which is not registered; known: {known}."
    owner: str
    kind: str
    name: str


class InvalidPluginConfig(UsageError):
    """A config section does not fit the schema its plugin declared."""

    code = "invalid_plugin_config"
    template = "Section '{section}' of agent '{agent_id}' is invalid: {problem}."
    section: str
    agent_id: str
    problem: str


class StateError(AwakenError):
    """A state command cannot be applied; nothing was applied."""

    code = "state_error"


class RevisionConflict(StateError):
    """The command was made for another revision."""

    code = "revision_conflict"
    template = "State is at revision {actual}, the command expects {expected}."
    expected: int
    actual: int


class BaseRevisionMismatch(StateError):
    """Two batches made for different revisions cannot be joined."""

    code = "base_revision_mismatch"
    template = "Cannot join batches made for revisions {left} and {right}."
    left: int
    right: int


class PluginAlreadyInstalled(StateError):
    """A plugin of this name is installed already."""

    code = "plugin_already_installed"
    template = "Plugin '{name}' is already installed."
    name: str


class PluginNotInstalled(StateError):
    """No plugin of this name is installed."""

    code = "plugin_not_installed"
    template = "Plugin '{name}' is not installed."
    name: str


class KeyAlreadyRegistered(StateError):
    """Another state key has this name."""

    code = "key_already_registered"
    template = "State key '{key}' is registered twice; names are global, choose another."
    key: str


class UnknownKey(StateError):
    """The state key is not registered."""

    code = "unknown_key"
    template = "State key '{key}' is not registered; register it in a plugin."
    key: str


class KeyCodecError(StateError):
    """A value does not fit its state key, profile key or config section, in either direction."""

    code = "key_codec_error"
    template = "Key '{key}': {problem}."
    key: str
    problem: str


class HandlerAlreadyRegistered(StateError):
    """An action or effect has two handlers."""

    code = "handler_already_registered"
    template = "{kind} '{key}' has two handlers."
    kind: str
    key: str


class UnknownHandler(StateError):
    """An action was scheduled, or an effect emitted, that nobody handles."""

    code = "unknown_handler"
    template = "No plugin handles {kind} '{key}'."
    kind: str
    key: str


class PhaseNotConverging(StateError):
    """Scheduled actions kept scheduling more of themselves."""

    code = "phase_not_converging"
    template = "Phase '{phase}' still has actions after {max_rounds} rounds."
    phase: str
    max_rounds: int


class MergeConflict(StateError):
    """Two parallel commands touch one exclusive key."""

    code = "merge_conflict"
    template = "Parallel commands {owners} both touch the exclusive state key '{key}'."
    key: str
    owners: str


class RunError(AwakenError):
    """A run, or something in it, went wrong."""

    code = "run_error"


class RunFailed(RunError):
    """The run ended with an error; `result` has everything it produced before."""

    code = "run_failed"
    template = "Run '{run_id}' failed ({cause_code}): {cause}"
    run_id: str
    cause: str
    cause_code: str
    result: Any


class PluginFailed(RunError):
    """A plugin's code raised, or answered with something it may not answer with."""

    code = "plugin_failed"
    template = "{what} of plugin '{plugin}' {problem}."
    what: str
    plugin: str
    problem: str


class LimitExceeded(RunError):
    """Something is larger than its limit."""

    code = "limit_exceeded"
    template = "{what} is {size}, the limit is {limit}."
    what: str
    size: int
    limit: int


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
    """Somebody else wrote first; nothing was written."""

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
        "The claim on thread '{thread_id}' is not held any more: somebody else has taken the "
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
    """Somebody else has a claim on the thread; nothing was written."""

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


class CursorExpired(StorageError):
    """What comes after the cursor was purged; read again from the start."""

    code = "cursor_expired"
    template = "Events of thread '{thread_id}' up to {purged_seq} were purged; read from there."
    thread_id: str
    purged_seq: int


class StoreTooNew(StorageError):
    """The store was written by a newer version of awaken; nothing was changed."""

    code = "store_too_new"
    template = "Store {store} has schema {found}, this version knows {known}; upgrade awaken."
    store: str
    found: int
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
