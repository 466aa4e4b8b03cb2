"""From what `store=` says to a store."""

from awaken.contracts.errors import InvalidInput
from awaken.contracts.storage import Store
from awaken.stores.memory.store import MemoryStore


def opened_store(store: Store | str | None) -> Store:
    """Return the store itself, or the one that a URL names; None means in memory.

    Raises:
        InvalidInput: No store is known under that URL.
    """
    if store is None:
        return MemoryStore()
    if isinstance(store, str):
        if store == "memory://":
            return MemoryStore()
        known = "memory:// (or no store at all)"
        raise InvalidInput(what=f"store '{store}'", problem=f"no such store; known: {known}")
    return store
