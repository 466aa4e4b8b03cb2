"""Which runs this process has executed, overheard where it tells the others."""

from collections.abc import Callable

from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.bus import Bus, Signal, SignalKind, Unsubscribe
from awaken.contracts.storage.store import Store

_RESTS = (RunStatus.WAITING, RunStatus.DONE)


class FinishedRuns:
    """A `Bus` around another one; reports each run of this process that rests.

    It has ended or waits for somebody; one that waits for its own tasks goes on by itself.
    """

    def __init__(self, bus: Bus, store: Store, report: Callable[[RunRecord], None]) -> None:
        self._bus = bus
        self._store = store
        self._report = report

    async def open(self) -> None:
        """Begin to carry signals."""
        await self._bus.open()

    async def close(self) -> None:
        """Stop."""
        await self._bus.close()

    async def publish(self, signal: Signal) -> None:
        """Send a signal, then look at the run that it is about."""
        await self._bus.publish(signal)
        if signal.kind is not SignalKind.RUN_CHANGED or signal.run_id is None:
            return
        run = await self._store.load_run(signal.run_id)
        if run is not None and run.status in _RESTS and not run.awaits_tasks:
            self._report(run)

    def subscribe(self, listener: Callable[[Signal], None]) -> Unsubscribe:
        """Call back with every signal."""
        return self._bus.subscribe(listener)
