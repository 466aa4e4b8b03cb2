"""Configuration as files: plan what they would change, apply them, and export what is live.

Documents hold records in stored form: secrets are references, never texts. What files make belongs
to their origin. A record that was changed elsewhere since the files were applied last is drift,
and is never overwritten unless the caller says so.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.config.compiler import ConfigProblem
from awaken.contracts.config.drafts import Change, DeleteRecord, PatchRecord, PutRecord
from awaken.contracts.config.errors import InvalidConfig
from awaken.contracts.config.heads import CanaryPlan
from awaken.contracts.config.publications import (
    OVERRIDE,
    ManifestEntry,
    Publication,
    PublicationOrigin,
    encode_canonical,
    hash_object,
)
from awaken.contracts.config.secret_fields import decode_stored_spec
from awaken.contracts.errors import InvalidSpec
from awaken.contracts.record import Record, StrictRecord
from awaken.contracts.secrets import encode_reference

from .change_sets import ChangeSet
from .differences import FieldDifference, list_differences
from .parts import Author, ConfigParts
from .publishing import Published, Publisher, PublishRequest


class DriftChoice(StrEnum):
    """What happens to records that were changed elsewhere since the files were applied."""

    STOP = "stop"
    """Nothing is applied."""
    FORCE = "force"
    """The files overwrite them."""
    KEEP = "keep"
    """They stay as they are; all else is applied."""


class FileSet(StrictRecord, frozen=True, kw_only=True):
    """Everything that files say, and who they are."""

    origin: str = "files"
    records: dict[str, dict[str, dict[str, Any]]] = msgspec.field(default_factory=dict)
    """Whole records by namespace and id, in stored form."""
    overrides: dict[str, dict[str, dict[str, Any]]] = msgspec.field(default_factory=dict)
    """Patches on records of the code by namespace and id; `hidden` hides the record."""

    def __post_init__(self) -> None:
        if not self.origin.strip() or len(self.origin) > 64 or not self.origin.isprintable():
            message = "origin is a name of 1 to 64 printable characters"
            raise ValueError(message)


class ApplyOptions(StrictRecord, frozen=True, kw_only=True):
    """How files are compared with what is live, and how they become live."""

    prune: bool = False
    """Whether records of this origin are deleted that the files no longer have."""
    adopt: bool = False
    """Whether the files take over records that others own."""
    drift: DriftChoice = DriftChoice.STOP
    message: str = ""
    canary: CanaryPlan | None = None
    require_all: bool = False
    """Whether every live process must be able to use it first."""
    over_canary: bool = False


class PlannedUpdate(Record, frozen=True, kw_only=True):
    """A record that the files change, and its fields."""

    ns: str
    id: str
    fields: tuple[FieldDifference, ...]


class Plan(Record, frozen=True, kw_only=True):
    """What files would change. Without problems and drift it can be applied."""

    creates: tuple[tuple[str, str], ...] = ()
    updates: tuple[PlannedUpdate, ...] = ()
    deletes: tuple[tuple[str, str], ...] = ()
    drift: tuple[tuple[str, str], ...] = ()
    """Records that were changed elsewhere since the files were applied last."""
    missing_secrets: tuple[str, ...] = ()
    problems: tuple[ConfigProblem, ...] = ()
    diagnostics: tuple[ConfigProblem, ...] = ()
    head: int | None = None
    """The publication that the plan is for."""

    @property
    def has_changes(self) -> bool:
        """Whether the files change anything."""
        return bool(self.creates or self.updates or self.deletes)


class ConfigFiles:
    """Files against the configuration of a store."""

    def __init__(self, parts: ConfigParts, publisher: Publisher) -> None:
        self._parts = parts
        self._publisher = publisher

    async def plan(self, files: FileSet, options: ApplyOptions, author: Author) -> Plan:
        """Compare files with what is live, and compile what would follow. Nothing is written."""
        plan, request = await self._prepare(files, options, author)
        if plan.problems or not plan.has_changes:
            return plan
        try:
            trial = await self._publisher.try_changes(request)
        except InvalidConfig as error:
            return msgspec.structs.replace(plan, problems=error.problems)
        return msgspec.structs.replace(
            plan,
            problems=trial.problems,
            missing_secrets=trial.missing_secrets,
            diagnostics=trial.compiled.diagnostics,
        )

    async def apply(
        self, files: FileSet, options: ApplyOptions, author: Author
    ) -> tuple[Plan, Published | None]:
        """Publish what files change, as one change set; None if they change nothing.

        Raises:
            InvalidConfig: The files have problems, or there is drift; nothing was written.
            ConfigError: It cannot be published; nothing was written.
        """
        plan, request = await self._prepare(files, options, author)
        problems = plan.problems
        if plan.drift and options.drift is DriftChoice.STOP:
            problems = (*problems, *map(_drift_problem, plan.drift))
        if problems:
            raise InvalidConfig(problems=problems)
        if not plan.has_changes:
            return plan, None
        request = msgspec.structs.replace(
            request,
            message=options.message or f"applied from {files.origin}",
            canary=options.canary,
            is_required_of_all=options.require_all,
            is_over_canary=options.over_canary,
        )
        return plan, await self._publisher.publish(request)

    async def export(self, no: int | None = None) -> FileSet:
        """Return the records of a publication as files would have them; None: the live one.

        Raises:
            UnknownPublication: It does not exist, or was purged.
        """
        if no is None:
            no = (await self._parts.read_head()).publication
        publication = await self._parts.reader.load_publication(no)
        records: dict[str, dict[str, dict[str, Any]]] = {}
        overrides: dict[str, dict[str, dict[str, Any]]] = msgspec.field(default_factory=dict)
        bodies = await self._parts.reader.load_bodies(
            it.hash for entries in publication.manifest.values() for it in entries.values()
        )
        for namespace, entries in sorted(publication.manifest.items()):
            for record_id, entry in sorted(entries.items()):
                body = bodies.get(entry.hash, {})
                if entry.source == OVERRIDE:
                    hidden = {"hidden": True} if entry.is_hidden else {}
                    overrides.setdefault(namespace, {})[record_id] = {**body, **hidden}
                else:
                    records.setdefault(namespace, {})[record_id] = body
        return FileSet(records=records, overrides=overrides)

    async def _prepare(
        self, files: FileSet, options: ApplyOptions, author: Author
    ) -> tuple[Plan, PublishRequest]:
        head = await self._parts.read_head()
        live = await self._parts.reader.load_publication(head.publication)
        changes, problems = self._read(files)
        drift = _list_drift(changes, live, files.origin)
        if options.prune:
            _add_deletions(changes, live, files.origin)
        for namespace, record_id in drift:
            if options.drift is DriftChoice.KEEP:
                changes.get(namespace, {}).pop(record_id, None)
        if not options.adopt:
            problems += _list_foreign(changes, live, files.origin)
        plan = await self._describe(changes, live)
        request = PublishRequest(
            change_set=ChangeSet(changes=changes, origin=files.origin),
            author=author,
            origin=PublicationOrigin.FILES,
            action=AuditAction.SEED_APPLY,
            expected_head=head.publication,
        )
        return (
            msgspec.structs.replace(
                plan, problems=tuple(problems), drift=drift, head=head.publication
            ),
            request,
        )

    def _read(self, files: FileSet) -> tuple[dict[str, dict[str, Change]], list[ConfigProblem]]:
        """Bring documents into their canonical form; collects what is wrong with them."""
        changes: dict[str, dict[str, Change]] = {}
        problems: list[ConfigProblem] = []
        for namespace, records in files.records.items():
            kind = self._parts.kinds.get(namespace)
            if kind is None:
                problems.append(_problem(namespace, "unknown_namespace", "It is not known."))
                continue
            for record_id, body in records.items():
                try:
                    spec: Any = decode_stored_spec(
                        body, kind.spec, kind.secrets, self._parts.reader.bind
                    )
                except InvalidSpec as error:
                    path = f"{namespace}/{record_id}"
                    problems.append(_problem(path, "invalid_record", error.problem))
                    continue
                stored = msgspec.to_builtins(spec, enc_hook=encode_reference)
                changes.setdefault(namespace, {})[record_id] = PutRecord(body=stored)
        for namespace, patches in files.overrides.items():
            for record_id, patch in patches.items():
                fields = {name: it for name, it in patch.items() if name != "hidden"}
                is_hidden = patch.get("hidden") is True
                if record_id in changes.get(namespace, {}):
                    message = "It is written whole and as overrides; keep one of them."
                    problems.append(_problem(f"{namespace}/{record_id}", "twice", message))
                    continue
                changes.setdefault(namespace, {})[record_id] = PatchRecord(
                    body=fields, is_hidden=is_hidden
                )
        return changes, problems

    async def _describe(
        self, changes: Mapping[str, Mapping[str, Change]], live: Publication
    ) -> Plan:
        creates, updates, deletes = [], [], []
        entries = [
            entry
            for namespace, its in changes.items()
            for record_id in its
            if (entry := live.find_entry(namespace, record_id)) is not None
        ]
        bodies = await self._parts.reader.load_bodies(it.hash for it in entries)
        for namespace, its in sorted(changes.items()):
            for record_id, change in sorted(its.items()):
                entry = live.find_entry(namespace, record_id)
                old = None if entry is None else bodies.get(entry.hash)
                if isinstance(change, DeleteRecord):
                    deletes.append((namespace, record_id))
                elif entry is None:
                    creates.append((namespace, record_id))
                elif old != change.body or entry.is_hidden != change.is_hidden or entry.has_drift:
                    fields = list_differences(old, old, change.body)
                    updates.append(PlannedUpdate(ns=namespace, id=record_id, fields=fields))
        return Plan(creates=tuple(creates), updates=tuple(updates), deletes=tuple(deletes))


def _list_drift(
    changes: Mapping[str, Mapping[str, Change]], live: Publication, origin: str
) -> tuple[tuple[str, str], ...]:
    """Return the records of an origin that were changed elsewhere, to something else."""
    drift = []
    for namespace, entries in live.manifest.items():
        for record_id, entry in entries.items():
            wanted = changes.get(namespace, {}).get(record_id)
            is_same = (
                isinstance(wanted, PutRecord | PatchRecord)
                and hash_object(encode_canonical(wanted.body)) == entry.hash
            )
            if entry.origin == origin and entry.has_drift and not is_same:
                drift.append((namespace, record_id))
    return tuple(drift)


def _add_deletions(changes: dict[str, dict[str, Change]], live: Publication, origin: str) -> None:
    """Delete what an origin owns and no longer has."""
    for namespace, entries in live.manifest.items():
        for record_id, entry in entries.items():
            if entry.origin == origin and record_id not in changes.get(namespace, {}):
                changes.setdefault(namespace, {})[record_id] = DeleteRecord()


def _list_foreign(
    changes: Mapping[str, Mapping[str, Change]], live: Publication, origin: str
) -> list[ConfigProblem]:
    """Return a problem for each record that the files would take from another owner."""
    problems = []
    for namespace, its in changes.items():
        for record_id in its:
            entry: ManifestEntry | None = live.find_entry(namespace, record_id)
            if entry is not None and entry.origin != origin:
                message = f"It belongs to {entry.owner}; adopt it, or leave it out."
                problems.append(_problem(f"{namespace}/{record_id}", "owned_by_other", message))
    return problems


def _drift_problem(place: tuple[str, str]) -> ConfigProblem:
    message = "It was changed elsewhere since the files were applied: force it, keep it, or export."
    return _problem("/".join(place), "drift", message)


def _problem(path: str, code: str, message: str) -> ConfigProblem:
    return ConfigProblem(path=path, code=code, message=message)
