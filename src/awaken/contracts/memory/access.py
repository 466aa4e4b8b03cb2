"""What plugins, hosts and routes call: facts and documents of one partition at a time."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from msgspec import UNSET, UnsetType

from awaken.contracts.record import Record

from .engine import VectorSupport
from .records import (
    CollectionInfo,
    DocumentFormat,
    DocumentPage,
    Fact,
    FactMatch,
    FactPage,
    FactSource,
    Forgotten,
    KnowledgeDocument,
    KnowledgeMatch,
    MemoryLimits,
    Partition,
    PartitionKind,
)


class DocumentDraft(Record, frozen=True, kw_only=True):
    """A document to be ingested."""

    data: str | bytes
    """Text, or the bytes of a file."""
    format: DocumentFormat = DocumentFormat.TEXT
    id: str | None = None
    """The id of the document that it replaces; without one it is derived from `source`."""
    title: str = ""
    source: str = ""
    added_by: str | None = None


class FactAccess(Protocol):
    """Facts about users and projects. Nothing here crosses the border of a partition."""

    limits: MemoryLimits

    async def remember(
        self,
        owner: Partition,
        texts: Sequence[str],
        source: FactSource,
        *,
        ttl_ms: int | None = None,
        once: str | None = None,
    ) -> tuple[Fact, ...]:
        """Remember texts, and return a fact for each; a fact that is known is returned as it is.

        Args:
            owner: Whose facts.
            texts: One fact each. Secrets in them are replaced, hidden characters are removed.
            source: Where they come from.
            ttl_ms: After how many milliseconds they expire.
            once: A name under which this happens at most once; a repetition returns nothing.

        Raises:
            MemoryFull: The owner has too many facts; nothing is remembered.
            InvalidInput: A text is blank or too long, or the time is not positive; nothing is
                remembered.
        """
        ...

    async def was_done(self, owner: Partition, once: str) -> bool:
        """Whether `remember` was called with this `once`."""
        ...

    async def get(self, owner: Partition, fact_id: str) -> Fact:
        """Return a fact.

        Raises:
            UnknownFact: The owner has no such fact.
        """
        ...

    async def list_facts(
        self, owner: Partition, *, cursor: str | None = None, limit: int = 100
    ) -> FactPage:
        """List facts, oldest first.

        Raises:
            InvalidInput: The fact at which the previous page ended is forgotten.
        """
        ...

    async def search(
        self, owner: Partition, query: str, *, limit: int = 10
    ) -> tuple[FactMatch, ...]:
        """Find facts by their words and, with embeddings, by their meaning; the best first."""
        ...

    async def edit(
        self,
        owner: Partition,
        fact_id: str,
        text: str,
        *,
        by: str | None,
        ttl_ms: int | UnsetType | None = UNSET,
    ) -> Fact:
        """Replace the text of a fact; its source says that a person wrote it.

        Without `ttl_ms` it expires when it did before, and with None never.

        Raises:
            UnknownFact: The owner has no such fact.
            FactExists: Another fact says the same.
            InvalidInput: The text is blank or too long.
        """
        ...

    async def forget(
        self, owner: Partition, fact_id: str, *, reader: str | None = None
    ) -> Forgotten:
        """Forget a fact, and tell which transcripts still hold its text.

        Args:
            owner: Whose fact.
            fact_id: The fact.
            reader: The user who gets the answer: it names transcripts of runs of this user only,
                because a text of others would be found by remembering and forgetting it. None: the
                answer is for somebody who may read every transcript of the tenant.

        Raises:
            UnknownFact: The owner has no such fact.
        """
        ...

    async def forget_all(self, owner: Partition) -> Forgotten:
        """Forget everything about an owner; the reply lists no transcripts by text."""
        ...

    def export(self, owner: Partition) -> AsyncIterator[Fact]:
        """Yield every fact of an owner, oldest first."""
        ...


class KnowledgeAccess(Protocol):
    """Documents of collections, and search in their passages."""

    limits: MemoryLimits

    async def ingest(self, collection: Partition, draft: DocumentDraft) -> KnowledgeDocument:
        """Read a document, cut it into passages and make them searchable.

        A document of the same id is replaced whole: no search finds a mixture of both.

        Raises:
            UnreadableDocument: It has no text, is too large, or needs the extra `pdf`.
            MemoryFull: The collection has too many passages; nothing is changed.
        """
        ...

    async def search(
        self, collection: Partition, query: str, *, limit: int = 8
    ) -> tuple[KnowledgeMatch, ...]:
        """Find passages by their words and, with embeddings, by their meaning; the best first."""
        ...

    async def list_documents(
        self, collection: Partition, *, cursor: str | None = None, limit: int = 100
    ) -> DocumentPage:
        """List documents in the order in which they were added."""
        ...

    async def get(self, collection: Partition, document_id: str) -> KnowledgeDocument:
        """Return a document.

        Raises:
            UnknownDocument: The collection has no such document.
        """
        ...

    async def delete(self, collection: Partition, document_id: str) -> KnowledgeDocument:
        """Delete a document whole, and return what it was.

        Raises:
            UnknownDocument: The collection has no such document.
        """
        ...


class MemoryAccess(Protocol):
    """Memory and knowledge of one runtime."""

    @property
    def facts(self) -> FactAccess:
        """Facts about users and projects."""
        ...

    @property
    def knowledge(self) -> KnowledgeAccess:
        """Documents."""
        ...

    async def list_partitions(
        self, kind: PartitionKind, tenant_id: str | None
    ) -> tuple[CollectionInfo, ...]:
        """Return the users, projects or collections of a tenant that have items."""
        ...

    @property
    def has_embeddings(self) -> bool:
        """Whether an embedding model is configured."""
        ...

    async def read_vector_support(self) -> VectorSupport:
        """Tell whether the engine can search by vectors."""
        ...
