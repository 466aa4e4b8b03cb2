"""Configuration as files: plan what they would change, apply them, and export what is live.

Documents hold records in stored form: secrets are references, never texts. What files make belongs
to their origin. A record that was changed elsewhere since the files were applied last is drift,
and is never overwritten unless the caller says so.
"""

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.config.compiler import ConfigProblem
from awaken.contracts.config.drafts import (
    Change,
    ConfigDraft,
    DeleteRecord,
    PatchRecord,
    PutRecord,
)
from awaken.contracts.config.errors import (
    ConfigError,
    HeadMoved,
    InvalidConfig,
    LiveConflict,
    OwnedByCode,
    RecordInUse,
)
from awaken.contracts.config.heads import CanaryPlan, SeenCanary
from awaken.contracts.config.publications import (
    OVERRIDE,
    ManifestEntry,
    Publication,
    PublicationOrigin,
    encode_canonical,
    hash_object,
)
from awaken.contracts.record import Record, StrictRecord

from .change_sets import ChangeSet
from .differences import FieldDifference, list_differences
from .drafts import ConfigDrafts
from .parts import Author, ConfigParts
from .publishing import Published, Publisher, PublishRequest

TRIES = 5
"""How often files are compared again with a head that moved meanwhile."""
HIDDEN = "hidden"
"""The key of a patch that hides the record of the code."""

Changes = dict[str, dict[str, Change]]
"""What files want, by namespace and id."""

READ_AT_ONCE = 20
"""How many records are read before the event loop gets a turn."""


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
    message: Annotated[str, msgspec.Meta(max_length=2_000)] = ""
    canary: CanaryPlan | None = None
    require_all: bool = False
    """Whether every live process must be able to use it first."""
    over_canary: SeenCanary | None = None
    """The canary that is ended by it."""
    expected_head: int | None = None
    """The publication that the caller's plan is for, 0 for the code alone; None applies to any."""


class PlannedUpdate(Record, frozen=True, kw_only=True):
    """A record that the files change, and its fields."""

    ns: str
    id: str
    fields: tuple[FieldDifference, ...]


class FilePlan(Record, frozen=True, kw_only=True):
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
    kept: tuple[tuple[str, str], ...] = ()
    """Records with drift that stay as they are, because the caller said so."""

    @property
    def has_changes(self) -> bool:
        """Whether the files change anything."""
        return bool(self.creates or self.updates or self.deletes)


