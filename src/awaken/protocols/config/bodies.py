"""The bodies and queries of requests about the configuration."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.config.heads import CanaryPlan, SeenCanary, SwitchState
from awaken.contracts.record import StrictRecord
from awaken.managed.differences import Preference
from awaken.managed.files import ApplyOptions, FileSet

Title = Annotated[str, Meta(max_length=200)]
Reason = Annotated[str, Meta(max_length=2_000)]
Number = Annotated[int, Meta(ge=1, le=2**53)]
Place = Annotated[int, Meta(ge=0, le=2**53)]

LIST_LIMIT = 100
LIST_MAX = 1_000


class NoQuery(StrictRecord, frozen=True, kw_only=True):
    """Nothing: a write takes no field that it would not heed, such as `dry_run`."""


class ChangeNote(StrictRecord, frozen=True, kw_only=True):
    """The message of the publication."""

    message: Reason = ""


class RecordPaging(StrictRecord, frozen=True, kw_only=True):
    """A page of records."""

    offset: Place = 0
    limit: Annotated[int, Meta(ge=1, le=LIST_MAX)] = LIST_LIMIT


class WriteQuery(StrictRecord, frozen=True, kw_only=True):
    """How a write of one record is made."""

    dry_run: bool = False
    message: Reason = ""
    strict: bool = False
    """Of an MCP server: whether it must be connected within `connect_ms` before it is live."""


class RemovalQuery(StrictRecord, frozen=True, kw_only=True):
    """How a record is deleted; `force` takes the models of a provider along."""

    force: bool = False
    message: Reason = ""


class ValidateQuery(StrictRecord, frozen=True, kw_only=True):
    """Which record is validated, if the body does not say it."""

    id: str | None = None


class RestoreBody(StrictRecord, frozen=True, kw_only=True):
    """The version to restore: an audit event, an object, or a publication."""

    version: str | int
    message: Reason = ""


class NewDraft(StrictRecord, frozen=True, kw_only=True):
    """A draft to begin, or its new title."""

    title: Title = ""


class DraftRecord(StrictRecord, frozen=True, kw_only=True):
    """A record of a draft: exactly one of a whole record, overrides, or a deletion."""

    spec: dict[str, Any] | None = None
    overrides: dict[str, Any] | None = None
    hidden: bool = False
    delete: bool = False


class RebaseBody(StrictRecord, frozen=True, kw_only=True):
    """Whose value a field takes that both sides changed; without it they are refused."""

    prefer: Preference | None = None
    fields: dict[str, Preference] = msgspec.field(default_factory=dict)
    """The same for single fields, by the paths of the refusal: `agents/support/system_prompt`."""


class PublishBody(StrictRecord, frozen=True, kw_only=True):
    """How a draft becomes live."""

    message: Reason = ""
    expected_head: Place | None = None
    require: Literal["self", "all"] = "self"
    canary: CanaryPlan | None = None
    over_canary: SeenCanary | None = None
    """The canary that is ended by it; another one refuses the request."""


class PublicationPaging(StrictRecord, frozen=True, kw_only=True):
    """A page of publications, newest first, before one of them."""

    before: Number | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    ephemeral: bool = False


class RollbackBody(StrictRecord, frozen=True, kw_only=True):
    """The publication to go back to, and what the caller saw when it asked."""

    publication: Number
    expected_head: Place
    """The publication that is live, 0 for the code alone; another one refuses the request."""
    message: Reason = ""
    over_canary: SeenCanary | None = None
    """The canary that is ended by it; another one refuses the request."""


class CanaryBody(CanaryPlan, frozen=True, kw_only=True):
    """An earlier publication to try, and how."""

    publication: Number


class PromoteBody(SeenCanary, frozen=True, kw_only=True):
    """Which canary becomes live, and why; another one refuses the request."""

    message: Reason = ""


class ReleaseQuery(StrictRecord, frozen=True, kw_only=True):
    """Which switch is released."""

    set_at: Place | None = None
    """When it was set, the `at` of the switch; one that was set again refuses the request."""


class SwitchBody(StrictRecord, frozen=True, kw_only=True):
    """How something is stopped, and why."""

    state: SwitchState
    reason: Annotated[str, Meta(max_length=500)]
    set_at: Place | None = None
    """The `at` of the switch that this one replaces, 0 for none; one that another person has set
    meanwhile refuses the request. Absent: whatever is set is replaced."""


class SecretBody(StrictRecord, frozen=True, kw_only=True):
    """The text of a secret; no reply ever has it."""

    value: Annotated[str, Meta(min_length=1, max_length=65_536)]


class LoginReply(StrictRecord, frozen=True, kw_only=True):
    """The query with which an authorization server sent the browser back."""

    state: Annotated[str, Meta(min_length=1, max_length=2_000)]
    code: Annotated[str, Meta(max_length=8_000)] | None = None
    iss: Annotated[str, Meta(max_length=2_000)] | None = None
    error: Annotated[str, Meta(max_length=500)] | None = None
    error_description: Annotated[str, Meta(max_length=2_000)] | None = None


class TestQuery(StrictRecord, frozen=True, kw_only=True):
    """Whether the test of a provider makes one tiny call, which costs a few tokens."""

    call: bool = False


class ForceQuery(StrictRecord, frozen=True, kw_only=True):
    """Whether something is removed although it is in use."""

    force: bool = False


class FilesBody(StrictRecord, frozen=True, kw_only=True):
    """Files, and how they are compared with what is live."""

    files: FileSet
    options: ApplyOptions = ApplyOptions()


class ExportQuery(StrictRecord, frozen=True, kw_only=True):
    """What is exported: a publication, absent the live one, and one kind, absent all."""

    publication: Number | None = None
    kind: str | None = None


class AuditFilter(StrictRecord, frozen=True, kw_only=True):
    """Audit events by what they name; times are RFC 3339 or milliseconds."""

    resource: str | None = None
    action: AuditAction | None = None
    actor: str | None = None
    since: str | None = None
    until: str | None = None
    limit: Annotated[int, Meta(ge=1, le=LIST_MAX)] = 50
    cursor: str | None = None
