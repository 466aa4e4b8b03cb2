"""The purge of managed configuration: first records by age, then objects that nothing names.

Which objects are named is read without the lock, since it takes long where publications are large;
under the lock only what was written meanwhile is read.
"""

import asyncio
from functools import partial

from msgspec.structs import replace

from awaken.contracts.config.audit import AuditAnchor
from awaken.contracts.config.publications import PublicationKind
from awaken.contracts.config.store import ConfigPurge, PurgedConfig
from awaken.stores.rules import config as rules

from . import config_rows, rows
from .config_writes import find_head, lock_config
from .session import Database, Row, SqlSession

PUBLICATIONS_AT_ONCE = 4
EVENTS_AT_ONCE = 200
_END = (1 << 63) - 1


async def purge_records(session: SqlSession, purge: ConfigPurge) -> PurgedConfig:
    """Remove drafts, publications, audit events and idempotency keys by their age."""
    state = await lock_config(session)
    drafts = await session.run("delete_expired_drafts", purge.drafts_before)
    bases = [row[0] for row in await session.all("list_draft_bases")]
    ages = (
        rules.PublicationAge(no=row[0], kind=PublicationKind(row[1]), created_at=row[2])
        for row in await session.all("list_publication_ages")
    )
    removed = rules.choose_removed(ages, await find_head(session), bases, purge)
    if removed:
        await session.run_many("delete_publication", [(no,) for no in removed])
    return PurgedConfig(
        publications=len(removed),
        audit=await _prune_audit(session, state, purge.audit_before),
        drafts=drafts,
        requests=await session.run("delete_config_requests", purge.requests_before),
    )


async def _prune_audit(session: SqlSession, state: rules.ConfigState, before: int) -> int:
    """Remove the start of the chain, and remember the link that the rest follows."""
    kept = await session.one("find_first_kept_audit", before)
    end = _END if kept is None else kept[0]
    last = await session.one("find_last_pruned_audit", end)
    if last is None:
        return 0
    count = await session.run("delete_audit", end)
    anchor = AuditAnchor(no=last[0], chain=bytes(last[1]))
    columns = config_rows.state_columns(replace(state, audit_anchor=anchor))
    await session.run("save_config_state", *columns)
    return count


async def purge_objects(database: Database) -> int:
    """Remove the objects that no publication and no audit event names."""

    async def list_keys(session: SqlSession) -> list[bytes]:
        return [bytes(row[0]) for row in await session.all("list_config_objects")]

    keys = set(await database.read(list_keys))
    named = _NamedKeys()
    while found := await database.read(named.read_next):
        for row in found:
            named.add(row)
            # Large manifests are decoded one at a time, so that other tasks go on.
            await asyncio.sleep(0)
    return await database.write(partial(_remove_objects, keys=keys, named=named))


async def _remove_objects(session: SqlSession, keys: set[bytes], named: "_NamedKeys") -> int:
    await lock_config(session)
    # If the transaction is tried again, what was added before does no harm.
    while found := await named.read_next(session):
        for row in found:
            named.add(row)
    gone = keys - named.keys
    if gone:
        await session.run_many("delete_config_object", [(key,) for key in gone])
    return len(gone)


class _NamedKeys:
    """The objects that publications and audit events name, up to the last that were read."""

    def __init__(self) -> None:
        self.keys: set[bytes] = set()
        self._publication = 0
        self._event = 0

    async def read_next(self, session: SqlSession) -> list[Row]:
        """Return some rows that were not read yet; none if all were."""
        found = await session.all(
            "list_publication_contents", self._publication, PUBLICATIONS_AT_ONCE
        )
        return list(found or await session.all("read_audit_chain", self._event, EVENTS_AT_ONCE))

    def add(self, row: Row) -> None:
        """Add the objects of a row: two columns are a publication, three an audit event."""
        if len(row) == 2:
            self._publication = no = row[0]
            what = f"The contents of publication {no}"
            contents = rows.unpack(row[1], config_rows.NAMED_OBJECTS, what)
            hashes = [it.hash for ids in contents.manifest.values() for it in ids.values()]
        else:
            event = config_rows.read_audit(row)
            self._event = event.no
            hashes = rules.list_event_objects(event.event)
        self.keys.update(map(config_rows.object_key, hashes))
