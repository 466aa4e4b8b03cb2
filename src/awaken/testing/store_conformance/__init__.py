"""What every store must do: checks that take an opened, empty store and raise if it fails.

Belongs here: behaviour that the ports promise. Does not: how a store does it.
A new store is done when `await check(store)` passes for each of `STORE_CHECKS` on a fresh, opened
one; `PROFILE_CHECKS`, `CONFIG_CHECKS`, `SCHEDULE_CHECKS`, `MEMORY_CHECKS` and `EVAL_CHECKS` are of
ports that a store need not have. Some checks let time pass: a store whose `clock` can `advance` is
spared the wait, any other waits less than a second each.
"""

from . import (
    branches,
    checkpoints,
    claiming,
    commits,
    concurrency,
    config_audits,
    configs,
    decisions,
    deliveries,
    evals,
    events,
    fencing,
    interrupts,
    leases,
    listings,
    memory_items,
    outboxes,
    profiles,
    readers,
    recoveries,
    releases,
    retention,
    run_ids,
    run_lists,
    runs,
    schedules,
    state,
    state_histories,
    submissions,
    tenant_limits,
    tenants,
    threads,
    tickets,
    transcripts,
    triggers,
    usage,
)
from .config_writing import ConfigCheck
from .evals import EvalCheck
from .memory_items import MemoryCheck
from .schedules import ScheduleCheck
from .writing import ProfileCheck, StoreCheck

STORE_CHECKS: tuple[StoreCheck, ...] = (
    *commits.CHECKS,
    *state.CHECKS,
    *state_histories.CHECKS,
    *transcripts.CHECKS,
    *runs.CHECKS,
    *run_ids.CHECKS,
    *tickets.CHECKS,
    *decisions.CHECKS,
    *threads.CHECKS,
    *branches.CHECKS,
    *tenants.CHECKS,
    *listings.CHECKS,
    *run_lists.CHECKS,
    *usage.CHECKS,
    *events.CHECKS,
    *concurrency.CHECKS,
    *submissions.CHECKS,
    *claiming.CHECKS,
    *tenant_limits.CHECKS,
    *releases.CHECKS,
    *readers.CHECKS,
    *leases.CHECKS,
    *recoveries.CHECKS,
    *interrupts.CHECKS,
    *fencing.CHECKS,
    *deliveries.CHECKS,
    *checkpoints.CHECKS,
    *outboxes.CHECKS,
    *retention.CHECKS,
)
PROFILE_CHECKS: tuple[ProfileCheck, ...] = profiles.CHECKS

CONFIG_CHECKS: tuple[ConfigCheck, ...] = (*configs.CHECKS, *config_audits.CHECKS)

SCHEDULE_CHECKS: tuple[ScheduleCheck, ...] = (*schedules.CHECKS, *triggers.CHECKS)

MEMORY_CHECKS: tuple[MemoryCheck, ...] = memory_items.CHECKS
"""They take a memory engine, such as that of `store.open_memory()`."""

EVAL_CHECKS: tuple[EvalCheck, ...] = evals.CHECKS
"""They take a store of evals, such as that of `store.open_evals()`."""

__all__ = [
    "CONFIG_CHECKS",
    "EVAL_CHECKS",
    "MEMORY_CHECKS",
    "PROFILE_CHECKS",
    "SCHEDULE_CHECKS",
    "STORE_CHECKS",
    "ConfigCheck",
    "EvalCheck",
    "MemoryCheck",
    "ProfileCheck",
    "ScheduleCheck",
    "StoreCheck",
]
