"""The ports: where items are kept and found, and what turns texts into vectors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from awaken.contracts.record import Record

from .records import CollectionInfo, Partition, PartitionKind


class MemoryItem(Record, frozen=True, kw_only=True):
    """One text of a partition: a fact, or a passage of a document."""

    id: str
    text: str
    terms: tuple[str, ...]
    """The words that lexical search finds it by."""
    digest: str
    """Equal for equal facts; a partition has each digest once."""
    body: bytes
    """The record as JSON."""
    group: str = ""
    """The document of a passage; blank for a fact."""
    position: int = 0
    created_at: int = 0
    expires_at: int | None = None
    vector: bytes | None = None
    """The embedding as little-endian 32-bit floats."""
    model: str = ""
    """What made the embedding; vectors of different models are never compared."""


class KeptItem(Record, frozen=True, kw_only=True):
    """An item as a search or a list returns it."""

    id: str
    group: str
    position: int
    body: bytes


class AddedItem(Record, frozen=True, kw_only=True):
    """What became of an item: it was added, or an equal one was there already."""

    item: KeptItem
    is_new: bool


class VectorSupport(Record, frozen=True, kw_only=True):
    """Whether an engine can search by vectors, and if not, why."""

    is_there: bool
    reason: str = ""


class UnembeddedItem(Record, frozen=True, kw_only=True):
    """An item without a vector of the wanted model, and whose it is."""

    partition: Partition
    item: KeptItem
    place: int
    """Where a list goes on after it."""


class VectorCounts(Record, frozen=True, kw_only=True):
    """How many items there are, and how many of them have a vector of each model."""

    items: int = 0
    vectors: Mapping[str, int] = {}


class MemoryEngine(Protocol):
    """Keeps items in partitions. Every method but the last seven acts on one partition only.

    Expired items are never returned. All writes are whole or absent, and durable on return.
    """

    async def read_vector_support(self) -> VectorSupport:
        """Tell whether `search_vectors` finds anything."""
        ...

    async def add(
        self,
        partition: Partition,
        items: Sequence[MemoryItem],
        *,
        limit: int,
        mark: str | None = None,
    ) -> tuple[AddedItem, ...] | None:
        """Add items, except those whose digest the partition has.

        `mark` makes the call take effect once: if it was used before, nothing is written and the
        answer is None.

        Raises:
            MemoryFull: The partition would have more than `limit` items; nothing was written.
        """
        ...

    async def has_mark(self, partition: Partition, mark: str) -> bool:
        """Whether a mark was used."""
        ...

    async def replace_group(
        self, partition: Partition, group: str, items: Sequence[MemoryItem], *, limit: int
    ) -> bool:
        """Put these items in the place of all of a group; returns whether it had any.

        Raises:
            MemoryFull: The partition would have more than `limit` items; nothing was written.
        """
        ...

    async def update(self, partition: Partition, item: MemoryItem) -> bool:
        """Replace the item of that id; False if there is none.

        Raises:
            FactExists: Another item of the partition has the digest; nothing was written.
        """
        ...

    async def find(self, partition: Partition, item_id: str) -> KeptItem | None:
        """Return an item, or None."""
        ...

    async def list_items(
        self, partition: Partition, *, after: str | None, limit: int, position: int | None = None
    ) -> tuple[KeptItem, ...] | None:
        """Return items in the order in which they were added, after the one of that id.

        None: there is no such item. With `position`, only items of that position in their group.
        """
        ...

    async def search(
        self, partition: Partition, terms: Sequence[str], limit: int
    ) -> tuple[KeptItem, ...]:
        """Return the items that have at least one of the terms, the best first."""
        ...

    async def search_vectors(
        self, partition: Partition, vector: bytes, model: str, limit: int
    ) -> tuple[KeptItem, ...]:
        """Return the items whose vectors of that model are nearest; none without support."""
        ...

    async def save_vectors(
        self, partition: Partition, model: str, vectors: Sequence[tuple[KeptItem, bytes]]
    ) -> int:
        """Give items their vectors; returns how many.

        An item that was changed or deleted since it was read is left as it is. A vector of another
        model is replaced.
        """
        ...

    async def delete(self, partition: Partition, item_ids: Iterable[str]) -> int:
        """Delete items; returns how many there were."""
        ...

    async def delete_group(self, partition: Partition, group: str) -> int:
        """Delete the items of a group; returns how many there were."""
        ...

    async def clear(self, partition: Partition) -> int:
        """Delete every item and every mark of a partition; returns how many items there were."""
        ...

    async def list_partitions(
        self, kind: PartitionKind, tenant_id: str | None
    ) -> tuple[CollectionInfo, ...]:
        """Return the partitions of one tenant, or of none, that have items, by name."""
        ...

    async def list_unembedded(
        self, model: str, *, after: int = 0, limit: int
    ) -> tuple[UnembeddedItem, ...]:
        """Return items of every partition that have no vector of that model, by their places."""
        ...

    async def count_vectors(self) -> VectorCounts:
        """Count the items of every partition, and their vectors."""
        ...

    async def delete_expired(self) -> int:
        """Delete what has expired, in every partition; returns how many items."""
        ...

    async def erase_deleted(self) -> bool:
        """Overwrite the bytes of deleted items in the tables and their logs.

        Returns whether that is complete: a reader that is still busy may prevent it for now.
        """
        ...

    async def needs_erasure(self) -> bool:
        """Whether items were deleted since the last complete `erase_deleted`, by any process.

        So a process finds what another one left that was killed, or prevented by a reader.
        """
        ...


class Embedder(Protocol):
    """Turns texts into vectors."""

    model: str
    """Names the model and its dimensions: vectors of different names are never compared."""

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """Return a vector for each text, as little-endian 32-bit floats.

        Raises:
            EmbeddingFailed: The model did not answer.
        """
        ...

    async def close(self) -> None:
        """Release its connections."""
        ...
