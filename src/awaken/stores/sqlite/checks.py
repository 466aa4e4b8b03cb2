"""The search for damage: first the file's structure, then every record with its checksum.

The file is not changed, and one damaged record does not hide the next.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from awaken.contracts.errors import CorruptRecord, StoreUnavailable
from awaken.contracts.storage.inspection import SchemaVersions, StoreCheck
from awaken.stores.sql import rows
from awaken.stores.sql.heads import StoredHead, decode_head
from awaken.stores.sql.migrations import check_readable
from awaken.stores.sql.schedules import DELIVERY, FIRING, SCHEDULE, TRIGGER
from awaken.stores.sql.state_history import KEPT

from .config_checks import check_config
from .connection import (
    FAULTS,
    STATEMENTS,
    connect,
    contract,
    read_versions,
    translate_error,
)

_NAMED: tuple[tuple[str, str, "msgspec.json.Decoder[Any]", str], ...] = (
    ("runs", "SELECT record, run_id FROM runs", rows.RUN, "Run '{}'"),
    ("tickets", "SELECT record, ticket_id FROM tickets", rows.TICKET, "Ticket '{}'"),
    ("dispatches", "SELECT record, dispatch_id FROM dispatches", rows.DISPATCH, "Dispatch '{}'"),
    (
        "checkpoints",
        "SELECT record, run_id FROM checkpoints",
        rows.CHECKPOINT,
        "Checkpoint of run '{}'",
    ),
    ("outbox", "SELECT record, entry_id FROM outbox", rows.OUTBOX, "Outbox entry '{}'"),
    (
        "profile_entries",
        "SELECT value, name, owner FROM profiles",
        rows.ANY,
        "Profile entry '{}' of '{}'",
    ),
    ("schedules", "SELECT record, schedule_id FROM schedules", SCHEDULE, "Schedule '{}'"),
    ("firings", "SELECT record, firing_id FROM schedule_firings", FIRING, "Firing '{}'"),
    ("triggers", "SELECT record, trigger_id FROM triggers", TRIGGER, "Trigger '{}'"),
    (
        "deliveries",
        "SELECT record, delivery_id FROM trigger_deliveries",
        DELIVERY,
        "Delivery '{}'",
    ),
)
"""Kinds of records: the query, the decoder, and how an error names a record."""


def read_file_versions(path: Path, store: str) -> SchemaVersions:
    """Return the schema of the file, and which code may use it.

    Raises:
        StoreUnavailable: The file does not exist or cannot be opened.
        StoreCorrupt: It is not a SQLite file.
    """
    with _open_file(path, store) as connection:
        return read_versions(connection)


def contract_file(path: Path, store: str) -> SchemaVersions:
    """Run the contract migrations of a file; see `VersionedStore.contract_schema`."""
    with _open_file(path, store, is_writer=True) as connection:
        contract(connection, store)
        return read_versions(connection)


def check_file(path: Path, store: str) -> StoreCheck:
    """Check everything in a file; see `CheckableStore.check`."""
    # Most processes that open a file never check it, and know nothing of evals.
    from .eval_checks import check_evals  # noqa: PLC0415

    with _open_file(path, store) as connection:
        versions = read_versions(connection)
        found, known = versions.found, versions.known
        if found == 0:
            raise StoreUnavailable(store=store, problem="it has no tables of awaken")
        check_readable(store, versions)
        if found < known:
            problem = (
                f"its schema is {found}, this version needs {known}; open it once to migrate it"
            )
            raise StoreUnavailable(store=store, problem=problem)
        connection.execute("BEGIN")
        inspection = _Inspection(connection)
        inspection.check_structure()
        for kind, statement, decoder, name in _NAMED:
            inspection.read_records(kind, statement, decoder, name)
        inspection.read_state()
        inspection.read_threads()
        check_config(inspection)
        check_evals(inspection)
    return StoreCheck(
        store=store,
        schema_version=found,
        records=dict(inspection.counts),
        problems=tuple(inspection.problems),
    )


@contextmanager
def _open_file(path: Path, store: str, *, is_writer: bool = False) -> Iterator[sqlite3.Connection]:
    # SQLite would create a file that does not exist.
    if not path.is_file():
        raise StoreUnavailable(store=store, problem="there is no such file; check its path")
    with closing(connect(path, store, is_writer=is_writer)) as connection:
        try:
            yield connection
        except FAULTS as error:
            raise translate_error(error, store) from error


class _Inspection:
    """One check of a file: the counts of readable records, and the problems."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    def check_structure(self) -> None:
        """Let SQLite verify its pages and indexes."""
        for (line,) in self.select("file", "PRAGMA integrity_check"):
            if line != "ok":
                self.problems.append(f"The file: {line}")

    def read_records(
        self, kind: str, statement: str, decoder: "msgspec.json.Decoder[Any]", name: str
    ) -> None:
        """Read every record of one kind."""
        self.counts[kind] = 0
        for blob, *names in self.select(kind, statement):
            self.read(kind, blob, decoder, name.format(*names))

    def read_state(self) -> None:
        """Read every state value."""
        self.counts["state"] = 0
        statement = (
            "SELECT data, name, state.version, id FROM state LEFT JOIN threads ON no = thread_no"
        )
        for data, name, version, thread_id in self.select("state", statement):
            what = f"State '{name}' of thread '{thread_id}'"
            self.read("state", data, rows.RAW, what, beside=(name, version))

    def read_threads(self) -> None:
        """Read every thread with its messages, events and tool journal."""
        self.counts.update(threads=0, messages=0, events=0, tool_records=0, state_changes=0)
        threads = list(self.select("threads", "SELECT no, id FROM threads ORDER BY no"))
        for thread_no, thread_id in threads:
            self._read_thread(thread_no, thread_id)

    def _read_thread(self, thread_no: int, thread_id: str) -> None:
        before = len(self.problems)
        head = None
        for row in self.select("threads", STATEMENTS["find_thread"], thread_id):
            head = self._read_head(row)
        messages = self._read_messages(thread_no, thread_id)
        events = self._read_commits(thread_no, thread_id)
        if head is None or len(self.problems) > before:
            return
        kept = head.event_seq - head.purged_seq
        for what, found, expected in (
            ("messages", messages, head.message_count),
            ("events", events, kept),
        ):
            if found != expected:
                self.problems.append(f"Thread '{thread_id}': it has {found} of {expected} {what}")

    def _read_head(self, row: Any) -> StoredHead | None:
        try:
            head = decode_head(row)
        except CorruptRecord as error:
            self.problems.append(str(error))
            return None
        self.counts["threads"] += 1
        return head

    def _read_messages(self, thread_no: int, thread_id: str) -> int:
        found = 0
        places = rows.all_places(thread_no)
        for place, at, body in self.select("messages", STATEMENTS["list_messages"], *places):
            what = f"Message {rows.number_at(place)} of thread '{thread_id}'"
            found += self.read("messages", body, rows.MESSAGE, what, beside=(at,)) is not None
        return found

    def _read_commits(self, thread_no: int, thread_id: str) -> int:
        statement = (
            "SELECT place, events, tools, state, event_seq, run_id, committed_at"
            " FROM commits WHERE place BETWEEN ? AND ?"
        )
        found = 0
        places = rows.all_places(thread_no)
        for place, events, tools, state, *beside in self.select("commits", statement, *places):
            where = f"of commit {rows.number_at(place)} of thread '{thread_id}'"
            if events is not None:
                logged = self.read(
                    "events", events, rows.EVENTS, f"The events {where}", many=True, beside=beside
                )
                found += len(logged or ())
            if tools is not None:
                self.read("tool_records", tools, rows.TOOLS, f"The tool journal {where}", many=True)
            if state:
                version = rows.number_at(place)
                self.read("state_changes", state, KEPT, f"State {where}", beside=(version,))
        return found

    def read(
        self,
        kind: str,
        blob: bytes,
        decoder: "msgspec.json.Decoder[Any]",
        what: str,
        *,
        many: bool = False,
        beside: Sequence[Any] = (),
    ) -> Any:
        """Read a record; a damaged one is a problem, and None."""
        try:
            value = rows.unpack(blob, decoder, what, *beside)
        except CorruptRecord as error:
            self.problems.append(str(error))
            return None
        self.counts[kind] += len(value) if many else 1
        return value

    def begin(self, *kinds: str) -> None:
        """Count records of these kinds."""
        self.counts.update(dict.fromkeys(kinds, 0))

    def count(self, kind: str) -> None:
        """Count one more record that was read."""
        self.counts[kind] += 1

    def select(self, kind: str, statement: str, *args: Any) -> Iterator[Any]:
        """Return rows; what cannot be read is a problem."""
        try:
            yield from self._connection.execute(statement, args)
        except sqlite3.DatabaseError as error:
            self.problems.append(f"The {kind} cannot all be read: {error}")
