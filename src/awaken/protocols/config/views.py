"""The replies of the configuration as types: the OpenAPI document, and clients, have their fields.

A field without a default is always written. One with a default is left out while it has it, as in
the records that it comes from.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.config.compiler import ConfigProblem
from awaken.contracts.config.heads import Canary, Switch
from awaken.contracts.config.publications import ManifestEntry, Publication
from awaken.contracts.record import Record
from awaken.managed.differences import FieldDifference, MergeState
from awaken.managed.files import FilePlan, PlannedUpdate
from awaken.managed.impact import ConfigImpact

ConfigRecord = dict[str, Any]
"""A record in HTTP form; its fields are those of the schema of its namespace."""


class ConfigView(msgspec.Struct, frozen=True, kw_only=True):
    """A reply whose fields are all written."""


class RecordPage(ConfigView, frozen=True, kw_only=True):
    """A page of the records of a namespace."""

    namespace: str
    items: tuple[ConfigRecord, ...]
    offset: int
    limit: int


class BuiltinSource(ConfigView, frozen=True, kw_only=True, tag_field="kind", tag="builtin"):
    """The record is one of the code, of this version of awaken."""

    binary_version: str


class UserSource(ConfigView, frozen=True, kw_only=True, tag_field="kind", tag="user"):
    """The record was made over HTTP, or from files."""


class RecordFacts(ConfigView, frozen=True, kw_only=True):
    """What is known of a record besides its body, as Awaken for Rust has it, and what we add."""

    source: BuiltinSource | UserSource
    hidden: bool
    created_at: int
    updated_at: int
    revision: int
    owner: str
    """`code`, `user`, `override`, or `file:` and the name of the files."""
    drift: bool
    """Whether it was changed elsewhere since its files were applied."""
    publication: int | None
    hash: str | None
    updated_by: str | None
    user_overrides: ConfigRecord | UnsetType = UNSET
    """The fields of a record of the code that are overridden; absent: none is."""


class ListedFacts(RecordFacts, frozen=True, kw_only=True):
    """What is known of a record in a list."""

    id: str


class FactsPage(ConfigView, frozen=True, kw_only=True):
    """A page of what is known of the records of a namespace."""

    namespace: str
    items: tuple[ListedFacts, ...]
    offset: int
    limit: int


class CheckedRecord(ConfigView, frozen=True, kw_only=True):
    """A record that compiles, and what it would change."""

    ok: Literal[True] = True
    normalized: ConfigRecord
    problems: tuple[ConfigProblem, ...] = ()
    diagnostics: tuple[ConfigProblem, ...]
    impact: ConfigImpact


class LiveDiagnostics(ConfigView, frozen=True, kw_only=True):
    """Warnings and problems of the live configuration in this process."""

    publication: int | None
    unusable: dict[str, str]
    """Why an agent cannot start here, by its id."""
    diagnostics: tuple[ConfigProblem, ...]


class ProviderRemoval(ConfigView, frozen=True, kw_only=True):
    """What removing a provider would affect."""

    provider: str
    models: tuple[str, ...]
    model_pools: tuple[str, ...]
    agents: tuple[str, ...]


class PutView(ConfigView, frozen=True, kw_only=True, tag_field="type", tag="put"):
    """A draft writes a whole record."""

    ns: str
    id: str
    spec: ConfigRecord


class PatchView(ConfigView, frozen=True, kw_only=True, tag_field="type", tag="patch"):
    """A draft overrides fields of a record of the code."""

    ns: str
    id: str
    overrides: ConfigRecord
    hidden: bool


class DeleteView(ConfigView, frozen=True, kw_only=True, tag_field="type", tag="delete"):
    """A draft deletes a record."""

    ns: str
    id: str


DraftChange = PutView | PatchView | DeleteView


class NamedChange(ConfigView, frozen=True, kw_only=True):
    """A change of a draft without its body."""

    ns: str
    id: str
    type: Literal["put", "patch", "delete"]


class DraftHead(Record, frozen=True, kw_only=True):
    """What is known of a draft besides its changes."""

    id: str
    title: str = ""
    base: int | None
    """The publication that it was begun on; null before the first one."""
    owner: str = ""
    editors: tuple[str, ...] = ()
    revision: int = 0
    origin: str | None = None
    """The name of the files that it was made from."""
    created_at: int = 0
    updated_at: int = 0
    expires_at: int = 0


class DraftView(DraftHead, frozen=True, kw_only=True):
    """A draft with its changes."""

    changes: tuple[DraftChange, ...]


class DraftSummary(DraftHead, frozen=True, kw_only=True):
    """A draft in a list: its changes without their bodies."""

    changes: tuple[NamedChange, ...]


class DraftList(ConfigView, frozen=True, kw_only=True):
    """The drafts, the latest edited first."""

    items: tuple[DraftSummary, ...]


class CheckedDraft(ConfigView, frozen=True, kw_only=True):
    """Whether a draft compiles, and what it would change."""

    ok: bool
    problems: tuple[ConfigProblem, ...]
    problem_count: int
    diagnostics: tuple[ConfigProblem, ...]
    impact: ConfigImpact


class PreviewedDraft(ConfigView, frozen=True, kw_only=True):
    """The ephemeral publication of a draft."""

    publication: int


class PublishedRecord(ConfigView, frozen=True, kw_only=True):
    """A record that a publication changed; the revision of one that is gone is 0."""

    ns: str
    id: str
    revision: int


class PublishedDraft(ConfigView, frozen=True, kw_only=True):
    """The publication that a draft became."""

    publication: int
    parent: int | None
    changes: tuple[PublishedRecord, ...]
    diagnostics: tuple[ConfigProblem, ...]


class ChangedRecord(PublishedRecord, frozen=True, kw_only=True):
    """A record that a publication changed, with the hashes of its objects."""

    before: str | None
    after: str | None


class PublicationView(Record, frozen=True, kw_only=True):
    """A publication as a list shows it."""

    publication: int
    parent: int | None = None
    kind: str = "live"
    message: str = ""
    created_by: str = ""
    created_at: int = 0
    origin: str = "api"
    draft_id: str | None = None
    manifest_hash: str = ""
    changes: tuple[ChangedRecord, ...] = ()


class WholePublication(PublicationView, frozen=True, kw_only=True):
    """A publication with everything that it names."""

    manifest: dict[str, dict[str, ManifestEntry]]
    """Every record by namespace and id."""
    code: dict[str, str]
    """Hashes of the publisher's own agents and tools."""


