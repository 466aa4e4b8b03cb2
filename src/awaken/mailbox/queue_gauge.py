"""The approximate length of the queue, exact enough to refuse input in time."""

from collections import Counter
from collections.abc import Mapping

from awaken.contracts.clock import Clock
from awaken.contracts.errors import QueueFull, TenantQueueFull
from awaken.contracts.storage.mailbox import MailboxStore, TenantLimits, find_limits

FRESH_MS = 1000
"""How old the count may be; meanwhile other processes may queue more."""


class QueueGauge:
    """Counts the queued dispatches of all threads, and of limited tenants, once a second each."""

    __slots__ = ("_clock", "_limit", "_of_tenants", "_read_at", "_size", "_store")

    def __init__(
        self,
        store: MailboxStore,
        clock: Clock,
        limit: int,
        tenants: Mapping[str, TenantLimits] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._limit = limit
        self._size = 0
        self._read_at: int | None = None
        self._of_tenants = _TenantGauge(store, clock, tenants) if tenants else None

    async def reserve_place(self, tenant_id: str | None = None) -> None:
        """Count one more dispatch, if there is room.

        Raises:
            TenantQueueFull: The tenant has as much queued as it may.
            QueueFull: The queue is full; the error says when to try again.
        """
        if self._of_tenants is not None:
            await self._of_tenants.check_place(tenant_id)
        now = self._clock.monotonic_ms()
        if self._read_at is None or now - self._read_at >= FRESH_MS:
            # Set first: callers that come while the store counts use the old count.
            self._read_at, before = now, self._size
            counted = await self._store.count_queued()
            self._size = counted + self._size - before
        if self._size >= self._limit:
            raise QueueFull(
                what="The mailbox", size=self._size, limit=self._limit, retry_after_ms=FRESH_MS
            )
        self._size += 1


class _TenantGauge:
    """Counts the queues of all tenants together: many may have a limit."""

    __slots__ = ("_clock", "_read_at", "_sizes", "_store", "_tenants")

    def __init__(
        self, store: MailboxStore, clock: Clock, tenants: Mapping[str, TenantLimits]
    ) -> None:
        self._store = store
        self._clock = clock
        self._tenants = tenants
        self._sizes: Counter[str] = Counter()
        self._read_at: int | None = None

    async def check_place(self, tenant_id: str | None) -> None:
        limits = find_limits(self._tenants, tenant_id)
        if tenant_id is None or limits is None or limits.queue_limit is None:
            return
        now = self._clock.monotonic_ms()
        if self._read_at is None or now - self._read_at >= FRESH_MS:
            # Set first, as above; what is queued here while the store counts is added.
            self._read_at, before = now, self._sizes.copy()
            counted = Counter(await self._store.count_queued_by_tenant())
            self._sizes = counted + (self._sizes - before)
        size = self._sizes[tenant_id]
        if size >= limits.queue_limit:
            raise TenantQueueFull(
                what=f"Tenant '{tenant_id}'",
                size=size,
                limit=limits.queue_limit,
                retry_after_ms=FRESH_MS,
            )
        self._sizes[tenant_id] += 1
