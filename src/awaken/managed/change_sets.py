"""Change sets: what an author wants to change, and the manifest that would follow. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from awaken.contracts.config.compiler import ConfigProblem
from awaken.contracts.config.drafts import Change, DeleteRecord, PatchRecord, PutRecord
from awaken.contracts.config.errors import InvalidConfig, OwnedByCode, RecordConflict
from awaken.contracts.config.kinds import ConfigKind
from awaken.contracts.config.publications import (
    OVERRIDE,
    USER,
    Manifest,
    ManifestEntry,
    Publication,
    RecordChange,
    encode_canonical,
    hash_manifest,
    hash_object,
)

BODY_BYTES_MAX = 1024 * 1024
RECORDS_MAX = 5_000


class EarlierRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Write a record as an earlier entry had it; None removes the record."""

    entry: ManifestEntry | None


class ChangeSet(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of records that become live together or not at all."""

    changes: Mapping[str, Mapping[str, Change | EarlierRecord]]
    """By namespace and id."""
    expected: Mapping[tuple[str, str], int] = {}
    """The revisions that the author saw, by namespace and id; 0 for a record without an entry."""
    origin: str | None = None
    """The name of the files that own what is written; None for changes over the API."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest that could be published, and what it changes."""

    base: Publication
    manifest: Manifest
    changes: tuple[RecordChange, ...]
    objects: Mapping[str, bytes]
    """The bodies that are new, by hash."""

    @property
    def manifest_hash(self) -> str:
        """The hash of what it configures."""
        return hash_manifest(self.manifest)


class CodeRecords(msgspec.Struct, frozen=True, kw_only=True):
    """The records that the code of this process declares, and their hashes by `namespace/id`."""

    records: Mapping[str, Mapping[str, Any]]
    hashes: Mapping[str, str]

    def has_record(self, namespace: str, record_id: str) -> bool:
        """Whether the code declares a record."""
        return record_id in self.records.get(namespace, {})


class Authorship(msgspec.Struct, frozen=True, kw_only=True):
    """Who writes, and when."""

    by: str
    at: int


def build_candidate(
    base: Publication,
    change_set: ChangeSet,
    kinds: Mapping[str, ConfigKind],
    code: CodeRecords,
    authorship: Authorship,
) -> Candidate:
    """Apply a change set to a publication; nothing is written.

    A change that leaves a record as it is changes nothing.

    Raises:
        RecordConflict: A record has another revision than the author saw.
        OwnedByCode: A whole record has the id of one that the code declares.
        InvalidConfig: A change cannot be applied; lists every problem.
    """
    manifest: Manifest = {name: dict(entries) for name, entries in base.manifest.items()}
    objects: dict[str, bytes] = {}
    changes: list[RecordChange] = []
    problems: list[ConfigProblem] = []
    for namespace, wanted in change_set.changes.items():
        kind = kinds.get(namespace)
        if kind is None:
            problems.append(_problem(namespace, "unknown_namespace", "There is no such namespace."))
            continue
        for record_id, change in wanted.items():
            before = base.find_entry(namespace, record_id)
            _check_revision(change_set, namespace, record_id, before)
            problem = find_change_problem(kind, record_id, change, code, before)
            if problem is not None:
                problems.append(problem)
                continue
            base_hash = code.hashes.get(f"{namespace}/{record_id}")
            after = _entry_after(change, before, base_hash, change_set.origin, authorship)
            if isinstance(after, tuple):
                after, body = after
                objects[after.hash] = body
                if len(body) > BODY_BYTES_MAX:
                    message = f"A record has at most {BODY_BYTES_MAX} bytes."
                    problems.append(_problem(f"{namespace}/{record_id}", "too_large", message))
                    continue
            if _is_same(before, after):
                continue
            entries = manifest.setdefault(namespace, {})
            if after is None:
                del entries[record_id]
            else:
                entries[record_id] = after
            changes.append(
                RecordChange(namespace=namespace, id=record_id, before=before, after=after)
            )
    if sum(map(len, manifest.values())) > RECORDS_MAX:
        message = f"A publication has at most {RECORDS_MAX} records."
        problems.append(_problem("", "too_many_records", message))
    if problems:
        raise InvalidConfig(problems=tuple(problems))
    return Candidate(base=base, manifest=manifest, changes=tuple(changes), objects=objects)


def find_change_problem(
    kind: ConfigKind,
    record_id: str,
    change: Change | EarlierRecord,
    code: CodeRecords,
    before: ManifestEntry | None,
) -> ConfigProblem | None:
    """Return why a change cannot be applied to a record, or None.

    Raises:
        OwnedByCode: A whole record has the id of one that the code declares.
    """
    path, is_code = f"{kind.name}/{record_id}", code.has_record(kind.name, record_id)
    match change:
        case PutRecord() if kind.is_patch_only:
            message = "These records exist in code only; write their overrides."
            return _problem(path, "patch_only", message)
        case PutRecord() if is_code and (before is None or before.source == OVERRIDE):
            raise OwnedByCode(namespace=kind.name, record_id=record_id)
        case PatchRecord() if before is not None and before.source == USER:
            message = "It is no record of the code; write the whole record."
            return _problem(path, "not_overridable", message)
        case PatchRecord() if not is_code and before is None:
            message = "The code of this process declares no such record."
            return _problem(path, "unknown_base", message)
        case PatchRecord(body=body):
            return _find_patch_problem(kind, path, body)
        case _:
            return None


def _find_patch_problem(
    kind: ConfigKind, path: str, body: Mapping[str, Any]
) -> ConfigProblem | None:
    allowed = kind.patchable or frozenset()
    for name in body:
        if name not in allowed:
            message = f"'{name}' cannot be overridden."
            known = tuple(sorted(allowed))
            return ConfigProblem(
                path=f"{path}/{name}", code="not_overridable", message=message, known=known
            )
    return None


def _entry_after(
    change: Change | EarlierRecord,
    before: ManifestEntry | None,
    base_hash: str | None,
    origin: str | None,
    authorship: Authorship,
) -> ManifestEntry | tuple[ManifestEntry, bytes] | None:
    """Return the entry that a change leaves, with its body if that may be new."""
    match change:
        case DeleteRecord():
            return None
        case EarlierRecord(entry=earlier):
            return earlier and _next_entry(
                before,
                authorship,
                hash=earlier.hash,
                source=earlier.source,
                is_hidden=earlier.is_hidden,
                base_hash=earlier.base_hash,
                origin=earlier.origin,
                applied_hash=earlier.applied_hash,
            )
        case PatchRecord(body=content, is_hidden=False) if not content:
            # A patch without fields on a record that is shown says nothing.
            return None
        case PutRecord(body=content) | PatchRecord(body=content):
            body, is_patch = encode_canonical(content), isinstance(change, PatchRecord)
            name = hash_object(body)
            entry = _next_entry(
                before,
                authorship,
                hash=name,
                source=OVERRIDE if is_patch else USER,
                is_hidden=change.is_hidden,
                base_hash=base_hash if is_patch else None,
                origin=origin or (before.origin if before else None),
                applied_hash=name if origin else (before.applied_hash if before else None),
            )
            return entry, body


def _next_entry(
    before: ManifestEntry | None, authorship: Authorship, **content: Any
) -> ManifestEntry:
    return ManifestEntry(
        revision=1 if before is None else before.revision + 1,
        created_at=authorship.at if before is None else before.created_at,
        updated_at=authorship.at,
        updated_by=authorship.by,
        **content,
    )


def _is_same(before: ManifestEntry | None, after: ManifestEntry | None) -> bool:
    if before is None or after is None:
        return before is after
    written = {"revision": 0, "created_at": 0, "updated_at": 0, "updated_by": ""}
    replace = msgspec.structs.replace
    return replace(before, **written) == replace(after, **written)


def _check_revision(
    change_set: ChangeSet, namespace: str, record_id: str, before: ManifestEntry | None
) -> None:
    expected = change_set.expected.get((namespace, record_id))
    actual = 0 if before is None else before.revision
    if expected is not None and expected != actual:
        raise RecordConflict(
            namespace=namespace, record_id=record_id, expected=expected, actual=actual
        )


def _problem(path: str, code: str, message: str) -> ConfigProblem:
    return ConfigProblem(path=path, code=code, message=message)
