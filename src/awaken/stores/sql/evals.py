"""Datasets, evals and scores in the database of the store."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from awaken.contracts.evals.cases import CaseEntry, DatasetRevision
from awaken.contracts.evals.errors import DatasetConflict, EvalExists, UnknownEval
from awaken.contracts.evals.eval_runs import EvalItem, EvalRecord
from awaken.contracts.evals.scores import StoredScore
from awaken.contracts.evals.store import (
    EvalObjectSource,
    EvalQuery,
    ObjectKind,
    ScoreQuery,
    SourceQuery,
)
from awaken.stores.rules import evals as rules

from . import rows
from .blobs import seal, unseal
from .config_rows import object_key
from .session import Database, Row, SqlSession
from .statements import read_statements

REVISION = msgspec.json.Decoder(DatasetRevision)
CASES = msgspec.json.Decoder(tuple[CaseEntry, ...])
EVAL = msgspec.json.Decoder(EvalRecord)
ITEM = msgspec.json.Decoder(EvalItem)
SCORE = msgspec.json.Decoder(StoredScore)

LOADED_AT_ONCE = 64
"""How many objects one statement loads."""
_END = (1 << 63) - 1


def read_eval_statements() -> dict[str, str]:
    """Return the statements of this module, which few programs need."""
    places = ", ".join(f"${no}" for no in range(1, LOADED_AT_ONCE + 1))
    return read_statements("evals.sql", places=places)


class SqlEvalStore:
    """An `EvalStore` in a SQL database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put_eval_objects(
        self, objects: dict[str, bytes], sources: Sequence[EvalObjectSource] = ()
    ) -> None:
        """Keep objects under their hashes, all or none; those that are there are left alone."""
        # A recording may have many megabytes: the event loop is not held while it is compressed.
        sealed = await asyncio.to_thread(_seal_objects, objects, sources)
        named = [
            (
                object_key(it.hash),
                it.thread_id or "",
                it.user_id or "",
                it.tenant_id or "",
                it.kind.value,
            )
            for it in sources
        ]

        async def work(session: SqlSession) -> None:
            await session.run_many("add_eval_object", sealed)
            await session.run_many("add_eval_source", named)

        await self._database.write(work)

    async def load_eval_objects(self, hashes: Sequence[str]) -> dict[str, bytes]:
        """Return the objects that exist, by hash."""
        keys = [object_key(name) for name in dict.fromkeys(hashes)]

        async def work(session: SqlSession) -> list[Row]:
            found: list[Row] = []
            for begin in range(0, len(keys), LOADED_AT_ONCE):
                some = keys[begin : begin + LOADED_AT_ONCE]
                some += some[-1:] * (LOADED_AT_ONCE - len(some))
                found += await session.all("load_eval_objects", *some)
            return found

        found = await self._database.read(work)
        return await asyncio.to_thread(lambda: dict(map(read_object, found)))

    async def list_eval_objects(self, *, after: str = "", limit: int = 1000) -> tuple[str, ...]:
        """Return the hashes of objects in order, those after a hash."""

        async def work(session: SqlSession) -> tuple[str, ...]:
            found = await session.all("list_eval_objects", object_key(after), max(limit, 0))
            return tuple(bytes(row[0]).hex() for row in found)

        return await self._database.read(work)

    async def list_eval_sources(self, query: SourceQuery) -> tuple[EvalObjectSource, ...]:
        """Return which objects came from a thread or a user, by hash."""
        rules.check_source_query(query)
        after, limit = object_key(query.after), max(query.limit, 0)
        user = (query.user_id or "", query.tenant_id or "")

        async def work(session: SqlSession) -> tuple[EvalObjectSource, ...]:
            if query.thread_id is None:
                found = await session.all("list_eval_sources_of_user", *user, after, limit)
            else:
                asked = (query.thread_id, after, *user, limit)
                found = await session.all("list_eval_sources_of_thread", *asked)
            return tuple(map(_read_source, found))

        return await self._database.read(work)

    async def delete_eval_objects(self, hashes: Sequence[str]) -> int:
        """Remove objects with their sources for good; returns how many there were."""

        async def work(session: SqlSession) -> int:
            count = 0
            # In one order, so that two callers do not wait for each other.
            for key in sorted({object_key(name) for name in hashes}):
                count += await session.run("delete_eval_object", key)
                await session.run("delete_eval_sources", key)
            return count

        return await self._database.write(work)

    async def save_dataset(self, revision: DatasetRevision, expected: int) -> None:
        """Add a revision after the expected one (0: there is none yet)."""
        await self._database.write(partial(_save_dataset, revision=revision, expected=expected))

    async def load_dataset(
        self, dataset_id: str, revision: int | None = None
    ) -> DatasetRevision | None:
        """Return a revision, the newest one unless given; deleted datasets are returned too."""

        async def work(session: SqlSession) -> Row | None:
            if revision is None:
                return await session.one("load_newest_dataset", dataset_id)
            return await session.one("load_dataset", dataset_id, revision)

        row = await self._database.read(work)
        return None if row is None else read_whole_revision(row)

    async def list_datasets(
        self, tenant_id: str | None = None, *, after: str = "", limit: int = 1000
    ) -> tuple[DatasetRevision, ...]:
        """Return the newest revision of each dataset that is not deleted, by id, without cases."""

        async def work(session: SqlSession) -> tuple[DatasetRevision, ...]:
            found = await session.all("list_datasets", after, tenant_id, max(limit, 0))
            return tuple(map(_read_revision, found))

        return await self._database.read(work)

    async def list_dataset_revisions(
        self, dataset_id: str, *, before: int | None = None, limit: int = 1000
    ) -> tuple[DatasetRevision, ...]:
        """Return revisions, newest first, without cases."""
        end = _END if before is None else before

        async def work(session: SqlSession) -> tuple[DatasetRevision, ...]:
            found = await session.all("list_dataset_revisions", dataset_id, end, max(limit, 0))
            return tuple(map(_read_revision, found))

        return await self._database.read(work)

    async def delete_dataset(self, dataset_id: str) -> int:
        """Remove all revisions of a dataset for good; returns how many there were."""

        async def work(session: SqlSession) -> int:
            return await session.run("delete_dataset_revisions", dataset_id)

        return await self._database.write(work)

    async def create_eval(self, record: EvalRecord) -> None:
        """Keep a new eval."""
        columns = (record.eval_id, record.spec.dataset_id, record.tenant_id, record.status.value)
        blob = rows.pack(record, record.eval_id)

        async def work(session: SqlSession) -> None:
            if not await session.run("add_eval", *columns, blob):
                raise EvalExists(eval_id=record.eval_id)

        await self._database.write(work)

    async def update_eval(self, record: EvalRecord, was: str) -> bool:
        """Replace an eval if its status is still `was`; returns whether it was."""
        blob = rows.pack(record, record.eval_id)

        async def work(session: SqlSession) -> bool:
            columns = (record.eval_id, record.status.value, blob, was)
            return bool(await session.run("update_eval", *columns))

        return await self._database.write(work)

    async def load_eval(self, eval_id: str) -> EvalRecord | None:
        """Return an eval, or None."""

        async def work(session: SqlSession) -> EvalRecord | None:
            row = await session.one("find_eval", eval_id)
            return None if row is None else read_eval(row)[1]

        return await self._database.read(work)

    async def list_evals(self, query: EvalQuery) -> tuple[tuple[int, EvalRecord], ...]:
        """Return evals with their numbers, newest first."""
        end = _END if query.before_no is None else query.before_no
        filters = (query.dataset_id, query.status, query.tenant_id)

        async def work(session: SqlSession) -> tuple[tuple[int, EvalRecord], ...]:
            found = await session.all("list_evals", end, *filters, max(query.limit, 0))
            return tuple(map(read_eval, found))

        return await self._database.read(work)

    async def delete_eval(self, eval_id: str) -> bool:
        """Remove an eval with its items for good; returns whether there was one."""

        async def work(session: SqlSession) -> bool:
            row = await session.one("find_eval", eval_id)
            if row is None:
                return False
            await session.run("delete_eval_items", *rows.all_places(row[0]))
            return bool(await session.run("delete_eval", eval_id))

        return await self._database.write(work)

    async def put_eval_item(
        self, eval_id: str, item: EvalItem, scores: Sequence[StoredScore] = ()
    ) -> bool:
        """Write an item once, and its scores with it; False if its place has one, which stays."""
        rules.check_item(item)
        added = [_encode_score(it) for it in scores]

        async def work(session: SqlSession) -> bool:
            row = await session.one("find_eval", eval_id)
            if row is None:
                raise UnknownEval(eval_id=eval_id)
            place = rows.place(row[0], item.number)
            if not await session.run("add_eval_item", place, rows.pack(item, place)):
                return False
            for columns in added:
                await session.one("add_score", *columns)
            return True

        return await self._database.write(work)

    async def list_eval_items(
        self, eval_id: str, after: int = -1, limit: int = 1000
    ) -> tuple[EvalItem, ...]:
        """Return the items of an eval after a number, in the order of the plan."""

        async def work(session: SqlSession) -> tuple[EvalItem, ...]:
            row = await session.one("find_eval", eval_id)
            if row is None:
                return ()
            first, last = rows.all_places(row[0])
            begin = first + min(max(after, -1), rules.NUMBER_MAX)
            found = await session.all("list_eval_items", begin, last, max(limit, 0))
            return tuple(map(read_item, found))

        return await self._database.read(work)

    async def add_scores(self, scores: Sequence[StoredScore]) -> tuple[StoredScore, ...]:
        """Add scores and return them with their numbers."""
        added = [_encode_score(it) for it in scores]

        async def work(session: SqlSession) -> tuple[StoredScore, ...]:
            made = []
            for score, columns in zip(scores, added, strict=True):
                row = await session.one("add_score", *columns)
                made.append(score if row is None else replace(score, no=row[0]))
            return tuple(made)

        return await self._database.write(work)

    async def list_scores(self, query: ScoreQuery) -> tuple[StoredScore, ...]:
        """Return scores, newest first."""
        statement = "list_scores"
        if query.run_id is not None:
            statement = "list_scores_of_run"
        elif query.scorer is not None:
            statement = "list_scores_of_scorer"
        end = _END if query.before_no is None else query.before_no
        source = None if query.source is None else query.source.value
        filters = (query.run_id, query.scorer, source, query.tenant_id, query.since)
        below = rules.scale_value(query.below)

        async def work(session: SqlSession) -> tuple[StoredScore, ...]:
            found = await session.all(statement, end, *filters, below, max(query.limit, 0))
            return tuple(map(read_score, found))

        return await self._database.read(work)