class PublicationPage(ConfigView, frozen=True, kw_only=True):
    """Publications, newest first."""

    items: tuple[PublicationView, ...]
    next_before: int | UnsetType = UNSET
    """Where the next page begins; absent: this is the last one."""


class ComparedRecord(ConfigView, frozen=True, kw_only=True):
    """How one record differs between two publications."""

    ns: str
    id: str
    state: MergeState
    fields: tuple[FieldDifference, ...]


class PublicationDifference(ConfigView, frozen=True, kw_only=True):
    """The records in which two publications differ."""

    before: int
    after: int
    records: tuple[ComparedRecord, ...]
    undone: tuple[PublicationView, ...] = ()
    """If the second is the earlier one: what going back to it undoes, newest first, at most 200."""


class RolledBack(ConfigView, frozen=True, kw_only=True):
    """The publication that a rollback made, and whether it changed anything."""

    publication: int
    is_changed: bool


class MovedHead(ConfigView, frozen=True, kw_only=True):
    """The head after a change of it."""

    publication: int | None
    revision: int


class AppliedHead(ConfigView, frozen=True, kw_only=True):
    """What this process has applied."""

    publication: int | None
    revision: int
    applied_at: int | None
    unusable: dict[str, str]
    problem: str | None


class FollowerView(ConfigView, frozen=True, kw_only=True):
    """What one process of the store has applied."""

    id: str
    publication: int | None
    problem: str | None


class HeadView(ConfigView, frozen=True, kw_only=True):
    """What is live, what is tried, what is switched off, and which processes follow."""

    publication: int | None
    revision: int
    canary: Canary | None
    switches: tuple[Switch, ...]
    this_process: AppliedHead
    workers: tuple[FollowerView, ...]


