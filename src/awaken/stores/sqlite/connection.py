"""Connections: how a file is opened, and how errors of SQLite are translated."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from awaken.contracts.errors import (
    StorageError,
    StoreCorrupt,
    StoreFull,
    StoreUnavailable,
)
from awaken.contracts.storage.inspection import SchemaVersions
from awaken.stores.sql import tenant_ids
from awaken.stores.sql.arguments import check_arguments
from awaken.stores.sql.migrations import READABLE_FROM, check_readable, contracts, migrations
from awaken.stores.sql.session import Moment, Reserved, Row, Show
from awaken.stores.sql.statements import statements

from .clock import boot_id, moment
from .jobs import run_without_suspending

FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""Errors of SQLite; the second one if its message quotes damaged bytes of the file."""

BUSY_MS = 30_000
"""How long a writer waits for writers of other processes."""
CHECKPOINT_MS = 2_000
"""How long emptying the log waits for writers and readers."""

PRIVATE = 0o600
_MAGIC = b"SQLite format 3"
_HEADER_BYTES = 100
SWITCH_PAUSE_MS = 10
PAGE_BYTES = 512
CHECKED_PAGES = 16 * 1024
"""A file up to this size (8 MiB) is verified when it is opened; `check` verifies any size."""
CHECKPOINT_PAGES = 8192
"""How far the log grows (4 MiB) before its pages are moved into the file."""

HEADS_MAX = 512
"""How many heads of threads the writer remembers: some kilobytes each."""

FIRST_READABLE = 12
"""Code of earlier schemas refuses every later schema; from here on versions can share a file."""

_ARGUMENT = "$"
STATEMENTS = {
    name: text.replace(_ARGUMENT, "?")
    for name, text in statements(
        has_hints=True, for_update="", for_share="", skip_locked=""
    ).items()
}


