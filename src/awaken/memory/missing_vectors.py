"""Vectors that items lack, made later: the embedding model was away, is new, or was changed."""

import sys
from collections.abc import Sequence

from awaken.contracts.memory.engine import KeptItem, MemoryEngine, UnembeddedItem
from awaken.contracts.memory.errors import EmbeddingFailed
from awaken.contracts.memory.records import FilledVectors, Partition, PartitionKind

from .documents import read_passage_text
from .facts import read_fact_text
from .hybrid import EMBEDDED_AT_ONCE, NO_MODEL, HybridIndex

REFUSED_IN_A_ROW = 3
"""After this many texts that the model refuses one after the other it is taken to be away."""

_Embedded = tuple[Partition, KeptItem, bytes]


async def fill_vectors(
    engine: MemoryEngine, index: HybridIndex, *, limit: int | None = None
) -> FilledVectors:
    """Give vectors of the present model to items of every partition that have none, in batches.

    Each batch is durable before the next one begins; a call that is stopped is continued by the
    next one. Items that are written meanwhile get their own vectors.

    Args:
        engine: Where the items are.
        index: Makes the vectors.
        limit: How many items to look at, at most; absent: all.

    Raises:
        EmbeddingFailed: There is no model, or it is away. What was filled before stays.
    """
    if index.embedder is None:
        raise EmbeddingFailed(problem=NO_MODEL)
    filled = skipped = place = 0
    left = sys.maxsize if limit is None else limit
    while left > 0:
        room = min(EMBEDDED_AT_ONCE, left)
        found = await engine.list_unembedded(index.model, after=place, limit=room)
        if not found:
            break
        left -= len(found)
        place = found[-1].place
        count = await _save(engine, index.model, await _embed(index, found))
        filled += count
        skipped += len(found) - count
    return FilledVectors(model=index.model, filled=filled, skipped=skipped)


async def _embed(index: HybridIndex, found: Sequence[UnembeddedItem]) -> list[_Embedded]:
    """Make the vectors of items; one that is damaged or refused does not hold up the others."""
    texts = [(it, text) for it in found if (text := _read_text(it)) is not None]
    try:
        made = await index.make_vectors([text for _, text in texts]) if texts else []
    except EmbeddingFailed:
        return await _embed_each(index, texts)
    return [(it.partition, it.item, each) for (it, _), each in zip(texts, made, strict=True)]


async def _embed_each(
    index: HybridIndex, texts: Sequence[tuple[UnembeddedItem, str]]
) -> list[_Embedded]:
    """Make vectors one by one, because one of the texts may be what the model refuses.

    Raises:
        EmbeddingFailed: It refuses several in a row.
    """
    made: list[_Embedded] = []
    refused = 0
    for it, text in texts:
        try:
            (vector,) = await index.make_vectors([text])
        except EmbeddingFailed:
            refused += 1
            if refused == min(REFUSED_IN_A_ROW, len(texts)):
                raise
        else:
            refused = 0
            made.append((it.partition, it.item, vector))
    return made


async def _save(engine: MemoryEngine, model: str, made: Sequence[_Embedded]) -> int:
    by_owner: dict[Partition, list[tuple[KeptItem, bytes]]] = {}
    for owner, item, vector in made:
        by_owner.setdefault(owner, []).append((item, vector))
    return sum([await engine.save_vectors(it, model, each) for it, each in by_owner.items()])


def _read_text(found: UnembeddedItem) -> str | None:
    """Return the text of an item that its vector is made of; None if it is damaged."""
    if found.partition.kind is PartitionKind.COLLECTION:
        return read_passage_text(found.item)
    return read_fact_text(found.item)
