"""Reports the runs that this process has executed, by watching the signals that it publishes."""

from collections.abc import Callable

from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.bus import Bus, Signal, SignalKind, Unsubscribe
from awaken.contracts.storage.store import Store

_RESTS = (RunStatus.WAITING, RunStatus.DONE)


class FinishedRuns:
    """Wraps a `Bus`; reports each run of this process that has ended or waits for a decision.

    A run that waits only for its own tasks resumes by itself and is not reported.
    """

    def __init__(self, bus: Bus, store: Store, report: Callable[[RunRecord], None]) -> None:
        self._bus = bus
        self._store = store
        self._report = report

    async def open(self) -> None:
        """Open the bus."""
        await self._bus.open()

    async def close(self) -> None:
        """Close the bus."""
        await self._bus.close()

    async def publish(self, signal: Signal) -> None:
        """Publish a signal, then check the run that it is about."""
        await self._bus.publish(signal)
        if signal.kind is not SignalKind.RUN_CHANGED or signal.run_id is None:
            return
        run = await self._store.load_run(signal.run_id)
        if run is not None and run.status in _RESTS and not run.awaits_tasks:
            self._report(run)

    def subscribe(self, listener: Callable[[Signal], None]) -> Unsubscribe:
        """Call back with every signal."""
        return self._bus.subscribe(listener)
