"""The queues of all threads. Nothing here suspends.

A dispatch is in its thread's queue exactly while its status is `queued`.
"""

from bisect import bisect_left
from collections.abc import Iterable

from awaken.contracts.clock import Clock
from awaken.contracts.runs.records import run_id_in_use
from awaken.contracts.runs.threads import Thread
from awaken.contracts.storage.dispatch import DispatchStatus, InputMode, Release, RunDispatch
from awaken.stores.rules import dispatches as rules
from awaken.stores.rules.head import blank_thread
from awaken.stores.rules.interrupts import is_stale

from .tables import StoredThread, Tables
from .turns import Turns

INPUT_MODES = (InputMode.STEER, InputMode.RESUME)


class Queues:
    """The queued dispatches in the tables of a store."""

    __slots__ = ("_arrived", "_clock", "_tables", "turns")

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock
        self.turns = Turns(tables)
        self._arrived = 0

    # --- into the queue ---

    def check_all(self, dispatches: Iterable[RunDispatch], own: Thread) -> None:
        """Check the dispatches that a commit queues on its `own` thread; nothing is changed.

        The backlog limit does not apply: a commit must be able to queue its dispatches.

        Raises:
            StorageError: As `MailboxStore.enqueue` lists them.
        """
        together: dict[object, RunDispatch] = {}
        for dispatch in dispatches:
            key = (dispatch.thread_id, dispatch.dedupe_key)
            known = self.find_known(dispatch)
            own.check_tenant(dispatch.request.tenant_id)
            known = known or together.get(dispatch.dispatch_id)
            if known is None and dispatch.dedupe_key is not None:
                known = together.get(key)
            if known is not None:
                rules.match_known(known, dispatch)
            together[dispatch.dispatch_id] = together[key] = known or dispatch

    def find_known(self, dispatch: RunDispatch) -> RunDispatch | None:
        """Return the dispatch that was queued for the same request before, or None.

        Raises:
            StorageError: As `MailboxStore.enqueue` lists them.
        """
        rules.check_new(dispatch)
        self._thread_of(dispatch).check_tenant(dispatch.request.tenant_id)
        known = self._tables.dispatches.get(dispatch.dispatch_id)
        if known is None and dispatch.dedupe_key is not None:
            key = (dispatch.thread_id, dispatch.dedupe_key)
            known = self._tables.dispatches.get(self._tables.dedupe_keys.get(key, ""))
        return None if known is None else rules.match_known(known, dispatch)

    def check_run_id(self, dispatch: RunDispatch) -> None:
        """Check that the run id which a new dispatch asks for is unused.

        Raises:
            InvalidResume: A run or another dispatch has the id.
        """
        run_id = dispatch.run_id
        is_used = run_id in self._tables.runs or run_id in self._tables.run_dispatches
        if is_used and rules.is_named_by_sender(dispatch):
            raise run_id_in_use(run_id)

    def add(self, dispatch: RunDispatch) -> RunDispatch:
        """Queue a checked dispatch, unless it is queued already; creates its thread if needed."""
        known = self.find_known(dispatch)
        if known is not None:
            return known
        thread_id, dispatch_id = dispatch.thread_id, dispatch.dispatch_id
        thread = self.ensure_thread(thread_id, dispatch.request.tenant_id)
        self._arrived += 1
        self._tables.arrivals[dispatch_id] = self._arrived
        if dispatch.dedupe_key is not None:
            self._tables.dedupe_keys[thread_id, dispatch.dedupe_key] = dispatch_id
        self._tables.name_run(dispatch)
        thread.dispatch_ids += (dispatch_id,)
        fresh = rules.mark_queued(dispatch, thread.epoch, self._clock.now_ms())
        self.put(thread, fresh)
        return fresh

    def ensure_thread(self, thread_id: str, tenant_id: str | None) -> StoredThread:
        """Return a thread; creates it if it does not exist.

        Raises:
            InvalidRecord: The id is blank.
        """
        thread = self._tables.threads.get(thread_id)
        if thread is None:
            thread = StoredThread(blank_thread(thread_id, tenant_id))
            self._tables.threads[thread_id] = thread
        return thread

    def _thread_of(self, dispatch: RunDispatch) -> Thread:
        """Return the dispatch's thread as it is, or as the dispatch would create it."""
        thread = self._tables.threads.get(dispatch.thread_id)
        if thread is not None:
            return thread.shown
        return blank_thread(dispatch.thread_id, dispatch.request.tenant_id)

    def put(self, thread: StoredThread, dispatch: RunDispatch) -> None:
        """Queue a dispatch at its place."""
        dispatch_id = dispatch.dispatch_id
        self._tables.dispatches[dispatch_id] = dispatch
        entry = (dispatch.priority, self._tables.arrivals[dispatch_id], dispatch_id)
        place = bisect_left(thread.queue, entry)
        thread.queue = (*thread.queue[:place], entry, *thread.queue[place:])
        self._tables.queued_count += 1
        first = self.turns.find_first(thread)
        if first is not None and first[2] == dispatch_id:
            self.turns.offer(thread, self._clock.now_ms())

    # --- out of the queue ---

    def pull(self, thread: StoredThread, dispatch: RunDispatch) -> None:
        """Take a dispatch out of its queue and store it with its new status."""
        dispatch_id = dispatch.dispatch_id
        entry = (dispatch.priority, self._tables.arrivals[dispatch_id], dispatch_id)
        place = bisect_left(thread.queue, entry)
        thread.queue = (*thread.queue[:place], *thread.queue[place + 1 :])
        self._tables.queued_count -= 1
        self._tables.dispatches[dispatch_id] = dispatch
        self.turns.offer(thread, self._clock.now_ms())

    def absorb(self, dispatch_id: str, run_id: str | None) -> None:
        """End a queued dispatch whose input a run has taken in."""
        old = self._tables.dispatches[dispatch_id]
        if old.status is DispatchStatus.QUEUED:
            taken = rules.mark_absorbed(old, run_id, self._clock.now_ms())
            self.pull(self._tables.threads[old.thread_id], taken)

    def drop(self, dispatch: RunDispatch, status: DispatchStatus) -> RunDispatch:
        """End a queued dispatch that will not be executed."""
        dropped = rules.mark_ended(dispatch, Release(status=status), self._clock.now_ms())
        self.pull(self._tables.threads[dispatch.thread_id], dropped)
        return dropped

    def list_inputs(self, thread: StoredThread) -> tuple[RunDispatch, ...]:
        """List the input that an executing run may take in now; other OS threads may call this."""
        now = self._clock.now_ms()
        found = [self._tables.dispatches.get(entry[2]) for entry in thread.queue]
        return tuple(
            dispatch
            for dispatch in found
            if dispatch is not None
            and dispatch.mode in INPUT_MODES
            and rules.is_due(dispatch, now)
            and not is_stale(thread, dispatch)
        )
