"""Search in one partition by words and by vectors."""

import asyncio
import logging
from array import array
from collections.abc import Sequence
from operator import mul

from awaken.contracts.memory.engine import Embedder, KeptItem, MemoryEngine
from awaken.contracts.memory.errors import EmbeddingFailed
from awaken.contracts.memory.records import Partition

from .fusion import fuse_rankings
from .terms import query_terms

logger = logging.getLogger(__name__)

DEPTH = 40
"""How many items of each ranking are considered, at least."""
QUERY_CHARS = 4_000
EMBEDDED_AT_ONCE = 64
NO_MODEL = "the runtime has no embedding model; pass one as `embeddings`"
WRITE_S = 15.0
"""How long the vectors of what is written may take."""
SEARCH_S = 2.0
"""How long a search waits for the vector of its query: its words do without."""
PAUSE_S = 30.0
"""How long searches do without vectors after one has waited in vain."""
SQUARE_MIN, SQUARE_MAX = 1.2e-38, 3.4e38
"""Between them the square of a vector's length is a 32-bit float: engines compare by it."""


class HybridIndex:
    """Items of an engine, found by words and, if there is an embedding model, by meaning."""

    def __init__(self, engine: MemoryEngine, embedder: Embedder | None) -> None:
        self._engine = engine
        self.embedder = embedder
        self.model = "" if embedder is None else embedder.model
        self._silent_until = 0.0

    async def embed(
        self, texts: Sequence[str], *, patience_s: float = WRITE_S
    ) -> list[bytes | None]:
        """Return a vector for each text, or None for all of them.

        A text without a vector is still found by its words: an embedding model that fails, or
        does not answer, prevents nobody from remembering.
        """
        if self.embedder is None or not texts:
            return [None] * len(texts)
        try:
            return [*await self.make_vectors(texts, patience_s=patience_s)]
        except EmbeddingFailed as error:
            logger.warning("Texts have no vectors: %s", error)
            return [None] * len(texts)

    async def make_vectors(
        self, texts: Sequence[str], *, patience_s: float = WRITE_S
    ) -> list[bytes]:
        """Return a vector for each text.

        Raises:
            EmbeddingFailed: There is no embedding model, it fails or does not answer, or its answer
                is not one vector for each text that others can be compared with.
        """
        if self.embedder is None:
            raise EmbeddingFailed(problem=NO_MODEL)
        made: list[bytes] = []
        for start in range(0, len(texts), EMBEDDED_AT_ONCE):
            batch = texts[start : start + EMBEDDED_AT_ONCE]
            made += _check_vectors(await self._ask(self.embedder, batch, patience_s), len(batch))
        return made

    async def _ask(self, embedder: Embedder, texts: Sequence[str], patience_s: float) -> object:
        try:
            async with asyncio.timeout(patience_s):
                return await embedder.embed(texts)
        except EmbeddingFailed:
            raise
        except TimeoutError as error:
            self._silent_until = asyncio.get_running_loop().time() + PAUSE_S
            problem = f"the embedding model took over {patience_s} s"
            raise EmbeddingFailed(problem=problem) from error
        except Exception as error:
            # The host may have written the model: whatever it raises prevents nobody's search.
            problem = f"the embedding model raised {type(error).__name__}"
            raise EmbeddingFailed(problem=problem) from error

    async def search(
        self, partition: Partition, query: str, limit: int
    ) -> list[tuple[KeptItem, bool, bool]]:
        """Return the best items; each with whether it has words of the query, and is similar."""
        asked = query[:QUERY_CHARS]
        depth = max(DEPTH, 2 * limit)
        terms = query_terms(asked)
        lexical = await self._engine.search(partition, terms, depth) if terms else ()
        similar = await self._search_similar(partition, asked, depth)
        found = {item.id: item for item in (*similar, *lexical)}
        by_words, by_meaning = [it.id for it in lexical], [it.id for it in similar]
        worded, near = frozenset(by_words), frozenset(by_meaning)
        return [
            (found[key], key in worded, key in near)
            for key in fuse_rankings((by_words, by_meaning), limit)
        ]

    async def _search_similar(
        self, partition: Partition, query: str, depth: int
    ) -> Sequence[KeptItem]:
        is_silent = asyncio.get_running_loop().time() < self._silent_until
        if self.embedder is None or not query.strip() or is_silent:
            return ()
        (vector,) = await self.embed([query], patience_s=SEARCH_S)
        if vector is None:
            return ()
        return await self._engine.search_vectors(partition, vector, self.model, depth)


def _check_vectors(made: object, count: int) -> list[bytes]:
    """Return the vectors of an answer, if there are as many and each can be compared.

    One that is not a number, or of no length, is as near to everything or ahead of it, and
    `pgvector` refuses every search that meets it.
    """
    if not isinstance(made, Sequence) or len(made) != count:
        raise EmbeddingFailed(problem="the answer has not one vector for each text")
    for vector in made:
        if not isinstance(vector, bytes) or not vector or len(vector) % array("f").itemsize:
            raise EmbeddingFailed(problem="a vector is no array of 32-bit floats")
        floats = array("f", vector)
        if not SQUARE_MIN < sum(map(mul, floats, floats)) < SQUARE_MAX:
            raise EmbeddingFailed(problem="a vector is zero, infinite or not a number")
    return list(made)
