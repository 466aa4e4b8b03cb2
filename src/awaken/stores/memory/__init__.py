"""The store in this process's memory: the reference semantics of every other store."""

from .profiles import MemoryProfileStore
from .store import MemoryStore

__all__ = ["MemoryProfileStore", "MemoryStore"]
