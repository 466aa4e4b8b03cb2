"""Makes the report by which a process of a shared store shows itself to the others."""

import os
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from awaken import __version__
from awaken.contracts.state.profile import ProfileStore
from awaken.mailbox.sweeper import SweeperChores, SweepStage
from awaken.runtime.engine import RunEngine
from awaken.services.pinned_runs import list_pinned
from awaken.services.workers import (
    NAMES_MAX,
    SILENT_MS,
    WorkerIdentity,
    WorkerLoad,
    WorkerReport,
    remove_silent_workers,
)

from .node import Node

if TYPE_CHECKING:
    # Only a runtime with managed configuration loads it.
    from awaken.managed.retention import ConfigPurger

    from .composition import RuntimeCalls


def build_report(node: Node, engine: RunEngine, profile: ProfileStore) -> WorkerReport:
    """Make the report of a process."""
    identity = WorkerIdentity(
        id=node.worker_id, version=__version__, host=socket.gethostname(), pid=os.getpid()
    )

    config = node.mailbox.services.config

    def measure_load() -> WorkerLoad:
        agents = engine.registry.snapshot().registries.agents
        worker = node.worker
        return WorkerLoad(
            agents=tuple(sorted(agents)[:NAMES_MAX]),
            agent_count=len(agents),
            running=sum(1 for _ in engine.active),
            slots=0 if worker is None else worker.slots,
            kind=node.kind,
            max_busy={
                name: it.max_busy for name, it in config.tenants.items() if it.max_busy is not None
            },
        )

    return WorkerReport(identity, profile, node.store.now_ms, measure_load)


def build_chores(
    node: Node,
    profile: ProfileStore,
    calls: "RuntimeCalls",
    purger: "ConfigPurger | None" = None,
    delete_expired: Callable[[], Awaitable[object]] | None = None,
) -> SweeperChores:
    """Make what the sweeper does besides: it forgets ended processes, and leaves pinned runs.

    With managed configuration it also removes the part of its past that is not kept, and in a
    process that uses memory the facts that have expired.
    """
    store, purge_ms = node.store, node.mailbox.services.config.purge_ms

    async def remove_silent() -> None:
        await remove_silent_workers(profile, await store.now_ms())

    stages = [
        SweepStage(
            run=remove_silent,
            what="Removing entries of ended processes",
            # Readers ignore them by themselves.
            is_due=lambda _: False,
            least_ms=SILENT_MS,
        )
    ]
    if purger is not None:
        stages.append(SweepStage(run=purger.purge_if_due, what="Removing old configuration"))
    if calls.sweep_schedules is not None and store.is_shared:
        stages.append(
            SweepStage(
                run=calls.sweep_schedules,
                what="Looking for due schedules",
                is_due=lambda it: it.wake_ms is not None and it.wake_ms <= 0,
                # Old firings are removed too.
                least_ms=purge_ms,
            )
        )
    if calls.sweep_evals is not None and store.is_shared:
        evals, scoring = calls.sweep_evals
        stages += [
            SweepStage(run=evals, what="Looking for open evals", is_due=lambda it: it.has_evals),
            SweepStage(run=scoring, what="Looking for runs to score"),
        ]
    if delete_expired is not None:
        stages.append(SweepStage(run=delete_expired, what="Removing expired facts"))
    return SweeperChores(
        stages=stages,
        find_kept=partial(list_pinned, profile),
    )
