"""The rules of managed configuration: what a write makes, and what a purge may remove.

Pure functions over what a store has read; every store applies what they return.
"""

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from awaken.contracts.config.audit import AuditAnchor, AuditEvent, AuditRow, next_link
from awaken.contracts.config.drafts import ConfigDraft
from awaken.contracts.config.errors import DraftConflict, DraftNotFound, HeadMoved
from awaken.contracts.config.heads import ConfigHead
from awaken.contracts.config.publications import (
    Manifest,
    Publication,
    PublicationKind,
    hash_object,
)
from awaken.contracts.config.store import ConfigPurge, ConfigWrite, HeadTarget
from awaken.contracts.errors import IdempotencyConflict, InvalidRecord
from awaken.contracts.record import Record


class ConfigState(Record, frozen=True, kw_only=True):
    """What a store counts: numbers are never used again, whatever is purged."""

    publication: int = 0
    """The last number that a publication got."""
    audit_end: AuditAnchor = AuditAnchor()
    """The newest audit event."""
    audit_anchor: AuditAnchor = AuditAnchor()
    """The last audit event that was pruned."""


class WrittenConfig(Record, frozen=True, kw_only=True):
    """What a write makes of its parts: numbers are assigned and links are made."""

    state: ConfigState
    head: ConfigHead | None
    """The head as it becomes; None if the write has none."""
    publication: Publication | None
    audit: tuple[AuditRow, ...]


class PublicationAge(Record, frozen=True, kw_only=True):
    """What a purge must know of a publication."""

    no: int
    kind: PublicationKind
    created_at: int


def check_write(write: ConfigWrite) -> None:
    """Check that the parts of a write fit together.

    Raises:
        InvalidRecord: They do not.
    """
    for problem, is_wrong in (
        ("a head needs the revision that the writer saw", _lacks_revision(write)),
        ("a target needs a publication and a head", _lacks_target(write)),
        ("an ephemeral publication can be no head", _is_ephemeral_head(write)),
        ("the target canary needs a canary in the head", _lacks_canary(write)),
        ("an idempotency key cannot be blank", write.idempotency_key == ""),
        ("revisions of drafts count from 1", write.draft_revision == 0),
    ):
        if is_wrong:
            raise InvalidRecord(what="A write of the configuration", problem=problem)
    for name, body in write.objects.items():
        if hash_object(body) != name:
            raise InvalidRecord(what=f"Object '{name}'", problem="it is not the hash of its body")


def _lacks_revision(write: ConfigWrite) -> bool:
    return write.head is not None and write.expected_revision is None


def _lacks_target(write: ConfigWrite) -> bool:
    is_whole = write.publication is not None and write.head is not None
    return write.target is not HeadTarget.NONE and not is_whole


def _is_ephemeral_head(write: ConfigWrite) -> bool:
    kind = PublicationKind.LIVE if write.publication is None else write.publication.kind
    return write.target is not HeadTarget.NONE and kind is PublicationKind.EPHEMERAL


def _lacks_canary(write: ConfigWrite) -> bool:
    has_canary = write.head is not None and write.head.canary is not None
    return write.target is HeadTarget.CANARY and not has_canary


def check_request(write: ConfigWrite, request_hash: str) -> None:
    """Check that a write asks for what its key was used for.

    Raises:
        IdempotencyConflict: It asks for something else.
    """
    if write.request_hash != request_hash:
        raise IdempotencyConflict(commit_id=write.idempotency_key or "")


def apply_write(write: ConfigWrite, state: ConfigState, head: ConfigHead | None) -> WrittenConfig:
    """Return what a write makes of the state and the head that the store has.

    Raises:
        HeadMoved: The head has another revision than the writer saw.
        InvalidRecord: An audit event has no JSON form.
    """
    actual = 0 if head is None else head.revision
    if write.expected_revision is not None and write.expected_revision != actual:
        raise HeadMoved(expected=write.expected_revision, actual=actual)
    publication = write.publication
    if publication is not None:
        publication = replace(publication, no=state.publication + 1)
    audit = link_events(state.audit_end, _name_publication(write.audit, publication))
    end = AuditAnchor(no=audit[-1].no, chain=audit[-1].chain) if audit else state.audit_end
    number = state.publication if publication is None else publication.no
    return WrittenConfig(
        state=replace(state, publication=number, audit_end=end),
        head=_move_head(write, actual + 1, number),
        publication=publication,
        audit=audit,
    )


