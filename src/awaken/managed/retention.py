"""Retention: how long publications, audit events and drafts are kept. The sweeper asks hourly."""

from collections.abc import Awaitable, Callable

import msgspec

from awaken.contracts.clock import Clock
from awaken.contracts.config.store import ConfigPurge, ConfigStore, PurgedConfig

DAY_MS = 24 * 3_600_000
HOUR_MS = 3_600_000
AUDIT_DAYS = 90


class ConfigRetention(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the configuration's past is kept; what runs are pinned to always is."""

    publications: int = 200
    """The newest ones that are kept, whatever their age."""
    publication_days: int = 365
    ephemeral_days: int = 7
    audit_days: int = AUDIT_DAYS
    request_days: int = 7
    """How long idempotency keys are remembered."""

    def build_purge(self, now: int, pinned: frozenset[int]) -> ConfigPurge:
        """Return what may go at a time; drafts go when they have expired."""
        return ConfigPurge(
            pinned=pinned,
            keep_newest=self.publications,
            live_before=now - self.publication_days * DAY_MS,
            ephemeral_before=now - self.ephemeral_days * DAY_MS,
            audit_before=now - self.audit_days * DAY_MS,
            drafts_before=now,
            requests_before=now - self.request_days * DAY_MS,
        )


class ConfigPurger:
    """Removes what retention does not keep, at most once an hour."""

    def __init__(
        self,
        store: ConfigStore,
        clock: Clock,
        list_pinned: Callable[[], Awaitable[frozenset[int]]],
        read_retention: Callable[[], ConfigRetention],
    ) -> None:
        self._store = store
        self._clock = clock
        self._list_pinned = list_pinned
        self._read_retention = read_retention
        self._purged_at: int | None = None

    async def purge_if_due(self) -> PurgedConfig | None:
        """Purge if the last purge of this process is an hour ago; None if it is not.

        Raises:
            StorageError: The store did not answer; the next call tries again.
        """
        now = self._clock.monotonic_ms()
        if self._purged_at is not None and now - self._purged_at < HOUR_MS:
            return None
        purge = self._read_retention().build_purge(self._clock.now_ms(), await self._list_pinned())
        purged = await self._store.purge_config(purge)
        self._purged_at = now
        return purged
