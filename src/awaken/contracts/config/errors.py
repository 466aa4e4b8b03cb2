"""Errors of managed configuration; each says what to do."""

from awaken.contracts.errors import NotServedHere, StorageError, UsageError

from .compiler import ConfigProblem

PROBLEMS_MAX = 100
"""How many problems an error lists; after them comes a count."""


class ConfigError(UsageError):
    """A change of the configuration cannot be made."""

    code = "config_error"


class InvalidConfig(ConfigError):
    """Some records are invalid; nothing was written."""

    code = "invalid_config"
    problems: tuple[ConfigProblem, ...]

    def describe(self) -> str:
        """Say how many problems there are, and the first."""
        first = self.problems[0]
        count = len(self.problems)
        more = f" ({count - 1} more)" if count > 1 else ""
        return f"{first.path}: {first.message}{more}"


class UnknownNamespace(ConfigError):
    """There is no such namespace."""

    code = "unknown_namespace"
    template = "There is no namespace '{namespace}'; known: {known}."
    namespace: str
    known: str


class UnknownConfigRecord(ConfigError):
    """There is no such record."""

    code = "unknown_record"
    template = "{namespace}/{record_id} not found"
    namespace: str
    record_id: str


class RecordExists(ConfigError):
    """A record that is to be created exists already."""

    code = "record_exists"
    template = "{namespace}/{record_id} already exists"
    namespace: str
    record_id: str


class OwnedByCode(ConfigError):
    """A record has the id of one that the code declares; write an override instead."""

    code = "owned_by_code"
    template = (
        "{namespace}/{record_id} is declared in code: write its overrides, or choose another id."
    )
    namespace: str
    record_id: str


class RecordConflict(ConfigError):
    """A record has changed since the caller read it."""

    code = "record_conflict"
    template = (
        "{namespace}/{record_id} has revision {actual}, not {expected}: read it again, then write."
    )
    namespace: str
    record_id: str
    expected: int
    actual: int


class RecordInUse(ConfigError):
    """Other records name one that is to be deleted."""

    code = "in_use"
    template = "{namespace}/{record_id} is used by {users}; change these first."
    namespace: str
    record_id: str
    used_by: tuple[tuple[str, str], ...]
    """Namespace and id of each."""
    users: str


class VersionNotFound(ConfigError):
    """There is no such version of a record."""

    code = "version_not_found"
    template = "version not found"
    version: str


class VersionUnusable(ConfigError):
    """A version cannot be restored: it is of another record, or has no body."""

    code = "version_unusable"
    template = "Version '{version}' cannot be restored: {problem}."
    version: str
    problem: str


class PublishRefused(ConfigError):
    """The rules for publishing are not met."""

    code = "publish_refused"
    template = "The change cannot be published: {reasons}."
    unmet: tuple[str, ...]
    reasons: str


class UnknownPublication(ConfigError, NotServedHere):
    """There is no such publication, or it was purged."""

    code = "unknown_publication"
    template = "Publication {no} does not exist, or was purged."
    no: int


class DraftNotFound(ConfigError):
    """There is no such draft: it was published, discarded or has expired."""

    code = "draft_not_found"
    template = "Draft '{draft_id}' does not exist: it was published, discarded, or has expired."
    draft_id: str


class DraftConflict(ConfigError):
    """A draft has changed since the caller read it."""

    code = "draft_conflict"
    template = "Draft '{draft_id}' has revision {actual}, not {expected}: read it again."
    draft_id: str
    expected: int
    actual: int


class DraftHasConflicts(ConfigError):
    """A draft and what is live changed the same fields differently."""

    code = "draft_has_conflicts"
    template = "Draft '{draft_id}' and what is live both changed {names}: rebase with a preference."
    draft_id: str
    paths: tuple[str, ...]
    names: str


class DraftTooLarge(ConfigError):
    """A draft changes too many records."""

    code = "draft_too_large"
    template = "A draft changes at most {limit} records; publish a part of it first."
    limit: int


class MissingSecrets(ConfigError):
    """A configuration names secrets that do not exist."""

    code = "missing_secrets"
    template = "These secrets do not exist: {names}; set them first."
    refs: tuple[str, ...]
    names: str


class SecretsUnavailable(ConfigError):
    """A secret cannot be stored or read here."""

    code = "secrets_unavailable"
    template = "{problem}"
    problem: str


class ConfigNotEnabled(ConfigError):
    """The runtime has no managed configuration."""

    code = "config_not_enabled"
    template = "config management API not enabled"


class UnknownSwitch(ConfigError):
    """There is no such switch, or it does not fit what it stops."""

    code = "invalid_switch"
    template = "Switch {kind}/{target}: {problem}."
    kind: str
    target: str
    problem: str


class NoCanary(ConfigError):
    """No publication is being tried."""

    code = "no_canary"
    template = "No publication is being tried."


class CanaryConflict(ConfigError):
    """Another canary runs than the caller saw."""

    code = "canary_conflict"
    template = (
        "The canary of publication {expected} has ended, and one of publication {actual} runs: "
        "look at that one, then decide again."
    )
    expected: int
    actual: int


class LiveConflict(ConfigError):
    """Another publication is live than the caller saw."""

    code = "live_conflict"
    template = (
        "Publication {actual} is live, not {expected}: look at what changed meanwhile, then ask "
        "again. Publication 0 is the code alone."
    )
    expected: int
    actual: int


class SwitchConflict(ConfigError):
    """A switch was set again since the caller saw it."""

    code = "switch_conflict"
    template = "{by} has set switch {kind}/{target} since it was read: read why first."
    kind: str
    target: str
    by: str


class UnknownSecret(ConfigError):
    """There is no stored secret of this name."""

    code = "unknown_secret"
    template = "There is no stored secret '{ref}'."
    ref: str


class SecretInUse(ConfigError):
    """Records of the live publication name a secret that is to be removed."""

    code = "secret_in_use"
    template = "Secret '{ref}' is used by {users}; change these first, or force it."
    ref: str
    users: str


class RefusedByWorkers(ConfigError):
    """Another process cannot use a publication that all were asked to compile."""

    code = "refused_by"
    template = "Not every process can use the publication: {workers}."
    workers: str
    problems: tuple[ConfigProblem, ...]


class AgentUnusable(ConfigError, NotServedHere):
    """An agent of the publication does not compile with the code of this process."""

    code = "agent_unusable"
    template = "Agent '{agent_id}' cannot be used in this process: {problem}"
    agent_id: str
    problem: str


class HeadMoved(StorageError):
    """The head of the configuration has another revision than the writer saw."""

    code = "head_moved"
    template = "The configuration has revision {actual}, not {expected}: read it again."
    expected: int
    actual: int
