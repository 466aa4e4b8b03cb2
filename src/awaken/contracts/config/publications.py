"""Publications: immutable manifests of every managed record, and the objects they name.

An object is the canonical JSON of one record, named by its hash. A publication lists every record
by namespace and id; it is never changed.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from hashlib import blake2b
from typing import Any

from awaken.contracts.record import Record

HASH_BYTES = 16
USER = "user"
"""The source of whole records."""
OVERRIDE = "override"
"""The source of patches on records of the code."""


class ManifestEntry(Record, frozen=True, kw_only=True):
    """One record of a publication. `revision` counts its changes, from 1."""

    hash: str
    """The object that has its body: a whole spec, or a patch if the source is `override`."""
    source: str
    revision: int
    created_at: int
    updated_at: int
    updated_by: str
    is_hidden: bool = False
    """Whether a record of the code is hidden: it cannot be started, and still resumes."""
    base_hash: str | None = None
    """Of an override: the hash of the code's record that it was written for."""
    origin: str | None = None
    """The name of the files that own it; None if it was made over the API."""
    applied_hash: str | None = None
    """The object that the files had when they were applied last: another one is drift."""

    @property
    def owner(self) -> str:
        """Who owns the record: `file:` and the origin's name, else its source."""
        return self.source if self.origin is None else f"file:{self.origin}"

    @property
    def has_drift(self) -> bool:
        """Whether a record of files was changed elsewhere since they were applied."""
        return self.origin is not None and self.hash != self.applied_hash


Manifest = dict[str, dict[str, ManifestEntry]]
"""The entries of a publication by namespace and id."""


class RecordChange(Record, frozen=True, kw_only=True):
    """What a publication changed in one record; None stands for absence."""

    namespace: str
    id: str
    before: ManifestEntry | None = None
    after: ManifestEntry | None = None


class PublicationKind(StrEnum):
    """Whether a head may point to a publication."""

    LIVE = "live"
    EPHEMERAL = "ephemeral"


class PublicationOrigin(StrEnum):
    """What made a publication."""

    API = "api"
    DRAFT = "draft"
    FILES = "files"
    RESTORE = "restore"
    ROLLBACK = "rollback"
    PREVIEW = "preview"
    EVAL = "eval"


class Publication(Record, frozen=True, kw_only=True):
    """A manifest of everything that is managed. Immutable; later ones have greater numbers."""

    no: int = 0
    """Assigned by the store when it is written."""
    parent: int | None = None
    kind: PublicationKind = PublicationKind.LIVE
    manifest: Manifest = {}
    manifest_hash: str = ""
    changes: tuple[RecordChange, ...] = ()
    message: str = ""
    created_by: str = ""
    created_at: int = 0
    origin: PublicationOrigin = PublicationOrigin.API
    draft_id: str | None = None
    code: dict[str, str] = {}
    """Hashes of the publisher's own agents and tools, by `agents/id` and `tools/id`."""

    def find_entry(self, namespace: str, record_id: str) -> ManifestEntry | None:
        """Return the entry of a record, or None."""
        return self.manifest.get(namespace, {}).get(record_id)


def encode_canonical(value: Any) -> bytes:
    """Return the JSON of builtins with sorted keys: equal values have equal bytes."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def hash_object(body: bytes) -> str:
    """Return the name of an object."""
    return blake2b(body, digest_size=HASH_BYTES).hexdigest()


def hash_manifest(manifest: Mapping[str, Mapping[str, ManifestEntry]]) -> str:
    """Return the hash of what a manifest configures: its objects and what is hidden.

    Revisions, times and authors are left out: a publication that undoes another has its hash.
    """
    content = {
        namespace: {name: [it.hash, it.is_hidden, it.source] for name, it in entries.items()}
        for namespace, entries in manifest.items()
        if entries
    }
    return hash_object(encode_canonical(content))
