"""One statement made of several named ones: all of them are written, or none.

Each named statement becomes a part of one `WITH`. The parts see the same moment and have no order,
so no two may write the same row: updates of one row become one update, and what cannot be told
apart is refused with `CannotGuess`. A part that must change one row and does not makes the whole
statement fail, so nothing of it is written.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from .known_threads import KnownThread
from .texts import NOW, STATEMENTS, Texts

PARTS_MAX = 24
"""More parts are rather written one by one: each number of parts is a statement to prepare."""
_UPDATE = re.compile(r"UPDATE (\w+) SET (.+?)\s+WHERE (\w+) = \$1", re.DOTALL)
_INSERT = re.compile(r"INSERT INTO (\w+)\s*\(([^)]*)\)\s*VALUES \(([^)]*)\)(.*)", re.DOTALL)
_ARGUMENT = re.compile(r"\$(\d+)")
# With asynchronous commits a crash of the server would lose acknowledged data.
_SYNCHRONOUS = (
    "set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'),"
    " true)"
)
ROW_KEYS: Mapping[str, tuple[str, int, tuple[Any, ...]]] = {
    "add_run": ("runs", 1, ()),
    "add_messages": ("messages", 0, ()),
    "add_outboxes": ("outbox", 0, ()),
    "save_ticket": ("tickets", 1, ()),
    "save_state": ("state", 3, ()),
    "delete_state": ("state", 3, ()),
    "clear_run_state": ("state", 1, (1,)),
    "save_checkpoint": ("checkpoints", 1, ()),
    "delete_checkpoints": ("checkpoints", 0, ()),
}
"""Statements that are taken as they are: their table, and what names their rows.

That is their first arguments, as many as are said, and values that the text itself has.
"""
MUST_CHANGE = frozenset({"add_run", "save_ticket", "add_thread"})
"""Their callers ask whether a row was changed; a guess assumes it."""
_SKIP_KNOWN = re.compile(r"\s+ON CONFLICT \(\w+\) DO NOTHING$")
"""How a statement leaves a row that is there; to look for it costs the server a record of its log.

