"""Facts and passages in the database of the store.

Every word in an index begins with the number of its partition. So the entries of two partitions
are different words: a search cannot find, count or weigh anything of another partition.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from awaken.contracts.memory.engine import (
    AddedItem,
    KeptItem,
    MemoryItem,
    UnembeddedItem,
    VectorCounts,
    VectorSupport,
)
from awaken.contracts.memory.errors import FactExists, MemoryFull
from awaken.contracts.memory.records import CollectionInfo, Partition, PartitionKind

from .session import Database, Row, SqlSession

EXPIRED_AT_ONCE = 500
NO_PARTITION = 0
"""The numbers of partitions begin with 1; marks of none say what is to be erased."""


class MemoryIndex(Protocol):
    """What a database adds: its own index of words and vectors. Rows are those of items."""

    async def prepare(self, session: SqlSession) -> None:
        """Prepare a transaction that writes."""
        ...

    async def add_words(self, session: SqlSession, item_no: int, words: Sequence[str]) -> None:
        """Index the words of a new item."""
        ...

    async def remove_words(self, session: SqlSession, item_no: int) -> None:
        """Remove the words of an item."""
        ...

    async def find_words(
        self, session: SqlSession, partition_no: int, terms: Sequence[str], limit: int
    ) -> Sequence[Row]:
        """Return the rows of items that have one of the words, the best first."""
        ...

    async def find_near(
        self, session: SqlSession, partition_no: int, vector: bytes, model: str, limit: int
    ) -> Sequence[Row]:
        """Return the rows of items with the nearest vectors."""
        ...

    def encode_vector(self, vector: bytes) -> Any:
        """Return a vector as its column keeps it."""
        ...

    async def read_vector_support(self) -> VectorSupport:
        """Tell whether `find_near` finds anything."""
        ...

    async def erase_deleted(self) -> bool:
        """Overwrite the bytes of deleted items in the tables and their logs."""
        ...


class SqlMemoryEngine:
    """A `MemoryEngine` in a SQL database, with the index of that database."""

    def __init__(self, database: Database, index: MemoryIndex) -> None:
        self._database = database
        self._index = index

    async def read_vector_support(self) -> VectorSupport:
        """Tell whether `search_vectors` finds anything."""
        return await self._index.read_vector_support()

    async def erase_deleted(self) -> bool:
        """Overwrite the bytes of deleted items in the tables and their logs."""

        async def list_due(session: SqlSession) -> list[str]:
            return [row[0] for row in await session.all("memory_list_marks", NO_PARTITION)]

        due = await self._database.read(list_due)
        if not await self._index.erase_deleted():
            return False

        async def settle(session: SqlSession) -> None:
            # What was deleted meanwhile has other marks.
            for mark in due:
                await session.run("memory_delete_mark", NO_PARTITION, mark)

        if due:
            await self._database.write(settle)
        return True

    async def needs_erasure(self) -> bool:
        """Whether items were deleted since the last complete `erase_deleted`, by any process."""

        async def work(session: SqlSession) -> bool:
            return await session.one("memory_list_marks", NO_PARTITION) is not None

        return await self._database.read(work)

    async def add(
        self,
        partition: Partition,
        items: Sequence[MemoryItem],
        *,
        limit: int,
        mark: str | None = None,
    ) -> tuple[AddedItem, ...] | None:
        """Add items, except those whose digest the partition has."""

        async def work(session: SqlSession) -> tuple[AddedItem, ...] | None:
            await self._index.prepare(session)
            no = await _lock_partition(session, partition)
            if mark is not None and not await session.run("memory_add_mark", no, mark):
                return None
            now = (await session.now()).wall_ms
            added = [await self._add_item(session, no, item, now) for item in items]
            if any(it.is_new for it in added):
                await _check_count(session, no, partition, limit)
            return tuple(added)

        return await self._database.write(work)

    async def has_mark(self, partition: Partition, mark: str) -> bool:
        """Whether a mark was used."""

        async def work(session: SqlSession) -> bool:
            no = await _find_partition(session, partition)
            return no is not None and await session.one("memory_find_mark", no, mark) is not None

        return await self._database.read(work)

    async def replace_group(
        self, partition: Partition, group: str, items: Sequence[MemoryItem], *, limit: int
    ) -> bool:
        """Put these items in the place of all of a group; returns whether it had any."""

        async def work(session: SqlSession) -> bool:
            await self._index.prepare(session)
            no = await _lock_partition(session, partition)
            before = await session.all("memory_list_group", no, group)
            await self._delete_rows(session, before)
            now = (await session.now()).wall_ms
            for item in items:
                await self._add_item(session, no, item, now)
            await _check_count(session, no, partition, limit)
            return bool(before)

        return await self._database.write(work)

    async def update(self, partition: Partition, item: MemoryItem) -> bool:
        """Replace the item of that id; False if there is none."""

        async def work(session: SqlSession) -> bool:
            await self._index.prepare(session)
            no = await _lock_partition(session, partition)
            now = (await session.now()).wall_ms
            row = await session.one("memory_find_item", no, item.id, now)
            if row is None:
                return False
            equal = await session.one("memory_find_digest", no, item.digest)
            if equal is not None and equal[0] != row[0]:
                if not _is_expired(equal, now):
                    raise FactExists(fact_id=equal[1])
                await self._delete_rows(session, [equal])
            await session.run("memory_update_item", row[0], item.digest, item.expires_at, item.body)
            await self._index.remove_words(session, row[0])
            await session.run("memory_delete_vector", row[0])
            await self._index_item(session, no, row[0], item)
            await _want_erasure(session, row[0])
            return True

        return await self._database.write(work)

    async def find(self, partition: Partition, item_id: str) -> KeptItem | None:
        """Return an item, or None."""

        async def work(session: SqlSession) -> KeptItem | None:
            no = await _find_partition(session, partition)
            if no is None:
                return None
            now = (await session.now()).wall_ms
            row = await session.one("memory_find_item", no, item_id, now)
            return None if row is None else _keep(row)

        return await self._database.read(work)

    async def list_items(
        self, partition: Partition, *, after: str | None, limit: int, position: int | None = None
    ) -> tuple[KeptItem, ...] | None:
        """Return items in the order in which they were added, after the one of that id."""

        async def work(session: SqlSession) -> tuple[KeptItem, ...] | None:
            no = await _find_partition(session, partition)
            if no is None:
                return () if after is None else None
            first = 0
            if after is not None:
                row = await session.one("memory_find_any_item", no, after)
                if row is None:
                    return None
                first = row[0]
            now = (await session.now()).wall_ms
            if position is None:
                rows = await session.all("memory_list_items", no, first, now, limit)
            else:
                rows = await session.all("memory_list_firsts", no, first, now, limit, position)
            return tuple(map(_keep, rows))

        return await self._database.read(work)

    async def search(
        self, partition: Partition, terms: Sequence[str], limit: int
    ) -> tuple[KeptItem, ...]:
        """Return the items that have at least one of the terms, the best first."""

        async def work(session: SqlSession) -> tuple[KeptItem, ...]:
            no = await _find_partition(session, partition)
            if no is None or not terms:
                return ()
            return tuple(map(_keep, await self._index.find_words(session, no, terms, limit)))

        return await self._database.read(work)

    async def search_vectors(
        self, partition: Partition, vector: bytes, model: str, limit: int
    ) -> tuple[KeptItem, ...]:
        """Return the items whose vectors of that model are nearest; none without support."""

        async def work(session: SqlSession) -> tuple[KeptItem, ...]:
            no = await _find_partition(session, partition)
            if no is None:
                return ()
            return tuple(map(_keep, await self._index.find_near(session, no, vector, model, limit)))

        return await self._database.read(work)

    async def save_vectors(
        self, partition: Partition, model: str, vectors: Sequence[tuple[KeptItem, bytes]]
    ) -> int:
        """Give items their vectors, unless they were changed since they were read."""

        async def work(session: SqlSession) -> int:
            await self._index.prepare(session)
            lock = await session.one("memory_lock_partition", *_key(partition))
            if lock is None:
                return 0
            now, count = (await session.now()).wall_ms, 0
            for read, vector in vectors:
                row = await session.one("memory_find_item", lock[0], read.id, now)
                if row is not None and _keep(row).body == read.body:
                    await session.run("memory_delete_vector", row[0])
                    kept = self._index.encode_vector(vector)
                    await session.run("memory_save_vector", lock[0], row[0], model, kept)
                    count += 1
            return count

        return await self._database.write(work)

    async def delete(self, partition: Partition, item_ids: Iterable[str]) -> int:
        """Delete items; returns how many there were."""
        wanted = tuple(item_ids)

        async def work(session: SqlSession) -> int:
            no = await _find_partition(session, partition)
            if no is None:
                return 0
            await self._index.prepare(session)
            found = [await session.one("memory_find_any_item", no, it) for it in wanted]
            return await self._delete_rows(session, [row for row in found if row is not None])

        return await self._database.write(work)

    async def delete_group(self, partition: Partition, group: str) -> int:
        """Delete the items of a group; returns how many there were."""

        async def work(session: SqlSession) -> int:
            no = await _find_partition(session, partition)
            if no is None:
                return 0
            await self._index.prepare(session)
            return await self._delete_rows(
                session, await session.all("memory_list_group", no, group)
            )

        return await self._database.write(work)

    async def clear(self, partition: Partition) -> int:
        """Delete every item and every mark of a partition; returns how many items there were."""

        async def work(session: SqlSession) -> int:
            no = await _find_partition(session, partition)
            if no is None:
                return 0
            await self._index.prepare(session)
            # Others that add to the partition wait for this lock, and then make it anew.
            await session.one("memory_lock_partition", *_key(partition))
            count = await self._delete_rows(session, await session.all("memory_list_all", no))
            await session.run("memory_delete_marks", no)
            await session.run("memory_delete_partition", no)
            await _want_erasure(session, no)
            return count

        return await self._database.write(work)

    async def list_partitions(
        self, kind: PartitionKind, tenant_id: str | None
    ) -> tuple[CollectionInfo, ...]:
        """Return the partitions of one tenant, or of none, that have items, by name."""
        owner = Partition(kind=kind, name="*", tenant_id=tenant_id)

        async def work(session: SqlSession) -> tuple[CollectionInfo, ...]:
            now = (await session.now()).wall_ms
            rows = await session.all("memory_list_partitions", kind.value, owner.tenant, now)
            return tuple(
                CollectionInfo(kind=kind, name=row[0], tenant_id=owner.tenant or None, items=row[1])
                for row in rows
            )

        return await self._database.read(work)

    async def list_unembedded(
        self, model: str, *, after: int = 0, limit: int
    ) -> tuple[UnembeddedItem, ...]:
        """Return items of every partition that have no vector of that model, by their places."""

        async def work(session: SqlSession) -> tuple[UnembeddedItem, ...]:
            now = (await session.now()).wall_ms
            rows = await session.all("memory_list_unembedded", model, after, now, limit)
            return tuple(
                UnembeddedItem(
                    partition=Partition(
                        kind=PartitionKind(row[5]), tenant_id=row[6] or None, name=row[7]
                    ),
                    item=_keep(row),
                    place=row[0],
                )
                for row in rows
            )

        return await self._database.read(work)

    async def count_vectors(self) -> VectorCounts:
        """Count the items of every partition, and their vectors."""

        async def work(session: SqlSession) -> VectorCounts:
            now = (await session.now()).wall_ms
            rows = await session.all("memory_count_vectors", now)
            counts = {row[0]: row[1] for row in rows}
            items = sum(counts.values())
            counts.pop(None, None)
            return VectorCounts(items=items, vectors=counts)

        return await self._database.read(work)

    async def delete_expired(self) -> int:
        """Delete what has expired, in every partition; returns how many items."""

        async def work(session: SqlSession) -> int:
            now = (await session.now()).wall_ms
            rows = await session.all("memory_list_expired", now, EXPIRED_AT_ONCE)
            if rows:
                await self._index.prepare(session)
            return await self._delete_rows(session, rows)

        total = 0
        while count := await self._database.write(work):
            total += count
        return total

    async def _add_item(
        self, session: SqlSession, partition_no: int, item: MemoryItem, now: int
    ) -> AddedItem:
        equal = await session.one("memory_find_digest", partition_no, item.digest)
        if equal is not None:
            if not _is_expired(equal, now):
                return AddedItem(item=_keep(equal), is_new=False)
            await self._delete_rows(session, [equal])
        row = await session.one(
            "memory_add_item",
            partition_no,
            item.id,
            item.group,
            item.position,
            item.digest,
            item.expires_at,
            item.body,
        )
        assert row is not None
        await self._index_item(session, partition_no, row[0], item)
        kept = KeptItem(id=item.id, group=item.group, position=item.position, body=item.body)
        return AddedItem(item=kept, is_new=True)

    async def _index_item(
        self, session: SqlSession, partition_no: int, item_no: int, item: MemoryItem
    ) -> None:
        await self._index.add_words(session, item_no, mark_terms(partition_no, item.terms))
        if item.vector is not None:
            vector = self._index.encode_vector(item.vector)
            await session.run("memory_save_vector", partition_no, item_no, item.model, vector)

    async def _delete_rows(self, session: SqlSession, rows: Sequence[Row]) -> int:
        for row in rows:
            await self._index.remove_words(session, row[0])
            await session.run("memory_delete_vector", row[0])
            await session.run("memory_delete_item", row[0])
        if rows:
            await _want_erasure(session, rows[0][0])
        return len(rows)


def mark_terms(partition_no: int, terms: Sequence[str]) -> list[str]:
    """Return words that only this partition has: no number is the beginning of another's."""
    return [f"p{partition_no}x{term}" for term in terms]


