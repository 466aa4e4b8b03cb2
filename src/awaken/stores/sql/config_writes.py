"""One write of managed configuration: one transaction, under the lock of the configuration."""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

from msgspec.structs import replace

from awaken.contracts.config.drafts import ConfigDraft
from awaken.contracts.config.errors import UnknownPublication
from awaken.contracts.config.heads import ConfigHead
from awaken.contracts.config.store import ConfigReceipt, ConfigWrite
from awaken.stores.rules import config as rules

from . import config_rows
from .session import SqlSession

OBJECTS_AT_ONCE = 64
"""How many arguments the statement that loads objects has."""


async def lock_config(session: SqlSession) -> rules.ConfigState:
    """Let no other transaction change the configuration until this one ends."""
    row = await session.one("lock_config")
    assert row is not None
    return config_rows.read_state(row)


async def find_head(session: SqlSession) -> ConfigHead | None:
    """Return the head, or None before the first change."""
    return config_rows.read_head(await session.one("find_config_head"))


async def write_config(session: SqlSession, encoded: config_rows.EncodedWrite) -> ConfigReceipt:
    """Apply a write; see `ConfigStore.write_config`."""
    write = encoded.write
    state = await lock_config(session)
    head = await find_head(session)
    repeated = await _find_repeated(session, write, head)
    if repeated is not None:
        return repeated
    written = rules.apply_write(write, state, head)
    await _check_names(session, write, written, head)
    await session.run_many("add_config_object", encoded.objects)
    publication = written.publication
    if publication is not None:
        assert encoded.contents is not None
        columns = config_rows.publication_columns(publication, encoded.contents)
        await session.run("add_publication", *columns)
    if written.head is not None:
        head = written.head
        record = config_rows.pack_head(head)
        await session.run("save_config_head", head.publication, head.revision, record)
    await session.run_many("add_audit", map(config_rows.audit_columns, written.audit))
    await session.run("save_config_state", *config_rows.state_columns(written.state))
    await _save_secrets(session, write)
    if write.removed_draft is not None:
        await session.run("delete_draft", write.removed_draft)
    if write.idempotency_key is not None:
        made = None if publication is None else publication.no
        at = (await session.now()).wall_ms
        await session.run("add_config_request", write.idempotency_key, write.request_hash, made, at)
    return ConfigReceipt(publication=publication, head=head)


async def _find_repeated(
    session: SqlSession, write: ConfigWrite, head: ConfigHead | None
) -> ConfigReceipt | None:
    if write.idempotency_key is None:
        return None
    known = await session.one("find_config_request", write.idempotency_key)
    if known is None:
        return None
    rules.check_request(write, known[0])
    row = None if known[1] is None else await session.one("load_publication", known[1])
    publication = None if row is None else config_rows.read_publication(row)
    return ConfigReceipt(publication=publication, head=head, is_repeated=True)


async def _check_names(
    session: SqlSession,
    write: ConfigWrite,
    written: rules.WrittenConfig,
    before: ConfigHead | None,
) -> None:
    """Check that all exists that the write names."""
    if write.removed_draft is not None:
        row = await session.one("find_draft", write.removed_draft)
        revision = None if row is None else row[1]
        rules.check_draft(write.removed_draft, revision, write.draft_revision)
    # What the head named before is kept by every purge.
    known = rules.list_named(before)
    if written.publication is not None:
        known.append(written.publication.no)
    for no in rules.list_named(written.head):
        if no not in known:
            await check_publication(session, no)
    needed = rules.list_needed_objects(write)
    if needed:
        rules.check_objects(needed, await load_objects(session, needed))


async def check_publication(session: SqlSession, no: int) -> None:
    """Check that a publication exists.

    Raises:
        UnknownPublication: It does not.
    """
    if await session.one("has_publication", no) is None:
        raise UnknownPublication(no=no)


async def _save_secrets(session: SqlSession, write: ConfigWrite) -> None:
    if write.removed_secrets:
        await session.run_many("delete_secret", [(ref,) for ref in write.removed_secrets])
    if write.secrets:
        columns = [
            (it.ref, it.key_id, it.sealed, it.updated_at, it.updated_by) for it in write.secrets
        ]
        await session.run_many("save_secret", columns)


async def load_objects(session: SqlSession, hashes: Collection[str]) -> Mapping[str, bytes]:
    """Return the bodies of those objects that exist, by hash."""
    found: dict[str, bytes] = {}
    for keys in _batches(hashes):
        # The statement has a fixed number of arguments: the last batch repeats its first key.
        padded = keys + keys[:1] * (OBJECTS_AT_ONCE - len(keys))
        rows = await session.all("load_config_objects", *padded)
        found.update(map(config_rows.read_object, rows))
    return found


def _batches(hashes: Collection[str]) -> Iterator[list[bytes]]:
    keys = map(config_rows.object_key, dict.fromkeys(hashes))
    while batch := list(islice(keys, OBJECTS_AT_ONCE)):
        yield batch


async def save_draft(session: SqlSession, draft: ConfigDraft, expected: int) -> ConfigDraft:
    """Write a draft; see `ConfigStore.save_draft`."""
    # Under the lock, so that no purge removes its base meanwhile.
    await lock_config(session)
    row = await session.one("find_draft", draft.id)
    rules.check_draft(draft.id, None if row is None else row[1], expected)
    if draft.base is not None:
        await check_publication(session, draft.base)
    saved = replace(draft, revision=expected + 1)
    await session.run("save_draft", *config_rows.draft_columns(saved))
    return saved