class ConfigFiles:
    """Files against the configuration of a store."""

    def __init__(self, parts: ConfigParts, publisher: Publisher, drafts: ConfigDrafts) -> None:
        self._parts = parts
        self._publisher = publisher
        self._drafts = drafts

    async def plan(self, files: FileSet, options: ApplyOptions, author: Author) -> FilePlan:
        """Compare files with what is live, and compile what would follow. Nothing is written."""
        plan, request = await self._prepare(files, options, author)
        if plan.problems or not plan.has_changes:
            return plan
        try:
            trial = await self._publisher.try_changes(request)
        except ConfigError as error:
            return msgspec.structs.replace(plan, problems=_problems_of(error))
        return msgspec.structs.replace(
            plan,
            problems=trial.problems,
            missing_secrets=trial.missing_secrets,
            diagnostics=trial.compiled.diagnostics,
        )

    async def apply(
        self, files: FileSet, options: ApplyOptions, author: Author
    ) -> tuple[FilePlan, Published | None]:
        """Publish what files change, as one change set; None if they change nothing.

        If another process publishes meanwhile, the files are compared again with what is live,
        unless the options name the publication that the caller compared them with.

        Raises:
            InvalidConfig: The files have problems, or there is drift; nothing was written.
            LiveConflict: Another publication is live than the options name.
            ConfigError: It cannot be published; nothing was written.
            HeadMoved: Others published again and again.
        """
        for attempt in range(TRIES):
            plan, request = await self._prepare(files, options, author)
            _check_applicable(plan, options)
            if not plan.has_changes:
                return plan, None
            try:
                return plan, await self._publisher.publish(request)
            except (HeadMoved, LiveConflict):
                if attempt + 1 == TRIES:
                    raise
        raise AssertionError

    async def draft(
        self, files: FileSet, options: ApplyOptions, author: Author
    ) -> tuple[FilePlan, ConfigDraft | None]:
        """Make a draft of what files change; None if they change nothing.

        Raises:
            InvalidConfig: The files have problems, or there is drift; nothing was written.
            DraftTooLarge: They change more records than a draft may have.
        """
        plan, request = await self._prepare(files, options, author)
        _check_applicable(plan, options)
        if not plan.has_changes:
            return plan, None
        changes: Any = request.change_set.changes
        title = request.message[:200]
        return plan, await self._drafts.create_from_files(author, title, changes, files.origin)

    async def export(self, no: int | None = None) -> FileSet:
        """Return the records of a publication as files would have them; None: the live one.

        Raises:
            UnknownPublication: It does not exist, or was purged.
        """
        if no is None:
            no = (await self._parts.read_head()).publication
        publication = await self._parts.reader.load_publication(no)
        records: dict[str, dict[str, dict[str, Any]]] = {}
        overrides: dict[str, dict[str, dict[str, Any]]] = {}
        bodies = await self._parts.reader.load_bodies(
            it.hash for entries in publication.manifest.values() for it in entries.values()
        )
        for namespace, entries in sorted(publication.manifest.items()):
            for record_id, entry in sorted(entries.items()):
                body = bodies.get(entry.hash, {})
                if entry.source == OVERRIDE:
                    hidden = {HIDDEN: True} if entry.is_hidden else {}
                    overrides.setdefault(namespace, {})[record_id] = {**body, **hidden}
                else:
                    records.setdefault(namespace, {})[record_id] = body
        return FileSet(records=records, overrides=overrides)

    async def normalize(self, files: FileSet) -> tuple[FileSet, tuple[ConfigProblem, ...]]:
        """Return the records of files in canonical form, and what is wrong with the others."""
        changes, problems = await self._read(files)
        records: dict[str, dict[str, dict[str, Any]]] = {}
        overrides: dict[str, dict[str, dict[str, Any]]] = {}
        for namespace, its in changes.items():
            for record_id, change in its.items():
                if isinstance(change, PatchRecord):
                    hidden = {HIDDEN: True} if change.is_hidden else {}
                    overrides.setdefault(namespace, {})[record_id] = {**change.body, **hidden}
                elif isinstance(change, PutRecord):
                    records.setdefault(namespace, {})[record_id] = change.body
        return FileSet(origin=files.origin, records=records, overrides=overrides), tuple(problems)

    async def _prepare(
        self, files: FileSet, options: ApplyOptions, author: Author
    ) -> tuple[FilePlan, PublishRequest]:
        head = await self._parts.read_head()
        now = head.publication or 0
        if options.expected_head not in (None, now):
            raise LiveConflict(expected=options.expected_head, actual=now)
        live = await self._parts.reader.load_publication(head.publication)
        changes, problems = await self._read(files)
        if options.prune:
            _add_deletions(changes, live, files.origin)
        changes = _drop_unchanged(changes, live, files.origin, options)
        drift = _list_drift(changes, live, files.origin)
        kept = drift if options.drift is DriftChoice.KEEP else ()
        for namespace, record_id in kept:
            del changes[namespace][record_id]
        if not options.adopt:
            problems += _list_foreign(changes, live, files.origin)
        plan = await self._describe(changes, live)
        request = PublishRequest(
            change_set=ChangeSet(changes=changes, origin=files.origin),
            author=author,
            message=options.message or f"applied from {files.origin}",
            origin=PublicationOrigin.FILES,
            action=AuditAction.SEED_APPLY,
            expected_head=now,
            canary=options.canary,
            is_required_of_all=options.require_all,
            over_canary=options.over_canary,
        )
        found = msgspec.structs.replace(
            plan, problems=tuple(problems), drift=drift, kept=kept, head=head.publication
        )
        return found, request

    async def _read(self, files: FileSet) -> tuple[Changes, list[ConfigProblem]]:
        """Bring documents into their canonical form; collects what is wrong with them."""
        changes: Changes = {}
        problems: list[ConfigProblem] = []
        for namespace, records in files.records.items():
            kind = self._parts.kinds.get(namespace)
            if kind is None:
                problems.append(_problem(namespace, "unknown_namespace", "It is not known."))
                continue
            for at, (record_id, body) in enumerate(records.items()):
                if at % READ_AT_ONCE == 0:
                    await asyncio.sleep(0)
                try:
                    stored = kind.read_stored(record_id, body)
                except InvalidConfig as error:
                    problems += error.problems
                    continue
                changes.setdefault(namespace, {})[record_id] = PutRecord(body=stored)
        for namespace, patches in files.overrides.items():
            for record_id, patch in patches.items():
                path = f"{namespace}/{record_id}"
                if record_id in files.records.get(namespace, {}):
                    message = "It is written whole and as overrides; keep one of them."
                    problems.append(_problem(path, "twice", message))
                    continue
                try:
                    change = self._read_patch(namespace, record_id, patch)
                except InvalidConfig as error:
                    problems += error.problems
                    continue
                changes.setdefault(namespace, {})[record_id] = change
        return changes, problems

    def _read_patch(self, namespace: str, record_id: str, patch: Mapping[str, Any]) -> Change:
        """Read one patch; one that says nothing removes what there is.

        Raises:
            InvalidConfig: It is malformed.
        """
        kind, path = self._parts.kinds.get(namespace), f"{namespace}/{record_id}"
        if kind is None or kind.read_stored_patch is None:
            message = "Records of this namespace have no overrides."
            raise InvalidConfig(problems=(_problem(path, "not_overridable", message),))
        is_hidden = patch.get(HIDDEN, False)
        if not isinstance(is_hidden, bool):
            problem = _problem(f"{path}/{HIDDEN}", "invalid", "Expected `bool`.")
            raise InvalidConfig(problems=(problem,))
        fields = {name: it for name, it in patch.items() if name != HIDDEN}
        body = kind.read_stored_patch(record_id, fields)
        return PatchRecord(body=body, is_hidden=is_hidden) if body or is_hidden else DeleteRecord()

    async def _describe(self, changes: Changes, live: Publication) -> FilePlan:
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
                if isinstance(change, DeleteRecord):
                    deletes.append((namespace, record_id))
                elif entry is None:
                    creates.append((namespace, record_id))
                else:
                    old = _with_hidden(bodies.get(entry.hash, {}), is_hidden=entry.is_hidden)
                    new = _with_hidden(change.body, is_hidden=change.is_hidden)
                    fields = list_differences(old, old, new)
                    updates.append(PlannedUpdate(ns=namespace, id=record_id, fields=fields))
        return FilePlan(creates=tuple(creates), updates=tuple(updates), deletes=tuple(deletes))