def read_eval(row: Row) -> tuple[int, EvalRecord]:
    """Return an eval with its number."""
    return row[0], rows.unpack(row[2], EVAL, f"Eval '{row[1]}'", row[1])


def read_item(row: Row) -> EvalItem:
    """Return an item of an eval."""
    return rows.unpack(row[1], ITEM, f"Item {rows.number_at(row[0])} of an eval", row[0])


def read_score(row: Row) -> StoredScore:
    """Return a score with its number."""
    return replace(rows.unpack(row[1], SCORE, f"Score {row[0]}", row[2]), no=row[0])


def read_object(row: Row) -> tuple[str, bytes]:
    """Return the hash and the bytes of an object, which are checked against it."""
    name = bytes(row[0]).hex()
    return name, rules.check_loaded_object(name, unseal(row[1], f"Object '{name}'"))


def read_whole_revision(row: Row) -> DatasetRevision:
    """Return a revision with its cases."""
    cases = rows.unpack(row[3], CASES, f"Cases of dataset '{row[0]}'", row[0], row[1])
    return replace(_read_revision(row), cases=cases)


def _seal_objects(
    objects: dict[str, bytes], sources: Sequence[EvalObjectSource]
) -> list[tuple[bytes, bytes]]:
    rules.check_objects(objects, sources)
    return [(object_key(name), seal(body)) for name, body in sorted(objects.items())]


