"""Managed configuration in the database of the store: one method for each method of the port."""

import asyncio
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from awaken.contracts.config.audit import AuditAnchor, AuditQuery, AuditRow
from awaken.contracts.config.drafts import ConfigDraft
from awaken.contracts.config.heads import ConfigHead
from awaken.contracts.config.publications import Publication
from awaken.contracts.config.store import (
    ConfigPurge,
    ConfigReceipt,
    ConfigWrite,
    PurgedConfig,
    SealedSecret,
)
from awaken.stores.rules import config as rules

from . import config_rows
from .config_purge import purge_objects, purge_records
from .config_writes import find_head, load_objects, lock_config, save_draft, write_config
from .session import Database, SqlSession

_FIRST, _LAST = -(1 << 63), (1 << 63) - 1


class SqlConfig:
    """A `ConfigStore` in a SQL database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find_config_head(self) -> ConfigHead | None:
        """Return the head, or None before the first change."""
        return await self._database.read_row(find_head)

    async def write_config(self, write: ConfigWrite) -> ConfigReceipt:
        """Apply a write whole, or raise and change nothing; see `ConfigStore.write_config`."""
        # A large manifest takes long to compress: the event loop is not held meanwhile.
        encoded = await asyncio.to_thread(config_rows.EncodedWrite, write)
        return await self._database.write(partial(write_config, encoded=encoded))

    async def find_config_request(self, idempotency_key: str) -> tuple[str, int | None] | None:
        """Return the request hash and the publication of an earlier write, or None."""

        async def work(session: SqlSession) -> tuple[str, int | None] | None:
            # A write whose reply was lost may still be in progress: the lock waits for its end.
            await lock_config(session)
            row = await session.one("find_config_request", idempotency_key)
            return None if row is None else (row[0], row[1])

        return await self._database.write(work)

    async def load_publication(self, no: int) -> Publication | None:
        """Return a publication, or None."""

        async def work(session: SqlSession) -> Publication | None:
            row = await session.one("load_publication", no)
            return None if row is None else config_rows.read_publication(row)

        return await self._database.read_row(work)

    async def list_publications(
        self, *, before: int | None = None, limit: int = 50, with_ephemeral: bool = False
    ) -> tuple[Publication, ...]:
        """Return publications with smaller numbers, newest first, without their manifests."""
        statement = "list_all_publications" if with_ephemeral else "list_live_publications"
        end = _LAST if before is None else before

        async def work(session: SqlSession) -> tuple[Publication, ...]:
            found = await session.all(statement, end, max(limit, 0))
            return tuple(map(config_rows.read_listed, found))

        return await self._database.read_row(work)

    async def load_objects(self, hashes: Collection[str]) -> Mapping[str, bytes]:
        """Return the bodies of those objects that exist, by hash."""
        return await self._database.read(partial(load_objects, hashes=hashes))

    async def save_draft(self, draft: ConfigDraft, expected: int) -> ConfigDraft:
        """Write a draft if the stored one has a revision; see `ConfigStore.save_draft`."""
        return await self._database.write(partial(save_draft, draft=draft, expected=expected))

    async def find_draft(self, draft_id: str) -> ConfigDraft | None:
        """Return a draft, or None."""

        async def work(session: SqlSession) -> ConfigDraft | None:
            row = await session.one("find_draft", draft_id)
            return None if row is None else config_rows.read_draft(row, draft_id)

        return await self._database.read_row(work)

    async def list_drafts(self) -> tuple[ConfigDraft, ...]:
        """Return all drafts, the latest edited first, ties by id."""

        async def work(session: SqlSession) -> tuple[ConfigDraft, ...]:
            found = await session.all("list_drafts")
            return tuple(config_rows.read_draft(row, row[1]) for row in found)

        return await self._database.read_row(work)

    async def delete_draft(self, draft_id: str) -> bool:
        """Remove a draft; False if there is none."""

        async def work(session: SqlSession) -> bool:
            await lock_config(session)
            return await session.run("delete_draft", draft_id) > 0

        return await self._database.write(work)

    async def list_secrets(self) -> tuple[SealedSecret, ...]:
        """Return all stored secrets, sorted by name; their values stay encrypted."""

        async def work(session: SqlSession) -> tuple[SealedSecret, ...]:
            return tuple(
                SealedSecret(
                    ref=row[0],
                    key_id=row[1],
                    sealed=bytes(row[2]),
                    updated_at=row[3],
                    updated_by=row[4],
                )
                for row in await session.all("list_secrets")
            )

        return await self._database.read_row(work)

    async def list_audit(self, query: AuditQuery) -> tuple[AuditRow, ...]:
        """Return audit events, newest first."""
        statement, args = _audit_statement(query)

        async def work(session: SqlSession) -> tuple[AuditRow, ...]:
            return tuple(map(config_rows.read_audit, await session.all(statement, *args)))

        return await self._database.read_row(work)

    async def read_audit_chain(self, *, after: int, limit: int) -> tuple[AuditRow, ...]:
        """Return audit events with greater numbers, oldest first."""

        async def work(session: SqlSession) -> tuple[AuditRow, ...]:
            found = await session.all("read_audit_chain", after, max(limit, 0))
            return tuple(map(config_rows.read_audit, found))

        return await self._database.read_row(work)

    async def find_audit_anchor(self) -> AuditAnchor:
        """Return where the chain begins."""
        return (await self._database.read_row(_read_state)).audit_anchor

    async def find_audit_end(self) -> AuditAnchor:
        """Return where the chain ends."""
        return (await self._database.read_row(_read_state)).audit_end

    async def purge_config(self, purge: ConfigPurge) -> PurgedConfig:
        """Remove what nothing needs; see `ConfigStore.purge_config`."""
        purged = await self._database.write(partial(purge_records, purge=purge))
        if not (purged.publications or purged.audit):
            return purged
        return replace(purged, objects=await purge_objects(self._database))


async def _read_state(session: SqlSession) -> rules.ConfigState:
    row = await session.one("find_config_state")
    assert row is not None
    return config_rows.read_state(row)


def _audit_statement(query: AuditQuery) -> tuple[str, tuple[Any, ...]]:
    """Return the statement whose index serves the query, and its arguments."""
    args = (
        _LAST if query.before_no is None else query.before_no,
        _FIRST if query.since is None else query.since,
        _LAST if query.until is None else query.until,
        None if query.action is None else query.action.value,
        query.actor,
        max(query.limit, 0),
    )
    if query.event_id is not None:
        return "list_event_audit", (*args, query.event_id, query.resource)
    if query.resource is not None:
        return "list_resource_audit", (*args, query.resource)
    return "list_audit", args
