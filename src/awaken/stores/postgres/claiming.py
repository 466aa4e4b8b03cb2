"""Claims of a batch in a handful of round trips, however many threads are claimed.

The statement that lists what is due locks the threads and returns their rows, one more reads the
queues of all of them, and what is written to them waits and goes as one statement.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from awaken.contracts.storage.dispatch import DispatchStatus
from awaken.stores.sql.arguments import check_arguments
from awaken.stores.sql.session import Moment, Reserved, Row, Show

from .composing import PARTS_MAX, Batch
from .session import PostgresSession
from .texts import STATEMENTS

_AHEAD = 2
"""How many queued dispatches of a thread are read: the one to claim, and the next in line."""
_LISTED = frozenset({"list_due", "list_shared_due"})
"""Queries that lock threads and return their rows."""
_WRITTEN = frozenset({"save_dispatch", "take_claim", "save_queue"})
"""Updates that wait; they are of threads and dispatches only."""
_APART = frozenset({"find_run", "find_live_ticket", "read_clock"})
"""Queries of other tables, which do not see what waits."""

# Its own statement, after the lock: it must see what was written before the lock was taken.
STATEMENTS["read_queues"] = (
    "SELECT t.no, counted.queued, first.dispatch_id, first.record, first.no,"
    " t.latest_run_id, r.record, r.thread_no, r.first_version"
    " FROM threads t LEFT JOIN runs r ON r.run_id = t.latest_run_id"
    " CROSS JOIN LATERAL (SELECT count(*) AS queued FROM dispatches"
    " WHERE thread_no = t.no AND status = 'queued') AS counted"
    " LEFT JOIN LATERAL (SELECT dispatch_id, record, no, priority FROM dispatches"
    f" WHERE thread_no = t.no AND status = 'queued' ORDER BY priority, no LIMIT {_AHEAD})"
    " AS first ON true"
    " WHERE t.no = ANY($1::bigint[]) ORDER BY t.no, first.priority, first.no"
)


class _Queue:
    """The queue of a locked thread: its length, and its first dispatches."""

    __slots__ = ("first", "length")

    def __init__(self, length: int) -> None:
        self.length = length
        self.first: list[Row] = []
        """Id, record and number, in order."""


class ClaimingSession:
    """A `SqlSession` over another one, in a transaction that claims.

    Everything that it answers by itself was read under the lock of its thread, which the
    transaction keeps. A statement that it does not know goes to the server, after what waits.
    """

    reserved: Reserved | None = None

    def __init__(self, session: PostgresSession) -> None:
        self._session = session
        self._batch = Batch()
        self._threads: dict[str, Row] = {}
        self._queues: dict[int, _Queue] = {}
        self._runs: dict[str, Row] = {}

    async def all(self, statement: str, *args: Any) -> Sequence[Row]:
        """Run a query and return every row."""
        await self.flush()
        rows = await self._session.all(statement, *args)
        if statement in _LISTED and rows:
            self._threads |= {row[0]: row[2:] for row in rows}
            await self._read_queues([row[2] for row in rows])
        return rows

    async def one(self, statement: str, *args: Any) -> Row | None:
        """Run a query and return its first row, or None."""
        known = self._recall(statement, args)
        if known is not None:
            return known[0]
        if statement not in _APART:
            await self.flush()
        return await self._session.one(statement, *args)

    async def run(self, statement: str, *args: Any) -> int:
        """Let a statement wait if its effect on what was read is known."""
        if statement not in _WRITTEN:
            await self.flush()
            self._forget()
            return await self._session.run(statement, *args)
        check_arguments(args)
        # A thread is locked, so each update has its row.
        self._batch.add_update(statement, args)
        if statement == "save_dispatch":
            self._note_saved(args[0], args[2])
        if len(self._batch.rows) >= PARTS_MAX:
            await self.flush()
        return 1

    async def run_many(self, statement: str, rows: Iterable[Row]) -> None:
        """Run a statement once per row."""
        await self.flush()
        self._forget()
        await self._session.run_many(statement, rows)

    async def now(self) -> Moment:
        """Return the time of the database's clock."""
        return await self._session.now()

    def recall_head(self, thread_id: str) -> Any:
        """Return None: other processes may have written since."""
        return self._session.recall_head(thread_id)

    def remember_head(self, thread_id: str, head: Any, show: Show | None) -> None:
        """Keep nothing: rows are kept, not heads."""
        self._session.remember_head(thread_id, head, show)

    async def flush(self) -> None:
        """Write what waits."""
        if self._batch:
            batch, self._batch = self._batch, Batch()
            await self._session.write_batch(batch)

    async def _read_queues(self, numbers: list[int]) -> None:
        for number in numbers:
            self._queues.pop(number, None)
        for row in await self._session.all("read_queues", numbers):
            queue = self._queues.setdefault(row[0], _Queue(row[1]))
            if row[2] is not None:
                queue.first.append(tuple(row[2:5]))
            if row[6] is not None:
                self._runs[row[5]] = tuple(row[6:9])

    def _recall(self, statement: str, args: Sequence[Any]) -> tuple[Row | None] | None:
        """Answer from what was read under the lock; None if it is not known."""
        if statement == "lock_thread":
            # Once: the caller changes the head that it makes of it.
            row = self._threads.pop(args[0], None)
            return None if row is None else (row,)
        if statement == "find_run":
            run = self._runs.get(args[0])
            return None if run is None else (run,)
        queue = self._queues.get(args[0]) if args else None
        if queue is None:
            return None
        if statement == "count_queued_of":
            return ((queue.length,),)
        if statement != "first_queued" or (queue.length and not queue.first):
            return None
        return (queue.first[0][1:] if queue.first else None,)

    def _note_saved(self, dispatch_id: str, status: str) -> None:
        for queue in self._queues.values():
            for row in queue.first:
                if row[0] == dispatch_id and status != DispatchStatus.QUEUED.value:
                    queue.first.remove(row)
                    queue.length -= 1
                    return
        # Not one that was read ahead: the server counts.
        self._queues.clear()

    def _forget(self) -> None:
        self._threads.clear()
        self._queues.clear()
        self._runs.clear()
