"""Memory across conversations: facts about a user or a project, and search in documents.

`MemoryPlugin` adds it to an agent. Belongs here: the tools, what a run is told at its start, and
what is learnt after it. Does not: how facts are kept and found (`awaken.memory`).
"""

from awaken.contracts.memory.access import DocumentDraft, FactAccess, KnowledgeAccess, MemoryAccess
from awaken.contracts.memory.engine import (
    AddedItem,
    Embedder,
    KeptItem,
    MemoryEngine,
    MemoryItem,
    VectorSupport,
)
from awaken.contracts.memory.records import (
    CollectionInfo,
    DocumentFormat,
    DocumentPage,
    EmbeddingSpec,
    Fact,
    FactMatch,
    FactOrigin,
    FactPage,
    FactSource,
    Forgotten,
    HoldingThread,
    KnowledgeDocument,
    KnowledgeMatch,
    MemoryLimits,
    Partition,
    PartitionKind,
    knowledge_collection,
    project_memory,
    user_memory,
)

from .config import MemoryConfig
from .plugin import MemoryPlugin

__all__ = [
    "AddedItem",
    "CollectionInfo",
    "DocumentDraft",
    "DocumentFormat",
    "DocumentPage",
    "Embedder",
    "EmbeddingSpec",
    "Fact",
    "FactAccess",
    "FactMatch",
    "FactOrigin",
    "FactPage",
    "FactSource",
    "Forgotten",
    "HoldingThread",
    "KeptItem",
    "KnowledgeAccess",
    "KnowledgeDocument",
    "KnowledgeMatch",
    "MemoryAccess",
    "MemoryConfig",
    "MemoryEngine",
    "MemoryItem",
    "MemoryLimits",
    "MemoryPlugin",
    "Partition",
    "PartitionKind",
    "VectorSupport",
    "knowledge_collection",
    "project_memory",
    "user_memory",
]
