"""Delivers push notifications: the log is the outbox, and every target a durable cursor over it.

What happens is posted in order and at least once. One process at a time delivers to a target;
when it dies, another one goes on where the cursor is. A target that cannot be reached is tried
again with growing pauses, and given up after some attempts.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import msgspec
from aiohttp import ClientSession

from awaken.contracts.errors import AwakenError, CursorExpired, UnknownRun
from awaken.contracts.runs import RunRecord
from awaken.outbound.guard import Outbound, Undelivered
from awaken.services.view import Desk
from awaken.transport.asgi import encode_json

from .configs import PENDING, PushPolicy, Target, find_config, forget_config, scope
from .projection import TaskProjection
from .states import Payload, task_of

logger = logging.getLogger(__name__)

CONCURRENT = 16


@asynccontextmanager
async def delivering(desk: Desk, outbound: Outbound, policy: PushPolicy) -> AsyncIterator[None]:
    """What runs beside the routes: a deliverer for as long as the server serves."""
    async with outbound.session(policy.timeout_ms / 1000) as session:
        task = asyncio.create_task(Deliverer(desk, outbound, policy, session).run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


class _NotOurs(Exception):
    """The target was deleted, or somebody else delivers to it."""


class Deliverer:
    """Looks for targets with something to deliver, and delivers to several at once."""

    def __init__(
        self, desk: Desk, outbound: Outbound, policy: PushPolicy, session: ClientSession
    ) -> None:
        self._desk = desk
        self._outbound = outbound
        self._policy = policy
        self._session = session
        self._holder = desk.ids.new_id()
        self._slots = asyncio.Semaphore(CONCURRENT)
        self._busy: set[str] = set()

    async def run(self) -> None:
        """Deliver until it is cancelled."""
        changed = asyncio.Event()
        unsubscribe = self._desk.following.listen(changed.set)
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    changed.clear()
                    for key in await self._pending():
                        self._busy.add(key)
                        group.create_task(self._deliver_in_turn(key))
                    # Not everything is signalled: the store is asked from time to time.
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._desk.following.poll_s):
                            await changed.wait()
        finally:
            unsubscribe()

    async def _pending(self) -> list[str]:
        try:
            entries = await self._desk.profile.list_entries(PENDING)
        except AwakenError:
            logger.warning("Push notifications wait for the store.", exc_info=True)
            return []
        return [entry.key for entry in entries if entry.key not in self._busy]

    async def _deliver_in_turn(self, key: str) -> None:
        task_id, _, config_id = key.rpartition("/")
        try:
            async with self._slots:
                with suppress(_NotOurs):
                    await self._deliver(task_id, config_id)
        except Exception:
            logger.exception("Push notifications of '%s' wait.", key)
        finally:
            self._busy.discard(key)

    async def _deliver(self, task_id: str, config_id: str) -> None:
        target = await find_config(self._desk.profile, task_id, config_id)
        if target is not None and not target.is_over:
            try:
                record = await self._desk.control.record(task_id)
            except UnknownRun:
                await forget_config(self._desk.profile, task_id, config_id)
                return
            if await self._has_news(target, record):
                target = await self._delivered(await self._change(target, self._claimed), record)
        if target is None or target.is_over:
            await self._desk.profile.delete_entry(PENDING, f"{task_id}/{config_id}")

    async def _has_news(self, target: Target, record: RunRecord) -> bool:
        if max(target.due_at, target.held_until) > self._desk.clock.now_ms():
            return False
        if record.termination is not None or record.started_at is None:
            return record.termination is not None
        thread = await self._desk.store.load_thread(record.thread_id)
        return thread is not None and thread.event_seq > target.cursor

    async def _delivered(self, target: Target, record: RunRecord) -> Target:
        """The target after everything that the log has, or after the first failure."""
        try:
            cursor = await self._send_all(target, record)
        except (Undelivered, CursorExpired) as error:
            failed = await self._change(target, partial(self._failed, problem=str(error)))
            if failed.is_over:
                logger.warning("Push notifications of '%s' are given up: %s", record.run_id, error)
            return failed
        except asyncio.CancelledError:
            await self._change(target, _released)
            raise
        if record.termination is not None:
            return await self._change(target, Target.ended)
        return await self._change(target, partial(_released, cursor=cursor))

    async def _send_all(self, target: Target, record: RunRecord) -> int:
        """Deliver what the log has, in order, and keep the place after each event."""
        if record.started_at is None:
            # It was cancelled before it began: the log knows nothing of it.
            task = await task_of(self._desk.view(None), record, length=0)
            await self._post(target, {"task": task})
        decode = self._desk.view(None).outputs.decode
        projection = TaskProjection(record.run_id, record.thread_id, decode)
        place = record.log_start
        while page := await self._desk.store.list_events(record.thread_id, after=place):
            place = page[-1].seq
            for item in (it for it in page if it.run_id == record.run_id):
                payloads = projection.project(item.event)
                if payloads and item.seq > target.cursor:
                    for payload in payloads:
                        await self._post(target, payload)
                    await self._change(target, partial(self._claimed, cursor=item.seq, attempts=0))
        return max(place, target.cursor)

    async def _post(self, target: Target, payload: Payload) -> None:
        headers = {"content-type": "application/a2a+json"}
        if target.token:
            headers["X-A2A-Notification-Token"] = target.token
        if target.scheme and target.credentials:
            headers["Authorization"] = f"{target.scheme} {target.credentials}"
        await self._outbound.post(self._session, target.url, encode_json(payload), headers)

    async def _change(self, target: Target, change: Callable[[Target], Target]) -> Target:
        """Change a target that is ours, or that nobody holds.

        Raises:
            _NotOurs: It was deleted or replaced, or somebody else delivers to it.
        """
        now = self._desk.clock.now_ms()

        def changed(stored: object) -> object:
            known = None if stored is None else msgspec.convert(stored, Target)
            if known is None or known.is_over or known.url != target.url:
                raise _NotOurs
            if known.holder not in ("", self._holder) and known.held_until > now:
                raise _NotOurs
            return msgspec.to_builtins(change(known))

        place = scope(target.task_id), target.config_id
        value = await self._desk.profile.change_entry(*place, changed, now=now)
        return msgspec.convert(value, Target)

    def _claimed(self, target: Target, **changes: Any) -> Target:
        until = self._desk.clock.now_ms() + self._policy.lease_ms
        return msgspec.structs.replace(target, holder=self._holder, held_until=until, **changes)

    def _failed(self, target: Target, problem: str) -> Target:
        """The target to be tried again later, or given up."""
        attempts = target.attempts + 1
        if attempts >= self._policy.attempts:
            return target.ended(problem)
        pause = min(self._policy.retry_cap_ms, self._policy.retry_base_ms << min(attempts - 1, 30))
        return _released(target, attempts=attempts, due_at=self._desk.clock.now_ms() + pause)


def _released(target: Target, **changes: Any) -> Target:
    return msgspec.structs.replace(target, holder="", held_until=0, **changes)