def connect(
    path: Path, store: str, *, is_writer: bool, busy_ms: int = BUSY_MS
) -> sqlite3.Connection:
    """Open the file; a writer waits for other writers, a reader never waits.

    Raises:
        StorageError: The file cannot be opened; names the store and the problem.
    """
    _check_size(path, store)
    if is_writer:
        _keep_private(path)
    try:
        connection = sqlite3.connect(
            path,
            timeout=busy_ms / 1000,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
    except FAULTS as error:
        raise translate_error(error, store) from error
    try:
        if is_writer:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            _enable_wal(connection, busy_ms)
        # Without this a power cut could lose commits that were acknowledged.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute("PRAGMA cache_size = -2048")
        if not is_writer:
            connection.execute("PRAGMA query_only = ON")
    except FAULTS as error:
        connection.close()
        raise translate_error(error, store) from error
    return connection


def _keep_private(path: Path) -> None:
    """Make the file readable by its owner only: it holds conversations and secrets.

    SQLite gives its log the same permissions. A file of another user is not changed. An existing
    file is never opened here: closing it would release the locks that connections of this process
    hold on it, and another process could then remove the log that they still use.
    """
    with suppress(OSError):
        # SQLite reports a problem with the path in better words.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE))
    for part in (path, *(path.with_name(path.name + tail) for tail in ("-wal", "-shm"))):
        with suppress(OSError):
            if (mode := part.stat().st_mode & 0o777) & 0o077:
                part.chmod(mode & 0o700)


def _enable_wal(connection: sqlite3.Connection, busy_ms: int) -> None:
    """Switch to the write-ahead log; several processes may do so to a new file at once.

    SQLite does not wait for other processes by itself here.
    """
    for _ in range(busy_ms // SWITCH_PAUSE_MS):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            time.sleep(SWITCH_PAUSE_MS / 1000)
        else:
            return
    connection.execute("PRAGMA journal_mode = WAL")


def prepare(connection: sqlite3.Connection, store: str) -> None:
    """Bring the schema up to date; several processes may do so at the same time.

    Raises:
        StoreTooNew: The file can be used by newer versions of awaken only.
        StoreCorrupt: The file is damaged, or not a SQLite file.
    """
    scripts = migrations(__package__)
    # Before the transaction begins, for which other processes have to wait.
    try:
        _check_structure(connection, store)
    except FAULTS as error:
        raise translate_error(error, store) from error
    with _transaction(connection, store):
        versions = read_versions(connection)
        check_readable(store, versions)
        found = versions.found
        for number, script in enumerate(scripts[found:], found + 1):
            for statement in script.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        if 0 < found < tenant_ids.VERSION:
            run_without_suspending(tenant_ids.rename_tenant_ids(_make_query(connection)))
        if found < FIRST_READABLE:
            _save_readable_from(connection, FIRST_READABLE)
        _forget_old_leases(connection)


def _make_query(connection: sqlite3.Connection) -> tenant_ids.Query:
    async def query(text: str, *args: Any) -> Sequence[Row]:
        return connection.execute(text.replace(_ARGUMENT, "?"), args).fetchall()

    return query


def empty_log(path: Path, store: str) -> bool:
    """Move the log into the file and empty it; False if a reader still needs it.

    Raises:
        StorageError: The file cannot be opened or written.
    """
    connection = connect(path, store, is_writer=True, busy_ms=CHECKPOINT_MS)
    try:
        is_busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except FAULTS as error:
        raise translate_error(error, store) from error
    finally:
        connection.close()
    return not is_busy


def contract(connection: sqlite3.Connection, store: str) -> None:
    """Run the contract migrations that the file does not have yet.

    Raises:
        StoreUnavailable: The file's schema is not the known one.
        StoreTooNew: A newer version contracted the file already.
    """
    with _transaction(connection, store):
        versions = read_versions(connection)
        check_readable(store, versions)
        if versions.found != versions.known:
            problem = f"its schema is {versions.found}, this version has {versions.known}"
            raise StoreUnavailable(store=store, problem=problem)
        for number, script in contracts(__package__).items():
            if number > versions.readable_from:
                for statement in script.split(";\n"):
                    connection.execute(statement)
                _save_readable_from(connection, number)


@contextmanager
def _transaction(connection: sqlite3.Connection, store: str) -> Iterator[None]:
    """Commit what the body writes, or undo all of it; errors of SQLite are translated."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    except BaseException as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if isinstance(error, FAULTS):
            raise translate_error(error, store) from error
        raise


def read_versions(connection: sqlite3.Connection) -> SchemaVersions:
    """Return the schema of the file, and which code may use it."""
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    readable_from = FIRST_READABLE
    if found >= FIRST_READABLE:
        row = connection.execute("SELECT value FROM facts WHERE name = ?", (READABLE_FROM,))
        readable_from = int((row.fetchone() or (FIRST_READABLE,))[0])
    return SchemaVersions(
        found=found, readable_from=readable_from, known=len(migrations(__package__))
    )


def _save_readable_from(connection: sqlite3.Connection, number: int) -> None:
    connection.execute(
        "INSERT INTO facts (name, value) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (READABLE_FROM, str(number)),
    )


def translate_error(error: sqlite3.Error | UnicodeDecodeError, store: str) -> StorageError:
    """Return the `StorageError` for an error of SQLite."""
    if isinstance(error, UnicodeDecodeError) or "decode to UTF-8" in str(error):
        # Invalid text, in a row or in the message of SQLite about a damaged schema.
        return StoreCorrupt(store=store, problem="it holds text that is not UTF-8")
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    problem = str(error)
    if primary == sqlite3.SQLITE_FULL:
        return StoreFull(store=store, problem=problem)
    if primary == sqlite3.SQLITE_NOTADB:
        problem = f"{problem}; if it never was a store of awaken, check its path"
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreCorrupt(store=store, problem=problem)
    if primary == sqlite3.SQLITE_CANTOPEN:
        problem = f"{problem}; its folder must exist and be writable"
    return StoreUnavailable(store=store, problem=problem)


class SqliteSession:
    """A `SqlSession` over one connection; it never suspends.

    It remembers the heads that commits left. Two numbers of SQLite prove that a head is still what
    the file has: `data_version` changes if another connection wrote, of this process or another,
    and `total_changes` if this one did, even if that was rolled back. So a commit finds its
    thread's head in memory only if nothing but commits has been written since, and each of them
    has put its own head there.
    """

    __slots__ = ("_changes", "_connection", "_heads", "_now", "_version", "batch")
    reserved: Reserved | None = None

    def __init__(self, connection: sqlite3.Connection, now: Callable[[], Moment] = moment) -> None:
        self._connection = connection
        self._now = now
        self._heads: dict[str, tuple[Any, Any, int]] = {}
        """Heads by their thread, each with what is shown of it and the transaction it is from."""
        self._changes = connection.total_changes
        """How many rows this connection had changed when the latest head was remembered."""
        self._version = 0
        """The `data_version` that the remembered heads belong to."""
        self.batch = 0
        """How many transactions have begun; a head shown by the open one is not durable yet."""

    async def all(self, statement: str, *args: Any) -> Sequence[Row]:
        """Run a query and return every row."""
        check_arguments(args)
        return self._connection.execute(STATEMENTS[statement], args).fetchall()

    async def one(self, statement: str, *args: Any) -> Row | None:
        """Run a query and return its first row, or None."""
        check_arguments(args)
        row: Row | None = self._connection.execute(STATEMENTS[statement], args).fetchone()
        return row

    async def run(self, statement: str, *args: Any) -> int:
        """Run a statement and return how many rows it changed."""
        check_arguments(args)
        return self._connection.execute(STATEMENTS[statement], args).rowcount

    async def run_many(self, statement: str, rows: Iterable[Row]) -> None:
        """Run a statement once per row."""
        found = list(rows)
        for row in found:
            check_arguments(row)
        self._connection.executemany(STATEMENTS[statement], found)

    async def now(self) -> Moment:
        """Return the time of the machine's clocks."""
        return self._now()

    def load_vectors(self) -> str:
        """Load the functions of vectors into this connection; returns why not, else nothing."""
        # Few programs search by vectors.
        from .vectors import load_vectors  # noqa: PLC0415

        return load_vectors(self._connection)

    def verify(self) -> None:
        """Forget the heads if anything but a commit of this session has been written."""
        version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version or self._changes != self._connection.total_changes:
            self._heads.clear()
            self._version = version
            self._changes = self._connection.total_changes

    def recall_head(self, thread_id: str) -> Any:
        """Return and forget a thread's head, if nothing but commits has been written since."""
        if self._changes != self._connection.total_changes:
            self._heads.clear()
        found = self._heads.pop(thread_id, None)
        return None if found is None else found[0]

    def remember_head(self, thread_id: str, head: Any, show: Show | None) -> None:
        """Keep a thread's head as its commit leaves it; forgets the oldest beyond a limit."""
        self._heads[thread_id] = (head, None if show is None else show(head), self.batch)
        self._changes = self._connection.total_changes
        if len(self._heads) > HEADS_MAX:
            del self._heads[next(iter(self._heads))]

    def find_shown(self, thread_id: str, before: int) -> Any:
        """Return what is shown of a thread, unless that is from a transaction after `before`."""
        found = self._heads.get(thread_id)
        return found[1] if found is not None and found[2] <= before else None


def _check_size(path: Path, store: str) -> None:
    """Refuse a truncated file: SQLite would treat it as a new one, or read zeros.

    While a log exists the file may be shorter than its header says; then SQLite repairs it.
    """
    log = path.with_name(path.name + "-wal")
    if not path.is_file() or log.exists():
        return
    with path.open("rb") as file:
        header, size = file.read(_HEADER_BYTES), path.stat().st_size
    page = int.from_bytes(header[16:18], "big")
    wanted = int.from_bytes(header[28:32], "big") * (65536 if page == 1 else page)
    is_short = size < _HEADER_BYTES or (header.startswith(_MAGIC) and size < wanted)
    if size and is_short and not log.exists():
        raise StoreCorrupt(store=store, problem="its end is missing")


def _check_structure(connection: sqlite3.Connection, store: str) -> None:
    """Let SQLite compare tables and indexes: a damaged index could hide a thread."""
    if connection.execute("PRAGMA page_count").fetchone()[0] > CHECKED_PAGES:
        return
    found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise StoreCorrupt(store=store, problem=found.strip())


def _forget_old_leases(connection: sqlite3.Connection) -> None:
    """Expire all leases after a restart of the machine: the clock of leases began anew."""
    row = connection.execute("SELECT value FROM facts WHERE name = 'boot_id'").fetchone()
    if row is None or row[0] != boot_id():
        connection.execute("UPDATE threads SET lease_until = 0 WHERE lease_until IS NOT NULL")
        connection.execute(
            "INSERT INTO facts (name, value) VALUES ('boot_id', ?)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (boot_id(),),
        )