def _key(partition: Partition) -> tuple[str, str, str]:
    return partition.kind.value, partition.tenant, partition.name


async def _find_partition(session: SqlSession, partition: Partition) -> int | None:
    row = await session.one("memory_partition", *_key(partition))
    return None if row is None else row[0]


async def _lock_partition(session: SqlSession, partition: Partition) -> int:
    row = None
    while row is None:
        await session.run("memory_add_partition", *_key(partition))
        row = await session.one("memory_lock_partition", *_key(partition))
    no: int = row[0]
    return no


async def _want_erasure(session: SqlSession, no: int) -> None:
    """Mark, in the transaction that deletes, that bytes are left: its process may die before."""
    now = (await session.now()).wall_ms
    await session.run("memory_add_mark", NO_PARTITION, f"erase {no} {now}")


async def _check_count(session: SqlSession, no: int, partition: Partition, limit: int) -> None:
    row = await session.one("memory_count", no)
    if row is not None and row[0] > limit:
        raise MemoryFull(
            what=f"The memory of {partition.kind.value} '{partition.name}'", limit=limit
        )


def _is_expired(row: Row, now: int) -> bool:
    """Whether a row of `memory_find_digest` has expired."""
    return row[5] is not None and row[5] <= now


def _keep(row: Row) -> KeptItem:
    return KeptItem(id=row[1], group=row[2], position=row[3], body=bytes(row[4]))
