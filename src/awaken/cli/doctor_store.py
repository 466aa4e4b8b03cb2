"""The checks of `awaken doctor` on a store: reached, of the right schema, writable, in time."""

import asyncio
import os
from pathlib import Path
from typing import Any

from awaken.bootstrap.memory import engine_of
from awaken.bootstrap.node import resolve_bus
from awaken.bootstrap.stores import profiles_of, resolve_store
from awaken.contracts.clock import SystemClock
from awaken.contracts.errors import AwakenError
from awaken.contracts.memory.engine import VectorCounts
from awaken.contracts.state.profile import ProfileEntry
from awaken.contracts.storage.inspection import BudgetedStore, SchemaVersions, VersionedStore
from awaken.contracts.storage.nodes import NodeStore
from awaken.contracts.storage.queries import (
    Page,
    RunQuery,
    ScheduleQuery,
    ThreadQuery,
    TicketQuery,
    TriggerQuery,
)
from awaken.contracts.storage.schedules import ScheduleStore
from awaken.contracts.storage.store import Store
from awaken.services.workers import list_workers

from .apps import App
from .doctor_checks import CheckStatus, MachineCheck
from .stores import DEFAULT_FILE

WAIT_S = 15.0
SKEW_MAX_MS = 2_000
NEWEST = 100
"""How many records of each list `doctor` reads."""
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


async def check_carrier(app: App | None, url: str | None, bus_url: str | None) -> MachineCheck:
    """Report what carries signals between processes, and whether it can be reached."""
    given = {} if app is None or app.runtime is None else app.runtime.given
    own = None if app is None or app.runtime is None else app.runtime.store
    try:
        store = own or resolve_store(url or f"sqlite:///{DEFAULT_FILE}")
        bus = resolve_bus(given.get("bus") or bus_url or None, store)
    except AwakenError as error:
        return MachineCheck(name="carrier", status=CheckStatus.FAILED, detail=str(error))
    name = getattr(bus, "name", None)
    if name is None:
        detail = "none: other processes find what happened when they look into the store"
        return MachineCheck(name="carrier", status=CheckStatus.ABSENT, detail=detail)
    problem = "no connection"
    try:
        async with asyncio.timeout(WAIT_S):
            await bus.open()
            is_up = bus.is_up
            await bus.close()
    except TimeoutError:
        is_up = False
    except AwakenError as error:
        is_up, problem = False, str(error)
    if is_up:
        return MachineCheck(name="carrier", detail=f"{name}: connected")
    return MachineCheck(
        name="carrier",
        status=CheckStatus.WARNING,
        detail=f"{name}: {problem}",
        remedy="everything still happens, up to some seconds later; check its address and access",
    )


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
        return [*checks, *await _check_records(store), await _check_vectors(store)]
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
    if isinstance(store, NodeStore):
        # Processes that only serve report themselves too; an older version has no node.
        living = [it for it in (await store.read_nodes()).nodes if not it.is_over]
        processes = max(processes, len(living))
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


async def _check_records(store: Store) -> list[MachineCheck]:
    """Tell of damaged records among the newest of each list; lists leave them out."""
    found: dict[str, Page[Any]] = {
        "threads": await store.list_threads(ThreadQuery(limit=NEWEST)),
        "runs": await store.list_runs(RunQuery(limit=NEWEST)),
        "tickets": await store.list_ticket_page(TicketQuery(limit=NEWEST)),
    }
    if isinstance(store, ScheduleStore):
        found["schedules"] = await store.list_schedules(ScheduleQuery(limit=NEWEST))
        found["triggers"] = await store.list_triggers(TriggerQuery(limit=NEWEST))
    damaged = [f"{kind}: {page.damaged}" for kind, page in found.items() if page.damaged]
    if not damaged:
        return []
    check = MachineCheck(
        name="store records",
        status=CheckStatus.WARNING,
        detail=f"damaged and left out of lists, of the newest {NEWEST}: {', '.join(damaged)}",
        remedy="`awaken db check` names each record; restore them from a backup, or delete them",
    )
    return [check]


async def _check_vectors(store: Store) -> MachineCheck:
    """Tell whether facts and documents can be found by their meaning as well."""
    try:
        support = await engine_of(store).read_vector_support()
    except AwakenError as error:
        return MachineCheck(name="memory", status=CheckStatus.ABSENT, detail=str(error))
    if support.is_there:
        return _describe_vectors(await engine_of(store).count_vectors())
    return MachineCheck(name="memory", status=CheckStatus.ABSENT, detail=support.reason)


def _describe_vectors(counts: VectorCounts) -> MachineCheck:
    """Tell how many items only their words find, although others have vectors."""
    detail, missing = "search by words and by vectors", counts.items - sum(counts.vectors.values())
    if len(counts.vectors) > 1:
        shown = ", ".join(f"{name} ({count})" for name, count in sorted(counts.vectors.items()))
        detail += f"; vectors of several models, of which a search compares one: {shown}"
    if counts.vectors and missing:
        detail += f"; {missing} of {counts.items} facts and passages have no vector"
    if len(counts.vectors) <= 1 and not (counts.vectors and missing):
        return MachineCheck(name="memory", detail=detail)
    return MachineCheck(
        name="memory",
        status=CheckStatus.WARNING,
        detail=detail,
        remedy="`awaken memory reindex --app …` makes the vectors of the present model",
    )


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
