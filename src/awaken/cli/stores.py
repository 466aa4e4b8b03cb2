"""Finds the store of a command. Reading never creates a store or changes its schema."""

import os
from pathlib import Path

from awaken.bootstrap.agent_runtime import AgentRuntime
from awaken.bootstrap.stores import resolve_store
from awaken.contracts.errors import InvalidInput, RefusedInput, StoreUnavailable
from awaken.contracts.storage.inspection import VersionedStore
from awaken.contracts.storage.store import Store

DEFAULT_FILE = "awaken.db"


def name_store(runtime: AgentRuntime | None, url: str | None) -> Store | str | None:
    """Return what names the store of a command that loads an app.

    An option wins over the store that the app's runtime names, and that one over the environment.
    A store in memory has nothing of other processes, so it counts as none.
    """
    own = None if runtime is None else runtime.given.get("store")
    is_option = bool(url) and url != os.environ.get("AWAKEN_STORE")
    if own is None or is_option or not resolve_store(own).is_shared:
        return url
    return own  # type: ignore[no-any-return]


def store_at(named: Store | str | None) -> Store:
    """Make the store of a URL, else of the file in this folder; it is not opened yet.

    Raises:
        InvalidInput: No store is named, or it is not visible to other processes.
    """
    if not named and not Path(DEFAULT_FILE).is_file():
        problem = (
            f"No store is named, and this folder has no {DEFAULT_FILE}; pass --store "
            "sqlite:///FILE or --store postgresql://…, or set AWAKEN_STORE."
        )
        raise RefusedInput(what="store", problem=problem)
    store = resolve_store(named or f"sqlite:///{DEFAULT_FILE}")
    if not store.is_shared:
        problem = "no other process can see what is in it; name a file or a server"
        raise InvalidInput(what=f"store '{store.name}'", problem=problem)
    return store


async def check_exists(store: Store) -> None:
    """Refuse a store that opening would create or migrate.

    Raises:
        StoreUnavailable: There is none, or its schema is older than this version needs.
    """
    if not isinstance(store, VersionedStore):
        return
    versions = await store.schema_versions()
    found, known = versions.found, versions.known
    if found == 0:
        problem = "it has no tables of awaken; `awaken db migrate` creates them"
        raise StoreUnavailable(store=store.name, problem=problem)
    if found < known:
        problem = f"its schema is {found}, this version needs {known}; run `awaken db migrate`"
        raise StoreUnavailable(store=store.name, problem=problem)
