"""Hints about what changes, for lists that are on a screen: they say where to look again.

Hints come from the commits of this process and from the bus. They may be lost, and nothing is sent
twice. Without a reader nothing is watched, so that commits pay nothing.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from enum import StrEnum

from awaken.contracts.clock import Clock
from awaken.contracts.record import Record
from awaken.contracts.storage.bus import Bus, Signal, SignalKind, Unsubscribe
from awaken.contracts.storage.store import Commit
from awaken.contracts.tenancy import namespace_of, remove_namespace
from awaken.runtime.engine import RunEngine

PAUSE_S = 0.25
"""A reader gets at most one hint per object in this time."""
SILENCE_S = 15.0
"""After this long without a hint a reader gets an empty batch."""
PENDING_MAX = 1_000
"""How many objects wait for a reader; with more it gets `lagged` instead."""


class ActivityKind(StrEnum):
    """What changed."""

    RUN = "run"
    TICKET = "ticket"
    DISPATCH = "dispatch"
    CONFIG = "config"
    WORKER = "worker"
    EVAL = "eval"
    SWITCH = "switch"


class ActivityHint(Record, frozen=True, kw_only=True):
    """Something changed; `ids` name it, `status` is its new status if that is known."""

    kind: ActivityKind
    ids: Mapping[str, str]
    status: str | None = None
    at: int


class ActivityReader:
    """The hints of one reader; for a tenant only those about its own threads."""

    def __init__(self, tenant_id: str | None) -> None:
        self._tenant_id = tenant_id
        self._namespace = namespace_of(tenant_id)
        self._pending: dict[tuple[str, ...], ActivityHint] = {}
        self._is_lagged = False
        self._is_closed = False
        self._changed = asyncio.Event()

    def add(self, hint: ActivityHint) -> None:
        """Take a hint; a later one about the same object replaces it."""
        ids = hint.ids
        if self._tenant_id is not None:
            if not ids.get("thread_id", "").startswith(self._namespace):
                return
            ids = {name: remove_namespace(self._namespace, id_) for name, id_ in ids.items()}
        key = (hint.kind, *ids.values())
        before = self._pending.get(key)
        if before is None and len(self._pending) >= PENDING_MAX:
            self._pending.clear()
            self._is_lagged = True
        # A signal knows no status: the one that a commit has told meanwhile stays.
        status = hint.status or (None if before is None else before.status)
        self._pending[key] = ActivityHint(kind=hint.kind, ids=ids, status=status, at=hint.at)
        self._changed.set()

    def close(self) -> None:
        """End the batches."""
        self._is_closed = True
        self._changed.set()

    async def batches(self) -> AsyncGenerator[tuple[bool, tuple[ActivityHint, ...]], None]:
        """Yield whether hints were dropped, and the hints; both empty after a long silence."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(SILENCE_S):
                    await self._changed.wait()
            if self._is_closed:
                return
            self._changed.clear()
            hints, self._pending = tuple(self._pending.values()), {}
            is_lagged, self._is_lagged = self._is_lagged, False
            yield is_lagged, hints
            await asyncio.sleep(PAUSE_S)


class ActivityFeed:
    """Passes hints to readers."""

    def __init__(self, engine: RunEngine, bus: Bus, clock: Clock) -> None:
        self._watchers = engine.services.watchers.commits
        self._bus = bus
        self._clock = clock
        self._readers: set[ActivityReader] = set()
        self._unsubscribe: Unsubscribe | None = None

    def open_reader(self, tenant_id: str | None) -> ActivityReader:
        """Add a reader until it is discarded; the first one starts the watching."""
        reader = ActivityReader(tenant_id)
        self._readers.add(reader)
        if self._unsubscribe is None:
            self._watchers.append(self._on_commit)
            unsubscribe, unfollow = self._bus.subscribe(self._on_signal), self._bus.follow(None)

            def stop() -> None:
                unsubscribe()
                unfollow()

            self._unsubscribe = stop
        return reader

    def discard_reader(self, reader: ActivityReader) -> None:
        """Forget a reader; the last one ends the watching."""
        self._readers.discard(reader)
        if not self._readers and self._unsubscribe is not None:
            self._watchers.remove(self._on_commit)
            self._unsubscribe()
            self._unsubscribe = None

    def publish(
        self, kind: ActivityKind, ids: Mapping[str, str], status: str | None = None
    ) -> None:
        """Pass a hint to all readers of this process; it never waits."""
        if self._readers:
            hint = ActivityHint(kind=kind, ids=ids, status=status, at=self._clock.now_ms())
            for reader in self._readers:
                reader.add(hint)

    def close(self) -> None:
        """End the batches of all readers."""
        for reader in tuple(self._readers):
            reader.close()

    def _on_commit(self, commit: Commit) -> None:
        thread_id = commit.thread_id
        if (run := commit.run) is not None:
            ids = {"run_id": run.run_id, "thread_id": thread_id}
            self.publish(ActivityKind.RUN, ids, run.status.value)
        for ticket in commit.tickets:
            ids = {"ticket_id": ticket.ticket_id, "run_id": ticket.run_id, "thread_id": thread_id}
            self.publish(ActivityKind.TICKET, ids, ticket.status.value)
        for dispatch in commit.enqueued:
            ids = {"run_id": dispatch.run_id, "thread_id": dispatch.thread_id}
            self.publish(ActivityKind.DISPATCH, ids, dispatch.status.value)

    def _on_signal(self, signal: Signal) -> None:
        ids = {"run_id": signal.run_id or "", "thread_id": signal.thread_id}
        ids = {name: id_ for name, id_ in ids.items() if id_}
        match signal.kind:
            case SignalKind.DISPATCH_QUEUED:
                self.publish(ActivityKind.DISPATCH, ids)
            case SignalKind.RUN_CHANGED:
                self.publish(ActivityKind.RUN, ids)
            case SignalKind.CONFIG_CHANGED:
                self.publish(ActivityKind.CONFIG, {})
            case SignalKind.CONTROL | SignalKind.SCHEDULES_CHANGED | SignalKind.DEADLINE_SET:
                pass
