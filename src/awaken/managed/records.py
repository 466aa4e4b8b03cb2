"""Records as people read and write them: those of the code, with what is managed on top.

Every write is a change set of one record and takes the way of `publishing.py`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec

from awaken.contracts.config.audit import AuditAction, AuditEvent
from awaken.contracts.config.compiler import ConfigProblem
from awaken.contracts.config.drafts import Change, DeleteRecord, PatchRecord, PutRecord
from awaken.contracts.config.errors import (
    InvalidConfig,
    OwnedByCode,
    RecordConflict,
    RecordExists,
    UnknownConfigRecord,
    UnknownNamespace,
)
from awaken.contracts.config.kinds import ConfigKind, RecordMeta
from awaken.contracts.config.publications import OVERRIDE, Publication, PublicationOrigin
from awaken.contracts.config.secret_fields import (
    find_secret_problems,
    lift_literals,
    merge_secrets,
    store_ref,
)
from awaken.contracts.config.store import SealedSecret
from awaken.contracts.secrets import encode_reference

from .change_sets import ChangeSet
from .effective import apply_patch
from .history import find_version
from .parts import Author, ConfigParts
from .publishing import CandidateTrial, Published, Publisher, PublishRequest
from .references import list_users

WriteSecrets = Callable[
    [tuple[SealedSecret, ...], tuple[str, ...], tuple[AuditEvent, ...]], Awaitable[None]
]
"""Writes stored secrets, removes others, and records both."""

TRIES = 5
"""How often overrides are merged with newer ones before the author has to."""
CODE = "code"
"""The source of a record that nothing manages."""


class RecordView(msgspec.Struct, frozen=True, kw_only=True):
    """A record as it is in effect: its stored form, and what is known of it."""

    kind: ConfigKind
    body: dict[str, Any]
    meta: RecordMeta
    overrides: dict[str, Any] | None = None
    """The patch on a record of the code; None without one."""

    @property
    def wire(self) -> dict[str, Any]:
        """The HTTP form; it has no secret."""
        return self.kind.to_wire(self.body, self.meta)


class RecordWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write of one record over HTTP."""

    namespace: str
    id: str
    author: Author
    expected: int | None = None
    """The revision that the author read; None writes over any."""
    message: str = ""
    idempotency_key: str | None = None
    request_hash: str = ""
    secret_suffix: str | None = None
    """Ends the names of its secrets if it is written in a draft; None if it becomes live."""


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A change in stored form, with the secrets that came with it, encrypted."""

    change: Change
    secrets: tuple[SealedSecret, ...] = ()
    revision: int | None = None
    """The revision of the overrides that it was merged with; None if it is whole."""


class ConfigRecords:
    """The records of every namespace, of the live publication."""

    def __init__(
        self, parts: ConfigParts, publisher: Publisher, write_secrets: WriteSecrets
    ) -> None:
        self._parts = parts
        self._publisher = publisher
        self._write_secrets = write_secrets

    def find_kind(self, namespace: str) -> ConfigKind:
        """Return the kind of a namespace.

        Raises:
            UnknownNamespace: There is none.
        """
        kind = self._parts.kinds.get(namespace)
        if kind is None:
            known = ", ".join(sorted(self._parts.kinds))
            raise UnknownNamespace(namespace=namespace, known=known)
        return kind

    async def read_live(self) -> Publication:
        """Return the live publication; the empty one before the first."""
        head = await self._parts.read_head()
        return await self._parts.reader.load_publication(head.publication)

    async def list_records(self, namespace: str) -> list[RecordView]:
        """Return every record of a namespace, sorted by id.

        Raises:
            UnknownNamespace: There is none.
        """
        kind, live = self.find_kind(namespace), await self.read_live()
        entries, code = live.manifest.get(namespace, {}), self._parts.code.records
        bodies = await self._parts.reader.load_bodies(it.hash for it in entries.values())
        ids = sorted({*entries, *code.get(namespace, {})})
        views = (self._view(kind, it, live, bodies) for it in ids)
        return [it for it in views if it is not None]

    async def get_record(self, namespace: str, record_id: str) -> RecordView:
        """Return a record.

        Raises:
            UnknownNamespace: There is no such namespace.
            UnknownConfigRecord: There is no such record.
        """
        kind, live = self.find_kind(namespace), await self.read_live()
        entry = live.find_entry(namespace, record_id)
        bodies = {} if entry is None else await self._parts.reader.load_bodies((entry.hash,))
        view = self._view(kind, record_id, live, bodies)
        if view is None:
            raise UnknownConfigRecord(namespace=namespace, record_id=record_id)
        return view

    async def create(self, write: RecordWrite, body: Mapping[str, Any]) -> Published:
        """Write a new record.

        Raises:
            RecordExists: There is one of this id.
            ConfigError: It cannot be published; nothing was written.
        """
        if (repeated := await self._publisher.find_repeated(write)) is not None:
            return repeated
        live = await self.read_live()
        if live.find_entry(write.namespace, write.id) is not None:
            raise RecordExists(namespace=write.namespace, record_id=write.id)
        return await self._publish(
            msgspec.structs.replace(write, expected=0), await self.store_put(write, body)
        )

    async def put(self, write: RecordWrite, body: Mapping[str, Any]) -> Published:
        """Write a whole record, over one of the same id; secrets that it does not name stay.

        Raises:
            ConfigError: It cannot be published; nothing was written.
        """
        return await self._publish(write, await self.store_put(write, body))

    async def delete(self, write: RecordWrite, *, is_forced: bool = False) -> Published:
        """Remove a record; one of the code is hidden, because it cannot be removed.

        `is_forced` removes the models of a provider with it, unless an agent names them.

        Raises:
            UnknownConfigRecord: There is no such record.
            RecordInUse: Others name it.
        """
        if (repeated := await self._publisher.find_repeated(write)) is not None:
            return repeated
        view = await self.get_record(write.namespace, write.id)
        if view.meta.source in (CODE, OVERRIDE):
            if view.meta.is_hidden:
                raise UnknownConfigRecord(namespace=write.namespace, record_id=write.id)
            return await self.patch(write, {}, is_hidden=True)
        changes: dict[str, dict[str, Any]] = {write.namespace: {write.id: DeleteRecord()}}
        if is_forced and write.namespace == "providers":
            models = await self._list_managed_users(write.namespace, write.id, "models")
            changes["models"] = {name: DeleteRecord() for name in models}
        return await self._publish_all(write, changes, ())

    async def validate(
        self, write: RecordWrite, body: Mapping[str, Any]
    ) -> tuple[dict[str, Any], CandidateTrial]:
        """Compile a record without publishing it; returns its normalized HTTP form as well.

        Raises:
            ConfigError: It is malformed.
        """
        kind, stored = self.find_kind(write.namespace), await self.store_put(write, body)
        trial = await self._publisher.try_changes(self._request(write, stored))
        assert isinstance(stored.change, PutRecord)
        meta = RecordMeta(namespace=kind.name, id=write.id, source="user")
        return kind.to_wire(stored.change.body, meta), trial

    async def patch(
        self,
        write: RecordWrite,
        fields: Mapping[str, Any],
        *,
        cleared: Iterable[str] = (),
        is_hidden: bool | None = None,
    ) -> Published:
        """Change the overrides of a record of the code; `cleared` fields are inherited again.

        Raises:
            ConfigError: It is no record of the code, or cannot be published.
        """
        dropped = tuple(cleared)
        for attempt in range(TRIES):
            stored = await self.store_patch(write, fields, cleared=dropped, is_hidden=is_hidden)
            try:
                return await self._publish(write, stored)
            except RecordConflict:
                # Without a revision the author means any: the fields of others are merged again.
                if write.expected is not None or attempt + 1 == TRIES:
                    raise
        raise AssertionError

    async def try_patch(
        self, write: RecordWrite, fields: Mapping[str, Any], *, cleared: Iterable[str] = ()
    ) -> tuple[dict[str, Any], CandidateTrial]:
        """Compile overrides without publishing them; returns the record as it would be."""
        kind = self.find_kind(write.namespace)
        stored = await self.store_patch(write, fields, cleared=cleared)
        trial = await self._publisher.try_changes(self._request(write, stored))
        assert isinstance(stored.change, PatchRecord)
        body = self._patched_body(kind, write.id, stored.change.body)
        meta = RecordMeta(namespace=kind.name, id=write.id, source=OVERRIDE)
        return kind.to_wire(body, meta), trial

    async def restore(self, write: RecordWrite, version: str) -> Published:
        """Write a record as it was: in a publication, after an audit event, or by its object.

        Raises:
            VersionNotFound: There is no such version.
            VersionUnusable: The version is of another record, or has no body.
        """
        self.find_kind(write.namespace)
        earlier = await find_version(self._parts.store, (write.namespace, write.id), version)
        changes: dict[str, dict[str, Any]] = {write.namespace: {write.id: earlier}}
        request = self._request_all(write, changes, ())
        request = msgspec.structs.replace(
            request,
            origin=PublicationOrigin.RESTORE,
            action=AuditAction.RESTORE,
            restored_from=version,
        )
        return await self._publisher.publish(request)

    async def store_put(
        self, write: RecordWrite, body: Mapping[str, Any], old: Mapping[str, Any] | None = None
    ) -> Stored:
        """Bring a whole record from its HTTP form into stored form.

        Secrets that it does not name are those of `old`, the body in the draft that it replaces,
        or of the live record.

        Raises:
            InvalidConfig: It is malformed; lists every problem.
            OwnedByCode: The code declares a record of this id.
            SecretsUnavailable: It has a secret as text, and this process cannot keep one.
        """
        kind = self.find_kind(write.namespace)
        stored = kind.from_wire({**body, "id": write.id})
        live = await self.read_live()
        entry = live.find_entry(write.namespace, write.id)
        is_code = self._parts.code.has_record(write.namespace, write.id)
        if is_code and (entry is None or entry.source == OVERRIDE) and not kind.is_patch_only:
            raise OwnedByCode(namespace=write.namespace, record_id=write.id)
        if old is None and entry is not None and entry.source != OVERRIDE:
            old = (await self._parts.reader.load_bodies((entry.hash,))).get(entry.hash, {})
        stored = merge_secrets(stored, old or {}, kind.secrets)
        stored, secrets = self._lift_secrets(kind, write, stored)
        return Stored(change=PutRecord(body=stored), secrets=secrets)

    async def store_patch(
        self,
        write: RecordWrite,
        fields: Mapping[str, Any],
        *,
        cleared: Iterable[str] = (),
        is_hidden: bool | None = None,
    ) -> Stored:
        """Bring overrides into stored form, merged with those that there are.

        Raises:
            InvalidConfig: A field cannot be overridden, or a value does not fit.
            UnknownConfigRecord: There is no such record.
        """
        view = await self.get_record(write.namespace, write.id)
        kind, dropped = view.kind, set(cleared)
        patch = kind.patch_from_wire(write.id, fields) if kind.patch_from_wire else dict(fields)
        before = {name: it for name, it in (view.overrides or {}).items() if name not in dropped}
        merged = {**before, **patch}
        if isinstance(before.get("sections"), dict) and isinstance(patch.get("sections"), dict):
            merged["sections"] = {**before["sections"], **patch["sections"]}
        merged, secrets = self._lift_secrets(kind, write, merged)
        hidden = view.meta.is_hidden if is_hidden is None else is_hidden
        change = PatchRecord(body=merged, is_hidden=hidden)
        return Stored(change=change, secrets=secrets, revision=view.meta.revision)

    async def keep_secrets(self, secrets: tuple[SealedSecret, ...], author: Author) -> None:
        """Store the secrets that came with a record of a draft."""
        events = tuple(
            self._parts.make_event(author, AuditAction.SECRET_SET, f"secrets/{it.ref}")
            for it in secrets
        )
        await self._write_secrets(secrets, (), events)

    def _lift_secrets(
        self, kind: ConfigKind, write: RecordWrite, body: dict[str, Any]
    ) -> tuple[dict[str, Any], tuple[SealedSecret, ...]]:
        lifted, texts = lift_literals(
            body,
            kind.secrets,
            lambda path: store_ref(kind.name, write.id, path, write.secret_suffix),
        )
        if found := find_secret_problems(lifted, kind.secrets):
            at = f"{kind.name}/{write.id}"
            raise InvalidConfig(
                problems=tuple(msgspec.structs.replace(it, path=f"{at}/{it.path}") for it in found)
            )
        box, by = self._parts.box, write.author.id
        return lifted, tuple(box.seal(ref, text, by) for ref, text in texts.items())

    async def _publish(self, write: RecordWrite, stored: Stored) -> Published:
        return await self._publisher.publish(self._request(write, stored))

    async def _publish_all(
        self,
        write: RecordWrite,
        changes: Mapping[str, Mapping[str, Any]],
        secrets: tuple[SealedSecret, ...],
    ) -> Published:
        return await self._publisher.publish(self._request_all(write, changes, secrets))

    def _request(self, write: RecordWrite, stored: Stored) -> PublishRequest:
        if write.expected is None:
            write = msgspec.structs.replace(write, expected=stored.revision)
        return self._request_all(
            write, {write.namespace: {write.id: stored.change}}, stored.secrets
        )

    def _request_all(
        self,
        write: RecordWrite,
        changes: Mapping[str, Mapping[str, Any]],
        secrets: tuple[SealedSecret, ...],
    ) -> PublishRequest:
        place = (write.namespace, write.id)
        expected = {} if write.expected is None else {place: write.expected}
        return PublishRequest(
            change_set=ChangeSet(changes=changes, expected=expected),
            author=write.author,
            message=write.message,
            secrets=secrets,
            idempotency_key=write.idempotency_key,
            request_hash=write.request_hash,
        )

    async def _list_managed_users(self, namespace: str, record_id: str, wanted: str) -> list[str]:
        live = await self.read_live()
        config = await self._parts.reader.read_effective(live.manifest, self._parts.code)
        users = list_users(config, self._parts.kinds, namespace, record_id)
        return sorted({name for where, name, _ in users if where == wanted})

    async def list_users(self, namespace: str, record_id: str) -> list[tuple[str, str]]:
        """Return the records that name a record, as namespace and id."""
        live = await self.read_live()
        config = await self._parts.reader.read_effective(live.manifest, self._parts.code)
        users = list_users(config, self._parts.kinds, namespace, record_id)
        return list(dict.fromkeys((where, name) for where, name, _ in users))

    def _view(
        self,
        kind: ConfigKind,
        record_id: str,
        live: Publication,
        bodies: Mapping[str, dict[str, Any]],
    ) -> RecordView | None:
        entry = live.find_entry(kind.name, record_id)
        if entry is None:
            meta = RecordMeta(namespace=kind.name, id=record_id, source=CODE)
            body = self.code_body(kind.name, record_id)
            return None if body is None else RecordView(kind=kind, body=body, meta=meta)
        meta = RecordMeta(
            namespace=kind.name,
            id=record_id,
            source=entry.source,
            owner=entry.owner,
            revision=entry.revision,
            hash=entry.hash,
            is_hidden=entry.is_hidden,
            has_drift=entry.has_drift,
            created_at=entry.created_at,
            updated_at=entry.updated_at,
            updated_by=entry.updated_by,
            publication=live.no,
        )
        body = bodies.get(entry.hash)
        if body is None:
            return None
        if entry.source != OVERRIDE:
            return RecordView(kind=kind, body=body, meta=meta)
        if not self._parts.code.has_record(kind.name, record_id):
            return None
        patched = self._patched_body(kind, record_id, body)
        return RecordView(kind=kind, body=patched, meta=meta, overrides=body)

    def code_body(self, namespace: str, record_id: str) -> dict[str, Any] | None:
        """Return a record as the code declares it, in stored form; None if it does not."""
        spec = self._parts.code.records.get(namespace, {}).get(record_id)
        return None if spec is None else _to_body(spec)

    def _patched_body(
        self, kind: ConfigKind, record_id: str, patch: Mapping[str, Any]
    ) -> dict[str, Any]:
        base = self._parts.code.records[kind.name][record_id]
        return _to_body(apply_patch(base, patch, kind, self._parts.reader.bind))


def list_problems(trial: CandidateTrial) -> tuple[ConfigProblem, ...]:
    """Return everything that would refuse a trial, missing secrets included."""
    missing = (
        ConfigProblem(path="", code="missing_secret", message=f"The secret '{ref}' does not exist.")
        for ref in trial.missing_secrets
    )
    return (*trial.problems, *missing)


def _to_body(spec: Any) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(spec, enc_hook=encode_reference)
    return body
