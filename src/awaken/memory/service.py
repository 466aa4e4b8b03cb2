"""Memory and knowledge of one runtime, made from an engine."""

import logging

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.memory.engine import Embedder, MemoryEngine, VectorSupport
from awaken.contracts.memory.records import (
    CollectionInfo,
    FilledVectors,
    MemoryLimits,
    PartitionKind,
)
from awaken.contracts.storage.store import Store

from .documents import KnowledgeBase
from .facts import FactBook
from .hybrid import HybridIndex
from .missing_vectors import fill_vectors
from .transcripts import TranscriptSearch

logger = logging.getLogger(__name__)


class MemoryService:
    """Implements `MemoryAccess`."""

    def __init__(
        self,
        engine: MemoryEngine,
        store: Store,
        clock: Clock,
        ids: IdSource,
        *,
        embedder: Embedder | None = None,
        limits: MemoryLimits | None = None,
    ) -> None:
        bounds = limits or MemoryLimits()
        index = HybridIndex(engine, embedder)
        transcripts = TranscriptSearch(store, bounds.searched_threads)
        self.engine = engine
        self.has_embeddings = embedder is not None
        self._index = index
        self.facts = FactBook(engine, index, transcripts, clock, ids, bounds)
        self.knowledge = KnowledgeBase(engine, index, clock, bounds)

    async def list_partitions(
        self, kind: PartitionKind, tenant_id: str | None
    ) -> tuple[CollectionInfo, ...]:
        """Return the users, projects or collections of a tenant that have items."""
        return await self.engine.list_partitions(kind, tenant_id)

    async def read_vector_support(self) -> VectorSupport:
        """Tell whether the engine can search by vectors."""
        return await self.engine.read_vector_support()

    async def fill_vectors(self, *, limit: int | None = None) -> FilledVectors:
        """Give vectors to items of every partition that have none of the present model.

        Args:
            limit: How many items to look at, at most; absent: all.

        Raises:
            EmbeddingFailed: There is no embedding model, or it is away; what was filled stays.
        """
        return await fill_vectors(self.engine, self._index, limit=limit)

    async def delete_expired(self) -> int:
        """Delete and erase what has expired; returns how many items.

        What was deleted before and could not be erased then is erased as well.
        """
        count = await self.engine.delete_expired()
        if await self.engine.needs_erasure() and not await self.engine.erase_deleted():
            logger.warning(
                "Bytes of forgotten facts are still in the store: readers or a long transaction "
                "prevent their removal. It is tried again in some minutes."
            )
        return count
