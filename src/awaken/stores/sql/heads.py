"""Thread heads: read from their rows and written to them."""

from typing import Any

import msgspec

from awaken.contracts.runs.records import RunRecord
from awaken.contracts.runs.threads import ForkPoint, NewestBranch, Thread, ThreadMetadata
from awaken.stores.rules.head import HeldClaim, OpenCalls, ThreadHead, blank_thread

from . import rows
from .session import Row, SqlSession


class _Branching(msgspec.Struct, array_like=True, frozen=True, kw_only=False, gc=False):
    """The fork point and the newest branch of a thread; most threads have neither."""

    forked_from: ForkPoint | None
    newest_branch: NewestBranch | None


class _Shown(msgspec.Struct, array_like=True, frozen=True, kw_only=False, gc=False):
    """Fields that no query filters by, as short as possible: every commit writes them."""

    created_at: int | None = None
    title: str | None = None
    custom: dict[str, Any] = {}
    active_run_id: str | None = None
    open_run_id: str | None = None
    open_calls: OpenCalls = {}
    live_tickets: tuple[str, ...] = ()
    run_count: int = 0
    has_checkpoint: bool = False
    branching: _Branching | None = None
    has_run_state: bool = True
    """Earlier versions did not write it."""
    state_mark: bool | int = True
    """Whether the thread may have state, or `full_at`. Earlier versions did not write it."""


_SHOWN = msgspec.json.Decoder(_Shown)


class StoredHead(ThreadHead, gc=False):
    """A thread's head with the fields that only a SQL store needs."""

    no: int = 0
    """The thread's number; 0 if its row is not written yet."""
    purged_seq: int = 0
    run_count: int = 0
    has_checkpoint: bool = False
    """Whether the thread has a stream checkpoint, which the next commit must remove."""
    has_run_state: bool = False
    """Whether the thread may have run state, which the end of the run must remove."""
    has_state: bool = False
    """Whether the thread may have state of its own."""
    full_at: int = 0
    """The latest commit that kept all values of state, or could not; 0 if there is none."""
    ticket_ids: tuple[str, ...] = ()
    queued: int = 0
    served_at: int = 0

    @property
    def sort_at(self) -> int:
        """The time by which threads are sorted."""
        return self.updated_at or self.shown.metadata.created_at or 0

    def pack(self) -> bytes:
        """Return the part of the head that its row stores beside the columns."""
        shown, branching = self.shown, None
        if shown.forked_from is not None or shown.newest_branch is not None:
            branching = _Branching(shown.forked_from, shown.newest_branch)
        kept = _Shown(
            shown.metadata.created_at,
            shown.metadata.title,
            shown.metadata.custom,
            shown.active_run_id,
            shown.open_run_id,
            self.open_calls,
            tuple(self.live_tickets),
            self.run_count,
            self.has_checkpoint,
            branching,
            self.has_run_state,
            self.full_at or self.has_state,
        )
        counts = (self.version, self.message_count, self.event_seq)
        return rows.pack(kept, shown.id, *counts, self.updated_at, shown.latest_run_id)


def decode_head(row: Row) -> StoredHead:
    """Return the head of a thread's row, without its runs and tickets.

    Raises:
        CorruptRecord: The row is damaged.
    """
    beside = (row[16], row[1], row[2], row[3], row[5], row[17])
    shown = rows.unpack(row[8], _SHOWN, f"Thread '{row[16]}'", *beside)
    head = StoredHead(_make_thread(row, shown))
    head.no = row[0]
    head.version = row[1]
    head.message_count = row[2]
    head.event_seq = row[3]
    head.purged_seq = row[4]
    head.updated_at = row[5]
    head.open_calls = shown.open_calls
    head.run_count = shown.run_count
    head.has_checkpoint = shown.has_checkpoint
    head.has_run_state = shown.has_run_state
    head.has_state = bool(shown.state_mark)
    head.full_at = 0 if isinstance(shown.state_mark, bool) else shown.state_mark
    head.ticket_ids = shown.live_tickets
    if row[9] is not None:
        head.claim = HeldClaim(token=row[9], worker_id=row[10], dispatch_id=row[11])
    head.cancel_cause = row[12]
    head.epoch = row[13]
    head.queued = row[14]
    head.served_at = row[15]
    return head


async def find_head(session: SqlSession, thread_id: str) -> StoredHead | None:
    """Read a thread's head with its runs and live tickets."""
    row = await session.one("find_thread_and_run", thread_id)
    if row is None:
        return None
    head = decode_head(row)
    if row[19] is not None:
        head.latest_run = rows.unpack(row[19], rows.RUN, f"Run '{row[17]}'")
    return await _load_parts(session, head)


async def lock_head(session: SqlSession, thread_id: str) -> StoredHead | None:
    """Read and lock a thread's head; no other transaction can write until this one ends."""
    row = await session.one("lock_thread", thread_id)
    if row is None:
        return None
    head = decode_head(row)
    # A statement of its own: it must see what was written while this one waited for the lock.
    head.latest_run = await load_run(session, head.shown.latest_run_id)
    return await _load_parts(session, head)


