"""Makes the report by which a process of a shared store shows itself to the others."""

import os
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from awaken import __version__
from awaken.contracts.state.profile import ProfileStore
from awaken.contracts.storage.store import Store
from awaken.mailbox.sweeper import SweeperChores
from awaken.runtime.engine import RunEngine
from awaken.services.pinned_runs import list_pinned
from awaken.services.workers import (
    NAMES_MAX,
    WorkerIdentity,
    WorkerLoad,
    WorkerReport,
    remove_silent_workers,
)

from .node import Node

if TYPE_CHECKING:
    # Only a runtime with managed configuration loads it.
    from awaken.managed.retention import ConfigPurger


def build_report(node: Node, engine: RunEngine, profile: ProfileStore) -> WorkerReport:
    """Make the report of a process."""
    identity = WorkerIdentity(
        id=node.worker_id, version=__version__, host=socket.gethostname(), pid=os.getpid()
    )

    def measure_load() -> WorkerLoad:
        agents = engine.registry.snapshot().registries.agents
        is_working = node.worker is not None
        return WorkerLoad(
            agents=tuple(sorted(agents)[:NAMES_MAX]),
            agent_count=len(agents),
            running=sum(1 for _ in engine.active),
            slots=node.mailbox.services.config.concurrency if is_working else 0,
        )

    return WorkerReport(identity, profile, node.store.now_ms, measure_load)


def build_chores(
    store: Store,
    profile: ProfileStore,
    purger: "ConfigPurger | None" = None,
    sweeps: tuple[Callable[[], Awaitable[None]] | None, ...] = (),
    delete_expired: Callable[[], Awaitable[object]] | None = None,
) -> SweeperChores:
    """Make what the sweeper does besides: it forgets ended processes, and leaves pinned runs.

    With managed configuration it also removes the part of its past that is not kept, and in a
    process that uses memory the facts that have expired.
    """

    async def remove_silent() -> None:
        await remove_silent_workers(profile, await store.now_ms())

    stages: list[tuple[Callable[[], Awaitable[object]], str]] = [
        (remove_silent, "Removing entries of ended processes")
    ]
    if purger is not None:
        stages.append((purger.purge_if_due, "Removing old configuration"))
    for sweep, what in zip(sweeps, ("due schedules", "open evals"), strict=False):
        if sweep is not None and store.is_shared:
            stages.append((sweep, f"Looking for {what}"))
    if delete_expired is not None:
        stages.append((delete_expired, "Removing expired facts"))
    return SweeperChores(
        stages=stages,
        find_kept=partial(list_pinned, profile),
    )
