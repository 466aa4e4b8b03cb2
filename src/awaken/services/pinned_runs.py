"""Runs that an operator pinned: a purge leaves them, with their events."""

from typing import Any

import msgspec

from awaken.contracts.errors import LimitExceeded
from awaken.contracts.record import Record
from awaken.contracts.state.profile import ProfileEntry, ProfileStore

OWNER = "system::pinned_runs"
"""The owner of the entries; each is keyed by its run, under the stored id."""
PINNED_MAX = 1_000


class PinnedRun(Record, frozen=True, kw_only=True):
    """Who pinned a run, and when."""

    thread_id: str
    by: str
    at: int


async def pin_run(profile: ProfileStore, run_id: str, pinned: PinnedRun) -> None:
    """Keep a run from every later purge; pinning it again changes nothing.

    Raises:
        LimitExceeded: Too many runs are pinned.
    """
    known = await profile.list_entries(OWNER)
    if any(entry.key == run_id for entry in known):
        return
    if len(known) >= PINNED_MAX:
        raise LimitExceeded(what="The number of pinned runs", size=len(known) + 1, limit=PINNED_MAX)
    value: Any = msgspec.to_builtins(pinned)
    await profile.save_entry(
        ProfileEntry(owner=OWNER, key=run_id, value=value, updated_at=pinned.at)
    )


async def unpin_run(profile: ProfileStore, run_id: str) -> None:
    """Let purges remove a run again; a run that is not pinned stays as it is."""
    await profile.delete_entry(OWNER, run_id)


async def list_pinned(profile: ProfileStore) -> dict[str, str]:
    """Return the threads of all pinned runs by run id, as stored ids."""
    entries = await profile.list_entries(OWNER)
    return {entry.key: msgspec.convert(entry.value, PinnedRun).thread_id for entry in entries}
