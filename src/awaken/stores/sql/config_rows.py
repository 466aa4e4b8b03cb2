"""Records of managed configuration as rows.

A publication is two blobs: what a list shows, and its contents, which are large.
"""

from typing import Any

import msgspec

from awaken.contracts.config.audit import AuditAnchor, AuditEvent, AuditRow
from awaken.contracts.config.drafts import ConfigDraft
from awaken.contracts.config.heads import ConfigHead
from awaken.contracts.config.publications import Manifest, Publication
from awaken.contracts.config.store import ConfigWrite
from awaken.contracts.record import Record
from awaken.stores.rules import config as rules

from . import rows
from .blobs import seal, unseal
from .session import Row


class Contents(Record, frozen=True, kw_only=True):
    """The large part of a publication."""

    manifest: Manifest
    code: dict[str, str]


class _NamedObject(Record, frozen=True, kw_only=True):
    hash: str


class NamedObjects(Record, frozen=True, kw_only=True):
    """Of the contents of a publication, only the hashes: a purge reads no more."""

    manifest: dict[str, dict[str, _NamedObject]]


HEAD = msgspec.json.Decoder(ConfigHead)
PUBLICATION = msgspec.json.Decoder(Publication)
CONTENTS = msgspec.json.Decoder(Contents)
NAMED_OBJECTS = msgspec.json.Decoder(NamedObjects)
DRAFT = msgspec.json.Decoder(ConfigDraft)
EVENT = msgspec.json.Decoder(AuditEvent)


class EncodedWrite:
    """A checked write with its large parts sealed."""

    __slots__ = ("contents", "objects", "write")

    def __init__(self, write: ConfigWrite) -> None:
        rules.check_write(write)
        self.write = write
        self.objects = [(object_key(name), seal(body)) for name, body in write.objects.items()]
        made = write.publication
        self.contents = (
            None if made is None else rows.pack(Contents(manifest=made.manifest, code=made.code))
        )


def object_key(name: str) -> bytes:
    """Return the key of an object by its hash; text that is no hash is a key that none has."""
    try:
        return bytes.fromhex(name)
    except ValueError:
        return name.encode("utf-8", "surrogatepass")


def read_state(row: Row) -> rules.ConfigState:
    """Return what the store counts."""
    return rules.ConfigState(
        publication=row[0],
        audit_end=AuditAnchor(no=row[1], chain=row[2]),
        audit_anchor=AuditAnchor(no=row[3], chain=row[4]),
    )


def state_columns(state: rules.ConfigState) -> tuple[Any, ...]:
    """Return the columns of what the store counts."""
    end, anchor = state.audit_end, state.audit_anchor
    return state.publication, end.no, end.chain, anchor.no, anchor.chain


def read_head(row: Row | None) -> ConfigHead | None:
    """Return the head, which is bound to its publication and its revision."""
    if row is None:
        return None
    return rows.unpack(row[0], HEAD, "The head of the configuration", row[1], row[2])


def pack_head(head: ConfigHead) -> bytes:
    """Seal the head."""
    return rows.pack(head, head.publication, head.revision)


def read_listed(row: Row) -> Publication:
    """Return a publication as it is listed."""
    return rows.unpack(row[1], PUBLICATION, f"Publication {row[0]}", row[0])


def read_publication(row: Row) -> Publication:
    """Return a whole publication."""
    contents = read_contents(row[0], row[2])
    listed = read_listed(row)
    return msgspec.structs.replace(listed, manifest=contents.manifest, code=contents.code)


def read_contents(no: int, blob: bytes) -> Contents:
    """Return the large part of a publication."""
    return rows.unpack(blob, CONTENTS, f"The contents of publication {no}")


def publication_columns(publication: Publication, contents: bytes) -> tuple[Any, ...]:
    """Return the columns of a publication."""
    no = publication.no
    record = rows.pack(rules.omit_contents(publication), no)
    return no, publication.kind.value, publication.created_at, record, contents


def read_draft(row: Row, draft_id: str) -> ConfigDraft:
    """Return a draft, which is bound to its id and its revision."""
    return rows.unpack(row[0], DRAFT, f"Draft '{draft_id}'", draft_id, row[-1])


def draft_columns(draft: ConfigDraft) -> tuple[Any, ...]:
    """Return the columns of a draft."""
    record = rows.pack(draft, draft.id, draft.revision)
    return draft.id, draft.base, draft.revision, draft.updated_at, draft.expires_at, record


def read_audit(row: Row) -> AuditRow:
    """Return a row of the audit, which is bound to its number."""
    event = rows.unpack(row[2], EVENT, f"Audit event {row[0]}", row[0])
    return AuditRow(no=row[0], event=event, chain=bytes(row[1]))


def audit_columns(row: AuditRow) -> tuple[Any, ...]:
    """Return the columns of a row of the audit."""
    it = row.event
    record = rows.pack(it, row.no)
    return row.no, it.id, it.at, it.actor, it.action.value, it.resource, row.chain, record


def read_object(row: Row) -> tuple[str, bytes]:
    """Return the hash and the body of an object."""
    name = bytes(row[0]).hex()
    return name, unseal(row[1], f"Object '{name}'")
