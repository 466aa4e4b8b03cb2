"""A store's file as a crash left it, read without threads, so that the reader may fork."""

import sqlite3
from pathlib import Path
from typing import TypeVar

from awaken.contracts.storage.mailbox import LeaseKeeper
from awaken.contracts.storage.store import CommitReceipt
from awaken.stores.sql.session import Work
from awaken.stores.sql.store import SqlStore
from awaken.stores.sqlite.connection import SqliteSession, connect, translate_error
from awaken.stores.sqlite.writer import run_without_suspending

from .checker import check_after_quiescence, check_before_recovery
from .history import History
from .views import Rows

T = TypeVar("T")
Dump = dict[str, list[tuple[object, ...]]]

PLACES = 1 << 32
"""A row's key is its thread's number times this, and a number inside the thread."""


COMMIT_NAME = (
    "CASE commit_id WHEN '' THEN run_id || ':' || CAST(place % 4294967296 AS TEXT)"
    " ELSE commit_id END"
)
"""The id of a commit; a row that is named after its run and version has none."""


class StoreFile:
    """A `Database` that only reads, and the `Evidence` over it; nothing in it ever suspends."""

    def __init__(self, path: Path) -> None:
        self.name = f"sqlite:///{path}"
        self._connection = connect(path, self.name, is_writer=False)
        self.store = SqlStore(self)

    async def open(self) -> None:
        """It is open."""

    async def close(self) -> None:
        """Release the connection."""
        self.shut()

    def shut(self) -> None:
        """Release the connection."""
        self._connection.close()

    async def read(self, work: Work[T]) -> T:
        """Run work on one consistent view."""
        try:
            self._connection.execute("BEGIN")
            try:
                return await work(SqliteSession(self._connection))
            finally:
                self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise translate_error(error, self.name) from error

    read_row = read

    async def write(self, work: Work[T]) -> T:
        """Refuse: a checker changes nothing."""
        raise NotImplementedError(work)

    def find_shown(self, thread_id: str) -> None:
        """Return None: every check reads the file."""

    def lease_keeper(self) -> LeaseKeeper:
        """Refuse: a checker changes nothing."""
        raise NotImplementedError

    async def rows(self, thread_id: str) -> Rows:
        """The rows of a thread that exists."""
        try:
            return self._rows(thread_id)
        except sqlite3.Error as error:
            raise translate_error(error, self.name) from error

    def _rows(self, thread_id: str) -> Rows:
        query = self._connection.execute
        no, event_seq, purged_seq, token, dispatch, queued = query(
            "SELECT no, event_seq, purged_seq, claim_token, claim_dispatch, queued"
            " FROM threads WHERE id = ?",
            (thread_id,),
        ).fetchone()
        places = (no * PLACES, (no + 1) * PLACES - 1)
        commits = query(
            f"SELECT place, {COMMIT_NAME}, message_count, event_seq FROM commits"
            " WHERE place BETWEEN ? AND ? ORDER BY place",
            places,
        ).fetchall()
        messages = query(
            "SELECT place FROM messages WHERE place BETWEEN ? AND ? ORDER BY place", places
        ).fetchall()
        return Rows(
            receipts=tuple(
                CommitReceipt(
                    version=place % PLACES, commit_id=name, message_count=count, event_seq=seq
                )
                for place, name, count, seq in commits
            ),
            event_seq=event_seq,
            purged_seq=purged_seq,
            message_numbers=tuple(row[0] % PLACES for row in messages),
            claim_token=token,
            claim_dispatch=dispatch,
            queued=queued,
        )

    def tables(self) -> list[str]:
        """Every table; none in a file without a schema."""
        names = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return sorted(row[0] for row in names)

    def dump(self) -> Dump:
        """Every row of every table."""
        return {
            table: self._connection.execute(f"SELECT * FROM {table}").fetchall()
            for table in self.tables()
        }

    def integrity_problems(self) -> list[str]:
        """What SQLite itself finds wrong."""
        found = [row[0] for row in self._connection.execute("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found


def problems_of(path: Path, history: History, *, is_deep: bool = True) -> list[str]:
    """Check a file before anybody recovers anything; a deep check asks SQLite as well."""
    if not path.exists():
        return ["acknowledged, and there is no file"] if history.counts["ok"] else []
    file = StoreFile(path)
    try:
        problems = file.integrity_problems() if is_deep else []
        if "threads" not in file.tables():
            lost = ["acknowledged, and there is no table"] if history.counts["ok"] else []
            return problems + lost
        return problems + run_without_suspending(check_before_recovery(file, history))
    finally:
        file.shut()


def leftovers_of(path: Path, history: History) -> list[str]:
    """Check a file in which nothing should be left to do."""
    file = StoreFile(path)
    try:
        return run_without_suspending(check_after_quiescence(file, history))
    finally:
        file.shut()


def dump_of(path: Path) -> Dump:
    """Every row of every table of a file; nothing when there is none."""
    if not path.exists():
        return {}
    file = StoreFile(path)
    try:
        return file.dump()
    finally:
        file.shut()