Where the row must be new, the server's own refusal of a second one undoes all the others as well.
"""


class CannotGuess(Exception):
    """The work cannot be done with one statement; it is done again in a transaction."""


class RowWrite:
    """One row that is inserted or updated, column by column."""

    __slots__ = ("checks", "key", "must_change", "table", "tail", "values")

    def __init__(self, table: str, key: tuple[str, Any] | None, tail: str = "") -> None:
        self.table = table
        self.key = key
        self.tail = tail
        """What follows the values of an insert."""
        self.values: dict[str, Any] = {}
        self.checks: dict[str, Any] = {}
        """Columns of the row as they must still be."""
        self.must_change = False

    @property
    def shape(self) -> tuple[object, ...]:
        """What decides the text, without the values."""
        key = None if self.key is None else self.key[0]
        return (
            self.table,
            key,
            self.tail,
            tuple(self.values),
            tuple(self.checks),
            self.must_change,
        )


def read_update(name: str, args: Sequence[Any]) -> RowWrite | None:
    """Return what a statement updates, if it updates one row by its key."""
    form = _parse_update(name)
    if form is None:
        return None
    table, key, columns = form
    write = RowWrite(table, (key, args[0]))
    write.values = {column: args[place - 1] for column, place in columns}
    return write


def read_insert(name: str, args: Sequence[Any]) -> RowWrite | None:
    """Return what a statement inserts, if its values are given."""
    form = _parse_insert(name)
    if form is None:
        return None
    table, columns, tail = form
    write = RowWrite(table, None, _SKIP_KNOWN.sub("", tail) if name in MUST_CHANGE else tail)
    write.values = {column: args[place - 1] for column, place in columns}
    write.must_change = name in MUST_CHANGE
    return write


class Batch:
    """The writes of one piece of work, until they are sent together."""

    def __init__(self) -> None:
        self.rows: list[RowWrite] = []
        self.plain: list[tuple[str, tuple[Any, ...]]] = []
        self._taken: list[tuple[Any, ...]] = []

    def __bool__(self) -> bool:
        return bool(self.rows or self.plain)

    def writes_to(self, table: str) -> bool:
        """Whether rows of a table are written."""
        is_row = any(row.table == table for row in self.rows)
        return is_row or any(ROW_KEYS[name][0] == table for name, _ in self.plain)

    def find_row(self, table: str, key: tuple[str, Any] | None = None) -> RowWrite | None:
        """Return the write to a row of a table; without a key, to any."""
        for row in self.rows:
            if row.table == table and key in (None, row.key):
                return row
        return None

    def find_plain(self, name: str) -> tuple[Any, ...] | None:
        """Return the arguments of a statement that is taken as it is, or None."""
        return next((args for known, args in self.plain if known == name), None)

    def check_row(self, table: str, key: tuple[str, Any], checks: dict[str, Any]) -> RowWrite:
        """Let everything fail unless columns of a row are as they were, written or not."""
        row = self.find_row(table, key)
        if row is None:
            row = RowWrite(table, key)
            self.rows.append(row)
        row.checks, row.must_change = checks, True
        return row

    def add_update(self, name: str, args: Sequence[Any]) -> RowWrite:
        """Add an update of one row; a second one of the same row joins the first.

        Raises:
            CannotGuess: The statement is of another kind.
        """
        write = read_update(name, args)
        if write is None or write.key is None:
            raise CannotGuess(name)
        for row in self.rows:
            is_added = row.key is None and write.key == (write.key[0], row.values.get(write.key[0]))
            if row.table == write.table and (is_added or row.key == write.key):
                row.values |= write.values
                return row
        self.rows.append(write)
        return write

    def add_insert(self, name: str, args: Sequence[Any], **more: Any) -> RowWrite:
        """Add an insert of one row with given values, and more columns.

        Raises:
            CannotGuess: The statement is of another kind.
        """
        write = read_insert(name, args)
        if write is None:
            raise CannotGuess(name)
        write.values |= more
        self.rows.append(write)
        return write

    def add_plain(self, name: str, args: Sequence[Any]) -> None:
        """Add a statement as it is.

        Raises:
            CannotGuess: Another one may write the same row, or there are too many.
        """
        if name not in ROW_KEYS:
            raise CannotGuess(name)
        table, count, more = ROW_KEYS[name]
        self._take(table, *args[:count], *more)
        if len(self.rows) + len(self.plain) >= PARTS_MAX:
            raise CannotGuess(name)
        self.plain.append((name, tuple(args)))

    def _take(self, *key: Any) -> None:
        for taken in self._taken:
            count = min(len(taken), len(key))
            if taken[:count] == key[:count]:
                raise CannotGuess(key[0])
        self._taken.append(key)

    def compose(self, texts: Texts) -> tuple[str, list[Any]]:
        """Return the text and its arguments."""
        shape = (tuple(row.shape for row in self.rows), tuple(name for name, _ in self.plain))
        args: list[Any] = []
        for row in self.rows:
            if row.key is not None:
                args.append(row.key[1])
            args += row.values.values()
            args += row.checks.values()
        for _, given in self.plain:
            args += given
        return _compose(texts, shape, self), args


def list_checks(known: KnownThread) -> dict[str, Any]:
    """Return what says that no process has written to a thread's row since it was seen.

    The mark alone says so. The version and the token are compared as well: a server that took over
    may use the number of a lost transaction again, and the log has a place for each version once a
    day only.
    """
    return {"xmin": known.mark, "version": known.row[1], "claim_token": known.row[9]}


_COMPOSED: dict[tuple[object, ...], str] = {}
COMPOSED_MAX = 1024


def _compose(texts: Texts, shape: tuple[object, ...], batch: Batch) -> str:
    text = _COMPOSED.get((texts.schema, shape))
    if text is None:
        if len(_COMPOSED) >= COMPOSED_MAX:
            _COMPOSED.clear()
        text = _COMPOSED[texts.schema, shape] = _write_text(texts, batch)
    return text


def _write_text(texts: Texts, batch: Batch) -> str:
    parts: list[str] = []
    checked: list[str] = []
    number, mark = 0, "NULL::xid"
    for place, row in enumerate(batch.rows):
        text, number = _write_row(texts, row, number)
        if row.table == "threads":
            text += " RETURNING xmin AS mark" if row.values else ""
            mark = f"(SELECT mark FROM w{place})"
        elif row.must_change:
            text += " RETURNING 1"
        if row.must_change:
            checked.append(f"w{place}")
        parts.append(f"w{place} AS ({text})")
    for place, (name, given) in enumerate(batch.plain, len(batch.rows)):
        text = _renumber(texts[name], number)
        number += len(given)
        if name in MUST_CHANGE:
            text = _SKIP_KNOWN.sub("", text) + " RETURNING 1"
            checked.append(f"w{place}")
        parts.append(f"w{place} AS ({text})")
    # A part that changed no row is a division by zero, which undoes all the others.
    counts = " * ".join(f"(SELECT count(*) FROM {name})" for name in checked) or "1"
    answer = f"{mark}, {NOW}, 1 / ({counts}), {_SYNCHRONOUS}"
    return f"WITH {', '.join(parts)} SELECT {answer}"


def _write_row(texts: Texts, row: RowWrite, number: int) -> tuple[str, int]:
    table = f"{texts.schema}.{row.table}"
    if row.key is None:
        columns = ", ".join(row.values)
        given = ", ".join(f"${number + place}" for place in range(1, len(row.values) + 1))
        return f"INSERT INTO {table} ({columns}) VALUES ({given}){row.tail}", number + len(
            row.values
        )
    key = f"{row.key[0]} = ${number + 1}"
    number += 1
    assigned = []
    for column in row.values:
        number += 1
        value = _KEPT.get((row.table, column), "{0}").format(f"${number}")
        assigned.append(f"{column} = {value}")
    for column in row.checks:
        number += 1
        key += f" AND {column} {_IS_SAME.get(column, '=')} ${number}"
    if not assigned:
        # Nothing of the row is written: it is only held as it is until the rest is written.
        return f"SELECT xmin AS mark FROM {table} WHERE {key} FOR UPDATE", number
    return f"UPDATE {table} SET {', '.join(assigned)} WHERE {key}", number


SORTED_MS = 60_000
"""How far from its latest commit a thread may be listed."""
_KEPT = {
    # Columns of indexes: while they keep their values, no index of the row is written.
    (
        "threads",
        "sort_at",
    ): f"CASE WHEN abs({{0}} - sort_at) <= {SORTED_MS} THEN sort_at ELSE {{0}} END",
    # A claimed dispatch ends in a column of its own. A dead letter is found by its status.
    ("dispatches", "status"): (
        "CASE WHEN status <> 'claimed' OR {0}::text IN ('queued', 'claimed', 'dead_letter')"
        " THEN {0}::text ELSE status END"
    ),
    ("dispatches", "ended"): "NULLIF(NULLIF({0}::text, 'queued'), 'claimed')",
}
"""What columns are set to, where that is not simply what was given."""
_IS_SAME = {"claim_token": "IS NOT DISTINCT FROM"}


def _renumber(text: str, number: int) -> str:
    return _ARGUMENT.sub(lambda found: f"${int(found[1]) + number}", text)


@cache
def _parse_update(name: str) -> tuple[str, str, tuple[tuple[str, int], ...]] | None:
    found = _UPDATE.fullmatch(STATEMENTS[name])
    if found is None:
        return None
    table, assigned, key = found.groups()
    columns = []
    for part in assigned.split(","):
        column, _, value = part.strip().partition(" = ")
        if not _ARGUMENT.fullmatch(value):
            return None
        columns.append((column, int(value[1:])))
    return table, key, tuple(columns)


@cache
def _parse_insert(name: str) -> tuple[str, tuple[tuple[str, int], ...], str] | None:
    found = _INSERT.fullmatch(STATEMENTS[name])
    if found is None:
        return None
    table, columns, values, tail = found.groups()
    named = [column.strip() for column in columns.split(",")]
    given = [int(value.strip()[1:]) for value in values.split(",")]
    return table, tuple(zip(named, given, strict=True)), tail
