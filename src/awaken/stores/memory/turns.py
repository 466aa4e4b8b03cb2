"""The order of threads: best priority first, then the longest wait since queued or served."""

from collections.abc import Collection
from heapq import heappop, heappush

from awaken.stores.rules import dispatches as rules

from .tables import StoredThread, Tables

Entry = tuple[int, int, str]
"""A dispatch in its thread's queue: its priority, its arrival and its id."""


class Turns:
    """Threads that can be claimed, in order, found without a scan of all threads.

    An entry is never changed or removed: an outdated entry is skipped when it is reached.
    """

    __slots__ = ("_later", "_ready", "_tables")

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._ready: list[tuple[int, int, int, str]] = []
        """By priority, then by turn, then by the arrival of the first dispatch."""
        self._later: list[tuple[int, str]] = []
        """By the time when the first dispatch is due."""

    def offer(self, thread: StoredThread, now: int) -> None:
        """Add a thread that has a new dispatch, or whose claim has ended."""
        entry = None if thread.claim is not None else self.find_first(thread)
        if entry is None:
            return
        first = self._tables.dispatches[entry[2]]
        if not rules.is_due(first, now):
            heappush(self._later, (rules.due_at(first), thread.shown.id))
        else:
            heappush(self._ready, self._place(thread, entry))

    def find_first(self, thread: StoredThread) -> Entry | None:
        """Return the first dispatch of a thread that its open run does not hold back."""
        run, dispatches = thread.open_run, self._tables.dispatches
        for entry in thread.queue:
            dispatch = dispatches[entry[2]]
            if dispatch.is_held_by(run):
                continue
            if run is not None and rules.due_at(dispatch):
                for other in thread.queue:
                    if rules.goes_before_delayed(dispatches[other[2]], run):
                        return other
            return entry
        return None

    def next(self, now: int, agents: Collection[str] | None = None) -> StoredThread | None:
        """Return the next thread, or None if nothing is due for one of the agents."""
        passed: list[StoredThread] = []
        found = self.take_due(now)
        while found is not None and not self.is_for(found, agents):
            passed.append(found)
            found = self.take_due(now)
        for thread in passed:
            self.offer(thread, now)
        return found

    def look_again(self, now: int) -> None:
        """Offer again all threads that wait for a time: the clock may have been set back."""
        waiting, self._later = self._later, []
        for _, thread_id in waiting:
            thread = self._tables.threads.get(thread_id)
            if thread is not None:
                self.offer(thread, now)

    def is_for(self, thread: StoredThread, agents: Collection[str] | None) -> bool:
        """Whether the first dispatch of a thread is for one of the agents, or for any."""
        if agents is None:
            return True
        entry = self.find_first(thread)
        assert entry is not None
        wanted = rules.agent_of(thread, self._tables.dispatches[entry[2]])
        return wanted is None or wanted in agents

    def take_due(self, now: int) -> StoredThread | None:
        """Take out the next thread that is due; offer it again unless it is claimed."""
        threads = self._tables.threads
        while self._later and self._later[0][0] <= now:
            thread = threads.get(heappop(self._later)[1])
            if thread is not None:
                self.offer(thread, now)
        while self._ready:
            noted = heappop(self._ready)
            thread = threads.get(noted[3])
            if thread is None or thread.claim is not None:
                continue
            entry = self.find_first(thread)
            if entry is None:
                continue
            if not rules.is_due(self._tables.dispatches[entry[2]], now):
                self.offer(thread, now)
            elif self._place(thread, entry) == noted:
                return thread
        return None

    def _place(self, thread: StoredThread, entry: Entry) -> tuple[int, int, int, str]:
        priority, arrival, dispatch_id = entry
        queued_at = self._tables.dispatches[dispatch_id].created_at
        return priority, max(queued_at, thread.served_at), arrival, thread.shown.id