async def _save_dataset(session: SqlSession, revision: DatasetRevision, expected: int) -> None:
    newest = await _find_newest(session, revision.dataset_id)
    made = rules.follow_revision(revision, expected, newest)
    key = (made.dataset_id, made.revision)
    shown, cases = rules.leave_cases_out(made), made.cases
    columns: tuple[Any, ...] = (*key, made.tenant_id, int(made.is_deleted))
    if await session.run(
        "add_dataset_revision", *columns, rows.pack(shown, *key), rows.pack(cases, *key)
    ):
        return
    # Another process wrote this revision after this one had looked.
    actual = await _find_newest(session, made.dataset_id)
    raise DatasetConflict(dataset_id=made.dataset_id, expected=expected, actual=actual)


async def _find_newest(session: SqlSession, dataset_id: str) -> int:
    row = await session.one("find_newest_revision", dataset_id)
    return 0 if row is None or row[0] is None else int(row[0])


def _read_revision(row: Row) -> DatasetRevision:
    return rows.unpack(row[2], REVISION, f"Dataset '{row[0]}'", row[0], row[1])


def _read_source(row: Row) -> EvalObjectSource:
    return EvalObjectSource(
        hash=bytes(row[0]).hex(),
        kind=ObjectKind(row[4]),
        thread_id=row[1] or None,
        user_id=row[2] or None,
        tenant_id=row[3] or None,
    )


def _encode_score(it: StoredScore) -> tuple[Any, ...]:
    value = rules.scale_value(it.score.value)
    blob = rows.pack(it, it.run_id)
    return (it.run_id, it.scorer, it.source.value, it.tenant_id, it.at, value, blob)