def _check_applicable(plan: FilePlan, options: ApplyOptions) -> None:
    problems = plan.problems
    if options.drift is DriftChoice.STOP:
        problems = (*problems, *map(drift_problem, plan.drift))
    if problems:
        raise InvalidConfig(problems=problems)


def _drop_unchanged(
    changes: Changes, live: Publication, origin: str, options: ApplyOptions
) -> Changes:
    """Leave out what is live already, unless the files take it over or accept it as theirs."""
    kept: Changes = {}
    for namespace, its in changes.items():
        for record_id, change in its.items():
            entry = live.find_entry(namespace, record_id)
            if isinstance(change, DeleteRecord):
                is_same = entry is None
            else:
                # A record of others that is the same is theirs still; there is nothing to do.
                is_settled = entry is not None and (
                    not entry.has_drift if entry.origin == origin else not options.adopt
                )
                is_same = is_settled and _has_content(entry, change)
            if not is_same:
                kept.setdefault(namespace, {})[record_id] = change
    return kept


def _has_content(entry: ManifestEntry | None, change: PutRecord | PatchRecord) -> bool:
    if entry is None:
        return False
    is_patch = isinstance(change, PatchRecord)
    name = hash_object(encode_canonical(change.body))
    same = (entry.hash, entry.is_hidden) == (name, change.is_hidden)
    return same and (entry.source == OVERRIDE) == is_patch


def _list_drift(changes: Changes, live: Publication, origin: str) -> tuple[tuple[str, str], ...]:
    """Return the records of an origin that were changed elsewhere, to something else."""
    drift = []
    for namespace, its in sorted(changes.items()):
        for record_id, change in sorted(its.items()):
            entry = live.find_entry(namespace, record_id)
            if entry is None or entry.origin != origin or not entry.has_drift:
                continue
            if isinstance(change, DeleteRecord) or not _has_content(entry, change):
                drift.append((namespace, record_id))
    return tuple(drift)


def _add_deletions(changes: Changes, live: Publication, origin: str) -> None:
    """Delete what an origin owns and no longer has."""
    for namespace, entries in live.manifest.items():
        for record_id, entry in entries.items():
            if entry.origin == origin and record_id not in changes.get(namespace, {}):
                changes.setdefault(namespace, {})[record_id] = DeleteRecord()


def _list_foreign(changes: Changes, live: Publication, origin: str) -> list[ConfigProblem]:
    """Return a problem for each record that the files would take from another owner."""
    problems = []
    for namespace, its in changes.items():
        for record_id in its:
            entry: ManifestEntry | None = live.find_entry(namespace, record_id)
            if entry is not None and entry.origin != origin:
                message = f"It belongs to {entry.owner}; adopt it, or leave it out."
                problems.append(_problem(f"{namespace}/{record_id}", "owned_by_other", message))
    return problems


def drift_problem(place: tuple[str, str]) -> ConfigProblem:
    """The problem that a record with drift is, unless the caller says what happens to it."""
    message = "It was changed elsewhere since the files were applied: force it, keep it, or export."
    return _problem("/".join(place), "drift", message)


def _problems_of(error: ConfigError) -> tuple[ConfigProblem, ...]:
    match error:
        case InvalidConfig(problems=problems):
            return problems
        case OwnedByCode() | RecordInUse():
            path = f"{error.namespace}/{error.record_id}"
            return (_problem(path, error.code, str(error)),)
        case _:
            return (_problem("", error.code, str(error)),)


def _with_hidden(body: Mapping[str, Any], *, is_hidden: bool) -> dict[str, Any]:
    return {**body, HIDDEN: True} if is_hidden else dict(body)


def _problem(path: str, code: str, message: str) -> ConfigProblem:
    return ConfigProblem(path=path, code=code, message=message)
