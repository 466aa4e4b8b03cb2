"""Short ways to write configuration and to see what is stored. Knows the port only, no store."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from awaken.contracts.config.audit import (
    AuditAction,
    AuditEvent,
    AuditQuery,
    AuditRow,
    find_broken_link,
)
from awaken.contracts.config.drafts import ConfigDraft, PutRecord
from awaken.contracts.config.heads import Canary, CanaryPlan, ConfigHead
from awaken.contracts.config.publications import (
    Manifest,
    ManifestEntry,
    Publication,
    PublicationKind,
    RecordChange,
    encode_canonical,
    hash_manifest,
    hash_object,
)
from awaken.contracts.config.store import ConfigStore, ConfigWrite, HeadTarget, SealedSecret

from .writing import refusal

ConfigCheck = Callable[[ConfigStore], Coroutine[Any, Any, None]]
E = TypeVar("E", bound=Exception)
LIST_MAX = 10_000
LIVE, EPHEMERAL = PublicationKind.LIVE, PublicationKind.EPHEMERAL


def make_object(text: str) -> tuple[str, bytes]:
    """Return the hash and the body of a small agent."""
    body = encode_canonical({"id": "a", "system_prompt": text})
    return hash_object(body), body


def make_event(number: int, **fields: Any) -> AuditEvent:
    """Return an audit event at a time of its number."""
    known: dict[str, Any] = {
        "id": f"event-{number}",
        "at": 1000 * number,
        "actor": "ada",
        "action": AuditAction.PUBLISH,
        "resource": "agents/a",
    }
    return AuditEvent(**(known | fields))


def make_publication(hashes: dict[str, str], at: int, **fields: Any) -> Publication:
    """Return a publication of agents, of which the first is what it changes."""
    entries = {
        name: ManifestEntry(
            hash=found, source="user", revision=at, created_at=at, updated_at=at, updated_by="ada"
        )
        for name, found in hashes.items()
    }
    manifest: Manifest = {"agents": entries}
    changes = tuple(
        RecordChange(namespace="agents", id=name, after=entry) for name, entry in entries.items()
    )
    known: dict[str, Any] = {
        "manifest": manifest,
        "manifest_hash": hash_manifest(manifest),
        "changes": changes[:1],
        "created_at": at,
        "created_by": "ada",
        "code": {"agents/code": "0123"},
    }
    return Publication(**(known | fields))


def make_secret(ref: str, at: int = 1) -> SealedSecret:
    """Return a secret whose encrypted value depends on the time."""
    return SealedSecret(
        ref=ref, key_id="k1", sealed=b"\0sealed %d" % at, updated_at=at, updated_by="ada"
    )


def make_draft(draft_id: str, **fields: Any) -> ConfigDraft:
    """Return a draft with one change."""
    known: dict[str, Any] = {
        "id": draft_id,
        "title": "A change",
        "owner": "ada",
        "editors": ("ada", "bob"),
        "changes": {"agents": {"a": PutRecord(body={"id": "a"})}},
        "created_at": 1,
        "updated_at": 2,
        "expires_at": 3,
    }
    return ConfigDraft(**(known | fields))


def make_canary(no: int = 0) -> Canary:
    """Return a canary on a publication."""
    return Canary(publication=no, plan=CanaryPlan(percent=5), salt="salt", since=7)


class ConfigWriter:
    """Publishes one agent again and again, each time on the head that it reads."""

    def __init__(self, store: ConfigStore) -> None:
        self.store = store
        self.count = 0

    async def build(self, **parts: Any) -> ConfigWrite:
        """Return a write that publishes another text live, with one audit event."""
        self.count += 1
        head = await self.store.find_config_head() or ConfigHead()
        name, body = make_object(f"text {self.count}")
        known: dict[str, Any] = {
            "objects": {name: body},
            "publication": make_publication({"a": name}, self.count, parent=head.publication),
            "target": HeadTarget.LIVE,
            "head": head,
            "expected_revision": head.revision,
            "audit": (make_event(self.count, after=name),),
        }
        return ConfigWrite(**(known | parts))

    async def publish(self, **parts: Any) -> Publication:
        """Publish, and return the publication as it was stored."""
        receipt = await self.store.write_config(await self.build(**parts))
        assert receipt.publication is not None
        return receipt.publication

    async def publish_ephemeral(self, **parts: Any) -> Publication:
        """Write a publication that no head names."""
        name, _ = made = make_object(f"ephemeral {self.count}")
        publication = make_publication({"a": name}, self.count, kind=EPHEMERAL)
        write = ConfigWrite(objects=dict([made]), publication=publication)
        receipt = await self.store.write_config(msgspec.structs.replace(write, **parts))
        assert receipt.publication is not None
        return receipt.publication

    async def expect_refusal(self, error: type[E], write: ConfigWrite) -> E:
        """Send a write that must be refused with this error and change nothing."""
        before = await read_config(self.store)
        missing = await self.store.load_objects(write.objects)
        raised = await refusal(error, self.store.write_config(write))
        assert await read_config(self.store) == before, f"{raised!r} was raised after a change"
        assert await self.store.load_objects(write.objects) == missing
        if write.idempotency_key is not None and write.idempotency_key.startswith("new"):
            assert await self.store.find_config_request(write.idempotency_key) is None
        return raised


async def read_config(store: ConfigStore) -> list[object]:
    """Read all that a small store shows through the port."""
    listed = await store.list_publications(limit=LIST_MAX, with_ephemeral=True)
    whole = [await store.load_publication(it.no) for it in listed]
    hashes = {
        entry.hash
        for it in whole
        if it is not None
        for entries in it.manifest.values()
        for entry in entries.values()
    }
    return [
        await store.find_config_head(),
        whole,
        await store.load_objects(hashes),
        await store.list_drafts(),
        await store.list_secrets(),
        await store.list_audit(AuditQuery(limit=LIST_MAX)),
        await store.find_audit_anchor(),
        await store.find_audit_end(),
    ]


async def check_chain(store: ConfigStore) -> tuple[AuditRow, ...]:
    """Check that the audit is one chain from its anchor to its end; returns all of it."""
    anchor = await store.find_audit_anchor()
    chain = await store.read_audit_chain(after=anchor.no, limit=LIST_MAX)
    broken = find_broken_link(anchor, chain)
    assert broken is None, f"the chain of audit events breaks at {broken}"
    end = await store.find_audit_end()
    last = (chain[-1].no, chain[-1].chain) if chain else (anchor.no, anchor.chain)
    assert last == (end.no, end.chain), "the chain does not reach its end"
    return chain
