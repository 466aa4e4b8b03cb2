"""The relay: carries out the orders in the outbox of commits, at least once.

Several nodes may relay the same order at the same time: orders are idempotent. An order that fails
is tried again with growing pauses, and finally given up. It does not delay other orders.
"""

import asyncio
import contextlib
import logging
import math
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from awaken.contracts.errors import (
    AlreadyExists,
    AwakenError,
    CorruptRecord,
    DedupeConflict,
    LimitExceeded,
    NotServedHere,
    RecordNotFound,
    StoreUnavailable,
)
from awaken.contracts.storage.mailbox import RELAY_TURN
from awaken.contracts.storage.outbox import (
    COMMAND_KINDS,
    AbortRemote,
    QueueRun,
    ThreadMessage,
    decode_command,
)
from awaken.contracts.storage.store import OutboxEntry

from .config import limit_outage_pause
from .failures import is_permanent
from .mailbox import Mailbox
from .outages import Outage
from .outbox_handlers import OutboxHandlers

if TYPE_CHECKING:
    # A process that shares no store needs nothing of it.
    from awaken.contracts.storage.nodes import Survey

    from .nodes import NodeDirectory

logger = logging.getLogger(__name__)

PAGE = 100
IN_FLIGHT_MAX = 1000
"""How many orders one process handles at most; the others wait in the store."""
AT_ONCE = 16
"""How many orders are carried out at once; as many again may call remote systems."""
LEFT_TO_OTHERS_MAX = 10
"""How often an order is left to processes that serve its agent before each look is an attempt."""
ERROR_LENGTH_MAX = 1000
_GROWTH = 5
_GROWTHS_MAX = 20
"""After this many every cap is reached; more would only make the number longer."""
_SETTLE_S = 5

_HOPELESS = (AlreadyExists, DedupeConflict, LimitExceeded, RecordNotFound)
"""Errors that occur again however often an order is tried, besides `PERMANENT`."""

Lane = tuple[str, str]


TURNS_APART = 3
"""How many pauses lie between two looks of nodes that share a store."""


