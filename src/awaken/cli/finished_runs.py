"""Reports the runs that this process has executed, by watching the signals that it publishes."""

import asyncio
import logging
from collections.abc import Callable

from awaken.contracts.errors import StorageError
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.bus import Bus, BusWatcher, Signal, Unsubscribe
from awaken.contracts.storage.store import Store

logger = logging.getLogger(__name__)

_RESTS = (RunStatus.WAITING, RunStatus.DONE)
_CLOSE_S = 5
"""How long the last reports may take."""


class FinishedRuns:
    """Wraps a `Bus`; reports each run of this process that has ended or waits for a decision.

    A run that waits only for its own tasks resumes by itself and is not reported.
    """

    def __init__(self, bus: Bus, store: Store, report: Callable[[RunRecord], None]) -> None:
        self._bus = bus
        self._store = store
        self._report = report
        self._looking: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Open the bus."""
        await self._bus.open()

    async def close(self) -> None:
        """Report what is still to be reported, then close the bus."""
        if self._looking:
            await asyncio.wait(self._looking, timeout=_CLOSE_S)
        await self._bus.close()

    @property
    def watchers(self) -> list[BusWatcher]:
        """Who is told what becomes of signals."""
        return self._bus.watchers

    @property
    def is_up(self) -> bool:
        """Whether the bus has a connection."""
        return self._bus.is_up

    @property
    def dropped(self) -> int:
        """How many signals and packets could not be sent."""
        return self._bus.dropped

    def tell(self, signal: Signal, to: str | None = None) -> None:
        """Pass a signal on, then check the run that it is about."""
        self._bus.tell(signal, to)
        if signal.is_resting and signal.run_id is not None:
            looking = asyncio.create_task(self._look_at(signal.run_id))
            self._looking.add(looking)
            looking.add_done_callback(self._looking.discard)

    async def _look_at(self, run_id: str) -> None:
        try:
            run = await self._store.load_run(run_id)
        except StorageError as error:
            logger.info("Run '%s' could not be reported: %s", run_id, error)
            return
        if run is not None and run.status in _RESTS and not run.awaits_tasks:
            self._report(run)

    def subscribe(self, listener: Callable[[Signal], None]) -> Unsubscribe:
        """Call back with every signal."""
        return self._bus.subscribe(listener)

    def send(self, to: str, payload: bytes) -> bool:
        """Pass a packet on."""
        return self._bus.send(to, payload)

    def receive(self, node: str, take: Callable[[bytes], None]) -> Unsubscribe:
        """Call back with every packet to a node."""
        return self._bus.receive(node, take)

    def follow(self, thread_id: str | None) -> Unsubscribe:
        """Hear the changes of a thread, or of all."""
        return self._bus.follow(thread_id)
