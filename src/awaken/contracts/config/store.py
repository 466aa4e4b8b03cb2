"""The port by which configuration is stored: one write, which is whole or absent."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Protocol, runtime_checkable

from awaken.contracts.record import Record

from .audit import AuditAnchor, AuditEvent, AuditQuery, AuditRow
from .drafts import ConfigDraft
from .heads import ConfigHead
from .publications import Publication


class SealedSecret(Record, frozen=True, kw_only=True):
    """An encrypted value; only a process with the key `key_id` can read it."""

    ref: str
    """Its name without the prefix `store:`, such as `providers/openai/api_key`."""
    key_id: str
    sealed: bytes
    updated_at: int
    updated_by: str


class HeadTarget(StrEnum):
    """What of the head a new publication becomes."""

    LIVE = "live"
    CANARY = "canary"
    NONE = "none"
    """Nothing: it is ephemeral."""


class ConfigWrite(Record, frozen=True, kw_only=True):
    """Everything that one change of the configuration writes, in one transaction.

    The store assigns the number of the publication, and writes it into the head as `target` says
    and into those audit events that have no publication of their own. The head's revision becomes
    `expected_revision + 1`, whatever `head.revision` is; so does its `secrets_at` if secrets are
    written or removed.
    """

    objects: Mapping[str, bytes] = {}
    """New objects by `hash_object` of their bodies; those that exist are left alone."""
    publication: Publication | None = None
    target: HeadTarget = HeadTarget.NONE
    head: ConfigHead | None = None
    """The head as it becomes, unless only a publication, secrets or audit events are written."""
    expected_revision: int | None = None
    """The head's revision that the writer saw, 0 if there is none.

    Required with a head; without one it is compared all the same.
    """
    audit: tuple[AuditEvent, ...] = ()
    secrets: tuple[SealedSecret, ...] = ()
    removed_secrets: tuple[str, ...] = ()
    """Removed before `secrets` are written; those that do not exist are ignored."""
    removed_draft: str | None = None
    draft_revision: int | None = None
    """The revision of `removed_draft` that was published; None removes any."""
    idempotency_key: str | None = None
    request_hash: str = ""
    """What was asked under the key: the key with another hash is refused."""


class ConfigReceipt(Record, frozen=True, kw_only=True):
    """What a write left: the publication that it made, and the head after it."""

    publication: Publication | None = None
    head: ConfigHead | None = None
    is_repeated: bool = False
    """Whether the idempotency key had been used: nothing was written again."""


class ConfigPurge(Record, frozen=True, kw_only=True):
    """Which publications, objects and audit events may go."""

    pinned: frozenset[int]
    """Publications of runs that have not ended, and what else must stay."""
    keep_newest: int = 200
    live_before: int = 0
    """Live publications created before this time may go."""
    ephemeral_before: int = 0
    audit_before: int = 0
    drafts_before: int = 0
    """Drafts that expire before this time go."""
    requests_before: int = 0
    """Idempotency keys that were used before this time are forgotten."""


class PurgedConfig(Record, frozen=True, kw_only=True):
    """How much a purge removed."""

    publications: int = 0
    objects: int = 0
    audit: int = 0
    drafts: int = 0
    requests: int = 0


@runtime_checkable
class ConfigStore(Protocol):
    """Durable configuration. Every method leaves its change whole or absent."""

    async def find_config_head(self) -> ConfigHead | None:
        """Return the head, or None before the first change."""
        ...

    async def write_config(self, write: ConfigWrite) -> ConfigReceipt:
        """Apply a write whole, or raise and change nothing.

        The same idempotency key with the same request hash again returns the receipt of the first
        write: its publication unless it was purged, and the head as it is now.

        Raises:
            HeadMoved: The head has another revision than the writer saw.
            IdempotencyConflict: The key was used for another request.
            DraftNotFound: `removed_draft` does not exist.
            DraftConflict: `removed_draft` has another revision than `draft_revision`.
            UnknownPublication: The head names a publication that does not exist.
            InvalidRecord: The parts do not fit together, or the publication changes a record to an
                object that does not exist.
        """
        ...

    async def find_config_request(self, idempotency_key: str) -> tuple[str, int | None] | None:
        """Return the request hash and the publication of an earlier write, or None."""
        ...

    async def load_publication(self, no: int) -> Publication | None:
        """Return a publication, or None."""
        ...

    async def list_publications(
        self, *, before: int | None = None, limit: int = 50, with_ephemeral: bool = False
    ) -> tuple[Publication, ...]:
        """Return publications with smaller numbers than `before`, newest first.

        Their manifests and their hashes of code are left out: `load_publication` has them.
        """
        ...

    async def load_objects(self, hashes: Collection[str]) -> Mapping[str, bytes]:
        """Return the bodies of those objects that exist, by hash."""
        ...

    async def save_draft(self, draft: ConfigDraft, expected: int) -> ConfigDraft:
        """Write a draft if the stored one has the revision `expected`, 0 for a new one.

        Returns it with its new revision.

        Raises:
            DraftConflict: It has another revision, or exists already.
            DraftNotFound: It was published or discarded meanwhile.
            UnknownPublication: Its base does not exist.
        """
        ...

    async def find_draft(self, draft_id: str) -> ConfigDraft | None:
        """Return a draft, or None."""
        ...

    async def list_drafts(self) -> tuple[ConfigDraft, ...]:
        """Return all drafts, the latest edited first."""
        ...

    async def delete_draft(self, draft_id: str) -> bool:
        """Remove a draft; False if there is none."""
        ...

    async def list_secrets(self) -> tuple[SealedSecret, ...]:
        """Return all stored secrets, sorted by name; their values stay encrypted."""
        ...

    async def list_audit(self, query: AuditQuery) -> tuple[AuditRow, ...]:
        """Return audit events, newest first."""
        ...

    async def read_audit_chain(self, *, after: int, limit: int) -> tuple[AuditRow, ...]:
        """Return audit events with greater numbers, oldest first, to verify the chain."""
        ...

    async def find_audit_anchor(self) -> AuditAnchor:
        """Return where the chain begins: after the last pruned event."""
        ...

    async def find_audit_end(self) -> AuditAnchor:
        """Return where the chain ends: a chain without its newest events does not reach it."""
        ...

    async def purge_config(self, purge: ConfigPurge) -> PurgedConfig:
        """Remove what nothing needs: see `ConfigPurge`.

        A publication that a head, a draft or a pinned run names stays, and so does every object
        that a publication or an audit event that stays names. Audit events go from the start of
        the chain, up to the first that is young enough to stay. Objects are removed after the
        rest, in a transaction of their own, and only if publications or audit events were.
        """
        ...
