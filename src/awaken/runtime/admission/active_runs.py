"""The runs that execute in this process: at most one per thread."""

import asyncio
from collections.abc import Callable, Iterator

import msgspec

from awaken.contracts.errors import AmbiguousId, ThreadBusy
from awaken.contracts.events import AgentEvent
from awaken.contracts.identity import RunIdentity
from awaken.contracts.runs.records import RunResult
from awaken.contracts.tracing import CURRENT_RUN
from awaken.runtime.journal.leases import Lease
from awaken.runtime.journal.streams import EventFeed
from awaken.runtime.primitives.signals import Latch, LoopTurns
from awaken.runtime.run import Run


class ActiveRun(msgspec.Struct, kw_only=True, eq=False):
    """A thread's slot, and the run in it once it is admitted."""

    thread_id: str
    is_brief: bool = False
    """Whether the run only writes input that needs no model call, and ends at once."""
    run: Run | None = None
    started_by: RunIdentity | None = None
    """The run whose code asked for this one."""
    task: asyncio.Task[RunResult] | None = None
    """The run's own task; absent when the run executes in its caller's task."""
    released: Latch = msgspec.field(default_factory=Latch)
    admission: Latch | None = None
    """Set when a run is admitted or refused; absent while no task waits for that."""
    lease: Lease | None = None
    """The run's lease on its thread; None when no other process shares the store."""
    _outcome: asyncio.Future[RunResult] | None = None
    _early_cause: str | None = None
    _has_early_input: bool = False
    _is_stopping: bool = False

    @property
    def run_id(self) -> str:
        """The run's id, or an empty string while the run is being admitted."""
        return self.run.identity.run_id if self.run is not None else ""

    @property
    def feed(self) -> EventFeed:
        """The events of the admitted run from now on."""
        assert self.run is not None
        return self.run.feed

    @property
    def event_seq(self) -> int:
        """The place in the log up to which the events of the admitted run are durable."""
        assert self.run is not None
        return self.run.journal.event_seq

    def list_unfinished_events(self) -> list[AgentEvent]:
        """Return what readers have seen since the last commit of the admitted run."""
        assert self.run is not None
        return self.run.list_unfinished_events()

    @property
    def is_left(self) -> bool:
        """Whether the run stops here without an outcome, because another process continues it."""
        is_stopped = self.run is not None and self.run.journal.closed_by is not None
        return is_stopped and self.lease is not None and self.lease.claim is None

    def admit(self, run: Run, lease: Lease | None) -> None:
        """Put a run into the slot; stop it at once if a stop was requested before."""
        self.run = run
        self.lease = run.journal.lease = lease
        run.has_input = run.has_input or self._has_early_input
        if self._early_cause is not None:
            run.token.cancel(self._early_cause)
        elif self._is_stopping:
            self.stop()
        if self.admission is not None:
            self.admission.set()

    async def know_run(self) -> str:
        """Wait until a run is admitted or refused, and return the id of the one in the slot."""
        if self.run is None and not self.released.is_set():
            self.admission = self.admission or Latch()
            await self.admission.wait()
        return self.run_id

    def outcome(self) -> "asyncio.Future[RunResult]":
        """Return the future result of the run, for other tasks to wait for."""
        if self.task is not None:
            return self.task
        if self._outcome is None:
            self._outcome = asyncio.get_running_loop().create_future()
        return self._outcome

    async def result(self) -> RunResult:
        """Wait for the result of the run; its thread is free when this returns or raises."""
        outcome = self.outcome()
        try:
            return await asyncio.shield(outcome)
        finally:
            # A run that has ended leaves its slot in the next turn of the event loop.
            if outcome.done():
                await self.released.wait()

    def end(self, outcome: RunResult | BaseException) -> None:
        """Give the outcome of the run to the tasks that wait for it."""
        if self._outcome is None or self._outcome.done():
            return
        if isinstance(outcome, RunResult):
            self._outcome.set_result(outcome)
        elif isinstance(outcome, Exception):
            self._outcome.set_exception(outcome)
        else:
            self._outcome.cancel()

    def cancel(self, cause: str) -> bool:
        """Cancel the run in the slot; False when its end is decided otherwise."""
        if self.run is None:
            self._early_cause = self._early_cause or cause
            return True
        token = self.run.token
        return token.cancel(cause) or token.is_cancelled

    def stop(self) -> None:
        """Stop for shutdown: with a lease the run is handed over, without one it is cancelled.

        A run whose end is already decided still writes it.
        """
        self._is_stopping = True
        if self.run is None or self.run.token.is_sealed:
            return
        if self.lease is not None:
            self.run.hand_over()
        else:
            self.run.token.cancel("shutdown")

    def lease_lost(self) -> None:
        """Stop the run at once and write nothing more: another process has its thread."""
        if self.run is not None:
            self.run.lose_lease()

    def notify_input(self) -> None:
        """Tell the run to take in queued input at its next step boundary."""
        if self.run is None:
            self._has_early_input = True
            return
        self.run.has_input = True
        self.run.inbox.signal.ring()