class SwitchList(ConfigView, frozen=True, kw_only=True):
    """What operators have stopped."""

    items: tuple[Switch, ...]


class SecretView(ConfigView, frozen=True, kw_only=True):
    """That a secret is stored, by whom and since when; never its value."""

    ref: str
    key_id: str
    updated_at: int
    updated_by: str


class SecretList(ConfigView, frozen=True, kw_only=True):
    """The stored secrets."""

    items: tuple[SecretView, ...]


class RecordPlace(ConfigView, frozen=True, kw_only=True):
    """A record by its namespace and id."""

    ns: str
    id: str


class PlanView(ConfigView, frozen=True, kw_only=True):
    """What files would change; of its problems the first ones, and how many there are."""

    head: int | None
    has_changes: bool
    creates: tuple[RecordPlace, ...]
    updates: tuple[PlannedUpdate, ...]
    deletes: tuple[RecordPlace, ...]
    drift: tuple[RecordPlace, ...]
    kept: tuple[RecordPlace, ...]
    missing_secrets: tuple[str, ...]
    problems: tuple[ConfigProblem, ...]
    problem_count: int
    diagnostics: tuple[ConfigProblem, ...]


class AppliedPlan(PlanView, frozen=True, kw_only=True):
    """What files changed, and the publication that has it."""

    publication: int | None
    is_changed: bool


class ExportedFiles(ConfigView, frozen=True, kw_only=True):
    """The records of a publication as files would have them."""

    publication: int | None
    records: dict[str, dict[str, ConfigRecord]]
    overrides: dict[str, dict[str, ConfigRecord]]


class AuditItem(Record, frozen=True, kw_only=True):
    """One act, with the record before and after it as far as they are kept."""

    id: str
    ts: str
    actor: str
    action: AuditAction
    resource: str
    ip: str | None = None
    request_id: str | None = None
    restored_from: str | None = None
    error: str | None = None
    publication: int | None = None
    message: str | None = None
    details: dict[str, Any] | None = None
    before: ConfigRecord | UnsetType = UNSET
    after: ConfigRecord | UnsetType = UNSET


class AuditPage(ConfigView, frozen=True, kw_only=True):
    """Audit events, newest first."""

    items: tuple[AuditItem, ...]
    next_cursor: str | UnsetType = UNSET
    """Where the next page begins; absent: this is the last one."""


def publication_view(publication: Publication) -> PublicationView:
    """A publication without its manifest."""
    return PublicationView(**_describe(publication))


def whole_publication(publication: Publication) -> WholePublication:
    """A publication with its manifest."""
    return WholePublication(
        **_describe(publication), manifest=publication.manifest, code=publication.code
    )


def _describe(publication: Publication) -> dict[str, Any]:
    return {
        "publication": publication.no,
        "parent": publication.parent,
        "kind": publication.kind.value,
        "message": publication.message,
        "created_by": publication.created_by,
        "created_at": publication.created_at,
        "origin": publication.origin.value,
        "draft_id": publication.draft_id,
        "manifest_hash": publication.manifest_hash,
        "changes": tuple(
            ChangedRecord(
                ns=it.namespace,
                id=it.id,
                before=None if it.before is None else it.before.hash,
                after=None if it.after is None else it.after.hash,
                revision=0 if it.after is None else it.after.revision,
            )
            for it in publication.changes
        ),
    }


def describe_plan(plan: FilePlan, problems_max: int) -> dict[str, Any]:
    """The fields of a `PlanView`."""

    def name_places(pairs: tuple[tuple[str, str], ...]) -> tuple[RecordPlace, ...]:
        return tuple(RecordPlace(ns=ns, id=it) for ns, it in pairs)

    return {
        "head": plan.head,
        "has_changes": plan.has_changes,
        "creates": name_places(plan.creates),
        "updates": plan.updates,
        "deletes": name_places(plan.deletes),
        "drift": name_places(plan.drift),
        "kept": name_places(plan.kept),
        "missing_secrets": plan.missing_secrets,
        "problems": plan.problems[:problems_max],
        "problem_count": len(plan.problems),
        "diagnostics": plan.diagnostics[:problems_max],
    }