def _move_head(write: ConfigWrite, revision: int, number: int) -> ConfigHead | None:
    head = write.head
    if head is None:
        return None
    head = replace(head, revision=revision)
    if write.secrets or write.removed_secrets:
        head = replace(head, secrets_at=revision)
    if write.target is HeadTarget.LIVE:
        head = replace(head, publication=number)
    elif write.target is HeadTarget.CANARY and head.canary is not None:
        head = replace(head, canary=replace(head.canary, publication=number))
    return head


def _name_publication(
    events: Iterable[AuditEvent], publication: Publication | None
) -> Iterable[AuditEvent]:
    if publication is None:
        return events
    no = publication.no
    return (it if it.publication is not None else replace(it, publication=no) for it in events)


def link_events(end: AuditAnchor, events: Iterable[AuditEvent]) -> tuple[AuditRow, ...]:
    """Return the rows of events that follow the end of the chain.

    Raises:
        InvalidRecord: An event has no JSON form.
    """
    rows, no, chain = [], end.no, end.chain
    for event in events:
        try:
            no, chain = no + 1, next_link(chain, event)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidRecord(what=f"Audit event '{event.id}'", problem=str(error)) from error
        rows.append(AuditRow(no=no, event=event, chain=chain))
    return tuple(rows)


def list_named(head: ConfigHead | None) -> list[int]:
    """List the publications that a head names."""
    if head is None:
        return []
    canary = None if head.canary is None else head.canary.publication
    return [no for no in (head.publication, canary) if no is not None]


def list_needed_objects(write: ConfigWrite) -> list[str]:
    """List the objects that a publication changes records to, and that the write lacks.

    All other objects of a manifest are those of the publication that it changes, which stays.
    """
    if write.publication is None:
        return []
    after = (it.after.hash for it in write.publication.changes if it.after is not None)
    return sorted({it for it in after if it not in write.objects})


def check_objects(needed: Collection[str], found: Collection[str]) -> None:
    """Check that all objects that a publication needs exist.

    Raises:
        InvalidRecord: Some do not.
    """
    missing = [it for it in needed if it not in found]
    if missing:
        problem = f"it names {len(missing)} objects that do not exist, such as '{missing[0]}'"
        raise InvalidRecord(what="A publication", problem=problem)


def check_draft(draft_id: str, stored: int | None, expected: int | None) -> None:
    """Check the revision of a stored draft; None is absence, and expects nothing.

    Raises:
        DraftNotFound: It does not exist, and the writer has seen it.
        DraftConflict: It has another revision.
    """
    if stored is None:
        if expected != 0:
            raise DraftNotFound(draft_id=draft_id)
    elif expected is not None and stored != expected:
        raise DraftConflict(draft_id=draft_id, expected=expected, actual=stored)


def choose_removed(
    ages: Iterable[PublicationAge],
    head: ConfigHead | None,
    drafts: Iterable[int | None],
    purge: ConfigPurge,
) -> list[int]:
    """Return the publications that a purge removes; `drafts` are the bases of those that stay."""
    kept = {*purge.pinned, *list_named(head), *drafts}
    newest_first = sorted(ages, key=lambda it: it.no, reverse=True)
    live = [it for it in newest_first if it.kind is PublicationKind.LIVE]
    ephemeral = [it for it in newest_first if it.kind is PublicationKind.EPHEMERAL]
    old = [it for it in live[max(purge.keep_newest, 0) :] if it.created_at < purge.live_before]
    old += [it for it in ephemeral if it.created_at < purge.ephemeral_before]
    return sorted(it.no for it in old if it.no not in kept)


def is_expired(draft: ConfigDraft, purge: ConfigPurge) -> bool:
    """Whether a purge removes a draft."""
    return draft.expires_at < purge.drafts_before


def list_manifest_objects(manifest: Manifest) -> set[str]:
    """Return the objects that a manifest names."""
    return {entry.hash for entries in manifest.values() for entry in entries.values()}


def list_event_objects(event: AuditEvent) -> list[str]:
    """List the objects that an audit event names."""
    return [name for name in (event.before, event.after) if name is not None]


def omit_contents(publication: Publication) -> Publication:
    """Return a publication as it is listed: without its manifest and its hashes of code."""
    return replace(publication, manifest={}, code={})
