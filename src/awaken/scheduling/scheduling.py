"""Everything of one process that starts runs without a caller."""

from collections.abc import Callable

import msgspec

from awaken.contracts.clock import IdSource
from awaken.contracts.storage.schedules import ScheduleStore
from awaken.mailbox.services import MailboxServices

from .firing import ScheduleFirer
from .rights import RunStarter
from .schedules import Schedules
from .triggers import TriggerParts, Triggers

PURGED_AT_ONCE = 1000
DELIVERIES_KEPT_MS = 30 * 24 * 60 * 60 * 1000
"""How long deliveries are remembered at least, so that a late repeat starts nothing."""


class SecretReader(msgspec.Struct, frozen=True, kw_only=True):
    """How references to secrets are checked and read."""

    resolve: Callable[[str], str]
    find_problem: Callable[[object], str]


class Scheduling:
    """The schedules and the triggers of a process, and the loop that fires them."""

    def __init__(
        self,
        store: ScheduleStore,
        services: MailboxServices,
        starter: RunStarter,
        ids: IdSource,
        secrets: SecretReader,
    ) -> None:
        self._store = store
        self._services = services
        self._purged_at: int | None = None
        now_ms = services.store.now_ms
        self.firer = ScheduleFirer(store, services, starter)
        self.schedules = Schedules(store, self.firer, starter, ids, now_ms)
        self.triggers = Triggers(
            TriggerParts(
                store=store,
                services=services,
                starter=starter,
                ids=ids,
                now_ms=now_ms,
                resolve_secret=secrets.resolve,
                check_reference=secrets.find_problem,
            )
        )

    async def sweep(self) -> None:
        """Look for due schedules that no signal told of, and remove old firings when it is time."""
        self.firer.wake()
        config, now = self._services.config, self._services.clock.monotonic_ms()
        is_due = self._purged_at is None or now - self._purged_at >= config.purge_ms
        if config.retention_ms is None or not is_due:
            return
        before = await self._services.store.now_ms() - config.retention_ms
        delivered = min(before, before + config.retention_ms - DELIVERIES_KEPT_MS)
        while await self._store.purge_firings(before, delivered, PURGED_AT_ONCE):
            pass
        self._purged_at = now
