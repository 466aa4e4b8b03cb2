"""Delivers push notifications: the log is the outbox, and every target has a durable cursor.

Updates are posted in order and at least once. One process at a time delivers to a target; when it
dies, another one continues at the cursor. A target that cannot be reached is retried with growing
pauses, and abandoned after some attempts.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from heapq import heappop, heappush
from typing import Any

import msgspec
from aiohttp import ClientSession

from awaken.contracts.errors import AwakenError, CursorExpired, UnknownRun
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.tenancy import namespace_in, tenant_in
from awaken.outbound.guard import Outbound, Undelivered
from awaken.services.tenant_ids import hide_namespace
from awaken.services.view import AppServices
from awaken.transport.asgi import encode_json

from .configs import (
    PENDING,
    PushPolicy,
    Target,
    find_config,
    forget_config,
    forget_pointers,
    scope,
)
from .projection import TaskProjection
from .states import Payload, task_of

logger = logging.getLogger(__name__)

CONCURRENT = 16
LIST_MS = 5_000
"""How often the store is polled for configs of other processes."""
REST_MS = 60_000
"""How often an idle task is polled, when no signal comes."""


@asynccontextmanager
async def run_deliverer(
    services: AppServices, outbound: Outbound, policy: PushPolicy
) -> AsyncIterator[None]:
    """Run a deliverer in the background while the server serves."""
    async with outbound.session(policy.timeout_ms / 1000) as session:
        task = asyncio.create_task(Deliverer(services, outbound, policy, session).run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


class _NotOurs(Exception):
    """The target was deleted, or another process delivers to it."""


class _Watch:
    """One target: when it is checked next, and the signals that make it due earlier."""

    __slots__ = ("cursor", "has_signal", "look_at", "pause_ms", "stop", "thread_id")

    def __init__(self, now: int) -> None:
        self.thread_id = ""
        """Unknown until the first check."""
        self.cursor = 0
        self.look_at = now
        self.pause_ms = 0
        self.has_signal = False
        """Whether a signal came since the latest check began."""
        self.stop: Callable[[], None] | None = None

    def close(self) -> None:
        if self.stop is not None:
            self.stop()


class Deliverer:
    """Delivers to several targets at once, each when its thread has new events.

    A target is checked when a signal of its thread comes, while a run of the thread executes, and
    otherwise less and less often, because signals may be lost. An idle target costs one small read
    per minute.
    """

    def __init__(
        self, services: AppServices, outbound: Outbound, policy: PushPolicy, session: ClientSession
    ) -> None:
        self._services = services
        self._outbound = outbound
        self._policy = policy
        self._session = session
        self._holder = services.ids.new_id()
        self._busy: set[str] = set()
        self._watches: dict[str, _Watch] = {}
        """Every target that may have something to deliver, by the key of its pointer."""
        self._due: list[tuple[int, str]] = []
        """When to check which target; an entry that differs from its watch is obsolete."""
        self._changed = asyncio.Event()
        self._list_at = 0

    async def run(self) -> None:
        """Deliver until it is cancelled."""
        stop = self._services.streams.watch(PENDING, self._list_soon)
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._changed.clear()
                    if self._list_at <= self._now():
                        await self._list()
                    for key in self._take_due():
                        self._busy.add(key)
                        group.create_task(self._look_in_turn(key))
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._rest_s()):
                            await self._changed.wait()
        finally:
            stop()
            for watch in self._watches.values():
                watch.close()

    def _now(self) -> int:
        return self._services.clock.monotonic_ms()

    def _rest_s(self) -> float:
        """How long there is nothing to do."""
        has_room = self._due and len(self._busy) < CONCURRENT
        at = min(self._list_at, self._due[0][0]) if has_room else self._list_at
        return max(0, at - self._now()) / 1000

    async def _list(self) -> None:
        """Read which targets there are, including those of other processes."""
        self._list_at = self._now() + LIST_MS
        try:
            entries = await self._services.profile.list_entries(PENDING)
        except AwakenError:
            logger.warning("Push notifications are delayed: the store failed.", exc_info=True)
            return
        found = {entry.key for entry in entries}
        for key in self._watches.keys() - found - self._busy:
            self._watches.pop(key).close()
        for key in found - self._watches.keys():
            self._watches[key] = _Watch(self._now())
            heappush(self._due, (self._watches[key].look_at, key))

    def _list_soon(self) -> None:
        """Read the list of targets again: one was created, here or in another process."""
        self._list_at = 0
        self._changed.set()

    def _take_due(self) -> list[str]:
        """Take due targets that are not being checked, up to the concurrency limit."""
        now, found = self._now(), list[str]()
        while self._due and self._due[0][0] <= now and len(found) + len(self._busy) < CONCURRENT:
            at, key = heappop(self._due)
            watch = self._watches.get(key)
            is_due = watch is not None and watch.look_at == at
            if is_due and key not in self._busy and key not in found:
                found.append(key)
        return found

    def _look_soon(self, key: str, pause_ms: int) -> None:
        watch = self._watches.get(key)
        if watch is not None:
            watch.look_at = self._now() + pause_ms
            heappush(self._due, (watch.look_at, key))
            self._changed.set()

    def _on_signal(self, key: str) -> None:
        """Check a target soon: its thread may have changed."""
        if (watch := self._watches.get(key)) is not None:
            watch.pause_ms, watch.has_signal = 0, True
            if key not in self._busy:
                self._look_soon(key, 0)

    async def _look_in_turn(self, key: str) -> None:
        watch = self._watches[key]
        watch.has_signal = False
        pause = round(self._services.streams.poll_s * 1000)
        try:
            pause = await self._look(key, watch)
        except _NotOurs:
            pass
        except Exception:
            logger.exception("Push notifications of '%s' are delayed.", key)
        finally:
            self._busy.discard(key)
            self._changed.set()
        # A signal during the check may be newer than what was read.
        self._look_soon(key, 0 if watch.has_signal else pause)

    async def _look(self, key: str, watch: _Watch) -> int:
        """Deliver what is new; returns after how long to check again."""
        poll_ms = round(self._services.streams.poll_s * 1000)
        # The pause grows while nothing happens.
        watch.pause_ms = min(max(poll_ms, watch.pause_ms * 2), REST_MS)
        task_id, _, config_id = key.rpartition("/")
        if watch.thread_id:
            thread = await self._services.store.load_thread(watch.thread_id)
            is_open = thread is not None and thread.open_run_id == task_id
            if thread is not None and is_open and thread.event_seq <= watch.cursor:
                return poll_ms if thread.active_run_id is not None else watch.pause_ms
        target = await self._deliver(task_id, config_id)
        if target is None:
            self._watches.pop(key).close()
            return poll_ms
        if watch.thread_id and watch.cursor < target.cursor:
            watch.pause_ms = poll_ms
        watch.cursor = target.cursor
        wait_ms = max(target.due_at, target.held_until) - self._services.clock.now_ms()
        return wait_ms if wait_ms > 0 else watch.pause_ms

    async def _deliver(self, task_id: str, config_id: str) -> Target | None:
        """Deliver what is new; returns the target, or None when nothing more will come."""
        target = await find_config(self._services.profile, task_id, config_id)
        if target is not None and not target.is_over:
            try:
                record = await self._services.control.record(task_id)
            except UnknownRun:
                await forget_config(self._services.profile, task_id, config_id)
                return None
            if await self._has_undelivered(target, record):
                target = await self._deliver_log(await self._change(target, self._claim), record)
            self._place(f"{task_id}/{config_id}", target.attempts, record)
        if target is not None and not target.is_over:
            return target
        await forget_pointers(self._services.profile, task_id, config_id)
        return None

    def _place(self, key: str, attempts: int, record: RunRecord) -> None:
        """Remember the target's thread, so that the next check is one small read."""
        watch = self._watches.get(key)
        if watch is None:
            return
        # A run that has not begun is not in the log, and a failed post must be retried.
        watch.thread_id = "" if record.started_at is None or attempts else record.thread_id
        if watch.stop is None:
            wake = partial(self._on_signal, key)
            watch.stop = self._services.streams.watch(record.thread_id, wake)

    async def _has_undelivered(self, target: Target, record: RunRecord) -> bool:
        if max(target.due_at, target.held_until) > self._services.clock.now_ms():
            return False
        if record.termination is not None or record.started_at is None:
            return record.termination is not None
        thread = await self._services.store.load_thread(record.thread_id)
        return thread is not None and thread.event_seq > target.cursor

    async def _deliver_log(self, target: Target, record: RunRecord) -> Target:
        """Deliver everything in the log, up to the first failure; returns the updated target."""
        try:
            cursor = await self._send_all(target, record)
        except (Undelivered, CursorExpired) as error:
            failed = await self._change(target, partial(self._fail, problem=str(error)))
            if failed.is_over:
                logger.warning("Push notifications of '%s' are abandoned: %s", record.run_id, error)
            return failed
        except asyncio.CancelledError:
            await self._change(target, _release)
            raise
        if record.termination is not None:
            return await self._change(target, Target.mark_over)
        return await self._change(target, partial(_release, cursor=cursor))

    async def _send_all(self, target: Target, record: RunRecord) -> int:
        """Deliver what the log has, in order, and store the cursor after each event."""
        seen = hide_namespace(namespace_in(record.thread_id), record)
        if record.started_at is None:
            # It was cancelled before it began: the log has no event of it.
            view = self._services.view(tenant_in(record.thread_id))
            await self._post(target, {"task": await task_of(view, seen, length=0)})
        outputs = self._services.view(None).outputs
        await outputs.recall(record.active_agent_id or record.agent_id)
        projection = TaskProjection(seen.run_id, seen.thread_id, outputs.decode)
        place = record.log_start
        while page := await self._services.store.list_events(record.thread_id, after=place):
            place = page[-1].seq
            for item in (it for it in page if it.run_id == record.run_id):
                payloads = projection.project(item.event)
                if payloads and item.seq > target.cursor:
                    for payload in payloads:
                        await self._post(target, payload)
                    await self._change(target, partial(self._claim, cursor=item.seq, attempts=0))
        return max(place, target.cursor)

    async def _post(self, target: Target, payload: Payload) -> None:
        headers = {"content-type": "application/a2a+json"}
        if target.token:
            headers["X-A2A-Notification-Token"] = target.token
        if target.scheme and target.credentials:
            headers["Authorization"] = f"{target.scheme} {target.credentials}"
        await self._outbound.post(self._session, target.url, encode_json(payload), headers)

    async def _change(self, target: Target, change: Callable[[Target], Target]) -> Target:
        """Change a target that this process holds, or that no process holds.

        Raises:
            _NotOurs: It was deleted or replaced, or another process delivers to it.
        """
        now = self._services.clock.now_ms()

        def apply_change(stored: object) -> object:
            known = None if stored is None else msgspec.convert(stored, Target)
            if known is None or known.is_over or known.url != target.url:
                raise _NotOurs
            if known.holder not in ("", self._holder) and known.held_until > now:
                raise _NotOurs
            return msgspec.to_builtins(change(known))

        place = scope(target.task_id), target.config_id
        value = await self._services.profile.change_entry(*place, apply_change, now=now)
        return msgspec.convert(value, Target)

    def _claim(self, target: Target, **changes: Any) -> Target:
        until = self._services.clock.now_ms() + self._policy.lease_ms
        return msgspec.structs.replace(target, holder=self._holder, held_until=until, **changes)

    def _fail(self, target: Target, problem: str) -> Target:
        """Schedule a retry of the target, or abandon it."""
        attempts = target.attempts + 1
        if attempts >= self._policy.attempts:
            return target.mark_over(problem)
        pause = min(self._policy.retry_cap_ms, self._policy.retry_base_ms << min(attempts - 1, 30))
        return _release(target, attempts=attempts, due_at=self._services.clock.now_ms() + pause)


def _release(target: Target, **changes: Any) -> Target:
    return msgspec.structs.replace(target, holder="", held_until=0, **changes)