class ActiveRuns:
    """Slots by thread and by run. A slot is taken before anything is loaded."""

    __slots__ = ("_by_run", "_by_thread", "_turns", "watchers")

    def __init__(self, turns: LoopTurns) -> None:
        self._turns = turns
        self._by_thread: dict[str, ActiveRun] = {}
        self._by_run: dict[str, ActiveRun] = {}
        self.watchers: dict[str, set[Callable[[], None]]] = {}
        """Callbacks for the admission of a run, by thread."""

    async def reserve(self, thread_id: str, *, is_brief: bool = False) -> ActiveRun:
        """Take the thread's slot, after waiting for a brief run that holds it.

        Raises:
            ThreadBusy: Another run has it.
        """
        while thread_id in self._by_thread:
            holder = self._by_thread[thread_id]
            if not holder.is_brief:
                raise ThreadBusy(thread_id=thread_id, run_id=holder.run_id)
            await holder.released.wait()
        active = self._by_thread[thread_id] = ActiveRun(
            thread_id=thread_id, is_brief=is_brief, started_by=CURRENT_RUN.get()
        )
        self._turns.runs += 1
        return active

    def admit(self, active: ActiveRun, run: Run, lease: Lease | None = None) -> None:
        """Put a run into its slot.

        Raises:
            ThreadBusy: The run id is active on another thread.
        """
        run_id = run.identity.run_id
        if run_id in self._by_run:
            raise ThreadBusy(thread_id=self._by_run[run_id].thread_id, run_id=run_id)
        active.admit(run, lease)
        self._by_run[run_id] = active
        if active.thread_id in self.watchers:
            for watcher in tuple(self.watchers[active.thread_id]):
                watcher()

    def watch(self, thread_id: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Call back when a run of a thread is admitted, until the returned function is called."""
        self.watchers.setdefault(thread_id, set()).add(wake)

        def stop() -> None:
            known = self.watchers.get(thread_id, set())
            known.discard(wake)
            if not known:
                self.watchers.pop(thread_id, None)

        return stop

    def release(self, active: ActiveRun) -> None:
        """Free the slot and wake the tasks that wait for it."""
        thread_id, run = active.thread_id, active.run
        run_id = "" if run is None else run.identity.run_id
        if thread_id in self._by_thread and self._by_thread[thread_id] is active:
            del self._by_thread[thread_id]
            self._turns.runs -= 1
        if run_id in self._by_run and self._by_run[run_id] is active:
            del self._by_run[run_id]
        active.released.set()
        if active.admission is not None:
            active.admission.set()

    def of_run(self, run_id: str) -> ActiveRun | None:
        """Return the slot of an active run."""
        return self._by_run.get(run_id)

    def of_thread(self, thread_id: str) -> ActiveRun | None:
        """Return the slot of a thread."""
        return self._by_thread.get(thread_id)

    def find(self, id_: str) -> ActiveRun | None:
        """Find by run or thread id; None for an id that means two different runs."""
        run, thread = self._by_run.get(id_), self._by_thread.get(id_)
        if run is not None and thread is not None and run is not thread:
            return None
        return run or thread

    def check_meaning(self, id_: str) -> None:
        """Refuse an id that means two different runs.

        Raises:
            AmbiguousId: It is the id of a run and also of a thread with another run.
        """
        run, thread = self._by_run.get(id_), self._by_thread.get(id_)
        if run is not None and thread is not None and run is not thread and thread.run_id:
            raise AmbiguousId(given=id_, thread_id=run.thread_id, run_id=thread.run_id)

    def __iter__(self) -> Iterator[ActiveRun]:
        return iter(tuple(self._by_thread.values()))
