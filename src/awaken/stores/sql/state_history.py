"""The history of state in the rows of commits.

A row's `state` is NULL if its commit changed no state, and empty if what it changed was not kept.
"""

import msgspec

from awaken.contracts.runs.records import RunRecord
from awaken.contracts.storage.state_history import (
    FoldedState,
    MissingHistory,
    StateChange,
    StateChanges,
)
from awaken.stores.rules.state_history import (
    FULL_BYTES,
    FULL_EVERY,
    KeptChange,
    KeptRow,
    KeptValues,
    fold_rows,
    keep_changes,
)

from . import rows
from .heads import StoredHead, find_head
from .log_start import find_purged_seq
from .session import Row, SqlSession

KEPT = msgspec.json.Decoder(KeptChange)
NOT_KEPT = b""


async def pack_state(
    session: SqlSession, head: StoredHead, encoded: rows.EncodedCommit
) -> bytes | None:
    """Return what the row of a commit that changes state keeps of it.

    Called before the commit changes the values. The head is the one after the commit.
    """
    if not encoded.keeps_state:
        # What follows cannot be folded from earlier values.
        head.full_at = 0
        return NOT_KEPT
    commit, before = encoded.commit, None
    if not head.full_at or head.version - head.full_at >= FULL_EVERY:
        head.full_at = head.version
        before = await _read_small_values(session, head)
    kept = KeptChange(keep_changes(commit.state), keep_changes(commit.run_state), before)
    return rows.pack(kept, head.version)


async def _read_small_values(
    session: SqlSession, head: StoredHead
) -> tuple[KeptValues, KeptValues] | None:
    """Read all values of a thread and its open run; None if they are too large to keep again."""
    values: tuple[KeptValues, KeptValues] = ({}, {})
    for row in await session.all("list_state", head.no):
        data = rows.unpack(row[3], rows.RAW, f"State '{row[1]}'", row[1], row[2])
        values[row[0]][row[1]] = (row[2], data)
    return values if len(rows.pack(values)) <= FULL_BYTES else None


async def fold_state(session: SqlSession, run_id: str, seq: int) -> FoldedState:
    """Return the state after the last commit up to an event; see `StateHistoryStore`."""
    found = await _find_run(session, run_id)
    if found is None:
        return FoldedState()
    head, _, _ = found
    purged_seq = await find_purged_seq(session, head.no, head.purged_seq, head.event_seq)
    if seq < purged_seq:
        return FoldedState(missing=MissingHistory.PURGED)
    taken: list[KeptRow] = []
    first, last = rows.all_places(head.no)
    while page := await session.all("list_old_state", first, last, seq, FULL_EVERY):
        for row in page:
            taken.append((row[1], change := _unpack_change(row)))
            if change is None or change.before is not None:
                return fold_rows(taken, run_id)[0]
        last = page[-1][0] - 1
    folded, _ = fold_rows(taken, run_id)
    if purged_seq and (head.has_state or head.full_at):
        return msgspec.structs.replace(folded, missing=MissingHistory.PURGED)
    return folded


async def list_state_changes(session: SqlSession, run_id: str) -> StateChanges:
    """Return which keys each commit of a run changed; see `StateHistoryStore`."""
    found = await _find_run(session, run_id)
    if found is None:
        return StateChanges()
    head, record, first_version = found
    purged_seq = await find_purged_seq(session, head.no, head.purged_seq, head.event_seq)
    missing = MissingHistory.PURGED if record.log_start < purged_seq else None
    changes: list[StateChange] = []
    first, last = rows.place(head.no, first_version), rows.all_places(head.no)[1]
    for row in await session.all("list_run_state", first, last, run_id):
        change = _unpack_change(row)
        if change is None:
            missing = missing or MissingHistory.NOT_KEPT
            continue
        names = {"thread": tuple(change.thread), "run": tuple(change.run)}
        changes.append(StateChange(event_seq=row[2], **names))
    return StateChanges(changes=tuple(changes), missing=missing)


def _unpack_change(row: Row) -> KeptChange | None:
    place, _, _, blob = row
    version = rows.number_at(place)
    if not blob:
        return None
    return rows.unpack(blob, KEPT, f"State changes of commit {version}", version)


async def _find_run(session: SqlSession, run_id: str) -> tuple[StoredHead, RunRecord, int] | None:
    row = await session.one("find_run", run_id)
    if row is None:
        return None
    record = rows.unpack(row[0], rows.RUN, f"Run '{run_id}'")
    head = await find_head(session, record.thread_id)
    return None if head is None else (head, record, row[2])
