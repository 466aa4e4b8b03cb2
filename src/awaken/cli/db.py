"""`awaken db`: checks and migrates the store itself."""

import asyncio

import typer

from awaken import __version__
from awaken.bootstrap.stores import profiles_of
from awaken.contracts.errors import RefusedInput, StoreUnavailable, UnsupportedFeature
from awaken.contracts.storage.inspection import (
    CheckableStore,
    SchemaVersions,
    StoreCheck,
    VersionedStore,
)
from awaken.contracts.storage.nodes import NodeStore
from awaken.contracts.storage.store import Store
from awaken.services.workers import has_unreadable_workers, list_workers

from .command_context import StoreUrl
from .command_line import new_app
from .output import as_json, plain, print_stderr, print_stdout, table
from .reports import REFUSED, IsJson, report_errors
from .spinner import show_spinner
from .stores import check_exists, store_at

app = new_app("The store itself.")


class SchemaUnknown(UnsupportedFeature):
    """The store has nothing that a command could check."""

    template = "Store {store} has nothing that this command could look at; use its own tools."
    store: str
    agent_id: str = ""
    features: str = "schema versions"


@app.command()
def check(*, store_url: StoreUrl = None, is_json: IsJson = False) -> None:
    """Read everything in a store and verify it; changes nothing."""
    with report_errors(is_json=is_json), show_spinner("Reads every record…"):
        found = asyncio.run(_check_store(store_at(store_url)))
    print_stdout(as_json(found) if is_json else _text(found))
    for problem in found.problems:
        if not is_json:
            print_stderr(f"awaken: {plain(problem)}")
    if found.problems:
        raise typer.Exit(REFUSED)


@app.command()
def migrate(*, store_url: StoreUrl = None, is_json: IsJson = False) -> None:
    """Migrate a store to the current schema; creates it if it does not exist."""
    with report_errors(is_json=is_json):
        store = store_at(store_url)
        before, after = asyncio.run(_migrate_store(store))
    document = {"store": store.name, "from_version": before, "to_version": after}
    done = "is up to date" if before == after else f"went from schema {before}"
    print_stdout(as_json(document) if is_json else f"{plain(store.name)} {done}: schema {after}.")


@app.command()
def contract(*, store_url: StoreUrl = None, is_json: IsJson = False) -> None:
    """Take away what only older versions use; refused while one of their processes is there.

    The last step of an upgrade: there is no way back to the version before it.
    """
    with report_errors(is_json=is_json):
        store = store_at(store_url)
        before, after = asyncio.run(_contract_store(store))
    document = {
        "store": store.name,
        "schema": after.found,
        "readable_from_before": before.readable_from,
        "readable_from": after.readable_from,
    }
    is_same = before.readable_from == after.readable_from
    done = "has nothing to take away" if is_same else "is contracted"
    text = f"{plain(store.name)} {done}: schema {after.found}, readable from {after.readable_from}."
    print_stdout(as_json(document) if is_json else text)


async def _check_store(store: Store) -> StoreCheck:
    checkable = _checkable(store)
    await check_exists(store)
    return await checkable.check()


async def _migrate_store(store: Store) -> tuple[int, int]:
    """Open the store, which migrates it; returns the schema before and after."""
    versioned = _versioned(store)
    try:
        before = (await versioned.schema_versions()).found
    except StoreUnavailable:
        # There is none yet, or it cannot be reached: then opening it raises.
        before = 0
    await store.open()
    await store.close()
    return before, (await versioned.schema_versions()).found


async def _contract_store(store: Store) -> tuple[SchemaVersions, SchemaVersions]:
    """Contract the store; returns its versions before and after.

    Raises:
        RefusedInput: A process of another version reported itself within the last minute.
    """
    versioned = _versioned(store)
    await check_exists(store)
    before = await versioned.schema_versions()
    await store.open()
    try:
        others = await _list_others(store, before.known)
    finally:
        await store.close()
    if others:
        problem = (
            f"Processes of {', '.join(others)} use {store.name}; stop them, and ask again"
            f" a minute later. This version is {__version__}."
        )
        raise RefusedInput(what="store", problem=problem)
    return before, await versioned.contract_schema()


async def _list_others(store: Store, known: int) -> list[str]:
    """Say of which versions the processes are that may not know what this one knows."""
    profile, now = profiles_of(store), await store.now_ms()
    live = await list_workers(profile, now)
    others = {f"version {it.version}" for it in live if it.version != __version__}
    if await has_unreadable_workers(profile, now):
        others.add("a version whose reports this one cannot read")
    if isinstance(store, NodeStore):
        # Two builds may have one version, so their schemas count too.
        nodes = [it for it in (await store.read_nodes()).nodes if not it.is_over]
        others |= {f"schema {it.schema_no}" for it in nodes if it.schema_no != known}
        begun = {(it.host, it.pid) for it in nodes}
        if any((it.host, it.pid) not in begun for it in live):
            others.add("a schema without nodes")
    return sorted(others)


def _checkable(store: Store) -> CheckableStore:
    if not isinstance(store, CheckableStore):
        raise SchemaUnknown(store=store.name)
    return store


def _versioned(store: Store) -> VersionedStore:
    if not isinstance(store, VersionedStore):
        raise SchemaUnknown(store=store.name)
    return store


def _text(found: StoreCheck) -> str:
    state = f"{len(found.problems)} problems" if found.problems else "sound"
    counts = table(("RECORDS", "READ"), sorted(found.records.items()))
    return f"{plain(found.store)}: schema {found.schema_version}, {state}\n\n{counts}"
