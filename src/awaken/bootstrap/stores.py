"""From what `store=` says to a store."""

from typing import Any

from awaken.contracts.errors import InvalidInput
from awaken.contracts.storage import Store
from awaken.stores.memory.store import MemoryStore

KNOWN = "known: memory:// (or no store at all)"
_METHODS = ("open", "close", "checkout", "commit", "load_run")


def opened_store(store: Store | str | None) -> Store:
    """Return the store itself, or the one that a URL names; None means in memory.

    Raises:
        InvalidInput: No store is known under that URL, or the object is no store.
    """
    if store is None:
        return MemoryStore()
    if isinstance(store, str):
        if store == "memory://":
            return MemoryStore()
        problem = f"stores on disk are not there yet; {KNOWN}"
        raise InvalidInput(what=f"store '{store}'", problem=problem)
    return _checked(store)


def _checked(store: Any) -> Store:
    if isinstance(store, type) or any(not hasattr(store, name) for name in _METHODS):
        problem = f"it is no Store and no URL; {KNOWN}"
        raise InvalidInput(what=f"store {store!r}", problem=problem)
    checked: Store = store
    return checked