async def ensure_head(
    session: SqlSession, thread_id: str, tenant_id: str | None = None
) -> StoredHead:
    """Read and lock a thread's head; creates the thread for the tenant if it does not exist.

    Raises:
        InvalidRecord: The id is blank.
    """
    while (head := await lock_head(session, thread_id)) is None:
        made = blank_thread(thread_id, tenant_id)
        # Changes nothing if another process created it first; a third may even have deleted it.
        await session.run("add_thread", thread_id, _pack_blank(thread_id), made.tenant_id)
        if session.reserved is not None and session.reserved.thread_no is not None:
            return StoredHead(made, no=session.reserved.thread_no)
    return head


async def wait_for_head(session: SqlSession, thread_id: str) -> StoredHead | None:
    """Wait until no other transaction writes to a thread, then read its head, or None."""
    head = await lock_head(session, thread_id)
    if head is not None:
        return head
    # A thread that another transaction is creating cannot be locked yet; an insert waits for it.
    if not await session.run("add_thread", thread_id, _pack_blank(thread_id), None):
        return await lock_head(session, thread_id)
    made = await lock_head(session, thread_id)
    assert made is not None
    await session.run("delete_thread", made.no)
    return None


async def add_head(session: SqlSession, head: StoredHead, lease_until: int | None) -> bool:
    """Write the row of a new thread after its first commit, and set its number.

    Returns False if another process has created the thread meanwhile; nothing is written then.
    """
    shown, claim = head.shown, head.claim
    row = await session.one(
        "add_committed_thread",
        shown.id,
        shown.tenant_id,
        shown.resource_id,
        shown.parent_thread_id,
        head.version,
        head.message_count,
        head.event_seq,
        head.updated_at,
        head.sort_at,
        head.pack(),
        shown.latest_run_id,
        None if claim is None else claim.token,
        None if claim is None else claim.worker_id,
        lease_until,
    )
    if row is not None:
        head.no = row[0]
    return row is not None


async def save_head(session: SqlSession, head: StoredHead) -> None:
    """Write the columns of a thread's row that every commit changes.

    Only these: SQLite writes the index of a column that is set, even to the same value.
    """
    await session.run(
        "save_commit_head",
        head.no,
        head.version,
        head.message_count,
        head.event_seq,
        head.updated_at,
        head.sort_at,
        head.pack(),
        head.shown.latest_run_id,
    )


async def save_head_and_claim(
    session: SqlSession, head: StoredHead, lease_until: int | None
) -> None:
    """Write the columns that a commit changes which takes or releases the claim."""
    claim = head.claim
    await session.run(
        "save_head_and_claim",
        head.no,
        head.version,
        head.message_count,
        head.event_seq,
        head.updated_at,
        head.sort_at,
        head.pack(),
        head.shown.latest_run_id,
        None if claim is None else claim.token,
        None if claim is None else claim.worker_id,
        None if claim is None else claim.dispatch_id,
        head.cancel_cause,
        lease_until,
    )


def view_of(row: Row, latest: RunRecord | None) -> Thread:
    """Return a thread as readers see it, from its row and its latest run."""
    head = decode_head(row)
    head.latest_run = latest
    return head.view()


async def load_run(session: SqlSession, run_id: str | None) -> RunRecord | None:
    """Read a run's record."""
    if run_id is None:
        return None
    row = await session.one("find_run", run_id)
    return None if row is None else rows.unpack(row[0], rows.RUN, f"Run '{run_id}'")


async def _load_parts(session: SqlSession, head: StoredHead) -> StoredHead:
    """Read the open run and the live tickets of a thread whose latest run is known."""
    shown = head.shown
    if shown.open_run_id is not None:
        is_latest = shown.open_run_id == shown.latest_run_id
        head.open_run = head.latest_run if is_latest else await load_run(session, shown.open_run_id)
    for ticket_id in head.ticket_ids:
        found = await session.one("find_live_ticket", ticket_id)
        assert found is not None
        head.live_tickets[ticket_id] = rows.unpack(found[0], rows.TICKET, f"Ticket '{ticket_id}'")
    return head


def _pack_blank(thread_id: str) -> bytes:
    return rows.pack(_Shown(has_run_state=False, state_mark=False), thread_id, 0, 0, 0, None, None)


def _make_thread(row: Row, shown: _Shown) -> Thread:
    branching = shown.branching
    return Thread(
        id=row[16],
        tenant_id=row[18],
        resource_id=row[6],
        parent_thread_id=row[7],
        forked_from=None if branching is None else branching.forked_from,
        newest_branch=None if branching is None else branching.newest_branch,
        metadata=ThreadMetadata(
            created_at=shown.created_at,
            updated_at=row[5],
            title=shown.title,
            custom=shown.custom,
        ),
        active_run_id=shown.active_run_id,
        open_run_id=shown.open_run_id,
        latest_run_id=row[17],
    )
