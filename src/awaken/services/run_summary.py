"""How many runs have not ended, by status."""

from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.record import StrictRecord, always
from awaken.contracts.storage.store import RunStore


class RunSummary(StrictRecord, frozen=True, kw_only=True):
    """The chats and tasks that have not ended; other kinds of runs are not counted."""

    running: int = always(0)
    waiting: int = always(0)
    created: int = always(0)


async def summarize_runs(store: RunStore, tenant_id: str | None = None) -> RunSummary:
    """Count the runs of a tenant, or of all of them, that have not ended."""
    found = await store.count_open_runs(tenant_id)
    return RunSummary(
        running=found.get(RunStatus.RUNNING, 0),
        waiting=found.get(RunStatus.WAITING, 0),
        created=found.get(RunStatus.CREATED, 0),
    )
