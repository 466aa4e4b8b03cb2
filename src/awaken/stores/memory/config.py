"""Managed configuration in this process's memory."""

from collections.abc import Collection, Mapping
from itertools import islice

from msgspec.structs import replace

from awaken.contracts.clock import Clock
from awaken.contracts.config.audit import AuditAnchor, AuditQuery, AuditRow
from awaken.contracts.config.drafts import ConfigDraft
from awaken.contracts.config.errors import UnknownPublication
from awaken.contracts.config.heads import ConfigHead
from awaken.contracts.config.publications import Publication, PublicationKind
from awaken.contracts.config.store import (
    ConfigPurge,
    ConfigReceipt,
    ConfigWrite,
    PurgedConfig,
    SealedSecret,
)
from awaken.stores.rules import config as rules


class ConfigInMemory:
    """A `ConfigStore` that lives as long as this object. No method suspends."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._state = rules.ConfigState()
        self._head: ConfigHead | None = None
        self._objects: dict[str, bytes] = {}
        self._publications: dict[int, Publication] = {}
        self._drafts: dict[str, ConfigDraft] = {}
        self._secrets: dict[str, SealedSecret] = {}
        self._requests: dict[str, tuple[str, int | None, int]] = {}
        """The request hash, the publication and the time of each idempotency key."""
        self._audit: dict[int, AuditRow] = {}
        """By number, in the order of the chain."""

    async def find_config_head(self) -> ConfigHead | None:
        """Return the head, or None before the first change."""
        return self._head

    async def write_config(self, write: ConfigWrite) -> ConfigReceipt:
        """Apply a write whole, or raise and change nothing; see `ConfigStore.write_config`."""
        rules.check_write(write)
        known = self._requests.get(write.idempotency_key or "")
        if known is not None:
            rules.check_request(write, known[0])
            publication = self._publications.get(known[1] or 0)
            return ConfigReceipt(publication=publication, head=self._head, is_repeated=True)
        written = rules.apply_write(write, self._state, self._head)
        self._check_names(write, written)
        self._apply(write, written)
        return ConfigReceipt(publication=written.publication, head=self._head)

    def _check_names(self, write: ConfigWrite, written: rules.WrittenConfig) -> None:
        """Check that all exists that the write names; nothing is changed before."""
        if write.removed_draft is not None:
            stored = self._drafts.get(write.removed_draft)
            revision = None if stored is None else stored.revision
            rules.check_draft(write.removed_draft, revision, write.draft_revision)
        made = None if written.publication is None else written.publication.no
        for no in rules.list_named(written.head):
            if no != made and no not in self._publications:
                raise UnknownPublication(no=no)
        rules.check_objects(rules.list_needed_objects(write), self._objects)

    def _apply(self, write: ConfigWrite, written: rules.WrittenConfig) -> None:
        self._state = written.state
        for name, body in write.objects.items():
            self._objects.setdefault(name, body)
        publication = written.publication
        if publication is not None:
            self._publications[publication.no] = publication
        if written.head is not None:
            self._head = written.head
        self._audit.update((row.no, row) for row in written.audit)
        for ref in write.removed_secrets:
            self._secrets.pop(ref, None)
        self._secrets.update((secret.ref, secret) for secret in write.secrets)
        if write.removed_draft is not None:
            del self._drafts[write.removed_draft]
        if write.idempotency_key is not None:
            made = None if publication is None else publication.no
            at = self._clock.now_ms()
            self._requests[write.idempotency_key] = (write.request_hash, made, at)

    async def find_config_request(self, idempotency_key: str) -> tuple[str, int | None] | None:
        """Return the request hash and the publication of an earlier write, or None."""
        known = self._requests.get(idempotency_key)
        return None if known is None else known[:2]

    async def load_publication(self, no: int) -> Publication | None:
        """Return a publication, or None."""
        return self._publications.get(no)

    async def list_publications(
        self, *, before: int | None = None, limit: int = 50, with_ephemeral: bool = False
    ) -> tuple[Publication, ...]:
        """Return publications with smaller numbers, newest first, without their manifests."""
        found = (
            rules.omit_contents(it)
            for no, it in reversed(self._publications.items())
            if (before is None or no < before)
            and (with_ephemeral or it.kind is PublicationKind.LIVE)
        )
        return tuple(islice(found, max(limit, 0)))

    async def load_objects(self, hashes: Collection[str]) -> Mapping[str, bytes]:
        """Return the bodies of those objects that exist, by hash."""
        return {name: self._objects[name] for name in hashes if name in self._objects}

    async def save_draft(self, draft: ConfigDraft, expected: int) -> ConfigDraft:
        """Write a draft if the stored one has a revision; see `ConfigStore.save_draft`."""
        stored = self._drafts.get(draft.id)
        rules.check_draft(draft.id, None if stored is None else stored.revision, expected)
        if draft.base is not None and draft.base not in self._publications:
            raise UnknownPublication(no=draft.base)
        saved = replace(draft, revision=expected + 1)
        self._drafts[draft.id] = saved
        return saved

    async def find_draft(self, draft_id: str) -> ConfigDraft | None:
        """Return a draft, or None."""
        return self._drafts.get(draft_id)

    async def list_drafts(self) -> tuple[ConfigDraft, ...]:
        """Return all drafts, the latest edited first, ties by id."""
        return tuple(sorted(self._drafts.values(), key=lambda it: (-it.updated_at, it.id)))

    async def delete_draft(self, draft_id: str) -> bool:
        """Remove a draft; False if there is none."""
        return self._drafts.pop(draft_id, None) is not None

    async def list_secrets(self) -> tuple[SealedSecret, ...]:
        """Return all stored secrets, sorted by name."""
        return tuple(self._secrets[ref] for ref in sorted(self._secrets))

    async def list_audit(self, query: AuditQuery) -> tuple[AuditRow, ...]:
        """Return audit events, newest first."""
        found = (row for row in reversed(self._audit.values()) if _matches(row, query))
        return tuple(islice(found, max(query.limit, 0)))

    async def read_audit_chain(self, *, after: int, limit: int) -> tuple[AuditRow, ...]:
        """Return audit events with greater numbers, oldest first."""
        found = (row for no, row in self._audit.items() if no > after)
        return tuple(islice(found, max(limit, 0)))

    async def find_audit_anchor(self) -> AuditAnchor:
        """Return where the chain begins."""
        return self._state.audit_anchor

    async def find_audit_end(self) -> AuditAnchor:
        """Return where the chain ends."""
        return self._state.audit_end

    async def purge_config(self, purge: ConfigPurge) -> PurgedConfig:
        """Remove what nothing needs; see `ConfigStore.purge_config`."""
        drafts = [it.id for it in self._drafts.values() if rules.is_expired(it, purge)]
        for draft_id in drafts:
            del self._drafts[draft_id]
        ages = (
            rules.PublicationAge(no=it.no, kind=it.kind, created_at=it.created_at)
            for it in self._publications.values()
        )
        bases = [it.base for it in self._drafts.values()]
        publications = rules.choose_removed(ages, self._head, bases, purge)
        for no in publications:
            del self._publications[no]
        audit = self._prune_audit(purge.audit_before)
        requests = [key for key, it in self._requests.items() if it[2] < purge.requests_before]
        for key in requests:
            del self._requests[key]
        return PurgedConfig(
            publications=len(publications),
            objects=self._remove_objects() if publications or audit else 0,
            audit=audit,
            drafts=len(drafts),
            requests=len(requests),
        )

    def _prune_audit(self, before: int) -> int:
        pruned: list[AuditRow] = []
        for row in self._audit.values():
            if row.event.at >= before:
                break
            pruned.append(row)
        for row in pruned:
            del self._audit[row.no]
        if pruned:
            anchor = AuditAnchor(no=pruned[-1].no, chain=pruned[-1].chain)
            self._state = replace(self._state, audit_anchor=anchor)
        return len(pruned)

    def _remove_objects(self) -> int:
        events = (row.event for row in self._audit.values())
        named = {name for event in events for name in rules.list_event_objects(event)}
        for publication in self._publications.values():
            named |= rules.list_manifest_objects(publication.manifest)
        gone = self._objects.keys() - named
        for name in gone:
            del self._objects[name]
        return len(gone)


def _matches(row: AuditRow, query: AuditQuery) -> bool:
    event = row.event
    return (
        (query.event_id is None or event.id == query.event_id)
        and (query.resource is None or event.resource == query.resource)
        and (query.action is None or event.action is query.action)
        and (query.actor is None or event.actor == query.actor)
        and (query.since is None or event.at >= query.since)
        and (query.until is None or event.at <= query.until)
        and (query.before_no is None or row.no < query.before_no)
    )
