"""Claims of work: one process at a time does it, by a lease in a profile entry.

A claim only keeps others from the same work: what is done under it must do no harm when it is done
twice, because a process that was paused may go on after its lease has run out.
"""

from typing import Any

import msgspec

from awaken.contracts.record import Record
from awaken.runtime.engine import RunEngine

LEASE_KEY = "__evals.driver"


class DriverLease(Record, frozen=True, kw_only=True):
    """Which process does some work, and until when it may do so without renewing."""

    by: str
    until: int


class _Held(Exception):
    """Another process holds the lease."""


class WorkClaims:
    """The claims of one process."""

    def __init__(self, engine: RunEngine, worker_id: str, lease_ms: int) -> None:
        self._engine = engine
        self._worker_id = worker_id
        self._lease_ms = lease_ms

    async def claim(self, name: str) -> bool:
        """Claim work, or renew the claim; False if another process has it.

        Raises:
            StorageError: It is not known whether the claim was written.
        """
        try:
            await self._change(name, self._lease_ms)
        except _Held:
            return False
        return True

    async def release(self, name: str) -> None:
        """Let another process have the work; one that has it already is left alone."""
        try:
            await self._change(name, 0)
        except _Held:
            return

    async def is_free(self, name: str) -> bool:
        """Whether no process has the work."""
        entry = await self._engine.services.profile.find_entry(lease_scope(name), LEASE_KEY)
        if entry is None:
            return True
        held = msgspec.convert(entry.value, DriverLease)
        return held.until <= await self._engine.store.now_ms()

    async def _change(self, name: str, duration_ms: int) -> None:
        now = await self._engine.store.now_ms()
        mine = DriverLease(by=self._worker_id, until=now + duration_ms)

        def change(stored: Any) -> Any:
            held = None if stored is None else msgspec.convert(stored, DriverLease)
            if held is not None and held.by != mine.by and held.until > now:
                raise _Held
            return msgspec.to_builtins(mine)

        profile = self._engine.services.profile
        await profile.change_entry(lease_scope(name), LEASE_KEY, change, now=now)


def lease_scope(name: str) -> str:
    """The owner of the profile entries of an eval, or of other work."""
    return f"eval::{name}"
