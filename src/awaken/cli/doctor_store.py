"""The checks of `awaken doctor` on a store: reached, of the right schema, writable, in time."""

import asyncio
import os
from pathlib import Path

from awaken.bootstrap.memory import engine_of
from awaken.bootstrap.stores import profiles_of, resolve_store
from awaken.contracts.clock import SystemClock
from awaken.contracts.errors import AwakenError
from awaken.contracts.state.profile import ProfileEntry
from awaken.contracts.storage.inspection import BudgetedStore, SchemaVersions, VersionedStore
from awaken.contracts.storage.store import Store
from awaken.services.workers import list_workers

from .apps import App
from .doctor_checks import CheckStatus, MachineCheck
from .stores import DEFAULT_FILE

WAIT_S = 15.0
SKEW_MAX_MS = 2_000
_SQLITE = "sqlite:///"
_OWNER, _KEY = "awaken.doctor", "probe"


async def check_store(app: App | None, url: str | None) -> list[MachineCheck]:
    """Report on the store of an app's runtime, else on the one that `serve` would use."""
    own = None if app is None or app.runtime is None else app.runtime.store
    try:
        store = own or resolve_store(url or f"sqlite:///{DEFAULT_FILE}")
    except AwakenError as error:
        return [MachineCheck(name="store", status=CheckStatus.FAILED, detail=str(error))]
    if not store.is_shared:
        return [MachineCheck(name="store", detail=f"{store.name}: nothing outlives the process")]
    if await asyncio.to_thread(_can_be_created, store.name):
        detail = f"{store.name} does not exist yet; `serve` creates it"
        return [MachineCheck(name="store", status=CheckStatus.ABSENT, detail=detail)]
    try:
        async with asyncio.timeout(WAIT_S):
            return await _check_reachable(store)
    except TimeoutError:
        detail = f"{store.name} did not answer within {WAIT_S:.0f} s"
    except AwakenError as error:
        detail = str(error)
    return [MachineCheck(name="store", status=CheckStatus.FAILED, detail=detail)]


def _can_be_created(name: str) -> bool:
    """Whether a store is a file that is not there, in a folder that can be written."""
    if not name.startswith(_SQLITE):
        return False
    path = Path(name.removeprefix(_SQLITE))
    return not path.exists() and path.parent.is_dir() and os.access(path.parent, os.W_OK)


async def _check_reachable(store: Store) -> list[MachineCheck]:
    schema = "unknown"
    if isinstance(store, VersionedStore):
        versions = await store.schema_versions()
        if versions.found < versions.known or versions.known < versions.readable_from:
            return [_describe_schema(store.name, versions)]
        schema = f"{versions.found}, readable from {versions.readable_from}"
    reached = MachineCheck(name="store", detail=f"{store.name}, schema {schema}")
    await store.open()
    try:
        checks = [reached, await _check_writable(store), await _check_skew(store)]
        if isinstance(store, BudgetedStore):
            checks.append(await _check_connections(store, store))
        return [*checks, await _check_vectors(store)]
    finally:
        await store.close()


def _describe_schema(name: str, versions: SchemaVersions) -> MachineCheck:
    found, known = versions.found, versions.known
    if known < versions.readable_from:
        return MachineCheck(
            name="store",
            status=CheckStatus.FAILED,
            detail=(
                f"{name} has schema {found}, readable from {versions.readable_from};"
                f" this version knows {known}"
            ),
            remedy="install the version of awaken that wrote it, or a newer one",
        )
    detail = f"{name} has schema {found}, this version needs {known}" if found else f"{name} is new"
    return MachineCheck(
        name="store",
        status=CheckStatus.WARNING,
        detail=detail,
        remedy="`awaken db migrate` brings it up to date, and so does `awaken serve`",
    )


async def _check_writable(store: Store) -> MachineCheck:
    """Write an entry and remove it."""
    profiles = profiles_of(store)
    try:
        await profiles.save_entry(ProfileEntry(owner=_OWNER, key=_KEY, value=True))
        await profiles.delete_entry(_OWNER, _KEY)
    except AwakenError as error:
        return MachineCheck(name="store writable", status=CheckStatus.FAILED, detail=str(error))
    return MachineCheck(name="store writable", detail="an entry was written and removed")


async def _check_connections(store: Store, server: BudgetedStore) -> MachineCheck:
    """Compare what the server allows with what the processes that are there may take."""
    budget = await server.count_connections()
    processes = len(await list_workers(profiles_of(store), await store.now_ms()))
    needed = max(processes, 1) * budget.per_process
    detail = (
        f"a process takes up to {budget.per_process} of {budget.allowed} connections;"
        f" processes: {processes}, in use: {budget.used}"
    )
    if needed <= budget.allowed:
        return MachineCheck(name="store connections", detail=detail)
    return MachineCheck(
        name="store connections",
        status=CheckStatus.WARNING,
        detail=detail,
        remedy=(
            f"set max_connections of the server to {needed} and what else needs it, use a smaller"
            " ?pool=, or put a pooler before it"
        ),
    )


async def _check_vectors(store: Store) -> MachineCheck:
    """Tell whether facts and documents can be found by their meaning as well."""
    try:
        support = await engine_of(store).read_vector_support()
    except AwakenError as error:
        return MachineCheck(name="memory", status=CheckStatus.ABSENT, detail=str(error))
    if support.is_there:
        return MachineCheck(name="memory", detail="search by words and by vectors")
    return MachineCheck(name="memory", status=CheckStatus.ABSENT, detail=support.reason)


async def _check_skew(store: Store) -> MachineCheck:
    """Compare the clock of the store with that of this process, less the time of the way."""
    clock = SystemClock()
    before = clock.now_ms()
    there = await store.now_ms()
    after = clock.now_ms()
    skew = there - after if there > after else min(0, there - before)
    if abs(skew) <= SKEW_MAX_MS:
        return MachineCheck(name="store clock", detail=f"{skew} ms from this process")
    return MachineCheck(
        name="store clock",
        status=CheckStatus.WARNING,
        detail=f"{skew} ms from this process",
        remedy="synchronize both clocks (NTP): deadlines and histories show both",
    )
