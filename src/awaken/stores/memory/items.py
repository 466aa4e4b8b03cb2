"""Facts and passages in this process's memory."""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from awaken.contracts.clock import Clock
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

_Key = tuple[str, str, str]


class _Shelf:
    """The items and marks of one partition."""

    __slots__ = ("items", "marks")

    def __init__(self) -> None:
        self.items: dict[str, MemoryItem] = {}
        """By id, in the order in which they were added."""
        self.marks: set[str] = set()


class ItemsInMemory:
    """A `MemoryEngine` that lives as long as this object. Use it from one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shelves: dict[_Key, _Shelf] = {}

    async def read_vector_support(self) -> VectorSupport:
        """Vectors are compared one by one."""
        return VectorSupport(is_there=True)

    async def add(
        self,
        partition: Partition,
        items: Sequence[MemoryItem],
        *,
        limit: int,
        mark: str | None = None,
    ) -> tuple[AddedItem, ...] | None:
        """Add items, except those whose digest the partition has."""
        shelf = self._shelves.setdefault(_key(partition), _Shelf())
        if mark is not None and mark in shelf.marks:
            return None
        self._drop_expired(shelf)
        known = {it.digest: it for it in shelf.items.values()}
        added = []
        fresh: dict[str, MemoryItem] = {}
        for item in items:
            equal = known.get(item.digest)
            added.append(AddedItem(item=_keep(equal or item), is_new=equal is None))
            if equal is None:
                known[item.digest] = fresh[item.id] = item
        _check_count(partition, len(shelf.items) + len(fresh), limit)
        shelf.items |= fresh
        if mark is not None:
            shelf.marks.add(mark)
        return tuple(added)

    async def has_mark(self, partition: Partition, mark: str) -> bool:
        """Whether a mark was used."""
        shelf = self._shelves.get(_key(partition))
        return shelf is not None and mark in shelf.marks

    async def replace_group(
        self, partition: Partition, group: str, items: Sequence[MemoryItem], *, limit: int
    ) -> bool:
        """Put these items in the place of all of a group; returns whether it had any."""
        shelf = self._shelves.setdefault(_key(partition), _Shelf())
        others = {it.id: it for it in shelf.items.values() if it.group != group}
        _check_count(partition, len(others) + len(items), limit)
        had_any = len(others) < len(shelf.items)
        shelf.items = others | {it.id: it for it in items}
        return had_any

    async def update(self, partition: Partition, item: MemoryItem) -> bool:
        """Replace the item of that id; False if there is none."""
        shelf = self._shelves.get(_key(partition))
        if shelf is None:
            return False
        self._drop_expired(shelf)
        if item.id not in shelf.items:
            return False
        for other in shelf.items.values():
            if other.digest == item.digest and other.id != item.id:
                raise FactExists(fact_id=other.id)
        shelf.items[item.id] = item
        return True

    async def find(self, partition: Partition, item_id: str) -> KeptItem | None:
        """Return an item, or None."""
        return next((_keep(it) for it in self._live(partition) if it.id == item_id), None)

    async def list_items(
        self, partition: Partition, *, after: str | None, limit: int, position: int | None = None
    ) -> tuple[KeptItem, ...] | None:
        """Return items in the order in which they were added, after the one of that id."""
        shelf = self._shelves.get(_key(partition))
        if after is not None and (shelf is None or after not in shelf.items):
            return None
        if shelf is None:
            return ()
        places = {item_id: place for place, item_id in enumerate(shelf.items)}
        first = -1 if after is None else places[after]
        found = [
            _keep(it)
            for it in self._live(partition)
            if places[it.id] > first and position in (None, it.position)
        ]
        return tuple(found[:limit])

    async def search(
        self, partition: Partition, terms: Sequence[str], limit: int
    ) -> tuple[KeptItem, ...]:
        """Return the items that have at least one of the terms, the best first."""
        items = list(self._live(partition))
        wanted = frozenset(terms)
        found = [(it, wanted.intersection(it.terms)) for it in items]
        counts = {term: sum(term in had for _, had in found) for term in wanted}
        weights = {
            term: math.log(1 + (len(items) - count + 0.5) / (count + 0.5))
            for term, count in counts.items()
        }
        scored = [
            (-sum(map(weights.__getitem__, had)) / (1 + math.log1p(len(it.terms)) / 10), place, it)
            for place, (it, had) in enumerate(found)
            if had
        ]
        return tuple(_keep(it) for _, _, it in sorted(scored, key=lambda each: each[:2])[:limit])

    async def search_vectors(
        self, partition: Partition, vector: bytes, model: str, limit: int
    ) -> tuple[KeptItem, ...]:
        """Return the items whose vectors of that model are nearest."""
        asked = array("f", vector)
        near = [
            (_distance(asked, array("f", it.vector)), place, it)
            for place, it in enumerate(self._live(partition))
            if it.vector is not None and it.model == model and len(it.vector) == len(vector)
        ]
        return tuple(_keep(it) for _, _, it in sorted(near, key=lambda each: each[:2])[:limit])

    async def save_vectors(
        self, partition: Partition, model: str, vectors: Sequence[tuple[KeptItem, bytes]]
    ) -> int:
        """Give items their vectors, unless they were changed since they were read."""
        live, count = {it.id: it for it in self._live(partition)}, 0
        for read, vector in vectors:
            known = live.get(read.id)
            if known is not None and known.body == read.body:
                items = self._shelves[_key(partition)].items
                items[read.id] = msgspec.structs.replace(known, vector=vector, model=model)
                count += 1
        return count

    async def delete(self, partition: Partition, item_ids: Iterable[str]) -> int:
        """Delete items; returns how many there were."""
        shelf = self._shelves.get(_key(partition))
        if shelf is None:
            return 0
        return sum(shelf.items.pop(it, None) is not None for it in item_ids)

    async def delete_group(self, partition: Partition, group: str) -> int:
        """Delete the items of a group; returns how many there were."""
        shelf = self._shelves.get(_key(partition))
        if shelf is None:
            return 0
        before = len(shelf.items)
        shelf.items = {it.id: it for it in shelf.items.values() if it.group != group}
        return before - len(shelf.items)

    async def clear(self, partition: Partition) -> int:
        """Delete every item and every mark of a partition; returns how many items there were."""
        shelf = self._shelves.pop(_key(partition), None)
        return 0 if shelf is None else len(shelf.items)

    async def list_partitions(
        self, kind: PartitionKind, tenant_id: str | None
    ) -> tuple[CollectionInfo, ...]:
        """Return the partitions of one tenant, or of none, that have items, by name."""
        tenant = Partition(kind=kind, name="*", tenant_id=tenant_id).tenant
        found = []
        for known, owner, name in sorted(self._shelves):
            if (known, owner) == (kind.value, tenant):
                whole = Partition(kind=kind, name=name, tenant_id=tenant or None)
                count = sum(it.position == 0 for it in self._live(whole))
                if count:
                    found.append(
                        CollectionInfo(kind=kind, name=name, tenant_id=tenant or None, items=count)
                    )
        return tuple(found)

    async def list_unembedded(
        self, model: str, *, after: int = 0, limit: int
    ) -> tuple[UnembeddedItem, ...]:
        """Return items of every partition that have no vector of that model, by their places.

        A place is a number in the order of the partitions: it holds until an item is added.
        """
        found = [
            UnembeddedItem(partition=owner, item=_keep(it), place=place)
            for place, (owner, it) in enumerate(self._list_all(), 1)
            if place > after and (it.vector is None or it.model != model)
        ]
        return tuple(found[:limit])

    async def count_vectors(self) -> VectorCounts:
        """Count the items of every partition, and their vectors."""
        items = [it for _, it in self._list_all()]
        counts = Counter(it.model for it in items if it.vector is not None)
        return VectorCounts(items=len(items), vectors=counts)

    async def delete_expired(self) -> int:
        """Delete what has expired, in every partition; returns how many items."""
        return sum(self._drop_expired(shelf) for shelf in self._shelves.values())

    async def erase_deleted(self) -> bool:
        """Do nothing: what is deleted is nowhere."""
        return True

    async def needs_erasure(self) -> bool:
        """Nothing does."""
        return False

    def _list_all(self) -> Iterator[tuple[Partition, MemoryItem]]:
        for kind, tenant, name in self._shelves:
            owner = Partition(kind=PartitionKind(kind), name=name, tenant_id=tenant or None)
            for item in self._live(owner):
                yield owner, item

    def _live(self, partition: Partition) -> Iterator[MemoryItem]:
        shelf, now = self._shelves.get(_key(partition)), self._clock.now_ms()
        items = () if shelf is None else shelf.items.values()
        return (it for it in items if it.expires_at is None or it.expires_at > now)

    def _drop_expired(self, shelf: _Shelf) -> int:
        now, before = self._clock.now_ms(), len(shelf.items)
        shelf.items = {
            it.id: it for it in shelf.items.values() if it.expires_at is None or it.expires_at > now
        }
        return before - len(shelf.items)


def _key(partition: Partition) -> _Key:
    return partition.kind.value, partition.tenant, partition.name


def _keep(item: MemoryItem) -> KeptItem:
    return KeptItem(id=item.id, group=item.group, position=item.position, body=item.body)


def _check_count(partition: Partition, count: int, limit: int) -> None:
    if count > limit:
        raise MemoryFull(
            what=f"The memory of {partition.kind.value} '{partition.name}'", limit=limit
        )


def _distance(one: "array[float]", other: "array[float]") -> float:
    size = math.sqrt(sum(x * x for x in one)) * math.sqrt(sum(x * x for x in other))
    return 1.0 if size == 0 else 1 - sum(x * y for x, y in zip(one, other, strict=True)) / size
