"""Work on one thread in one statement, guessed from the row that this process has seen last."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from awaken.stores.sql.arguments import check_arguments
from awaken.stores.sql.session import Reserved, Row

from .composing import Batch, CannotGuess, list_checks
from .known_threads import KnownThread, PostgresContext, decode_known, keep_executed
from .session import PostgresSession
from .texts import MANY

_READ = {
    "find_run": "runs",
    "find_dispatch": "dispatches",
    "find_dispatch_of_run": "dispatches",
    "find_ticket": "tickets",
    "find_commit": "commits",
    "list_messages_like": "messages",
    "list_state": "state",
    "read_clock": "",
}
"""Queries that need no lock, and their tables: what they find changes only with the thread's row.

A ticket that is live is not among them: its decision does not touch the row.
"""
_PLAIN = frozenset(
    {
        "add_run", "save_ticket", "save_state", "delete_state", "clear_run_state",
        "save_checkpoint", "delete_checkpoints",
    }
)  # fmt: skip
_UPDATES = frozenset(
    {
        "save_commit_head", "save_head_and_claim", "save_lineage", "set_cancel", "save_queue",
        "save_run", "save_same_run", "save_repinned_run", "save_dispatch",
    }
)  # fmt: skip


class RunStatement(Protocol):
    """Runs one statement on any connection and returns its rows."""

    async def __call__(
        self, text: str, args: Sequence[Any], *, is_write: bool = False
    ) -> Sequence[Row]:
        """Run it outside of a transaction."""
        ...


class GuessingSession(PostgresSession):
    """A `SqlSession` whose writes wait, and are sent as one statement that compares the row.

    Raises `CannotGuess` for work that needs a transaction.
    """

    def __init__(self, ask: RunStatement, shared: PostgresContext, *, is_adding: bool) -> None:
        super().__init__(None, shared)
        self._ask = ask
        self._batch = Batch()
        self._seen: tuple[str, KnownThread | None] | None = None
        """The thread that the work is on, and its row; None if it does not exist."""
        self._before: dict[str, bytes] = {}
        """The records of dispatches as they are compared."""
        self.reserved: Reserved | None = Reserved() if is_adding else None

    async def all(self, statement: str, *args: Any) -> Sequence[Row]:
        """Run a query that needs no lock."""
        table = _READ.get(statement)
        if table is None or self._batch.writes_to(table):
            raise CannotGuess(statement)
        check_arguments(args)
        return await self._ask(self._texts[statement], args)

    async def one(self, statement: str, *args: Any) -> Row | None:
        """Run a query that needs no lock, or answer it from what is known."""
        if statement == "lock_thread":
            check_arguments(args)
            return await self._read_thread(args[0])
        if statement == "find_run" and self._seen is not None:
            known = self._seen[1]
            if known is not None and known.row[17] == args[0] and known.run is not None:
                return known.run
        if statement == "find_dispatch":
            return await self._find_dispatch(args[0])
        rows = await self.all(statement, *args)
        return rows[0] if rows else None

    async def run(self, statement: str, *args: Any) -> int:
        """Let a statement wait; it changes one row, or nothing of all is written."""
        check_arguments(args)
        if statement in _PLAIN:
            self._batch.add_plain(statement, args)
        elif statement in _UPDATES:
            self._batch.add_update(statement, args)
        elif statement == "add_commit":
            self._batch.add_insert(statement, args)
        else:
            self._add_numbered(statement, args)
        return 1

    async def run_many(self, statement: str, rows: Iterable[Row]) -> None:
        """Let the rows wait, as one statement."""
        found = list(rows)
        for row in found:
            check_arguments(row)
        if statement not in MANY:
            raise CannotGuess(statement)
        columns = [list(column) for column in zip(*found, strict=True)]
        self._batch.add_plain(MANY[statement], columns)

    async def send(self) -> None:
        """Write everything with one statement that fails if the guess was wrong.

        Raises:
            CannotGuess: There is nothing to write, or no row to compare.
        """
        if not self._batch or self._seen is None:
            raise CannotGuess("nothing to write")
        thread_id, known = self._seen
        row = self._batch.find_row("threads")
        if known is not None:
            key = ("no", known.row[0])
            if row is not None and row.key != key:
                raise CannotGuess("another thread")
            row = self._batch.check_row("threads", key, list_checks(known))
        elif row is None or row.key is not None:
            raise CannotGuess("no thread")
        for dispatch_id, record in self._before.items():
            # A cancel may be written to a dispatch without touching its thread's row.
            self._batch.check_row("dispatches", ("dispatch_id", dispatch_id), {"record": record})
        text, args = self._batch.compose(self._texts)
        self._known.forget(thread_id)
        mark, now, _, _ = (await self._ask(text, args, is_write=True))[0]
        self._clock.set(now)
        if known is not None:
            run = self._find_written_run(known, row.values)
            self._known.keep(thread_id, known.change(row.values, mark, run))
        self._keep_dispatches()

    def forget_known(self) -> None:
        """Forget what a wrong guess was made from."""
        if self._seen is not None:
            self._known.forget(self._seen[0])
        for dispatch_id in self._before:
            self._known.forget_dispatch(dispatch_id)

    async def _read_thread(self, thread_id: str) -> Row | None:
        if self._seen is not None:
            raise CannotGuess("two threads")
        known = self._known.find(thread_id)
        if known is None or self.reserved is not None:
            known = await self._ask_thread(thread_id)
        self._seen = (thread_id, known)
        return None if known is None else known.row

    async def _ask_thread(self, thread_id: str) -> KnownThread | None:
        name = "guess_thread" if self.reserved is None else "guess_queue"
        found = await self._ask(self._texts[name], (thread_id,))
        if not found:
            return None
        row = found[0]
        self._clock.set(row[23])
        if self.reserved is not None:
            self.reserved = Reserved(dispatch_no=row[24], thread_no=row[25])
        return None if row[0] is None else decode_known(row)

    async def _find_dispatch(self, dispatch_id: str) -> Row | None:
        written = self._batch.find_row("dispatches", ("dispatch_id", dispatch_id))
        if written is not None:
            return (written.values["record"],)
        record = self._known.find_dispatch(dispatch_id)
        if record is None:
            check_arguments((dispatch_id,))
            found = await self._ask(self._texts["find_dispatch"], (dispatch_id,))
            if not found:
                return None
            record = found[0][0]
        self._before[dispatch_id] = record
        return (record,)

    def _add_numbered(self, statement: str, args: Sequence[Any]) -> None:
        """Add a row with the number that was reserved when the thread was read."""
        reserved = self.reserved
        if statement == "add_dispatch" and reserved is not None:
            self._batch.add_insert(statement, args, no=reserved.dispatch_no)
        elif statement == "add_thread" and reserved is not None:
            # Listed from now on, so that the first commit leaves the row where the indexes have it.
            listed_at = self._clock.tell_ms() or 0
            self._batch.add_insert(statement, args, no=reserved.thread_no, sort_at=listed_at)
        else:
            raise CannotGuess(statement)

    def _find_written_run(self, known: KnownThread, values: dict[str, Any]) -> Row | None:
        """Return the row of the thread's latest run as it is after the write; None if unknown."""
        run_id = values.get("latest_run_id", known.row[17])
        added = self._batch.find_plain("add_run")
        if added is not None and added[1] == run_id:
            return (added[7], added[2], added[6])
        if run_id != known.row[17] or known.run is None:
            return None
        saved = self._batch.find_row("runs", ("run_id", run_id))
        return known.run if saved is None else (saved.values["record"], *known.run[1:])

    def _keep_dispatches(self) -> None:
        for row in self._batch.rows:
            if row.table == "dispatches" and row.key is not None:
                keep_executed(self._known, row.key[1], row.values["status"], row.values["record"])
