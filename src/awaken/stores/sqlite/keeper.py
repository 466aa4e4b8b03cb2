"""Keeps leases alive from a separate operating-system thread."""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from awaken.contracts.storage.dispatch import LeaseReport
from awaken.stores.sql.session import Moment

from .connection import FAULTS, STATEMENTS, connect, translate_error


class SqliteLeaseKeeper:
    """A `LeaseKeeper` with its own connection, opened on first use."""

    def __init__(self, path: Path, store: str, now: Callable[[], Moment]) -> None:
        self._path = path
        self._store = store
        self._now = now
        self._connection: sqlite3.Connection | None = None

    def extend(self, claim_tokens: Sequence[str], lease_ms: int) -> tuple[LeaseReport, ...]:
        """Extend the leases that are still held, and report to each holder what has changed."""
        try:
            if self._connection is None:
                self._connection = connect(self._path, self._store, is_writer=True)
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            now = self._now()
            reports = tuple(_extend(connection, token, now, lease_ms) for token in claim_tokens)
            connection.execute("COMMIT")
        except FAULTS as error:
            self.close()
            raise translate_error(error, self._store) from error
        return reports

    def close(self) -> None:
        """Release the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _extend(connection: sqlite3.Connection, token: str, now: Moment, lease_ms: int) -> LeaseReport:
    row = connection.execute(STATEMENTS["find_lease"], (token, now.wall_ms)).fetchone()
    if row is None:
        return LeaseReport(claim_token=token, is_held=False)
    connection.execute(STATEMENTS["extend_lease"], (token, now.lease_ms + lease_ms))
    return LeaseReport(claim_token=token, cancel_cause=row[0], has_input=bool(row[1]))
