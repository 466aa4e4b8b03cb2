"""Drafts: change sets that people edit together, compare with what is live, and publish."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from awaken.contracts.config.drafts import (
    DRAFT_LIFE_MS,
    Change,
    ConfigDraft,
    DeleteRecord,
    PatchRecord,
    PutRecord,
)
from awaken.contracts.config.errors import (
    DraftConflict,
    DraftHasConflicts,
    DraftNotFound,
    DraftTooLarge,
    UnknownConfigRecord,
)
from awaken.contracts.config.heads import CanaryPlan, SeenCanary
from awaken.contracts.config.publications import Publication, PublicationOrigin, hash_object
from awaken.contracts.errors import IdempotencyConflict
from awaken.contracts.record import Record

from .change_sets import ChangeSet
from .differences import (
    FieldDifference,
    MergeState,
    Preference,
    compare_versions,
    list_differences,
    merge_fields,
)
from .parts import Author, ConfigParts, RequestKey
from .publishing import CandidateTrial, Published, Publisher, PublishRequest
from .records import ConfigRecords, RecordWrite, Stored

HIDDEN = "hidden"
"""The field of a version that says that the record is hidden; no kind has one of this name."""
RECORDS_MAX = 500
"""How many records a draft may change."""


class RecordDifference(Record, frozen=True, kw_only=True):
    """How one record of a draft differs from what is live."""

    ns: str
    id: str
    state: MergeState
    fields: tuple[FieldDifference, ...] = ()


class DraftDifference(Record, frozen=True, kw_only=True):
    """How a draft differs from what is live: its base, the head, and every record."""

    draft: str
    revision: int
    """The revision of the draft that was compared: what a reviewer publishes."""
    base: int | None
    head: int | None
    records: tuple[RecordDifference, ...]


class PublishDraft(msgspec.Struct, frozen=True, kw_only=True):
    """How a draft is to be published."""

    author: Author
    message: str = ""
    expected_head: int | None = None
    canary: CanaryPlan | None = None
    over_canary: SeenCanary | None = None
    is_required_of_all: bool = False
    expected: int | None = None
    """The revision of the draft that the author read; None publishes any."""
    idempotency_key: str | None = None
    request_hash: str = ""


class ConfigDrafts:
    """The drafts of a deployment."""

    def __init__(self, parts: ConfigParts, records: ConfigRecords, publisher: Publisher) -> None:
        self._parts = parts
        self._records = records
        self._publisher = publisher

    async def list_drafts(self) -> tuple[ConfigDraft, ...]:
        """Return all drafts, the latest edited first."""
        return await self._parts.store.list_drafts()

    async def get_draft(self, draft_id: str) -> ConfigDraft:
        """Return a draft.

        Raises:
            DraftNotFound: There is none.
        """
        draft = await self._parts.store.find_draft(draft_id)
        if draft is None:
            raise DraftNotFound(draft_id=draft_id)
        return draft

    async def create(self, author: Author, title: str = "", key: str | None = None) -> ConfigDraft:
        """Begin a draft on what is live; under the same key again it is the same draft.

        Raises:
            IdempotencyConflict: The key was used for a draft with another title.
        """
        draft = await self._begin(author, title)
        if key is not None:
            draft = msgspec.structs.replace(draft, id=hash_object(f"draft:{key}".encode()))
            known = await self._parts.store.find_draft(draft.id)
            if known is not None and known.title != title:
                raise IdempotencyConflict(commit_id=key)
            if known is not None:
                return known
        return await self._save(draft, author, 0)

    async def create_from_files(
        self, author: Author, title: str, changes: dict[str, dict[str, Change]], origin: str
    ) -> ConfigDraft:
        """Begin a draft with the changes of files; they own what it publishes.

        Raises:
            DraftTooLarge: There are more changes than a draft may have.
        """
        if sum(map(len, changes.values())) > RECORDS_MAX:
            raise DraftTooLarge(limit=RECORDS_MAX)
        draft = await self._begin(author, title)
        draft = msgspec.structs.replace(draft, changes=changes, origin=origin)
        return await self._save(draft, author, 0)

    async def _begin(self, author: Author, title: str) -> ConfigDraft:
        now, head = self._parts.clock.now_ms(), await self._parts.read_head()
        return ConfigDraft(
            id=self._parts.ids.new_id(),
            title=title,
            base=head.publication,
            owner=author.id,
            created_at=now,
        )

    async def rename(
        self, draft_id: str, title: str, author: Author, expected: int | None
    ) -> ConfigDraft:
        """Give a draft another title."""
        draft = await self._get_expected(draft_id, expected)
        return await self._save(msgspec.structs.replace(draft, title=title), author, draft.revision)

    async def put_record(
        self,
        draft_id: str,
        write: RecordWrite,
        body: Mapping[str, Any] | None,
        *,
        is_patch: bool = False,
        is_hidden: bool = False,
    ) -> ConfigDraft:
        """Write a record in a draft: whole, as a patch on the code's, or None for its deletion.

        A secret that is written as text is kept in the secret store at once, because a draft has
        references only. Its name is the draft's own, so that no secret that is in use changes
        before the draft is published.

        Raises:
            DraftConflict: The draft has changed since the author read it.
            InvalidConfig: The record is malformed.
        """
        draft = await self._get_expected(draft_id, write.expected)
        # A name of its own: a draft replaces no secret that live records use.
        write = msgspec.structs.replace(write, secret_suffix=self._parts.ids.new_id())
        before = draft.changes.get(write.namespace, {}).get(write.id)
        if body is None:
            self._records.find_kind(write.namespace)
            stored = Stored(change=DeleteRecord())
        elif is_patch:
            stored = await self._records.store_patch(write, body, is_hidden=is_hidden)
        else:
            old = before.body if isinstance(before, PutRecord) else None
            stored = await self._records.store_put(write, body, old)
        if stored.secrets:
            await self._records.keep_secrets(stored.secrets, write.author)
        changes = {name: dict(its) for name, its in draft.changes.items()}
        changes.setdefault(write.namespace, {})[write.id] = stored.change
        if sum(map(len, changes.values())) > RECORDS_MAX:
            raise DraftTooLarge(limit=RECORDS_MAX)
        draft = msgspec.structs.replace(draft, changes=changes)
        return await self._save(draft, write.author, draft.revision)

    async def drop_record(
        self, draft_id: str, place: tuple[str, str], author: Author, expected: int | None
    ) -> ConfigDraft:
        """Take a record out of a draft: it stays as it is live.

        Raises:
            UnknownConfigRecord: The draft does not change it.
        """
        draft = await self._get_expected(draft_id, expected)
        namespace, record_id = place
        if record_id not in draft.changes.get(namespace, {}):
            raise UnknownConfigRecord(namespace=namespace, record_id=record_id)
        changes = {name: dict(its) for name, its in draft.changes.items()}
        del changes[namespace][record_id]
        draft = msgspec.structs.replace(draft, changes=changes)
        return await self._save(draft, author, draft.revision)

    async def discard(self, draft_id: str, expected: int | None = None) -> None:
        """Remove a draft.

        Raises:
            DraftNotFound: There is none.
            DraftConflict: It has another revision than the author read.
        """
        await self._get_expected(draft_id, expected)
        if not await self._parts.store.delete_draft(draft_id):
            raise DraftNotFound(draft_id=draft_id)

    async def compare(self, draft_id: str) -> DraftDifference:
        """Compare a draft with what is live, and with what it was begun on."""
        draft = await self.get_draft(draft_id)
        base = await self._parts.reader.load_publication(draft.base)
        live = await self._records.read_live()
        records = []
        for namespace, record_id, change in _list_changes(draft):
            versions = await self._load_versions(base, live, (namespace, record_id), change)
            state = compare_versions(*versions)
            fields = () if state is MergeState.SAME else list_differences(*versions)
            records.append(RecordDifference(ns=namespace, id=record_id, state=state, fields=fields))
        return DraftDifference(
            draft=draft.id,
            revision=draft.revision,
            base=draft.base,
            head=live.no or None,
            records=tuple(records),
        )

    async def rebase(
        self,
        draft_id: str,
        author: Author,
        expected: int | None,
        prefer: Preference | None = None,
        chosen: Mapping[str, Preference] | None = None,
    ) -> ConfigDraft:
        """Bring a draft onto what is live: fields that only one side changed are merged.

        `chosen` has a preference for single fields, by the paths that `DraftHasConflicts` names.

        Raises:
            DraftHasConflicts: Both sides changed a field, and there is no preference.
        """
        draft = await self._get_expected(draft_id, expected)
        base = await self._parts.reader.load_publication(draft.base)
        live = await self._records.read_live()
        changes: dict[str, dict[str, Change]] = {}
        clashes: list[str] = []
        for namespace, record_id, change in _list_changes(draft):
            place = (namespace, record_id)
            versions = await self._load_versions(base, live, place, change)
            if compare_versions(*versions) in (MergeState.SAME, MergeState.THEIRS):
                continue
            own = _choose_fields(f"{namespace}/{record_id}", chosen or {})
            merged, fields = merge_fields(*versions, prefer, own)
            clashes += [f"{namespace}/{record_id}/{it}".rstrip("/") for it in fields]
            if merged == versions[1]:
                continue
            changes.setdefault(namespace, {})[record_id] = _with_body(change, merged)
        if clashes:
            raise DraftHasConflicts(
                draft_id=draft_id, paths=tuple(clashes), names=", ".join(clashes)
            )
        draft = msgspec.structs.replace(draft, base=live.no or None, changes=changes)
        return await self._save(draft, author, draft.revision)

    async def validate(self, draft_id: str, author: Author) -> CandidateTrial:
        """Compile a draft without publishing it.

        Raises:
            RecordConflict: A record of it has changed since it was begun; rebase it.
        """
        draft = await self.get_draft(draft_id)
        request = await self._request(draft, PublishDraft(author=author))
        return await self._publisher.try_changes(request)

    async def publish(self, draft_id: str, how: PublishDraft) -> Published:
        """Make a draft live, and remove it, in one write.

        Raises:
            RecordConflict: A record of it has changed since it was begun; rebase it.
            DraftConflict: It was edited meanwhile.
            ConfigError: It cannot be published; nothing was written.
        """
        if (repeated := await self._publisher.find_repeated(how)) is not None:
            return repeated
        draft = await self._get_expected(draft_id, how.expected)
        published = await self._publisher.publish(await self._request(draft, how))
        if not published.is_changed:
            # What it changes is live already: there was nothing to write it with.
            await self._parts.store.delete_draft(draft_id)
        return published

    async def preview(
        self,
        draft_id: str,
        author: Author,
        once: RequestKey | None = None,
        expected: int | None = None,
    ) -> Publication:
        """Write an ephemeral publication of a draft, on which runs can be tried.

        Raises:
            ConfigError: It does not compile.
        """
        draft = await self._get_expected(draft_id, expected)
        request = await self._request(draft, PublishDraft(author=author))
        request = msgspec.structs.replace(
            request,
            is_ephemeral=True,
            origin=PublicationOrigin.PREVIEW,
            idempotency_key=None if once is None else once.key,
            request_hash="" if once is None else f"{once.hash}:{draft.revision}",
        )
        return (await self._publisher.publish(request)).publication

    async def _request(self, draft: ConfigDraft, how: PublishDraft) -> PublishRequest:
        base = await self._parts.reader.load_publication(draft.base)
        expected = {}
        for namespace, record_id, _ in _list_changes(draft):
            entry = base.find_entry(namespace, record_id)
            expected[(namespace, record_id)] = 0 if entry is None else entry.revision
        return PublishRequest(
            change_set=ChangeSet(changes=draft.changes, expected=expected, origin=draft.origin),
            author=how.author,
            message=how.message or draft.title,
            origin=PublicationOrigin.DRAFT,
            draft=draft,
            canary=how.canary,
            over_canary=how.over_canary,
            is_required_of_all=how.is_required_of_all,
            expected_head=how.expected_head,
            idempotency_key=how.idempotency_key,
            request_hash=how.request_hash,
        )

    async def _load_versions(
        self, base: Publication, live: Publication, place: tuple[str, str], change: Change
    ) -> tuple[dict[str, Any] | None, dict[str, Any] | None, dict[str, Any] | None]:
        entries = [it.find_entry(*place) for it in (base, live)]
        bodies = await self._parts.reader.load_bodies(it.hash for it in entries if it is not None)
        stored = [
            None if it is None else _show_hidden(bodies.get(it.hash, {}), is_hidden=it.is_hidden)
            for it in entries
        ]
        return stored[0], stored[1], _read_change(change)

    async def _get_expected(self, draft_id: str, expected: int | None) -> ConfigDraft:
        draft = await self.get_draft(draft_id)
        if expected is not None and expected != draft.revision:
            raise DraftConflict(draft_id=draft_id, expected=expected, actual=draft.revision)
        return draft

    async def _save(self, draft: ConfigDraft, author: Author, expected: int) -> ConfigDraft:
        now = self._parts.clock.now_ms()
        editors = tuple(dict.fromkeys((*draft.editors, author.id)))
        draft = msgspec.structs.replace(
            draft, editors=editors, updated_at=now, expires_at=now + DRAFT_LIFE_MS
        )
        return await self._parts.store.save_draft(draft, expected)


CONNECTING = ("providers", "mcp-servers", "a2a-servers")
"""Namespaces whose records are addresses and programs that the server contacts or starts."""


def reaches_out(draft: ConfigDraft) -> bool:
    """Whether using a draft contacts addresses, or starts programs, that are not live."""
    agents = draft.changes.get("agents", {}).values()
    has_endpoint = any(
        not isinstance(it, DeleteRecord) and it.body.get("endpoint") is not None for it in agents
    )
    return has_endpoint or any(draft.changes.get(name) for name in CONNECTING)


def _list_changes(draft: ConfigDraft) -> Iterable[tuple[str, str, Change]]:
    for namespace, changes in sorted(draft.changes.items()):
        for record_id, change in sorted(changes.items()):
            yield namespace, record_id, change


def _choose_fields(place: str, chosen: Mapping[str, Preference]) -> dict[str, Preference]:
    """Return the preferences for the fields of one record; that of the whole record is blank."""
    return {
        path[len(place) + 1 :]: side
        for path, side in chosen.items()
        if path == place or path.startswith(f"{place}/")
    }


def _read_change(change: Change) -> dict[str, Any] | None:
    """Return the version of a record that a change leaves; None if it leaves none."""
    match change:
        case DeleteRecord():
            return None
        case PatchRecord(body=body, is_hidden=False) if not body:
            return None
        case _:
            return _show_hidden(change.body, is_hidden=change.is_hidden)


def _show_hidden(body: Mapping[str, Any], *, is_hidden: bool) -> dict[str, Any]:
    """Return a body in which it is a field that the record is hidden."""
    return {**body, HIDDEN: True} if is_hidden else {**body}


def _with_body(change: Change, version: dict[str, Any] | None) -> Change:
    """Return a change that leaves the merged version; None stands for a deletion."""
    if version is None:
        return DeleteRecord()
    body = {name: value for name, value in version.items() if name != HIDDEN}
    match change:
        case DeleteRecord():
            return PutRecord(body=body)
        case _:
            return msgspec.structs.replace(change, body=body, is_hidden=HIDDEN in version)