class Relay:
    """Takes orders from the outbox and carries them out.

    Messages to one thread are delivered one after the other, in the order of their commits as
    long as none fails. All other orders are carried out concurrently.
    """

    def __init__(self, mailbox: Mailbox, handlers: OutboxHandlers) -> None:
        config = mailbox.services.config
        self._store = mailbox.services.store
        self._nodes = mailbox.services.nodes
        self._config = config
        self._handlers = handlers
        cap_ms = limit_outage_pause(config, has_nodes=self._nodes is not None)
        cap_ms = max(config.relay_ms, cap_ms)
        self._outage = Outage("Relaying orders", config.relay_ms, cap_ms, logger)
        self._surveyed_at = -math.inf
        """When a survey of this process last asked for orders, by the clock of the event loop."""
        self._trouble: Exception | None = None
        """The error that kept an order from being settled since the latest pass."""
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._lanes: dict[Lane, tuple[deque[OutboxEntry], asyncio.Task[None]]] = {}
        self._in_flight: set[str] = set()
        self._listing = asyncio.Lock()
        self._settled: set[str] = set()
        """Orders settled since the latest listing began, which may still include them."""
        self._is_page_full = False
        self._slots = asyncio.Semaphore(AT_ONCE)
        # Remote systems may be slow: local orders must not wait for them.
        self._remote_slots = asyncio.Semaphore(AT_ONCE)

    def wake(self) -> None:
        """Look for orders soon, because a commit has some. Calling it often costs nothing."""
        self._woken.set()

    def start(self) -> None:
        """Relay now, when woken, and every `relay_ms`; calling it twice is harmless."""
        if self._task is None:
            self._task = asyncio.create_task(self._relay_until_stopped(), name="relay")
            if self._nodes is not None:
                self._nodes.watchers.append(self._take_survey)

    async def stop(self) -> None:
        """Stop relaying; the next relay finds again what was not finished."""
        tasks = {task for _, task in self._lanes.values()}
        if self._task is not None:
            tasks.add(self._task)
            self._task = None
            if self._nodes is not None:
                self._nodes.watchers.remove(self._take_survey)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_SETTLE_S)
        # A task that was cancelled before it began did not clean these up.
        self._lanes.clear()
        self._in_flight.clear()

    async def relay_once(self) -> None:
        """Try the orders that are due, at most one page, and wait until all were tried.

        Raises:
            StorageError: The store could not list the orders.
        """
        begun = await self._begin()
        if begun:
            await asyncio.wait(begun)

    async def _relay_until_stopped(self) -> None:
        is_woken = True
        while True:
            # Cleared before the store is asked: a wake-up meanwhile must not be lost.
            self._woken.clear()
            pause_ms = await self._relay_due(is_woken=is_woken)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_ms / 1000):
                    await self._woken.wait()
            is_woken = self._woken.is_set()

    async def _relay_due(self, *, is_woken: bool = True) -> int:
        """Begin the orders that are due; returns the pause before the next pass in ms.

        Where nodes share a store, one that was not woken relays only if it is its turn.
        """
        pause_ms = self._config.relay_ms
        if self._nodes is not None:
            # Only for orders whose process is gone, which its lease outlives anyway.
            pause_ms *= TURNS_APART
        trouble, self._trouble = self._trouble, None
        try:
            if is_woken or self._nodes is None or await self._is_turn(self._nodes, pause_ms):
                await self._begin()
        except Exception as error:  # noqa: BLE001 - logged there, and tried again
            trouble = error
        if trouble is not None:
            return self._outage.record_failure(trouble)
        self._outage.record_success()
        return pause_ms

    async def _is_turn(self, nodes: "NodeDirectory", pause_ms: int) -> bool:
        """Whether orders are due that this node has to relay; a survey has asked already."""
        since_ms = (asyncio.get_running_loop().time() - self._surveyed_at) * 1000
        if since_ms < 2 * pause_ms:
            return False
        # The turn is asked for when there is something to do: it is a write.
        longest = self._config.relay_cap_ms
        if not await self._store.list_outbox(limit=1, pause_max_ms=longest):
            return False
        return await nodes.take_turn(RELAY_TURN, pause_ms)

    def _take_survey(self, survey: "Survey") -> None:
        self._surveyed_at = asyncio.get_running_loop().time()
        if survey.is_turn and survey.has_orders:
            self.wake()

    async def _begin(self) -> set[asyncio.Task[None]]:
        async with self._listing:
            self._settled.clear()
            limit = min(PAGE + len(self._in_flight), IN_FLIGHT_MAX)
            longest = self._config.relay_cap_ms
            due = await self._store.list_outbox(limit=limit, pause_max_ms=longest)
            self._is_page_full = len(due) == limit
            known = self._in_flight | self._settled
            return {self._add_to_lane(entry) for entry in due if entry.entry_id not in known}

    def _add_to_lane(self, entry: OutboxEntry) -> asyncio.Task[None]:
        self._in_flight.add(entry.entry_id)
        key = _lane_of(entry)
        if key not in self._lanes:
            lane: deque[OutboxEntry] = deque()
            task = asyncio.create_task(self._clear_lane(key, lane), name=f"relay {key}")
            self._lanes[key] = lane, task
        lane, task = self._lanes[key]
        lane.append(entry)
        return task

    async def _clear_lane(self, key: Lane, lane: deque[OutboxEntry]) -> None:
        """Settle the orders of a lane until it is empty or the store is unavailable."""
        try:
            while lane and await self._is_settled(lane[0]):
                settled = lane.popleft().entry_id
                self._in_flight.discard(settled)
                self._settled.add(settled)
        finally:
            self._in_flight.difference_update(entry.entry_id for entry in lane)
            self._lanes.pop(key, None)
        if self._is_page_full and self._trouble is None:
            self.wake()

    async def _is_settled(self, entry: OutboxEntry) -> bool:
        """Try an order and store the result; returns False if the store is unavailable."""
        try:
            await self._settle(entry)
        except StoreUnavailable as error:
            self._trouble = error
            return False
        except Exception as error:
            logger.exception("The result of order '%s' could not be stored.", entry.entry_id)
            self._trouble = error
        return True

    async def _settle(self, entry: OutboxEntry) -> None:
        """Try an order; delete it if it was carried out.

        Raises:
            StoreUnavailable: The store is unavailable; this does not count as an attempt.
        """
        if entry.kind not in COMMAND_KINDS:
            # Of a newer version, which shares the store: one of its processes carries it out.
            await self._put_off(entry)
            return
        try:
            is_done = await self._carry_out(entry)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - logged there, kept, and tried again
            if isinstance(error, NotServedHere) and entry.delays < LEFT_TO_OTHERS_MAX:
                # What this process lacks must not use up the attempts of one that has it.
                await self._put_off(entry)
            else:
                await self._note_failure(entry, error)
        else:
            if is_done:
                await self._store.delete_outbox([entry.entry_id])
            else:
                await self._put_off(entry)

    async def _carry_out(self, entry: OutboxEntry) -> bool:
        order = decode_command(entry.payload)
        slots = self._remote_slots if isinstance(order, AbortRemote) else self._slots
        async with slots, asyncio.timeout(self._config.relay_timeout_ms / 1000):
            return await self._handlers.carry_out(entry.entry_id, order)

    async def _put_off(self, entry: OutboxEntry) -> None:
        """Look at an order again later, because it has to stay; it is never given up for that."""
        growth = 2 ** min(entry.delays, _GROWTHS_MAX)
        pause_ms = min(self._config.relay_cap_ms, self._config.relay_base_ms * growth)
        due_at = await self._store.now_ms() + pause_ms
        kept = msgspec.structs.replace(entry, delays=entry.delays + 1, due_at=due_at)
        await self._store.save_outbox(kept)

    async def _note_failure(self, entry: OutboxEntry, error: Exception) -> None:
        config = self._config
        attempts = entry.attempts + 1
        is_dead = _is_hopeless(error) or attempts >= config.relay_attempts
        growth = _GROWTH ** min(attempts - 1, _GROWTHS_MAX)
        pause_ms = 0 if is_dead else min(config.relay_cap_ms, config.relay_base_ms * growth)
        failed = msgspec.structs.replace(
            entry,
            attempts=attempts,
            due_at=await self._store.now_ms() + pause_ms,
            error=f"{type(error).__name__}: {error}"[:ERROR_LENGTH_MAX],
            is_dead=is_dead,
        )
        if await self._store.save_outbox(failed):
            _log(failed, error)


def _lane_of(entry: OutboxEntry) -> Lane:
    try:
        order = decode_command(entry.payload)
    except CorruptRecord:
        # The error is recorded when the order is tried.
        return "order", entry.entry_id
    match order:
        case ThreadMessage(thread_id=thread_id):
            return "thread", thread_id
        case QueueRun(dispatch=dispatch):
            return "thread", dispatch.thread_id
        case _:
            return "order", entry.entry_id


def _is_hopeless(error: Exception) -> bool:
    """Whether an order would fail again in every process, however often it is tried."""
    if isinstance(error, NotServedHere):
        # Another process may serve the agent, or have its publication.
        return False
    return is_permanent(error) or isinstance(error, _HOPELESS)


def _log(failed: OutboxEntry, error: Exception) -> None:
    logger.warning(
        "Order '%s' (%s) failed at attempt %d and is %s: %s",
        failed.entry_id,
        failed.kind,
        failed.attempts,
        "given up" if failed.is_dead else "tried again",
        failed.error,
        exc_info=None if isinstance(error, AwakenError) else error,
    )
