"""`awaken db`: checks and migrates the store itself."""

import asyncio

import typer

from awaken.contracts.errors import StoreUnavailable, UnsupportedFeature
from awaken.contracts.storage.store import CheckableStore, Store, StoreCheck

from .command_context import StoreUrl
from .command_line import new_app
from .output import as_json, plain, print_stderr, print_stdout, table
from .reports import REFUSED, IsJson, report_errors
from .spinner import show_spinner
from .stores import check_exists, store_at

app = new_app("The store itself.")


class SchemaUnknown(UnsupportedFeature):
    """The store has no schema version that a command could read."""

    template = "Store {store} cannot tell its schema; use the tools of its server."
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


async def _check_store(store: Store) -> StoreCheck:
    checkable = _checkable(store)
    await check_exists(store)
    return await checkable.check()


async def _migrate_store(store: Store) -> tuple[int, int]:
    """Open the store, which migrates it; returns the schema before and after."""
    checkable = _checkable(store)
    try:
        before, _ = await checkable.schema_versions()
    except StoreUnavailable:
        # There is none yet, or it cannot be reached: then opening it raises.
        before = 0
    await store.open()
    await store.close()
    after, _ = await checkable.schema_versions()
    return before, after


def _checkable(store: Store) -> CheckableStore:
    if not isinstance(store, CheckableStore):
        raise SchemaUnknown(store=store.name)
    return store


def _text(found: StoreCheck) -> str:
    state = f"{len(found.problems)} problems" if found.problems else "sound"
    counts = table(("RECORDS", "READ"), sorted(found.records.items()))
    return f"{plain(found.store)}: schema {found.schema_version}, {state}\n\n{counts}"
