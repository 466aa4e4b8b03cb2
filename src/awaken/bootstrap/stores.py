"""Makes the store that `store=` names."""

import importlib
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import unquote

from awaken.contracts.errors import InvalidInput
from awaken.contracts.state.profile import ProfileStore
from awaken.contracts.storage.store import Store
from awaken.mailbox.config import MailboxConfig
from awaken.stores.memory.profiles import MemoryProfileStore
from awaken.stores.memory.store import MemoryStore

KNOWN = (
    "known: sqlite:///awaken.db (a file here), sqlite:////data/awaken.db (a full path), "
    "postgresql://user@host/database, memory:// (or no store at all)"
)
_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")
_METHODS = ("open", "close", "checkout", "commit", "load_run", "enqueue")


def resolve_store(store: Store | str | None, config: MailboxConfig | None = None) -> Store:
    """Return the store itself, or the one that a URL names; None means in memory.

    A store in memory that is made here keeps ended runs as long as the configuration says.

    Raises:
        InvalidInput: No store is known under that URL, or the object is no store.
    """
    if store is None or store == "memory://":
        kept = config or MailboxConfig()
        return MemoryStore(retained_runs=kept.retention_runs, retained_ms=kept.retention_ms)
    if isinstance(store, str):
        return _make_store(store)
    return _check_store(store)


def profiles_of(store: Store) -> ProfileStore:
    """The profile store of a store: the store itself, or one in memory."""
    if hasattr(store, "find_entry"):
        return cast(ProfileStore, store)
    return MemoryProfileStore()


def _make_store(url: str) -> Store:
    if url.startswith(_SQLITE) and ":memory:" in url:
        raise InvalidInput(what=f"store '{url}'", problem="for one in memory use memory://")
    if url.startswith(_SQLITE):
        return _import_store("awaken.stores.sqlite.store", "SqliteStore")(
            unquote(url.removeprefix(_SQLITE))
        )
    if url.startswith(_POSTGRES):
        return _import_store("awaken.stores.postgres.store", "PostgresStore")(url)
    scheme = url.partition(":")[0]
    raise InvalidInput(what=f"store '{scheme}:…'", problem=f"no such store; {KNOWN}")


def _import_store(module: str, name: str) -> Callable[[str], Store]:
    """Import a store's class on demand: most users need one kind or none."""
    try:
        made: Callable[[str], Store] = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise InvalidInput(what=f"A {name}", problem=str(error)) from error
    return made


def _check_store(store: Any) -> Store:
    if isinstance(store, type) or any(not hasattr(store, name) for name in _METHODS):
        problem = f"it is no Store and no URL; {KNOWN}"
        raise InvalidInput(what=f"store {store!r}", problem=problem)
    checked: Store = store
    return checked
