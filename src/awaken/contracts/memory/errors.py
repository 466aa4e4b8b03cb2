"""Errors of memory and knowledge."""

from awaken.contracts.errors import UsageError


class NoMemoryOwner(UsageError):
    """The run has no user, or its agent names no project, so there is no such memory."""

    code = "no_memory_owner"
    template = "There is no {kind} memory here: {remedy}."
    kind: str
    remedy: str


class UnknownFact(UsageError):
    """No such fact is remembered in this partition."""

    code = "unknown_fact"
    template = "Fact '{fact_id}' is not remembered here; list or search those that are."
    fact_id: str


class UnknownDocument(UsageError):
    """No such document is in this collection."""

    code = "unknown_document"
    template = "Document '{document_id}' is not in collection '{collection}'; list those that are."
    document_id: str
    collection: str


class MemoryFull(UsageError):
    """A partition has as many items as it may have."""

    code = "memory_full"
    template = "{what} is full ({limit} items); forget or delete some, or raise the limit."
    what: str
    limit: int


class FactExists(UsageError):
    """An edit would make two facts of one partition equal."""

    code = "fact_exists"
    template = "Fact '{fact_id}' already says the same; forget one of them."
    fact_id: str


class UnreadableDocument(UsageError):
    """A document has no text that can be read, or is larger than allowed."""

    code = "unreadable_document"
    template = "The document cannot be ingested: {problem}."
    problem: str


class EmbeddingFailed(UsageError):
    """The embedding model did not answer, or answered with something else."""

    code = "embedding_failed"
    template = "The embeddings could not be made: {problem}."
    problem: str


class MemoryUnavailable(UsageError):
    """The store of this runtime keeps no memory."""

    code = "memory_unavailable"
    template = "There is no memory here: {problem}."
    problem: str
